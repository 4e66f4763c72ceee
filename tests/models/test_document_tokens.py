"""Token ids of texts are those of the tokenizer, however long the text, whatever it holds and however many threads ask."""

import json
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

from hf_xmtc.models import document_tokens
from hf_xmtc.models.document_tokens import list_texts, replace_surrogates, tokenize_documents
from hf_xmtc.tokenization import add_cls_tokens, cls_token_ids, train_word_tokenizer

WORDS = ["apple", "bread", "cheese", "state-of-the-art", "don't", "1,000", "été", "naïve", "größe", "北京大学", "c++", "x"]
SAMPLE = [" ".join(WORDS), "apples and breads, cheeses (and states)", "größer als 10 000: été"]
LIMIT = 64


def word_tokenizer(**settings):
    return train_word_tokenizer(SAMPLE, max_length=LIMIT, **settings)


def bert_tokenizer():
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend.train_from_iterator(
        SAMPLE, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    )
    return BertTokenizer(vocab=backend.get_vocab(), model_max_length=LIMIT)


def roberta_tokenizer():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(SAMPLE, trainer)
    merges = json.loads(backend.to_str())["model"]["merges"]
    return RobertaTokenizer(vocab=backend.get_vocab(), merges=[tuple(merge) for merge in merges], model_max_length=LIMIT)


def unigram_tokenizer(in_words=True):
    letters = sorted(set("".join(SAMPLE)) | set("▁[]<>/_"))
    pieces = [(token, 0.0) for token in ("<pad>", "<s>", "</s>", "<unk>")]
    pieces += [(letter, -6.0) for letter in letters] + [("▁a", -3.0), ("pple", -3.0), ("▁bread", -4.0), ("che", -3.5)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])
    if in_words:
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=LIMIT, **names)


def blank_tokenizer():
    """Its vocabulary holds the special tokens, and words are what stands between blanks."""
    vocabulary = ["[PAD]", "[UNK]", "[SEP]", *WORDS]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=LIMIT, **names)


KINDS = {
    "words": word_tokenizer,
    "nltk words": lambda: word_tokenizer(word_splitting="nltk", lowercase=False),
    "words with CLS": lambda: word_tokenizer(num_cls_tokens=3),
    "WordPiece": bert_tokenizer,
    "WordPiece with CLS": lambda: add_cls_tokens(bert_tokenizer(), 3),
    "BPE": roberta_tokenizer,
    "BPE with CLS": lambda: add_cls_tokens(roberta_tokenizer(), 3),
    "Unigram": unigram_tokenizer,
    "Unigram with CLS": lambda: add_cls_tokens(unigram_tokenizer(), 3),
    "Unigram over all": lambda: unigram_tokenizer(in_words=False),
    "between blanks": blank_tokenizer,
    "between blanks with CLS": lambda: add_cls_tokens(blank_tokenizer(), 3),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return KINDS[request.param]()


def plain(tokenizer, text, max_length, **settings):
    """Ids and whether the text is cut, by the tokenizer alone."""
    whole = tokenizer(text, truncation=False, split_special_tokens=True, verbose=False)["input_ids"]
    settings = {"split_special_tokens": True, "truncation": True, "max_length": max_length, **settings}
    return tokenizer(text, **settings)["input_ids"], len(whole) > max_length


def random_texts(count):
    draw = random.Random(3)
    pieces = [
        *WORDS,
        "",
        " ",
        "\n",
        ",",
        "...",
        "é",
        "a\u0301\u0323",
        "ﬁ",
        "\u00a0",
        "'s",
        "zzz",
        "👩\u200d💻",
        "ß" * 9,
        "a" * 150,
    ]
    return [
        "".join(draw.choice(pieces) + draw.choice(["", " ", "  "]) for _ in range(draw.randrange(90))) for _ in range(count)
    ]


def test_what_is_read_of_a_long_text_is_what_the_whole_text_begins_with(tokenizer, monkeypatch):  # AC-58
    # So few characters that most texts are read in two or three steps.
    monkeypatch.setattr(document_tokens, "CHARACTERS_PER_TOKEN", 2)
    monkeypatch.setattr(document_tokens, "LOOK_AHEAD", 12)
    giant = [
        "apple" * 600,
        "北京大学" * 500,
        "-" * 3000,
        "a" * 3000,
        "apple bread" + " " * 3000 + "cheese",
        "a\u0301" * 1500,
    ]
    texts = [*random_texts(40), *giant]
    for max_length in (6, 17):
        found = tokenize_documents(tokenizer, texts, max_length)
        for text, tokens in zip(texts, found, strict=True):
            assert (tokens.ids, tokens.is_cut) == plain(tokenizer, text, max_length), (text[:60], max_length)


def test_memory_is_set_by_the_tokens_that_are_kept(tokenizer, monkeypatch):  # AC-58
    read = []
    call = type(tokenizer)._encode_plus
    monkeypatch.setattr(
        type(tokenizer),
        "_encode_plus",
        lambda self, text, **kw: (read.append(sum(map(len, text))), call(self, text, **kw))[1],
    )
    texts = ["apple bread cheese " * 5_000] * 3  # 100 kB each
    tracemalloc.start()
    found = tokenize_documents(tokenizer, texts, 32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(len(tokens.ids) == 32 and tokens.is_cut for tokens in found)
    if len(set(tokenizer("a b", add_special_tokens=False).word_ids())) > 1:  # else one word, to be read to its end
        assert sum(read) < 3 * 2_000 and peak < 1_000_000


def test_texts_are_cut_on_the_side_of_the_tokenizer():
    tokenizer = word_tokenizer(num_cls_tokens=2)
    tokenizer.truncation_side = "left"
    (tokens,) = tokenize_documents(tokenizer, ["apple " * 500 + "bread cheese"], 5, with_places=True)
    assert tokenizer.convert_ids_to_tokens(tokens.ids) == ["[CLS_1]", "[CLS_2]", "apple", "bread", "cheese"]
    assert tokens.is_cut and tokens.places == [None, None, (2994, 2999), (3000, 3005), (3006, 3012)]


def test_what_looks_like_a_special_token_in_a_text_is_text(tokenizer):  # AC-62
    special = set(tokenizer.all_special_tokens)
    text = " ".join(
        f"apple {token} bread{token}cheese" for token in sorted(special | {"[CLS_1]", "[CLS_3]", "[PAD]", "</s>"})
    )
    allowed = {tokenizer.unk_token_id, *(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))}
    for read in (text, text.upper(), text.replace("[", "\uff3b").replace("<", "\uff1c").replace(">", "\uff1e")):
        (tokens,) = tokenize_documents(tokenizer, [read], None, with_places=True)
        in_text = [token for token, place in zip(tokens.ids, tokens.places, strict=True) if place is not None]
        assert in_text and set(in_text) <= allowed
        assert [tokens.ids.count(token) for token in cls_token_ids(tokenizer)] == [1] * len(cls_token_ids(tokenizer))
        (empty,) = tokenize_documents(tokenizer, [""])
        assert len(tokens.ids) == len(empty.ids) + len(in_text)


def test_places_are_those_of_the_text(tokenizer):
    text = "apple [SEP] bread"
    (tokens,) = tokenize_documents(tokenizer, [text], 60, with_places=True)
    assert len(tokens.places) == len(tokens.ids)
    assert any(text[start:end].strip() == "bread" or end == len(text) for start, end in filter(None, tokens.places))


def test_threads_with_other_lengths_do_not_disturb_each_other(tokenizer):  # AC-78
    texts = random_texts(30)
    lengths = [7, 12, 33, None]
    expected = {length: tokenize_documents(tokenizer, texts, length) for length in lengths}

    def ask(length):
        return all(tokenize_documents(tokenizer, texts, length) == expected[length] for _ in range(4))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, lengths * 2))
    assert tokenizer.backend_tokenizer.truncation is None


def test_lone_surrogates_are_read_as_the_replacement_character_and_counted(warnings_logged):  # AC-64
    tokenizer = word_tokenizer()
    good, bad = tokenize_documents(tokenizer, ["apple bread", "apple\ud800bread \udfff"])
    assert good.ids == bad.ids
    assert "1 of 2 texts are not valid Unicode" in "".join(warnings_logged())
    assert replace_surrogates("a\ud800b \ud83d\ude00") == "a\ufffdb \U0001f600"  # two halves make their character


def test_texts_come_as_whatever_holds_texts_but_not_as_a_table_or_a_single_text():  # AC-37
    assert list_texts(("a", "b")) == list_texts(letter for letter in "ab") == ["a", "b"]
    for wrong in (b"ab", {"text": ["a"]}, None, 5):
        with pytest.raises(TypeError, match=f"A text must be a string, got {type(wrong).__name__}"):
            list_texts(wrong)
    with pytest.raises(TypeError, match=r"the one string 'ab'. Pass a list: \['ab'\]"):
        list_texts("ab")
    with pytest.raises(TypeError, match="A text must be a string, got int: 5"):
        tokenize_documents(word_tokenizer(), ["a", 5])


def test_a_tokenizer_that_is_not_fast_is_refused():
    with pytest.raises(TypeError, match="object is not a fast tokenizer"):
        tokenize_documents(object(), ["a"])

import os
import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from forked_python import run_python
from hf_xmtc.tokenization import cls_token_ids, train_word_tokenizer

DOCUMENTS = ["The bread rises", "the oven, the bread", "an oven", ""]


def vocabulary_of(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def words_of(text, **settings):
    tokenizer = train_word_tokenizer([text], **settings)
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_words_are_ordered_by_document_frequency_then_alphabetically():
    # "the" occurs three times, but like "bread" and "oven" in two documents
    tokenizer = train_word_tokenizer(DOCUMENTS)
    assert vocabulary_of(tokenizer) == ["[PAD]", "[UNK]", "bread", "oven", "the", "an", "rises"]
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (0, 1)


def test_words_with_a_pretrained_vector_go_first_among_equals_only():
    tokenizer = train_word_tokenizer(DOCUMENTS, frequent_first=["the", "rises"])
    assert vocabulary_of(tokenizer)[2:] == ["the", "bread", "oven", "rises", "an"]


def test_cls_tokens_take_the_last_ids_and_are_not_counted_in_vocab_size():
    tokenizer = train_word_tokenizer(DOCUMENTS, vocab_size=4, num_cls_tokens=2)
    assert vocabulary_of(tokenizer) == ["[PAD]", "[UNK]", "bread", "oven", "[CLS_1]", "[CLS_2]"]
    assert tokenizer("The oven")["input_ids"] == [4, 5, 1, 3]
    assert cls_token_ids(tokenizer) == [4, 5]


def test_rare_words_are_left_out():
    assert vocabulary_of(train_word_tokenizer(DOCUMENTS, min_document_frequency=2))[2:] == ["bread", "oven", "the"]


def test_texts_may_be_a_generator_in_any_order():
    forward = train_word_tokenizer(text for text in DOCUMENTS)
    assert forward.get_vocab() == train_word_tokenizer(reversed(DOCUMENTS)).get_vocab()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("a state-of-the-art -- thing -", ["a", "state-of-the-art", "thing"]),
        ("don't it's we'll can't", ["do", "n't", "it", "'s", "we", "'ll", "ca", "n't"]),
        ("It\u2019s O\u2019Brien's aujourd'hui 'quoted'", ["it", "'s", "o'brien", "'s", "aujourd'hui", "quoted"]),
        ("C++ gtk+ c# a+b", ["c++", "gtk+", "c", "a+", "b"]),
        ("1,000 x,y 10:30 a:b 3.14", ["1,000", "x", "y", "10:30", "a", "b", "3.14"]),
        ("u.s. libc.so and/or /SEP/", ["u.s", "libc.so", "and", "or", "/SEP/"]),
        ("The Title /SEP/ a/SEP/b /sepia/", ["the", "title", "/SEP/", "a", "sep", "b", "sepia"]),
        ("I.\nNow", ["i", "now"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 k\u00e4y", ["\u0939\u093f\u0928\u094d\u0926\u0940", "k\u00e4y"]),
        ("!? ... --- \u2022", []),
    ],
)
def test_what_a_word_is_to_nltk(text, words):
    tokenizer = train_word_tokenizer([text, "word"], word_splitting="nltk")
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert tokens == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "libfoo-dev: a state-of-the-art C++ library",
            ["libfoo", "dev", "a", "state", "of", "the", "art", "c++", "library"],
        ),
        ("snake_case 1,000 u.s. O'Brien", ["snake", "case", "1", "000", "u", "s", "o", "brien"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 k\u00e4y", ["\u0939\u093f\u0928\u094d\u0926\u0940", "k\u00e4y"]),
        ("!? ... --- \u2022", []),
    ],
)
def test_what_a_word_is_by_default(text, words):
    tokenizer = train_word_tokenizer([text, "word"])
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == words


def test_texts_that_are_tokenized_already_are_split_at_white_space_and_keep_their_case():
    text = "Council regulation ( eec ) no 1,000/79 /SEP/ it's\tlaw\u00a0."
    words = ["Council", "regulation", "(", "eec", ")", "no", "1,000/79", "/SEP/", "it's", "law", "."]
    assert words_of(text, word_splitting="whitespace") == words
    lowered = words_of(text, word_splitting="whitespace", lowercase=True)
    assert lowered == ["council", *words[1:]]  # the separator keeps its case here too


def test_unknown_word_splitting_is_refused():
    with pytest.raises(ValueError, match="word_splitting='spaces' is not one of alphanumeric, nltk, whitespace"):
        train_word_tokenizer(DOCUMENTS, word_splitting="spaces")


def test_composed_and_decomposed_letters_are_one_word():
    assert words_of("Caf\u00e9 CAFE\u0301") == ["caf\u00e9"] * 2
    assert words_of("J\u030c \u01f0") == ["\u01f0"] * 2  # only the lower-case letter has a composed form


def test_case_is_kept_on_request():
    assert words_of("Polish polish", lowercase=False) == ["Polish", "polish"]


def test_an_empty_document_has_only_the_cls_tokens():
    assert train_word_tokenizer(DOCUMENTS)("")["input_ids"] == []
    tokenizer = train_word_tokenizer(DOCUMENTS, num_cls_tokens=2)
    assert tokenizer(" ?! ")["input_ids"] == cls_token_ids(tokenizer)


def test_ids_are_the_same_after_a_reload(tmp_path):  # AC-04
    tokenizer = train_word_tokenizer(DOCUMENTS, num_cls_tokens=4, max_length=9)
    tokenizer.save_pretrained(tmp_path)
    reopened = AutoTokenizer.from_pretrained(tmp_path)
    texts = [*DOCUMENTS, "An unseen word [CLS_2] here"]
    assert dict(reopened(texts, padding=True)) == dict(tokenizer(texts, padding=True))
    assert reopened.get_vocab() == tokenizer.get_vocab()
    assert (reopened.model_max_length, reopened.padding_side, len(reopened)) == (9, "right", len(tokenizer))


def test_the_limit_is_saved_and_long_texts_are_cut_to_it(tmp_path):  # AC-34
    train_word_tokenizer(DOCUMENTS, num_cls_tokens=3, max_length=12).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    batch = tokenizer(["bread " * 5000, "oven"], truncation=True, padding=True)
    assert tokenizer.model_max_length == 12
    assert batch["input_ids"][0] == cls_token_ids(tokenizer) + [2] * 9
    assert batch["input_ids"][1] == [*cls_token_ids(tokenizer), 3] + [0] * 8
    assert batch["attention_mask"][1] == [1] * 4 + [0] * 8


def test_files_do_not_depend_on_the_hash_seed(tmp_path):
    script = (
        "import sys; from hf_xmtc.tokenization import train_word_tokenizer as t\n"
        "texts = [' '.join(f'w{i * j % 97}' for j in range(9)) for i in range(60)]\n"
        "t(texts, num_cls_tokens=3, frequent_first={f'w{i}' for i in range(0, 97, 2)}).save_pretrained(sys.argv[1])"
    )
    run_python(script, tmp_path / "random").check_returncode()  # the seed that Python has drawn for the server
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "1")], env=environment, check=True)
    files = [{file.name: file.read_bytes() for file in (tmp_path / seed).iterdir()} for seed in ("random", "1")]
    assert sorted(files[0]) == ["tokenizer.json", "tokenizer_config.json"]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 2}, "vocab_size=2 leaves no room"),
        ({"min_document_frequency": 0}, "min_document_frequency=0"),
        ({"min_document_frequency": 3}, "min_document_frequency=3 removes every word.* 2 documents"),
        ({"num_cls_tokens": -1}, "num_cls_tokens=-1"),
        ({"max_length": 5, "num_cls_tokens": 5}, "max_length=5 leaves no room .*num_cls_tokens=5"),
        ({"max_length": 0}, "max_length=0 leaves no room .*num_cls_tokens=0"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        train_word_tokenizer(DOCUMENTS, **settings)


def test_texts_that_are_no_texts_are_refused():
    with pytest.raises(TypeError, match="one string of 5 characters"):
        train_word_tokenizer("bread")
    with pytest.raises(TypeError, match="Document 1 is a NoneType"):
        train_word_tokenizer(["bread", None])
    with pytest.raises(ValueError, match="No word was found in 2 documents"):
        train_word_tokenizer(["", "?!"])


def test_a_lone_surrogate_is_in_no_word_and_stops_nobody():  # AC-64
    assert vocabulary_of(train_word_tokenizer(["hello\ud800world a"])) == vocabulary_of(
        train_word_tokenizer(["hello world a"])
    )


def test_characters_of_scripts_without_blanks_are_words():  # AC-56
    texts = ["机器学习的模型", "天气很好 and warm", "ใจดี"]
    tokenizer = train_word_tokenizer(texts)
    assert tokenizer.tokenize("天气学习 warm-and") == ["天", "气", "学", "习", "warm", "and"]
    assert tokenizer.tokenize("ดีใจ") == ["ดี", "ใ", "จ"]
    assert train_word_tokenizer(texts, word_splitting="whitespace").tokenize("天气很好") == ["天气很好"]

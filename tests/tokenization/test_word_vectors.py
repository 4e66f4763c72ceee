import gzip
import logging

import numpy as np
import pytest

from hf_xmtc.tokenization import load_word_vectors, read_vector_words, train_word_tokenizer

GLOVE = "the 0.5 -1 2e-1\nbread 1 2 3\nunseen 9 9 9\n"


@pytest.fixture(scope="module")
def tokenizer():
    return train_word_tokenizer(["the bread", "the oven"], num_cls_tokens=2)  # [PAD] [UNK] the bread oven [CLS_1] [CLS_2]


def write(tmp_path, content):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_rows_are_the_vectors_zero_for_padding_and_random_for_the_rest(tmp_path, tokenizer):
    vectors, num_found = load_word_vectors(write(tmp_path, GLOVE), tokenizer)
    assert (vectors.shape, vectors.dtype, num_found) == ((7, 3), np.float32, 2)
    assert vectors[2:4] == pytest.approx(np.array([[0.5, -1, 0.2], [1, 2, 3]]))
    assert vectors[0].tolist() == [0, 0, 0]
    random = vectors[[1, 4, 5, 6]]
    assert (np.abs(random) < 1).all()
    assert len(np.unique(random)) == 12


def test_the_separator_of_title_and_text_has_the_vector_of_the_full_stop(tmp_path):
    content = "the 1 1 1\n/SEP/ 5 5 5\n. 7 8 9\n"
    tokenizer = train_word_tokenizer(["the bread /SEP/ the"], word_splitting="nltk")
    vectors, num_found = load_word_vectors(write(tmp_path, content), tokenizer)
    assert vectors[tokenizer.convert_tokens_to_ids("/SEP/")].tolist() == [7, 8, 9] and num_found == 2
    tokenizer = train_word_tokenizer(["the . /SEP/ the"], word_splitting="whitespace")
    vectors, num_found = load_word_vectors(write(tmp_path, content), tokenizer)
    assert vectors[tokenizer.convert_tokens_to_ids([".", "/SEP/"])].tolist() == [[7, 8, 9]] * 2 and num_found == 3


def test_random_rows_follow_the_seed_and_the_range_alone(tmp_path, tokenizer):
    first, _ = load_word_vectors(write(tmp_path, GLOVE), tokenizer, seed=3)
    fewer, _ = load_word_vectors(write(tmp_path, "bread 1 2 3\n"), tokenizer, seed=3)
    assert np.array_equal(first[4:], fewer[4:])
    assert not np.array_equal(first[4:], load_word_vectors(write(tmp_path, GLOVE), tokenizer, seed=4)[0][4:])
    narrow, _ = load_word_vectors(write(tmp_path, GLOVE), tokenizer, seed=3, unk_range=0.1)
    assert narrow[4:] == pytest.approx(first[4:] * 0.1, abs=1e-6)


def test_random_rows_fill_both_halves_of_the_range(tmp_path):
    tokenizer = train_word_tokenizer([" ".join(f"w{i}" for i in range(500))])
    vectors, _ = load_word_vectors(write(tmp_path, GLOVE), tokenizer, unk_range=0.5)
    assert abs(vectors[1:].mean()) < 0.03
    assert 0.45 < vectors.max() < 0.5
    assert -0.5 < vectors.min() < -0.45


@pytest.mark.parametrize(
    "content",
    [
        GLOVE,
        "3 3\n" + GLOVE,  # word2vec's first line
        GLOVE.replace("\n", " \n"),  # word2vec writes a blank at the end
        GLOVE.replace("\n", "\r\n"),
        "\ufeff" + GLOVE,
        GLOVE.rstrip("\n"),
        GLOVE.replace("the ", "the\t"),
        GLOVE + "the 7 7 7\n\n",  # the first of a repeated word counts, blank lines do not
        GLOVE + ". . . 4 4 4\nat name@domain.com 5 5 5\n",  # as in GloVe 840B
    ],
)
def test_variants_of_the_text_form_give_the_same_table(content, tmp_path, tokenizer):
    expected, _ = load_word_vectors(write(tmp_path, GLOVE), tokenizer)
    vectors, num_found = load_word_vectors(write(tmp_path, content), tokenizer)
    assert num_found == 2
    assert np.array_equal(vectors, expected)


def test_gzip_is_recognised_by_content(tmp_path, tokenizer):  # AC-12
    expected, _ = load_word_vectors(write(tmp_path, GLOVE), tokenizer)
    for name, content in {
        "a.gz": gzip.compress(GLOVE.encode()),
        "b.txt": gzip.compress(GLOVE.encode()),
        "c.gz": GLOVE.encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert np.array_equal(load_word_vectors(str(tmp_path / name), tokenizer)[0], expected), name


def test_a_cut_gzip_file_is_an_error_not_a_shorter_table(tmp_path, tokenizer):  # AC-12
    whole = gzip.compress("".join(f"w{i} {i}.5 {i * i}.25 3\n" for i in range(2000)).encode())
    with pytest.raises(ValueError, match=r"vectors.txt: the gzip data ends or breaks after line \d+"):
        load_word_vectors(write(tmp_path, whole[: len(whole) // 2]), tokenizer)
    with pytest.raises(ValueError, match="ends or breaks after line 2000"):
        load_word_vectors(write(tmp_path, whole[:-3]), tokenizer)


def test_words_with_blanks_are_read_whole(tmp_path):
    path = write(tmp_path, "the 1 2\nat name@domain.com 1 2\nno\u00a0break 1 2\n. . 1 2\n7 1 2\n")
    assert read_vector_words(path) == {"the", "at name@domain.com", "no\u00a0break", ". .", "7"}


def test_vector_words_go_first_among_equals_in_the_vocabulary(tmp_path):
    words = read_vector_words(write(tmp_path, GLOVE))
    tokenizer = train_word_tokenizer(["a bread the"], frequent_first=words)
    assert tokenizer.convert_ids_to_tokens([2, 3, 4]) == ["bread", "the", "a"]


def test_special_tokens_do_not_take_a_vector_of_the_file(tmp_path, tokenizer):
    vectors, num_found = load_word_vectors(write(tmp_path, "the 5 5\n[PAD] 5 5\n[UNK] 5 5\n[CLS_1] 5 5\n"), tokenizer)
    assert num_found == 1
    assert np.argwhere(vectors == 5)[:, 0].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2 3\nbread 1 2\n", "line 2: 2 numbers where the first line has 3"),
        ("the 1 2 3\nbread 1 2 3 4\n", "line 2: 4 numbers where the first line has 3"),
        ("2 3\nthe 1 2 3\nbread 1 2 3 4\n", "line 3: 4 numbers where the first line declares 3"),
        ("the 1 2 3\n 1 2 3\n", "line 2: 2 numbers"),
        ("3 3\nthe 1 2 3\nbread 1 2 3\n", "declares 3 words but 2 follow"),
        ("the 1 2\nbread 1 x\n", "line 2: a number of the vector of 'bread' cannot be read.*'x'"),
        ("the 1 2\nbread 1 nan\n", "line 2: the vector of 'bread' is not finite"),
        ("the 1 2\nbread 1 1e99\n", "line 2: the vector of 'bread' is not finite"),
        (b"the 1 2\ncaf\xe9 1 2\n", r"line 2: b'caf\\xe9' is not UTF-8"),
        ("the\nbread\n", "1 fields and 0 numbers"),
        ("", "0 word vectors for a vocabulary of 3 words"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (
            b"1 75\nthe " + bytes(range(128, 255)) * 3 + b"\n",
            "line 2: 0 numbers where the first line declares 75.*binary form",
        ),
    ],
)
def test_broken_files_are_refused_with_line_and_values(content, message, tmp_path, tokenizer):
    with pytest.raises(ValueError, match=message):
        load_word_vectors(write(tmp_path, content), tokenizer)


@pytest.mark.filterwarnings("error")
def test_numbers_too_large_give_no_numpy_warning(tmp_path, tokenizer):
    with pytest.raises(ValueError, match="not finite"):
        load_word_vectors(write(tmp_path, "the 1 2\nbread 1 1e99\n"), tokenizer)


def test_a_file_that_is_not_there_is_said_by_its_option(tmp_path, tokenizer):
    with pytest.raises(FileNotFoundError, match="no file of word vectors .*none.txt. Give a GloVe or word2vec text file"):
        load_word_vectors(tmp_path / "none.txt", tokenizer)


def test_coverage_is_reported(tmp_path, tokenizer, monkeypatch):
    messages = []
    logger = logging.getLogger("hf_xmtc.tokenization.word_vectors")
    monkeypatch.setattr(logger, "info", messages.append)
    monkeypatch.setattr(logger, "warning", messages.append)
    load_word_vectors(write(tmp_path, GLOVE), tokenizer)
    load_word_vectors(write(tmp_path, "The 1 2\n"), tokenizer)
    assert messages[0].startswith("2 of 3 words have a vector in vectors.txt")
    assert messages[1].startswith("0 of 3 words")
    assert "case" in messages[1]

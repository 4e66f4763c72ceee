import random
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.duplicates import TextHashes, count_duplicates, duplicate_warning, letters_of


def test_case_blanks_punctuation_and_unicode_form_make_no_difference():
    texts = ["A soup,  with rice.", "a soup with rice", "pa\u0302te\u00b2", "p\u00e2te2", "\u5927\u5b66 !", ""]
    letters = [letters.decode() for letters in letters_of(pa.array(texts))]
    assert letters[0] == letters[1] == "asoupwithrice"
    assert letters[2] == letters[3] == "p\u00e2te2"
    assert letters[4:] == ["\u5927\u5b66", ""]


def test_letters_and_digits_are_those_of_the_regular_expression():
    chance = random.Random(0)
    alphabet = [
        *map(chr, range(0x250)),
        *map(chr, range(0x2000, 0x2030)),
        "\u4e2d",
        "\u0301",
        "\u06f3",
        "\U0001f600",
        "\ufb01",
    ]
    texts = ["".join(chance.choices(alphabet[: chance.choice([128, None])], k=chance.randint(0, 30))) for _ in range(500)]
    lower = pc.utf8_lower(pc.utf8_normalize(pa.array(texts), "NFKC"))
    expected = pc.replace_substring_regex(lower, r"[^\p{L}\p{M}\p{N}]+", "").to_pylist()
    assert [letters.decode() for letters in letters_of(pa.array(texts))] == expected


def test_duplicates_within_and_between_splits():
    splits = {"train": ["one", "one", "One!", "two", "", "..."], "test": ["one", "Two", "three", "three ", ""]}
    counts = count_duplicates({split: TextHashes.of([pa.array(texts)]) for split, texts in splits.items()})
    assert counts == {
        "train": {"train": {"exact": 1, "near": 2}},
        "test": {"train": {"exact": 1, "near": 2}, "test": {"exact": 0, "near": 1}},
    }


def test_few_duplicates_are_counted_and_not_warned_about():
    counts = {"train": {}, "test": {"train": {"exact": 0, "near": 9}}}
    assert duplicate_warning("x", counts, {"train": 5_000, "test": 1_000}) is None
    assert "9 of 900 documents in test, 0 of them letter" in duplicate_warning("x", counts, {"train": 5_000, "test": 900})


def test_training_texts_in_test_are_warned_about_on_each_load(write_folder, load):
    folder = write_folder(train=[(f"text {i}", ["a"]) for i in range(9)], test=[("text 1", ["a"]), ("Text 2.", ["a"])])
    for _ in range(2):
        with pytest.warns(UserWarning, match="2 of 2 documents in test, 1 of them letter by letter"):
            dataset = load(folder, validation_fraction=0)
    assert label_info_of(dataset).duplicates["test"]["train"] == {"exact": 1, "near": 2}


def test_a_text_taken_out_of_training_is_not_left_there(write_folder, load):
    folder = write_folder(train=[(f"text {i % 50}", ["a"]) for i in range(200)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = load(folder, test_fraction=0.2)
    assert label_info_of(dataset).duplicates["test"]["train"]["exact"] == 0

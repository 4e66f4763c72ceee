import warnings

import numpy as np
import pytest

from hf_xmtc.data import (
    dataset_statistics,
    label_counts,
    label_info_of,
    labels_per_document,
    summarize_statistics,
)


@pytest.fixture
def dataset(write_folder, load):
    train = [("one two three", ["a", "b"]), ("one", ["a"]), ("", []), ("one  two", ["a", "c"])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(write_folder(train=train, test=[("x", ["a", "z"])]), validation_fraction=0)


def test_label_counts_are_documents_of_each_label(dataset):
    counts = label_counts(dataset["train"], num_labels=3)
    assert counts.dtype == np.int64
    assert counts.tolist() == [3, 1, 1]
    assert label_counts(dataset["test"], num_labels=3).tolist() == [1, 0, 0]  # z has an id of its own and is not counted


def test_counts_follow_selected_and_shuffled_rows(dataset):
    assert label_counts(dataset["train"].select([3, 1]), 3).tolist() == [2, 0, 1]
    assert labels_per_document(dataset["train"].select([3, 2, 1])).tolist() == [2, 0, 1]


def test_dataset_statistics(dataset):
    statistics = dataset_statistics(dataset, head_above=2, tail_up_to=1)
    train = statistics["splits"]["train"]
    assert (statistics["num_labels"], statistics["num_evaluation_only_labels"]) == (3, 1)
    assert train["num_documents"] == 4
    assert train["num_without_labels"] == 1
    assert train["labels_per_document"] == {"mean": 1.25, "median": 1.5, "max": 2}
    assert train["words_per_document"] == {"mean": 1.5, "median": 1.5, "max": 3}
    assert statistics["splits"]["test"]["num_with_unseen_labels"] == 1
    assert list(statistics["label_groups"].values()) == [1, 0, 2]
    assert statistics["documents_per_label"]["max"] == 3


def test_the_summary_is_short_and_readable(dataset):
    lines = summarize_statistics(dataset_statistics(dataset)).splitlines()
    assert lines[0] == "corpus: 3 labels"
    assert lines[1] == "  train: 4 documents, 1.2 labels each (median 1.5), 1.5 words each (median 1.5), 1 without labels"
    assert lines[2].endswith("1 with unseen labels")
    assert lines[3].endswith("0 head (> 100 documents), 0 torso (6 to 100), 3 tail (<= 5)")
    fewer = dataset_statistics({**dataset, "train": dataset["train"].select([3, 1])})
    assert fewer["num_labels_without_documents"] == 1
    assert summarize_statistics(fewer).splitlines()[3].endswith("3 tail (<= 5), 1 of them without any")


def test_what_is_said_of_a_hundred_thousand_labels_is_a_few_lines(write_folder, load):  # AC-18
    names = [f"concept/{number:06d}" for number in range(100_000)]
    train = [(f"text {i}", names[5 * i : 5 * i + 5]) for i in range(2_000)]
    test = [(f"other text {i}", names[10_000 + i : 10_003 + i]) for i in range(50_000)]
    label_file = {"label": names, "description": [f"description of {name}" for name in names]}
    folder = write_folder(train=train, test=test, label_file=label_file)
    for label_space, num_labels in (("file", 100_000), ("train", 10_000)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            dataset = load(folder, label_space=label_space, validation_fraction=0)
        info, summary = label_info_of(dataset), summarize_statistics(dataset_statistics(dataset))
        assert info.num_labels == num_labels
        assert len(summary) < 500 and "concept/" not in summary
        assert len(said) == (label_space == "train")
        assert all(len(str(entry.message)) < 500 and str(entry.message).count("concept/") == 1 for entry in said)
        assert len(repr(info)) < 500 and repr(info).count("concept/") == 3

import numpy as np
import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.label_spellings import join_spellings, spelling_groups

BOATS = ["Boats", "boats ", "boats."]
PATISSERIE = ["p\u00e2tisserie", "pa\u0302tisserie"]
BAKING = ["baking", "baking\u00a0"]


def test_spellings_of_one_label_are_a_group():  # AC-51
    groups = spelling_groups([*BOATS, *PATISSERIE, *BAKING, "boat", "c", "c++", "c#", "...", "!"])
    assert groups == [BOATS, PATISSERIE, BAKING]


def test_the_preferred_spelling_stays_then_the_most_frequent_then_the_first():
    labels = [*BOATS, "soup", *BAKING]
    counts = np.array([1, 5, 2, 3, 4, 4])
    assert join_spellings(labels, counts).tolist() == [1, 1, 1, 3, 4, 4]
    assert join_spellings(labels, counts, {"boats."}).tolist() == [2, 2, 2, 3, 4, 4]


def test_labels_stay_as_given_with_a_warning(write_folder, load):  # AC-51
    rows = [(f"text {label}", [label]) for label in [*BOATS, *PATISSERIE, *BAKING]]
    with pytest.warns(UserWarning, match="3 labels stand there in spellings .* 'Boats' and 'boats ' and 'boats.'"):
        dataset = load(write_folder(train=rows), validation_fraction=0)
    assert label_info_of(dataset).num_labels == 7


def test_spellings_are_joined_on_request(write_folder, load, recwarn):  # AC-51
    rows = [("one", ["Boats", "boats."]), ("two", ["boats."]), ("three", ["soup", *BAKING])]
    folder = write_folder(train=rows, test=[("four", ["BOATS"])])
    dataset = load(folder, validation_fraction=0, normalize_labels=True)
    info = label_info_of(dataset)
    assert info.names.labels == ["baking", "boats.", "soup"] and info.evaluation_only == []
    assert dataset["train"]["labels"][:] == [[1], [1], [2, 0]] and dataset["test"]["labels"][:] == [[1]]
    assert not recwarn.list

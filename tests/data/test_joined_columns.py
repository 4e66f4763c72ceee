import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data import label_info_of

COLUMNS = {
    "title": ["a", "b", None, None],
    "body": ["x", "", "z", None],
    "toxic": [1, 0, 1, None],
    "insult": [True, True, False, False],
    "first": ["p", "q", "", None],
    "more": [["q"], [], None, ["r", "q"]],
    "said": ["yes", "no", "no", None],
    "cells": ["p|q", " p ", None, "['q', 'r']"],
    "ids": [[2], [0, 1], None, []],
    "class": [2, 0, None, 1],
}


@pytest.fixture(params=["parquet", "hub"])
def source(request, tmp_path, monkeypatch):
    """The same columns in a file and on the Hub."""
    if request.param == "parquet":
        pq.write_table(pa.table(COLUMNS), tmp_path / "train.parquet", row_group_size=3)
        return tmp_path
    rows = datasets.DatasetDict({"train": datasets.Dataset.from_dict(COLUMNS)})
    monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: rows)
    monkeypatch.setattr("hf_xmtc.data.sources._hub_file", lambda *args: None)
    return "user/corpus"


def _rows(data):
    info = label_info_of(data)
    return [(row["text"], sorted(map(info.label_of, row["labels"]))) for row in data["train"].to_list()]


def test_texts_of_several_columns_are_joined_by_line_ends(source, load):
    data = load(source, text_column="title,body", label_column="more", validation_fraction=0)
    assert _rows(data) == [("a\nx", ["q"]), ("b", []), ("z", []), ("", ["q", "r"])]
    with pytest.raises(ValueError, match="no column 'title,abstract'; its columns are"):
        load(source, text_column="title,abstract", label_column="more")


@pytest.mark.parametrize("label_column", ["toxic,insult", "toxic", "said,toxic"])
def test_columns_of_0_and_1_are_labels_with_multi_hot(source, load, label_column):
    settings = {"text_column": "title", "label_column": label_column, "validation_fraction": 0}
    ones = {"toxic": [0, 2], "insult": [0, 1], "said": [0]}
    names = sorted(label_column.split(","))
    expected = [[name for name in names if row in ones[name]] for row in range(4)]
    assert [labels for _, labels in _rows(load(source, label_format="multi_hot", **settings))] == expected
    with pytest.raises(ValueError, match="label_format='multi_hot'"):
        load(source, **settings)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"label_column": "cells", "label_separator": "|"}, [["p", "q"], ["p"], [], ["['q', 'r']"]]),
        ({"label_column": "cells", "label_separator": ""}, [["p|q"], ["p"], [], ["['q', 'r']"]]),
        ({"label_column": "first"}, [["p"], ["q"], [], []]),
        ({"label_column": "more"}, [["q"], [], [], ["q", "r"]]),
        ({"label_column": "mor*"}, [["q"], [], [], ["q", "r"]]),
        ({"label_column": "id*"}, [["2"], ["0", "1"], [], []]),
        ({"label_column": "class"}, [["2"], ["0"], [], ["1"]]),
        ({"label_column": "class", "label_names": ["x", "y", "z"]}, [["z"], ["x"], [], ["y"]]),
        ({"label_column": "first,cells", "label_separator": "|"}, [["p", "q"], ["p", "q"], [], ["['q', 'r']"]]),
    ],
)
def test_one_column_is_read_as_that_of_a_table(source, load, settings, labels):
    data = load(source, text_column="title", validation_fraction=0, **settings)
    assert [of_row for _, of_row in _rows(data)] == labels


def test_classes_of_the_hub_have_names(tmp_path, load):
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features).to_parquet(tmp_path / "train.parquet")
    data = load(tmp_path, label_column="label", validation_fraction=0)
    assert _rows(data) == [("a", ["pos"]), ("b", ["neg"])]
    assert label_info_of(data).names.labels == ["neg", "pos"]


def test_a_cell_that_could_be_several_labels_needs_a_separator(source, load):
    with pytest.raises(ValueError, match=r"train: cells: the labels 'p\|q' hold '\|'.*label_separator=''"):
        load(source, text_column="title", label_column="cells")


def test_columns_of_labels_are_joined(source, load):
    data = load(source, text_column="body", label_column="first,more", validation_fraction=0)
    assert [labels for _, labels in _rows(data)] == [["p", "q"], ["q"], [], ["q", "r"]]


def test_flags_in_words_need_multi_hot(source, load):
    with pytest.raises(ValueError, match="the label columns said hold nothing but no, yes.*label_format='multi_hot'"):
        load(source, text_column="title", label_column="sa*")
    with pytest.raises(ValueError, match="the column 'first' holds 'p', but with label_format='multi_hot'"):
        load(source, text_column="title", label_column="toxic,first", label_format="multi_hot")
    with pytest.raises(ValueError, match="the label column 'more' is one of 2 and holds lists"):
        load(source, text_column="title", label_column="toxic,more", label_format="multi_hot")

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_cuts import cut_to_frequent_labels, with_label_names
from hf_xmtc import label_info_of, load_xmtc_dataset
from small_corpus import write_split

TRAIN = [("one", ["b", "a"]), ("two", ["a"]), ("three", ["c"]), ("four", ["c", "d"]), ("five", ["a", "d"]), ("six", ["e"])]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    write_split(folder, "train", TRAIN)
    write_split(folder, "test", [("seven", ["d", "e"]), ("eight", ["e"]), ("nine", ["c"])])
    pq.write_table(
        pa.table({"label": list("abcde"), "name": [f"name of {label}" for label in "abcde"]}), folder / "labels.parquet"
    )
    return folder


def test_the_most_frequent_labels_stay_and_documents_without_any_go(source, tmp_path):
    target = cut_to_frequent_labels(source, tmp_path / "cut", 3)  # a 3, c 2, d 2; b and e 1
    data = load_xmtc_dataset(target, cache_dir=tmp_path / "cache", validation_fraction=0.0)
    assert data["train"]["text"][:] == ["one", "two", "three", "four", "five"]
    assert data["test"]["text"][:] == ["seven", "nine"]
    assert sorted(pq.read_table(target / "labels.parquet")["label"].to_pylist()) == ["a", "c", "d"]
    assert pq.read_table(target / "train.parquet")["labels"].to_pylist()[0] == ["a"]


def test_equally_frequent_labels_go_by_name(source, tmp_path):
    target = cut_to_frequent_labels(source, tmp_path / "cut", 2)
    assert sorted(pq.read_table(target / "labels.parquet")["label"].to_pylist()) == ["a", "c"]


def test_a_finished_cut_is_kept_and_one_that_is_interrupted_or_out_of_date_made_again(source, tmp_path):
    target = cut_to_frequent_labels(source, tmp_path / "cut", 2)
    assert json.loads((target / "cut.json").read_text())["num_labels"] == 2
    (target / "train.parquet").write_bytes(b"")
    assert cut_to_frequent_labels(source, target, 2) == target
    assert (target / "train.parquet").read_bytes() == b""
    (target / "cut.json").unlink()
    cut_to_frequent_labels(source, target, 2)
    assert pq.read_table(target / "train.parquet").num_rows == 5  # all that have a or c
    cut_to_frequent_labels(source, target, 1)
    assert pq.read_table(target / "train.parquet").num_rows == 3  # all that have a
    write_split(source, "train", [*TRAIN, ("seven", ["a"])])
    cut_to_frequent_labels(source, target, 1)
    assert pq.read_table(target / "train.parquet").num_rows == 4
    assert {path.name for path in tmp_path.iterdir()} == {"source", "cut", "cut.lock"}


def test_more_labels_than_there_are_is_refused(source, tmp_path):
    with pytest.raises(ValueError, match="has 5 labels in training, so 6 cannot be kept"):
        cut_to_frequent_labels(source, tmp_path / "cut", 6)


def test_labels_may_have_the_names_of_another_column(source, tmp_path):
    labels = pq.read_table(source / "labels.parquet")
    english = [None, "bee", None, "dee", None]
    pq.write_table(labels.append_column("name_en", pa.array(english)), source / "labels.parquet")
    target = with_label_names(source, tmp_path / "named", "name_en")
    data = load_xmtc_dataset(target, cache_dir=tmp_path / "cache", validation_fraction=0.0)
    names = label_info_of(data).names
    assert [names.name_of(label) for label in range(5)] == ["name of a", "bee", "name of c", "dee", "name of e"]
    assert data["test"]["text"][:] == ["seven", "eight", "nine"]
    (target / "test.parquet").write_bytes(b"")
    assert with_label_names(source, target, "name_en") == target
    assert (target / "test.parquet").read_bytes() == b""  # what is there is kept
    with pytest.raises(ValueError, match="has no column 'name_fr', but label, name, name_en"):
        with_label_names(source, tmp_path / "other", "name_fr")

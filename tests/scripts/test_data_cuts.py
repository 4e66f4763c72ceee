import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_cuts import with_frequent_labels, with_label_names
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


def test_labels_may_have_the_names_of_another_column(source, tmp_path, caplog):
    labels = pq.read_table(source / "labels.parquet")
    english = [None, "bee", None, "dee", None]
    pq.write_table(labels.append_column("name_en", pa.array(english)), source / "labels.parquet")
    with caplog.at_level("INFO"):
        target = with_label_names(source, tmp_path / "named", "name_en")
    assert "3 of 5 labels have no name_en and keep their name." in caplog.text
    data = load_xmtc_dataset(target, cache_dir=tmp_path / "cache", validation_fraction=0.0)
    names = label_info_of(data).names
    assert [names.name_of(label) for label in range(5)] == ["name of a", "bee", "name of c", "dee", "name of e"]
    assert data["test"]["text"][:] == ["seven", "eight", "nine"]
    (target / "test.parquet").write_bytes(b"")
    assert with_label_names(source, target, "name_en") == target
    assert (target / "test.parquet").read_bytes() == b""  # what is there is kept
    with pytest.raises(ValueError, match="has no column 'name_fr', but label, name, name_en"):
        with_label_names(source, tmp_path / "other", "name_fr")


def test_a_finished_folder_is_kept_and_one_that_is_interrupted_or_out_of_date_made_again(source, tmp_path):
    target = with_label_names(source, tmp_path / "named", "label")
    (target / "train.parquet").write_bytes(b"")
    assert with_label_names(source, target, "label") == target
    assert (target / "train.parquet").read_bytes() == b""
    (target / "cut.json").unlink()
    with_label_names(source, target, "label")
    assert pq.read_table(target / "train.parquet").num_rows == 6
    write_split(source, "train", [*TRAIN, ("seven", ["a"])])
    with_label_names(source, target, "label")
    assert pq.read_table(target / "train.parquet").num_rows == 7
    assert {path.name for path in tmp_path.iterdir()} == {"source", "named", "named.lock"}


def test_the_most_frequent_labels_and_their_documents_stay(source, tmp_path):
    write_split(source, "validation", [("ten", ["e", "a"])])
    target = with_frequent_labels(
        str(source), tmp_path / "frequent", 2
    )  # a has three documents; c and d have two, c is first
    documents = {}
    for split in ("train", "validation", "test"):
        columns = pq.read_table(target / f"{split}.parquet").to_pydict()
        documents[split] = dict(zip(columns["text"], columns["labels"], strict=True))
    assert documents == {
        "train": {"one": ["a"], "two": ["a"], "three": ["c"], "four": ["c"], "five": ["a"]},
        "validation": {"ten": ["a"]},
        "test": {"nine": ["c"]},
    }

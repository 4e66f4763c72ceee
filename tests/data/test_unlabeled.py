"""Documents without labels, left out with ``drop_unlabeled`` (AC-07)."""

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc import cli
from hf_xmtc.data import label_info_of
from small_formats import FILES, LABELS, TEXTS, write_files

# The reader of RCV1 refuses a document without topics.
FORMATS = [name for name in FILES if name != "rcv1"]
DROPPED = "Documents without labels left out: 1 in train."


def _labels_of(name):
    prefix = "x:" if name == "annif" else ""
    return [sorted(prefix + label for label in row) for row in LABELS[:2]]


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "xmc-sparse"])
def test_the_loader_drops_them_in_every_format(tmp_path, load, name):
    folder = write_files(tmp_path / "corpus", FILES[name])
    settings = {"format": name, "validation_fraction": 0}
    kept = load(folder, **settings)
    assert len(kept["train"]) == 3 and label_info_of(kept).num_dropped == {}
    with pytest.warns(UserWarning, match=f"corpus: {DROPPED}"):
        data = load(folder, **settings, drop_unlabeled=True)
    info = label_info_of(data)
    assert [text.split() for text in data["train"]["text"]] == [text.split() for text in TEXTS[:2]]
    assert [sorted(map(info.label_of, ids)) for ids in data["train"]["labels"]] == _labels_of(name)
    assert (info.num_documents, info.num_without_labels, info.num_dropped) == ({"train": 2}, {"train": 0}, {"train": 1})


@pytest.mark.parametrize("name", FORMATS)
def test_convert_drops_them_in_every_format(tmp_path, capsys, name):
    folder, output = write_files(tmp_path / "corpus", FILES[name]), tmp_path / "parquet"
    command = ["convert", "--dataset", str(folder), "--format", name, "--output_dir", str(output)]
    assert cli.main([*command, "--drop_unlabeled"]) == 0
    assert f"({name}): 2 in train; 3 labels; written to {output}. {DROPPED}\n" in capsys.readouterr().out
    assert DROPPED in (output / "README.md").read_text(encoding="utf-8")
    table = pq.read_table(output / "train.parquet").to_pydict()
    names = pq.read_table(output / "labels.parquet")["label"].to_pylist()
    labels = [sorted(label if isinstance(label, str) else names[label] for label in row) for row in table["labels"]]
    assert labels == ([["0", "1"], ["2"]] if name == "xmc-sparse" else _labels_of(name))
    if "text" in table:
        assert [text.split() for text in table["text"]] == [text.split() for text in TEXTS[:2]]


def test_labels_that_are_none_do_not_count(tmp_path, load, capsys):
    """A label that ``filter_labels`` leaves out, and one without a character."""
    files = {**FILES["xmc-raw"], "filter_labels_train.txt": "1 2\n"}
    folder = write_files(tmp_path / "filtered", files)
    texts = {"json": ["first\ntext"], "empty": ["b"]}
    empty = write_files(
        tmp_path / "empty", {"train.jsonl": '{"text": "a", "labels": [" "]}\n{"text": "b", "labels": ["x"]}\n'}
    )
    for path, expected, number in ((folder, texts["json"], 2), (empty, texts["empty"], 1)):
        with pytest.warns(UserWarning, match=f"left out: {number} in train"):
            assert load(path, validation_fraction=0, drop_unlabeled=True)["train"]["text"][:] == expected
        output = tmp_path / f"{path.name}-parquet"
        cli.main(["convert", "--dataset", str(path), "--output_dir", str(output), "--drop_unlabeled"])
        assert f"left out: {number} in train." in capsys.readouterr().out
        assert pq.read_table(output / "train.parquet")["text"].to_pylist() == expected


@pytest.mark.parametrize("split_by", ["hash", "stratified", "group"])
def test_splits_are_taken_out_of_what_remains(tmp_path, load, split_by):
    rows = [(f"text {i}", [] if i % 3 == 1 else [f"label {i % 2}"], str(i // 10)) for i in range(300)]
    texts, labels, groups = zip(*rows, strict=True)
    whole = {"text": texts, "labels": labels, "group": groups}
    for folder, keep in (("all", [True] * 300), ("labelled", [bool(row[1]) for row in rows])):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table(whole).filter(pa.array(keep)), tmp_path / folder / "train.parquet")
    settings = {"test_fraction": 0.2, "split_by": split_by, "group_column": "group" if split_by == "group" else None}
    with pytest.warns(UserWarning, match="left out: 100 in train"):
        data = load(tmp_path / "all", **settings, drop_unlabeled=True)
    expected = load(tmp_path / "labelled", **settings)
    assert list(data) == ["train", "validation", "test"]
    assert {split: rows[:] for split, rows in data.items()} == {split: rows[:] for split, rows in expected.items()}
    assert label_info_of(data).num_dropped == {"train": 100}


def test_each_split_is_counted(write_folder, load):
    rows = [("a", ["x"]), ("b", []), ("c", None), ("d", ["y"])]
    with pytest.warns(UserWarning, match="left out: 2 in train, 1 in test"):
        data = load(write_folder(train=rows, validation=rows[:1], test=rows[:2]), drop_unlabeled=True)
    assert label_info_of(data).num_dropped == {"train": 2, "validation": 0, "test": 1}
    assert [rows["text"][:] for rows in data.values()] == [["a", "d"], ["a"], ["a"]]


def test_nothing_is_said_where_nothing_is_dropped(write_folder, load):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load(write_folder(train=[("a", ["x"])]), validation_fraction=0, drop_unlabeled=True)
    assert label_info_of(data).num_dropped == {"train": 0}


def test_texts_without_a_column_of_labels_stay(tmp_path, load, capsys):
    folder = write_files(tmp_path / "corpus", {"train.csv": "text,labels\na,x\nb,\n", "test.csv": "text\nc\n"})
    with pytest.warns(UserWarning, match="left out: 1 in train."):
        data = load(folder, validation_fraction=0, for_training=False, drop_unlabeled=True)
    assert data["test"]["text"][:] == ["c"]
    cli.main(["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "parquet"), "--drop_unlabeled"])
    assert "1 in train, 1 in test;" in capsys.readouterr().out


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_without_any_label_is_refused(tmp_path, load, split):
    files = {f"{name}.csv": "text,labels\na,x\nb,\n" for name in ("train", "test")}
    folder = write_files(tmp_path / "corpus", {**files, f"{split}.csv": "text,labels\na,\nb,\n"})
    message = f"{split}: none of the 2 documents has a label, so drop_unlabeled would leave nothing.*--label_column"
    with pytest.raises(ValueError, match=f"corpus: {message}"):
        load(folder, drop_unlabeled=True, for_training=False)
    command = ["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "parquet"), "--drop_unlabeled"]
    with pytest.raises(SystemExit, match=f"ValueError: {message}"):
        cli.main(command)
    assert not (tmp_path / "parquet").exists()

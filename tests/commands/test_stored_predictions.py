import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands.stored_predictions import read_predictions


def predictions(path, **columns):
    pq.write_table(pa.table({"row": [0, 1], "labels": [["a"], ["b"]], "scores": [[0.9], [0.8]], **columns}), path)
    return path


def test_true_labels_are_compared_where_the_first_file_has_none(tmp_path):
    files = [
        predictions(tmp_path / "without.parquet"),
        predictions(tmp_path / "one.parquet", gold=[["a"], ["b"]]),
        predictions(tmp_path / "other.parquet", gold=[["a"], ["c"]]),
    ]
    assert read_predictions(files[:2], {})[0].gold.tolist() == [[0], [1]]
    with pytest.raises(
        ValueError, match=r"one.parquet and .*other.parquet have the true label ids \[1\] and \[2\] in place 1"
    ):
        read_predictions(files, {})

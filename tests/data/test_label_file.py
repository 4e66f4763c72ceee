import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaged_files import damage

from hf_xmtc.data.label_file import LabelFile, read_label_file


def test_parquet_and_json_read_alike(tmp_path):
    pq.write_table(
        pa.table({"label": ["a", "b"], "name": ["A", None], "parents": [["b"], None]}), tmp_path / "labels.parquet"
    )
    (tmp_path / "labels.json").write_text('[{"label": "a", "name": "A", "parents": ["b"]}, "b"]')
    parquet, json_file = read_label_file(tmp_path / "labels.parquet"), read_label_file(tmp_path / "labels.json")
    assert parquet == json_file


def test_every_field_changes_the_fingerprint():
    files = [LabelFile.from_names(["a", "b"]), LabelFile.from_names(["b", "a"])]
    files.append(LabelFile(files[0].names, ["about a", None]))
    assert len({file.fingerprint for file in files}) == 3


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"id": ["a"]}, r"needs a column 'label' .* but has \['id'\]"),
        ({"label": ["a", None]}, "row 1 has the label None; labels must be strings"),
        ({"label": [3]}, "row 0 has the label 3; labels must be strings"),
        ({"label": ["a", "a"]}, "The label 'a' occurs twice"),
        ({"label": ["a"], "parents": ["food"]}, "The parents of label id 0 are 'food', but parents are a list of strings"),
        ({"label": ["a"], "parents": [1]}, "The parents of label id 0 are 1, but parents are a list of strings"),
        ({"label": ["a"], "parents": [[1]]}, r"The parents of label id 0 are \[1\], but parents are a list of strings"),
        ({"label": ["a", " "]}, "entry 1 .* is the empty label"),
        ({"label": ["a"], "description": [1]}, "it has the description 1; descriptions must be strings"),
    ],
)
def test_bad_parquet_is_refused(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    with pytest.raises(ValueError, match=f"Label file labels.parquet: .*{message}"):
        read_label_file(tmp_path / "labels.parquet")


def test_damage_and_repeated_columns_name_the_file(tmp_path):
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table([["a"], ["b"]], names=["label", "label"]), path)
    with pytest.raises(ValueError, match="labels.parquet: it has several columns named 'label'"):
        read_label_file(path)
    pq.write_table(
        pa.table({"label": [str(random.Random(i).random()) for i in range(1_000)]}),
        path,
        compression="gzip",
        use_dictionary=False,
    )
    damage(path)
    with pytest.raises(ValueError, match=f"Label file labels.parquet: {path} is not readable parquet"):
        read_label_file(path)
    with pytest.raises(
        FileNotFoundError, match="There is no label file '.*elsewhere/labels.parquet'. Give a labels.parquet or"
    ):
        read_label_file(tmp_path / "elsewhere" / "labels.parquet")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "labels.txt").write_text("a\n")
    (tmp_path / "labels.parquet").write_text("a\n")
    with pytest.raises(ValueError, match="ends in '.txt'"):
        read_label_file(tmp_path / "labels.txt")
    with pytest.raises(ValueError, match="not readable parquet"):
        read_label_file(tmp_path / "labels.parquet")

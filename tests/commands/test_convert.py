import pyarrow.parquet as pq
import pytest

from hf_xmtc import cli
from hf_xmtc.data import label_info_of, load_xmtc_dataset
from small_formats import FILES, write_files


def _convert(folder, output, *options):
    return cli.main(["convert", "--dataset", str(folder), "--output_dir", str(output), *options])


def test_a_converted_data_set_is_loaded_like_the_files(tmp_path, capsys):
    folder = write_files(tmp_path / "corpus", {**FILES["csv"], "README.md": "---\nlicense: mit\nlanguage: fi\n---\n"})
    assert _convert(folder, tmp_path / "parquet") == 0
    assert "(csv): 3 in train; 3 labels; written to" in capsys.readouterr().out
    first, second = (
        load_xmtc_dataset(path, validation_fraction=0, cache_dir=tmp_path / "cache")
        for path in (folder, tmp_path / "parquet")
    )
    assert first["train"].to_list() == second["train"].to_list()
    info = label_info_of(second)
    assert (info.names.labels, info.license, info.language) == (["a", "b", "c"], "mit", "fi")
    with pytest.raises(SystemExit, match="FileExistsError: .*parquet exists. Choose another --output_dir"):
        _convert(folder, tmp_path / "parquet")


def test_bags_of_words_are_kept_on_request(tmp_path):
    folder = write_files(tmp_path / "corpus", FILES["xmc-sparse"])
    _convert(folder, tmp_path / "parquet", "--with_features")
    table = pq.read_table(tmp_path / "parquet" / "train.parquet").to_pydict()
    assert table["feature_ids"] == [[0, 2], [1], [3]]
    assert table["labels"] == [[1, 0], [2], []]


def test_a_failed_conversion_leaves_nothing(tmp_path):
    folder = write_files(tmp_path / "corpus", {"train.csv": "text,labels\na,b\na,b,c\n"})
    with pytest.raises(SystemExit, match="ValueError: .*train.csv, line 3 has 3 cells"):
        _convert(folder, tmp_path / "parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_the_column_of_groups_is_kept_on_request(tmp_path):
    folder = write_files(
        tmp_path / "corpus", {"train.csv": "book,text,labels\n1,a,x\n,b,y\n", "test.csv": "text,labels\nc,x\n"}
    )
    _convert(folder, tmp_path / "parquet", "--group_column", "book")
    assert pq.read_table(tmp_path / "parquet" / "train.parquet").to_pydict() == {
        "text": ["a", "b"],
        "book": ["1", None],
        "labels": [["x"], ["y"]],
    }
    assert pq.read_schema(tmp_path / "parquet" / "test.parquet").names == ["text", "labels"]

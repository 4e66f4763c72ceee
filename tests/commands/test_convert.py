import multiprocessing
import os
import re
import time

import pyarrow.parquet as pq
import pytest

from hf_xmtc import cli
from hf_xmtc.commands import convert
from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.data.formats.conversion import write_corpus
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_conversion_leaves_nothing_half_written(tmp_path, monkeypatch):
    folder, output = write_files(tmp_path / "corpus", FILES["csv"]), tmp_path / "out" / "parquet"

    def write_and_wait(*arguments):
        write_corpus(*arguments)
        time.sleep(60)

    def convert_slowly():
        monkeypatch.setattr(convert, "write_corpus", write_and_wait)
        _convert(folder, output)

    process = multiprocessing.get_context("fork").Process(target=convert_slowly)
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/.parquet-*/train.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.join()
    assert list(tmp_path.glob("out/.parquet-*")) and not output.exists()
    _convert(folder, output)
    assert pq.read_table(output / "train.parquet").num_rows == 3
    assert [path.name for path in output.parent.iterdir()] == ["parquet"]


def test_the_label_file_beside_the_data_is_taken_along(tmp_path, capsys):
    labels = '[{"label": "c", "name": "Sea"}, "a", "never", "b"]'
    folder = write_files(tmp_path / "corpus", {**FILES["csv"], "labels.json": labels})
    _convert(folder, tmp_path / "parquet")
    assert "3 in train; 4 labels; written" in capsys.readouterr().out
    first, second = (
        label_info_of(load_xmtc_dataset(path, validation_fraction=0, cache_dir=tmp_path / "cache")).names
        for path in (folder, tmp_path / "parquet")
    )
    assert first == second and first.labels == ["c", "a", "b"] and first.name_of(0) == "Sea"
    (folder / "labels.json").write_text('["x", "y"]')
    with pytest.raises(SystemExit, match="none of its 3 labels, such as 'a', is among the 2 of the label file, such as 'x'"):
        _convert(folder, tmp_path / "again")


def test_integer_labels_keep_their_meaning_under_another_label_file(tmp_path):
    lines = '{"text": "x", "labels": [0]}\n{"text": "y", "labels": [2, 1]}\n'
    folder = write_files(tmp_path / "corpus", {"train.jsonl": lines, "labels.json": '["a", "b", "c"]'})
    (tmp_path / "names.json").write_text('[{"label": "c", "name": "Sea"}, "d", "a"]')
    _convert(folder, tmp_path / "parquet", "--label_file", str(tmp_path / "names.json"))
    data = load_xmtc_dataset(tmp_path / "parquet", validation_fraction=0, cache_dir=tmp_path / "cache")
    names = label_info_of(data).names
    assert [[names.name_of(label) for label in row] for row in data["train"]["labels"][:]] == [["a"], ["Sea", "b"]]


@pytest.mark.parametrize(
    ("beside", "given"), [('["a", "b", "c"]', None), (None, '["a", "b", "c"]'), ('["x"]', '["a", "b", "c"]')]
)
def test_label_ids_that_the_label_file_does_not_name(tmp_path, beside, given):  # AC-09
    path = tmp_path / "corpus" / "train.jsonl"
    files = {
        "train.jsonl": '\n{"text": "x", "labels": [1]}\n\n{"text": "y", "labels": [2, 3]}\n{"text": "z", "labels": [7]}\n'
    }
    folder = write_files(tmp_path / "corpus", {**files, **({"labels.json": beside} if beside else {})})
    options = {}
    if given:
        (tmp_path / "names.json").write_text(given)
        options = {"label_file": str(tmp_path / "names.json")}
    message = re.escape(
        f"{path}, line 4 holds the label id 3, but the 3 labels have the ids 0 to 2. Do the ids count from 1? Then give one_based"
    )
    for _ in range(2):  # the second time from the cache
        with pytest.raises(ValueError, match=message):
            load_xmtc_dataset(folder, validation_fraction=0, cache_dir=tmp_path / "cache", **options)
    with pytest.raises(SystemExit, match=message):
        _convert(folder, tmp_path / "parquet", *(["--label_file", options["label_file"]] if given else []))
    assert not (tmp_path / "parquet").exists()
    path.write_text(path.read_text().replace("7", "1"))
    data = load_xmtc_dataset(folder, validation_fraction=0, one_based=True, cache_dir=tmp_path / "cache", **options)
    assert data["train"]["labels"][:] == [[0], [1, 2], [0]]
    _convert(folder, tmp_path / "parquet", "--one_based", *(["--label_file", options["label_file"]] if given else []))
    assert pq.read_table(tmp_path / "parquet" / "train.parquet")["labels"].to_pylist() == [[0], [1, 2], [0]]


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({"a.jsonl": '{"text": "x", "labels": [0]}\n{"text": "y", "labels": [1]}\n'}, [], "2 labels; .*parquet.$"),
        (
            {"a.jsonl": '{"text": "x", "labels": [12]}\n'},
            [],
            "1 labels; .*go up to 12, but 0 never occurs.*codes as strings",
        ),
        ({"a.csv": "text,tags\nx,y\n"}, [], "0 labels; .*No column 'labels' in train, of 'text', 'tags'; --label_column"),
        ({"a.jsonl": '{"text": "x", "tags": ["y"]}\n'}, [], "No column 'labels' in train, of 'text', 'tags'"),
        (
            {"a.csv": "text,labels\n" + "".join(f"x,a{i}|b{i}\n" for i in range(9))},
            ["--label_separator", ";"],
            r"most of its 9 labels hold '\|'",
        ),
    ],
)
def test_what_is_said_of_labels(tmp_path, capsys, files, options, said):
    folder = write_files(tmp_path / "corpus", files)
    assert _convert(folder / next(iter(files)), tmp_path / "parquet", *options) == 0
    assert re.search(said, capsys.readouterr().out)


@pytest.mark.parametrize(("label", "described"), [("0", "1 labels."), ('"a"', "1 labels, described in `labels.parquet`.")])
def test_the_card_names_only_files_that_are_there(tmp_path, label, described):
    folder = write_files(tmp_path / "corpus", {"train.jsonl": f'{{"text": "x", "labels": [{label}]}}\n'})
    _convert(folder, tmp_path / "parquet")
    assert f"Columns: `text`, `labels`. {described}\n" in (tmp_path / "parquet/README.md").read_text()
    assert (tmp_path / "parquet/labels.parquet").is_file() == ("described" in described)

"""What holds for every format."""

import codecs
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import FORMATS, CorpusFiles, find_format
from hf_xmtc.data.formats.text_lines import decode_lines, read_lines
from small_formats import FILES, LABELS, TEXTS, compressed, read_rows, write_files

TEXT_FORMATS = [name for name in FILES if name != "xmc-sparse"]


def _expected(name):
    texts = [text.replace(" ", "\n") for text in TEXTS] if name == "xmc-raw" else TEXTS
    labels = [[f"x:{label}" for label in row] for row in LABELS] if name == "annif" else LABELS
    # The matrix of PECOS and the files of topics have an order of their own.
    return texts, [sorted(row) for row in labels]


def _read(folder, name=None):
    rows = read_rows(folder, name)
    return [row[0] for row in rows], [sorted(row[1]) for row in rows]


def test_every_format_has_a_sample():
    assert {kind.name for kind in FORMATS} == set(FILES)


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_a_format_is_recognised_and_read(tmp_path, name):
    folder = write_files(tmp_path, _complete(name))
    assert find_format(folder, None)[0].name == name
    texts, labels = _expected(name)
    if name == "rcv1":
        labels[2] = ["c"]
    assert _read(folder) == (texts, labels)
    assert _read(folder, name) == (texts, labels)


def _complete(name):
    """The sample of a format; a topic file without a document is refused, so the third document of RCV1 gets a topic."""
    files = dict(FILES[name])
    if name == "rcv1":
        files["rcv1-v2.topics.qrels"] = files["rcv1-v2.topics.qrels"].replace("d 3 0", "c 3 1")
    return files


@pytest.mark.parametrize("name", FILES)
def test_a_mark_and_windows_line_ends_change_nothing(tmp_path, name):  # AC-11
    plain = write_files(
        tmp_path / "plain", {file: text.replace("text", "café 日本 🎉") for file, text in _complete(name).items()}
    )
    changed = {}
    for file, text in _complete(name).items():
        words = text.replace("text,labels", "T,L").replace('"text"', '"T"').replace("text\tlabels", "T\tL")
        words = words.replace("text", "café 日本 🎉")
        words = words.replace("T,L", "text,labels").replace('"T"', '"text"').replace("T\tL", "text\tlabels")
        (plain / file).write_bytes(words.encode())
        changed[file] = codecs.BOM_UTF8 + words.replace("\n", "\r\n").encode()
    assert _read(write_files(tmp_path / "changed", changed)) == _read(plain)


@pytest.mark.parametrize("name", FILES)
def test_gzip_is_recognised_by_content_and_never_half_read(tmp_path, name):  # AC-12
    plain = _read(write_files(tmp_path / "plain", _complete(name)), name)
    packed = {file: compressed(text) for file, text in _complete(name).items()}
    assert _read(write_files(tmp_path / "misnamed", packed), name) == plain
    if name != "annif-folder":
        assert (
            _read(
                write_files(
                    tmp_path / "gz", {f"{file}.gz" if file in _main(name) else file: packed[file] for file in packed}
                ),
                name,
            )
            == plain
        )
    file = _main(name)[0]
    with pytest.raises(ValueError, match=f"{file}.*no sound gzip.*cut off"):
        _read(write_files(tmp_path / "cut", {**packed, file: packed[file][: len(packed[file]) // 2]}), name)


def _main(name):
    return [file for file in FILES[name] if not file.startswith(("output", "lbl"))]


@pytest.mark.parametrize("name", [name for name in TEXT_FORMATS if name not in ("xmc-raw", "rcv1")])
def test_a_wrong_byte_is_named_with_file_and_line(tmp_path, name):  # AC-11
    file = _main(name)[0]
    files = {**FILES[name], file: FILES[name][file].encode().replace(b"first", b"f\xe9rst")}
    with pytest.raises(ValueError, match=rf"{file}, line \d is not utf-8 .*0xe9.*--encoding latin-1"):
        _read(write_files(tmp_path, files), name)
    assert read_rows(tmp_path, name, encoding="latin-1")[0][0] == "férst text"


@pytest.mark.parametrize("name", ["lines", "raw-lines", "sgm", "pecos"])
@pytest.mark.parametrize("longer", [0, 1])
def test_files_of_different_length_are_refused(tmp_path, name, longer):  # AC-10
    folder = write_files(tmp_path, FILES[name])
    files = [file for file in FILES[name] if "output" not in file] + (["Y.trn.npz"] if name == "pecos" else [])
    if name == "pecos" and longer:
        (folder / files[0]).write_text("only one\n")
        counts = (1, 3)
    else:
        with open(folder / files[longer], "a") as file:
            file.write("one more\n")
        counts = (3, 4) if longer else (4, 3)
    with pytest.raises(ValueError, match=rf"{files[0]} has {counts[0]} rows, but .*{files[1]} has {counts[1]}"):
        _read(folder)


def test_a_missing_last_line_end_changes_nothing(tmp_path):  # AC-10
    folder = write_files(tmp_path, {"train_texts.txt": "a\nb\n\n", "train_labels.txt": "x\ny\nz"})
    assert read_rows(folder) == [["a", ["x"]], ["b", ["y"]], ["", ["z"]]]


def test_only_line_feeds_end_a_line(tmp_path):
    odd = "a\u2028b\x85c\x0bd\x1ce\rf"
    folder = write_files(tmp_path, {"train_texts.txt": f"{odd}\n", "train_labels.txt": "x\n"})
    assert read_rows(folder) == [[odd, ["x"]]]


def test_what_only_looks_missing_is_text(tmp_path):
    words = ["NaN", "null", "None", "NA", "007"]
    folder = write_files(tmp_path, {"train.csv": "text,labels\n" + "".join(f"{word},{word}\n" for word in words)})
    assert read_rows(folder) == [[word, [word]] for word in words]


def test_an_unknown_format_and_missing_files_say_what_there_is(tmp_path, load):
    (tmp_path / "notes.txt").write_text("just words\n")
    with pytest.raises(ValueError, match="format is 'cvs' but must be parquet, raw-lines, .*jsonl"):
        load(tmp_path, format="cvs")
    with pytest.raises(
        FileNotFoundError, match="no data of the format 'pecos': it needs X.trn.txt and Y.trn.npz.*notes.txt"
    ):
        load(tmp_path, format="pecos")
    with pytest.raises(FileNotFoundError, match="format of .*notes.txt is not recognised.*--format"):
        load(tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["csv", "xmc-raw", "pecos"])
def test_the_loader_reads_it_with_ids_and_names(tmp_path, load, name):
    folder = write_files(tmp_path / "corpus", FILES[name])
    data = load(folder, validation_fraction=0)
    info = label_info_of(data)
    assert [info.label_of(i) for i in range(3)] == ["a", "b", "c"]
    assert [sorted(labels) for labels in data["train"]["labels"]] == [[0, 1], [2], []]
    assert info.source == "corpus"
    if name == "xmc-raw":
        assert info.names.name_of(0) == "label a"


def test_an_interrupted_conversion_leaves_nothing(tmp_path, load):
    folder = write_files(tmp_path / "corpus", {"train.csv": "text,labels\na,b\na,b,c\n"})
    with pytest.raises(ValueError, match=r"train.csv, line 3 has 3 cells, but line 1 names 2 columns"):
        load(folder)
    assert [path.name for path in Path(tmp_path, "cache").rglob("*") if path.is_file()] == []


def test_data_without_texts_are_refused(tmp_path, load):
    with pytest.raises(ValueError, match="no texts, and models of texts cannot be trained.*trn.json.gz"):
        load(write_files(tmp_path / "corpus", FILES["xmc-sparse"]))


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_a_plain_file_named_gz_is_read(tmp_path, name):  # AC-12
    if name in ("rcv1", "annif-folder"):
        pytest.skip("their names are read in other tests")
    plain = _read(write_files(tmp_path / "plain", FILES[name]), name)
    files = {f"{file}.gz" if file in _main(name) else file: text for file, text in FILES[name].items()}
    assert _read(write_files(tmp_path / "named-gz", files), name) == plain


def test_a_folder_of_two_formats_is_refused_with_both(tmp_path, load):
    folder = write_files(tmp_path / "corpus", {**FILES["csv"], **FILES["jsonl"]})
    with pytest.raises(ValueError, match=r"two formats, csv \(train.csv\) and jsonl \(train.jsonl\). Name .*--format"):
        load(folder)
    assert load(folder, format="jsonl", validation_fraction=0)["train"]["labels"][:] == [[1, 0], [2], []]
    folder = write_files(tmp_path / "lines", {**FILES["libmultilabel"], **FILES["annif"]})
    with pytest.raises(ValueError, match="Several files claim to be the train split: train.tsv, train.txt"):
        load(folder)
    folder = write_files(tmp_path / "parquet", FILES["csv"])
    pq.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], ["y"]]}), folder / "train.parquet")
    with pytest.raises(ValueError, match=r"two formats, parquet \(train.parquet\) and csv"):
        load(folder)
    assert len(load(folder, format="parquet", validation_fraction=0)["train"]) == 2


def test_texts_beside_their_bags_of_words_are_read(tmp_path):
    """As in the archives of AttentionXML."""
    folder = write_files(tmp_path, {**FILES["lines"], **FILES["raw-lines"], **FILES["xmc-sparse"]})
    assert find_format(folder, None)[0].name == "raw-lines"


def test_the_recognised_format_is_said(tmp_path, load, caplog):
    caplog.set_level("INFO", "hf_xmtc")
    load(write_files(tmp_path / "corpus", FILES["lines"]))
    assert (
        "corpus is read as lines: train_labels.txt, train_texts.txt. Another format can be named (--format)." in caplog.text
    )


def test_lone_surrogates_are_replaced_and_said(tmp_path, load, caplog):  # AC-64
    lines = '{"text": "a\\ud800", "labels": ["x"]}\n{"text": "b", "labels": ["x"]}\n'
    folder = write_files(tmp_path / "corpus", {"train.jsonl": lines})
    assert load(folder, validation_fraction=0)["train"]["text"][:] == ["a\ufffd", "b"]
    assert "1 texts are not valid Unicode" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.jsonl", '{"text": "a", "labels": ["y"]}\n\n{"text": "b", "labels": ["y", "x\\udfff"]}\n', {}),
        ("a.jsonl", '{"text": "a", "labels": "y"}\n\n{"text": "b", "labels": "x\\udfff"}\n', {}),
        ("a.jsonl", '{"text": "a", "l1": "y", "l2": null}\n\n{"text": "b", "l1": "x\\udfff"}\n', {"label_column": "l*"}),
        (
            "a.jsonl",
            '{"text": "a", "filter_labels": []}\n\n{"text": "b", "filter_labels": ["x\\udfff"]}\n',
            {"for_training": False},
        ),
        (
            "a.jsonl",
            '{"text": "a", "labels": "y", "g": 1}\n\n{"text": "b", "g": "x\\udfff"}\n',
            {"split_by": "group", "group_column": "g"},
        ),
        ("a.csv", "text,labels\na,['y']\nb,['x\\udfff']\n", {}),
    ],
)
def test_a_lone_surrogate_in_a_label_is_named_with_file_and_line(tmp_path, load, name, content, settings):  # AC-64
    path = write_files(tmp_path, {name: content}) / name
    with pytest.raises(ValueError, match=rf"{name}, line 3.*: 'x\\udfff' is not valid Unicode .*Mend it in the file"):
        load(path, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "takers"),
    [
        *((name, {"one_based": True}, "jsonl, xmc-raw, xmc-sparse") for name in ("csv", "tsv", "lines")),
        *((name, {"label_separator": ","}, "csv, tsv, jsonl") for name in ("lines", "xmc-raw")),
        ("xmc-raw", {"text_column": "title"}, "csv, tsv, jsonl"),
        ("fasttext", {"label_column": "l"}, "csv, tsv, jsonl"),
        ("pecos", {"label_format": "multi_hot"}, "csv, tsv, jsonl"),
        ("annif", {"group_column": "book"}, "csv, tsv, jsonl"),
        ("csv", {"with_features": True}, "xmc-sparse"),
    ],
)
def test_settings_without_effect_are_refused(tmp_path, name, settings, takers):
    kind, files = find_format(write_files(tmp_path, FILES[name]), name)
    (setting, value) = next(iter(settings.items()))
    with pytest.raises(
        ValueError, match=rf"{setting}={value!r} \(--{setting}\) has no effect on {name} files, only on {takers}\."
    ):
        CorpusFiles(kind.name, files, ReadSettings(**settings)).read()


def test_the_locale_changes_nothing(tmp_path):  # AC-11
    words = {"first": "café", "second": "日本 🎉"}
    for name in ("csv", "tsv", "jsonl", "xmc-raw"):
        files = FILES[name]
        for word, other in words.items():
            files = {file: text.replace(word, other) for file, text in files.items()}
        write_files(tmp_path / name, files)
    program = (
        "import json, pathlib, sys\n"
        "from hf_xmtc.data.formats.corpus import ReadSettings\n"
        "from hf_xmtc.data.formats.registry import find_format\n"
        "for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    kind, files = find_format(folder, None)\n"
        "    print(json.dumps([row[0] for row in kind.read(files, ReadSettings()).splits['train'].rows()]))\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path], env=environment, capture_output=True, text=True, check=True
    )
    texts = [json.loads(line) for line in run.stdout.splitlines()]
    table = ["café text", "日本 🎉 text", ""]
    assert texts == [table, table, table, [text.replace(" text", "\ntext") for text in table]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_that_was_open_stays_open(tmp_path, encoding):
    (tmp_path / "a.txt").write_text("a\nb\n", encoding=encoding)
    with open(tmp_path / "a.txt", "rb") as file:
        assert list(decode_lines(file, "a.txt")) == ["a", "b"]
        assert not file.closed


def test_chinese_in_utf_16_without_a_mark_is_named(tmp_path):
    path = write_files(tmp_path, {"train.txt": f"{'日本' * 40}\n{'语言' * 40}\n".encode("utf-16-le")}) / "train.txt"
    with pytest.raises(ValueError, match="is not utf-8 .*--encoding utf-16-le"):
        list(read_lines(path))
    assert list(read_lines(path, "utf-16-le")) == ["日本" * 40, "语言" * 40]

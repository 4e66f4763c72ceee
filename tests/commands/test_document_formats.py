"""Files of documents in the formats of data sets: the texts are those of the loader, and labels are no part of them."""

import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forked_python import run_python
from hf_xmtc.commands.document_files import DocumentFile
from hf_xmtc.commands.predict_options import INPUT_FORMATS
from hf_xmtc.data.formats.registry import FORMATS
from small_formats import FILES, TEXTS, read_rows, write_files

# Format of a data set → the file of its texts, the format of that file for predicting, and the number of its documents with labels.
FILES_OF_TEXTS = {
    "csv": ("train.csv", "csv", 0),
    "tsv": ("train.tsv", "tsv", 0),
    "jsonl": ("train.jsonl", "jsonl", 0),
    "fasttext": ("train.txt", "fasttext", 2),
    "libmultilabel": ("train.txt", "libmultilabel", 2),
    "annif": ("train.tsv", "annif", 2),
    "annif-folder": ("", "annif-folder", 2),
    "xmc-raw": ("trn.json", "xmc-raw", 0),
    "rcv1": ("lyrl2004_tokens_train.dat", "rcv1", 0),
    "lines": ("train_texts.txt", "txt", 0),
    "raw-lines": ("train_raw_texts.txt", "txt", 0),
    "sgm": ("text_train", "txt", 0),
    "pecos": ("X.trn.txt", "txt", 0),
}

# Every document of RCV1 has a topic.
SAMPLES = {**FILES, "rcv1": {**FILES["rcv1"], "rcv1-v2.topics.qrels": "b 1 1\na 1 1\nc 2 1\nd 3 1\n"}}


def read(documents: DocumentFile, skip: int = 0) -> tuple[list[str], list | None]:
    chunks = list(documents.chunks(2, skip))
    ids = [document_id for chunk in chunks for document_id in chunk.ids or ()]
    return [text for chunk in chunks for text in chunk.texts], ids or None


def give(monkeypatch, content: bytes) -> None:
    """Let standard input hold some bytes."""
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(content)})())


def test_every_format_of_the_loader_that_has_texts_can_be_predicted():
    assert {kind.name for kind in FORMATS} - FILES_OF_TEXTS.keys() == {"xmc-sparse"}
    assert {kind for _, kind, _ in FILES_OF_TEXTS.values()} | {"parquet"} == set(INPUT_FORMATS)


@pytest.mark.parametrize("name", FILES_OF_TEXTS)
def test_texts_are_those_of_the_loader_without_labels(tmp_path, name):
    folder = write_files(tmp_path, SAMPLES[name])
    file, kind, num_labelled = FILES_OF_TEXTS[name]
    documents = DocumentFile(str(folder / file), kind)
    expected = [row[0] for row in read_rows(folder, name)]
    assert read(documents)[0] == expected
    assert [text.replace("\n", " ") for text in expected] == TEXTS
    labels = f"The labels of {num_labelled} documents are not used."
    assert (labels in documents.unused()) == bool(num_labelled)
    assert read(DocumentFile(str(folder / file), kind), skip=1)[0] == expected[1:]


@pytest.mark.parametrize("name", [name for name in FILES_OF_TEXTS if name != "annif-folder"])
def test_every_format_may_be_gzip_by_content_and_come_from_standard_input(tmp_path, monkeypatch, name):
    folder = write_files(tmp_path, SAMPLES[name])
    file, kind, _ = FILES_OF_TEXTS[name]
    expected = [row[0] for row in read_rows(folder, name)]
    content = (folder / file).read_bytes()
    for stream in (content, gzip.compress(content)):
        give(monkeypatch, stream)
        assert read(DocumentFile("-", kind))[0] == expected
    (folder / file).write_bytes(gzip.compress(content))  # under the old name
    assert read(DocumentFile(str(folder / file), kind))[0] == expected


def test_parquet_may_be_gzip_on_standard_input(monkeypatch):
    file = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), file)
    give(monkeypatch, gzip.compress(file.getvalue()))
    assert read(DocumentFile("-", "parquet"))[0] == TEXTS


def test_texts_in_utf_16_and_in_a_named_encoding(tmp_path):
    (tmp_path / "a.txt").write_text("__label__a Bücher\n", encoding="utf-16")
    (tmp_path / "b.txt").write_text("Bücher\t<x:b>\n", encoding="latin-1")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.txt").write_text("Bücher\nlesen\n", encoding="latin-1")
    assert read(DocumentFile(str(tmp_path / "a.txt")))[0] == ["Bücher"]
    assert read(DocumentFile(str(tmp_path / "b.txt"), encoding="latin-1"))[0] == ["Bücher"]
    assert read(DocumentFile(str(tmp_path / "c"), encoding="latin-1"))[0] == ["Bücher\nlesen"]


# ---- several columns -----------------------------------------------------------------------------------------------------

COLUMNS = ["part_2", "title", "part_1", "labels", "key"]
ROWS = [
    ["b", "Title", "a", "x", "k1"],
    ["", "Other", "c", "x", "k2"],
    ["", "", "", "y", "k3"],
    ["b, only", "", "", "y", "k4"],
]


def write_columns(path):
    """Four documents whose texts are in three columns."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(COLUMNS, map(list, zip(*ROWS, strict=True)), strict=True))), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in ROWS))
    elif path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\n" for row in [COLUMNS, *ROWS]))
    else:
        path.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in [COLUMNS, *ROWS]))
    return path


@pytest.mark.parametrize("option", ["title,part_1", "part_1, title", "part_*", "title,part_*", "title"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_several_columns_are_joined_as_the_loader_joins_them(tmp_path, ending, option):
    path = write_columns(tmp_path / f"a{ending}")
    # The loader reads several columns of all but parquet.
    loaded = write_columns(tmp_path / "b.csv") if ending == ".parquet" else path
    expected = [row[0] for row in read_rows(loaded, text_column=option)]
    documents = DocumentFile(str(path), text_column=option, id_column="key")
    assert read(documents) == (expected, ["k1", "k2", "k3", "k4"])
    assert read(DocumentFile(str(path), text_column=option, id_column="title"), skip=3) == (expected[3:], [""])
    (unused,) = documents.unused()
    assert "'labels'" in unused and "'key'" not in unused and "not used" in unused


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_one_of_several_columns_that_is_missing_is_named(tmp_path, ending):
    path = write_columns(tmp_path / f"a{ending}")
    with pytest.raises(ValueError, match=r"no column 'titel'; its columns are 'part_2', 'title'.*--text_column"):
        next(DocumentFile(str(path), text_column="part_1,titel").chunks(1))


def test_keys_that_later_objects_have_are_read_as_the_loader_reads_them(tmp_path):
    lines = [
        {"title": "one", "labels": ["a"]},
        {"labels": ["a"], "body": "two"},
        {"title": "three", "body": None, "more": 5},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for option in ("title,body", "body,title", "body", "t*,b*"):
        expected = [row[0] or "" for row in read_rows(path, text_column=option, label_column="labels")]
        documents = DocumentFile(str(path), text_column=option)
        assert read(documents)[0] == expected
    assert documents.unused() == ["2 columns are not used: 'labels', 'more'."]
    path.write_text('{"title": "one", "body": 5}\n')
    with pytest.raises(ValueError, match="a.jsonl, line 1: the text is 5, but texts are strings"):
        read(DocumentFile(str(path), text_column="title,body"))


def test_keys_are_looked_for_in_the_first_objects_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_xmtc.data.formats.document_rows._FIRST_OBJECTS", 2)
    (tmp_path / "a.jsonl").write_text('{"a": "x"}\n{"a": "x"}\n{"text": "x"}\n')
    with pytest.raises(ValueError, match="no column 'text'; its columns are 'a'"):
        read(DocumentFile(str(tmp_path / "a.jsonl")))


# ---- recognised, and said ------------------------------------------------------------------------------------------------

XMC = FILES["xmc-raw"]["trn.json"]


@pytest.mark.parametrize(
    ("name", "content", "kind", "reason"),
    [
        ("a.txt", "__label__a first text\n", "fasttext", "line 1 begins with __label__"),
        ("cooking.valid", "__label__a first text\n", "fasttext", "line 1 begins with __label__"),
        ("a.txt.gz", gzip.compress(b"__label__a first text\n"), "fasttext", "line 1 begins with __label__"),
        ("a.tsv", "first text\t<http://example.org/a>\n", "annif", "line 1 ends in a tab and URIs"),
        ("a.txt", "first text\t<http://example.org/a> <http://example.org/b>\n", "annif", "line 1 ends in a tab and URIs"),
        ("lyrl2004_tokens_test_pt0.dat", ".I 7\n.W\nfirst text\n", "rcv1", "line 1 begins with .I"),
        ("tst.json.gz", gzip.compress(XMC.encode()), "xmc-raw", "line 1 has the key target_ind and no text"),
        (
            "tst.json",
            '{"uid": "1", "content": "first text", "target_ind": [0]}\n',
            "xmc-raw",
            "line 1 has the key target_ind and no text",
        ),
        (
            "tst.json",
            '{"target_ind": []}\n{"title": "first text"}\n',
            "xmc-raw",
            "line 1 has the key target_ind and no text",
        ),
    ],
)
def test_a_format_that_the_first_line_shows_is_read_and_said(tmp_path, name, content, kind, reason):
    path = write_files(tmp_path, {name: content}) / name
    documents = DocumentFile(str(path))
    assert documents.format == kind
    assert documents.notes == [f"{path} is read as {kind}: {reason}. Another format can be named (--input_format)."]
    assert "first text" in [text.replace("\n", " ") for text in read(documents)[0]]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.tab", "tsv"),
        ("a.ndjson", "jsonl"),
        ("a.json.gz", "jsonl"),
        ("a.txt", "txt"),
    ],
)
def test_where_the_ending_decides_nothing_is_said(tmp_path, name, kind):
    content = {"jsonl": '{"text": "first text"}\n'}.get(kind, "text\nfirst text\n")
    path = write_files(tmp_path, {name: content}) / name
    documents = DocumentFile(str(path))
    assert (documents.format, documents.notes) == (kind, [])
    assert read(documents)[0][-1] == "first text"


def test_lines_that_may_be_libmultilabels_are_texts_but_that_is_said(tmp_path):
    path = write_files(tmp_path, {"a.txt": "a b\tsome text\n"}) / "a.txt"
    documents = DocumentFile(str(path))
    assert read(documents)[0] == ["a b\tsome text"]
    assert "a.txt is read as txt: each line is a text, tabs and all" in documents.notes[0]
    assert "--input_format libmultilabel" in documents.notes[0]


def test_labels_of_fasttext_in_later_lines_are_refused_unless_the_user_names_the_format(tmp_path):
    path = write_files(tmp_path, {"a.txt": "no label\n__label__a text\n"}) / "a.txt"
    with pytest.raises(
        ValueError, match=r"a.txt, line 2 begins with '__label__a'.*--input_format fasttext leaves labels out"
    ):
        read(DocumentFile(str(path)))
    assert read(DocumentFile(str(path), "fasttext"))[0] == ["no label", "text"]
    documents = DocumentFile(str(path), "txt")
    assert read(documents)[0] == ["no label", "__label__a text"]
    assert documents.unused() == ["1 line begins with __label__, read as a word; --input_format fasttext leaves it out."]


def test_a_text_column_makes_a_file_of_the_repository_plain_json_lines(tmp_path):
    path = write_files(tmp_path, {**FILES["xmc-raw"], "filter_labels_test.txt": "0 1\n"}) / "trn.json"
    assert read(DocumentFile(str(path), text_column="content"))[0] == ["text", "text", ""]
    documents = DocumentFile(str(path), id_column="uid")
    assert read(documents)[1] == ["x", "y", "z"]
    assert f"filter_labels_test.txt beside {path}: not used" in documents.notes[1]
    assert documents.unused() == ["2 columns are not used: 'target_ind', 'target_rel'."]


def test_a_folder_of_texts_needs_no_labels_and_its_files_are_named(tmp_path):
    folder = write_files(tmp_path / "texts", {"b.txt": "second\ntext\n", "a.txt": gzip.compress(b"first\n")})
    documents = DocumentFile(str(folder), id_column="id")
    assert (documents.format, documents.num_documents) == ("annif-folder", 2)
    assert read(documents) == (["first", "second\ntext"], ["a.txt", "b.txt"])
    assert documents.unused() == []
    split = write_files(tmp_path / "splits", {"train.txt": "x\n", "test.txt": "y\n"})
    with pytest.raises(ValueError, match=r"splits is a folder. Name one of its files, or --input_format annif-folder"):
        DocumentFile(str(split))
    assert read(DocumentFile(str(split), "annif-folder"))[0] == ["y", "x"]
    with pytest.raises(ValueError, match="is a folder, but fasttext is a format of files"):
        DocumentFile(str(split), "fasttext")
    (tmp_path / "empty").mkdir()
    for place in (split / "train.txt", tmp_path / "empty", "-"):
        with pytest.raises(ValueError, match=r"is no folder with .txt files"):
            DocumentFile(str(place), "annif-folder")


def test_ids_of_formats_without_column_names(tmp_path):
    folder = write_files(tmp_path, {"a.txt": "7\ta b\ttext\n8\t\tother\n", "b.txt": "a b\ttext\n", "c.dat": ".I 7\n.W\nx\n"})
    assert read(DocumentFile(str(folder / "a.txt"), "libmultilabel", id_column="id")) == (["text", "other"], ["7", "8"])
    assert read(DocumentFile(str(folder / "c.dat"), id_column="id")) == (["x"], ["7"])
    with pytest.raises(ValueError, match="b.txt has no ids: its lines are labels and text"):
        read(DocumentFile(str(folder / "b.txt"), "libmultilabel", id_column="id"))
    with pytest.raises(
        ValueError, match="--id_column is 'key', but libmultilabel has no names of columns. Its ids are --id_column id"
    ):
        DocumentFile(str(folder / "a.txt"), "libmultilabel", id_column="key")
    with pytest.raises(ValueError, match="--id_column is 'id', but a annif file has no columns"):
        DocumentFile(str(folder / "a.txt"), "annif", id_column="id")


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("libmultilabel", "a\ttext\nb\ttext\tmore\n", "line 2 has 3 fields, but line 1 has 2"),
        ("annif", "text\t<x:a>\ntext\n", "line 2 has no tab"),
        ("rcv1", "text\n", "line 1 is 'text', but a document begins with the lines .I ID and .W"),
        (
            "xmc-raw",
            '{"text": "x"}\n',
            "no column 'title'; its columns are 'text'. Name one of them with --input_format jsonl",
        ),
        ("tsv", "text of a document\t<x:a>\n", "no column 'text'.*Is line 1 a document"),
    ],
)
def test_files_of_another_format_are_refused_with_the_place(tmp_path, kind, content, message):
    path = write_files(tmp_path, {"a": content}) / "a"
    with pytest.raises(ValueError, match=message):
        read(DocumentFile(str(path), kind))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            '{"text": "x", "labels": []}\n\n{"text": 3}\n',
            "a.jsonl, line 3: the text is 3, but texts are strings.*--text_column",
        ),
        (
            "trn.json",
            '{"title": 7, "content": "x", "target_ind": []}\n',
            "trn.json, line 1: the text is 7, but texts are strings",
        ),
        ("a.csv", "", "a.csv is empty, without even a line of column names"),
        ("a.tsv", "", "a.tsv is empty, without even a line of column names"),
    ],
)
def test_what_the_loader_refuses_is_refused_alike(tmp_path, name, content, message):
    folder = write_files(tmp_path, {name: content, "lbl.json": ""})
    with pytest.raises(ValueError, match=message):
        read(DocumentFile(str(folder / name)))
    with pytest.raises(ValueError, match=message):
        read_rows(folder if name == "trn.json" else folder / name, require_labels=False)


def test_all_text_formats_are_read_without_the_extras(tmp_path):
    calls, expected = [], []
    for name, (file, kind, _) in FILES_OF_TEXTS.items():
        folder = write_files(tmp_path / name, SAMPLES[name])
        calls.append((str(folder / file), kind))
        expected.append([row[0] for row in read_rows(folder, name)])
    blocked = ["accelerate", "datasets", "evaluate", "pandas", "pyarrow", "scipy", "sklearn"]
    done = run_python(
        f"import json, sys\nsys.modules.update(dict.fromkeys({blocked}))\n"
        "from hf_xmtc.commands.predict import DocumentFile\n"
        f"texts = [[text for chunk in DocumentFile(*call).chunks(2) for text in chunk.texts] for call in {calls}]\n"
        "print(json.dumps(texts))\n"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected

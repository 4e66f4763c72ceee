import csv
import io
import itertools
import json
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands import document_files
from hf_xmtc.commands.document_files import DocumentFile

TEXTS = ["edit a text file", 'say "hello", twice', "", "ein Bücherregal"]
IDS = ["a", "b", "c", "d"]


def write(path: Path, texts=TEXTS, ids=IDS) -> Path:
    """Write documents in the format of the file's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"key": ids, "text": texts}), path, row_group_size=3)
    elif path.suffix == ".jsonl":
        lines = [json.dumps({"key": key, "text": text}) for key, text in zip(ids, texts, strict=True)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif path.suffix == ".txt":
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            # Nothing is quoted in a tsv.
            tsv = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None} if path.suffix == ".tsv" else {}
            writer = csv.writer(file, **tsv)
            writer.writerows([("key", "text"), *zip(ids, texts, strict=True)])
    return path


def read_all(documents: DocumentFile, size: int = 2, skip: int = 0) -> tuple[list[str], list]:
    chunks = list(documents.chunks(size, skip))
    return [text for chunk in chunks for text in chunk.texts], [id_ for chunk in chunks for id_ in chunk.ids or ()]


class Stdin:
    """Standard input that holds some bytes."""

    def __init__(self, content: bytes):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv", "txt"])
@pytest.mark.parametrize("skip", [0, 1, 3, 4])
def test_every_format_gives_the_documents_in_order_from_any_place(tmp_path, monkeypatch, ending, skip):
    monkeypatch.setattr("hf_xmtc.commands.document_files._PARQUET_BATCH_ROWS", 2)  # row groups of 3 are batches of 2 and 1
    path = write(tmp_path / f"documents.{ending}")
    documents = DocumentFile(str(path), id_column=None if ending == "txt" else "key")
    assert read_all(documents, skip=skip) == (TEXTS[skip:], [] if ending == "txt" else IDS[skip:])


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv", "txt"])
def test_every_format_comes_from_standard_input_too(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(sys, "stdin", Stdin(write(tmp_path / f"documents.{ending}").read_bytes()))
    assert read_all(DocumentFile("-", ending))[0] == TEXTS


def test_chunks_are_as_large_as_asked_and_none_is_empty(tmp_path):
    documents = DocumentFile(str(write(tmp_path / "documents.csv")))
    assert [len(chunk.texts) for chunk in documents.chunks(3)] == [3, 1]
    assert [len(chunk.texts) for chunk in documents.chunks(2)] == [2, 2]


def test_an_endless_input_is_read_only_as_far_as_the_chunks_go(monkeypatch):
    class EndlessLines(io.RawIOBase):
        lines = 0

        def readable(self):
            return True

        def readinto(self, target):
            self.lines += 1
            line = b"%d\n" % self.lines
            target[: len(line)] = line
            return len(line)

    stdin = EndlessLines()
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin})())
    chunks = DocumentFile("-", "txt").chunks(10)
    assert [chunk.texts[0] for chunk in itertools.islice(chunks, 3)] == ["1", "11", "21"]
    assert stdin.lines < 40


def test_a_large_row_group_is_not_read_at_once(tmp_path):
    texts = pa.array(f"{i:08d} " * 100 for i in range(20_000))  # 18 MB in one row group
    pq.write_table(
        pa.table({"text": texts}),
        tmp_path / "large.parquet",
        row_group_size=20_000,
        compression="none",
        use_dictionary=False,
    )
    del texts
    before = pa.total_allocated_bytes()
    tracemalloc.start()  # sees what is read from the file; what Arrow makes of it is counted by Arrow
    try:
        for _ in DocumentFile(str(tmp_path / "large.parquet")).chunks(100):
            assert pa.total_allocated_bytes() - before < 6_000_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_texts_that_are_empty_or_missing_are_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n\n{"text": null}\n{}\n', encoding="utf-8")
    (chunk,) = DocumentFile(str(tmp_path / "a.jsonl")).chunks(10)
    assert (chunk.texts, chunk.num_without_text) == (["x", "", ""], 2)
    pq.write_table(pa.table({"text": ["x", None]}), tmp_path / "a.parquet")
    (chunk,) = DocumentFile(str(tmp_path / "a.parquet")).chunks(10)
    assert (chunk.texts, chunk.num_without_text) == (["x", ""], 1)
    (tmp_path / "a.csv").write_text('key,text\n1,""\n2,\n', encoding="utf-8")
    (chunk,) = DocumentFile(str(tmp_path / "a.csv")).chunks(10)
    assert (chunk.texts, chunk.num_without_text) == (["", ""], 2)


def test_a_csv_may_have_a_byte_order_mark_line_breaks_in_texts_and_books(tmp_path):
    book = "word " * 40_000
    path = tmp_path / "a.csv"
    path.write_text(f'text\r\n"two\r\nlines"\r\n{book}\r\n', encoding="utf-8-sig", newline="")
    limit = csv.field_size_limit()
    assert read_all(DocumentFile(str(path)))[0] == ["two\nlines", book]
    assert csv.field_size_limit() == limit


def test_a_text_file_has_one_document_a_line_whatever_ends_the_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes("eins\r\n\r\ndrei\u2028noch drei".encode())
    assert read_all(DocumentFile(str(tmp_path / "a.txt")))[0] == ["eins", "", "drei\u2028noch drei"]


def test_a_lone_surrogate_is_replaced_and_counted(tmp_path):  # AC-64
    (tmp_path / "a.jsonl").write_text('{"text": "bad \\ud800 text"}\n{"text": "\\ud83d\\ude00"}\n', encoding="utf-8")
    (chunk,) = DocumentFile(str(tmp_path / "a.jsonl")).chunks(10)
    assert (chunk.texts, chunk.num_not_unicode) == (["bad \ufffd text", "\U0001f600"], 1)


def test_a_chunk_of_long_texts_ends_early(tmp_path, monkeypatch):  # AC-58
    monkeypatch.setattr(document_files, "_CHUNK_CHARACTERS", 1_000)
    for name in ("a.txt", "a.parquet"):
        texts = ["x" * 400] * 6 + ["y"] * 5
        if name == "a.txt":
            (tmp_path / name).write_text("\n".join(texts), encoding="utf-8")
        else:
            pq.write_table(pa.table({"text": texts}), tmp_path / name)
        chunks = list(DocumentFile(str(tmp_path / name)).chunks(4))
        assert [len(chunk.texts) for chunk in chunks] == [3, 3, 4, 1]
        assert [text for chunk in chunks for text in chunk.texts] == texts


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_in_a_file_of_one_column_a_blank_line_is_a_document_without_words(tmp_path, ending):  # AC-63
    (tmp_path / f"a.{ending}").write_text("text\none\n\nthree\n", encoding="utf-8")
    assert read_all(DocumentFile(str(tmp_path / f"a.{ending}")))[0] == ["one", "", "three"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_is_there_twice_is_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        path.write_text("text,text\na,b\n", encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    with pytest.raises(ValueError, match="has 2 columns 'text'"):
        list(DocumentFile(str(path)).chunks(1))


def test_dictionary_encoded_columns_of_a_parquet_file_are_texts_too(tmp_path):
    table = pa.table({"text": pa.array(["x", "y", "x"]).dictionary_encode(), "key": pa.array([3, 1, 2]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    documents = DocumentFile(str(tmp_path / "a.parquet"), id_column="key")
    assert read_all(documents) == (["x", "y", "x"], [3, 1, 2])
    assert documents.id_type == pa.int64()


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize(
    ("option", "names"), [("--text_column", {"text_column": "body"}), ("--id_column", {"id_column": "body"})]
)
def test_a_missing_column_is_named_with_those_there_are(tmp_path, ending, option, names):
    path = write(tmp_path / f"documents.{ending}")
    with pytest.raises(ValueError, match=rf"no column 'body'; its columns are 'key', 'text'.*{option}"):
        next(DocumentFile(str(path), **names).chunks(1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', r"line 2 cannot be read as JSON"),
        pytest.param(
            "a.jsonl", b"[" * 100_000 + b"\n", r"a.jsonl, line 1 cannot be read as JSON \(maximum recursion", id="deep"
        ),
        pytest.param("a.jsonl", b'{"id": ' + b"9" * 5_000 + b"}\n", r"a.jsonl, line 1 cannot be read as JSON", id="number"),
        ("a.jsonl", b'"x"\n', r"line 1 is a str, not an object"),
        ("a.csv", b"key,text\n1,one, two\n", r"line 2 has 3 cells, but line 1 names 2 columns.*quotes"),
        ("a.csv", b"key,text\n1\n", r"line 2 has 1 cells, but line 1 names 2 columns"),
        ("a.csv", b"text\none\rtwo\n", r"the row behind line 1 is no sound csv"),
        ("a.csv", b'text\n"x" y\n', r"the row behind line 1 is no sound csv"),
        ("a.csv", b'text\na\n"x\ny\n', r"the row behind line 2 is no sound csv"),
        ("a.txt", "Bücher\n".encode("latin1"), r"line 1 is not utf-8 .*byte 0xfc.*--encoding latin-1"),
        ("a.parquet", b"PAR1", r"is not a sound parquet file"),
    ],
)
def test_damaged_files_are_refused_with_the_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(DocumentFile(str(tmp_path / name)).chunks(10))


def test_files_and_formats_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "a.docx").touch()
    with pytest.raises(FileNotFoundError, match=r"There is no file .*a\.txt"):
        DocumentFile(str(tmp_path / "a.txt"))
    with pytest.raises(ValueError, match=r"ends in '\.docx'.*--input_format parquet\|jsonl\|csv\|tsv\|txt"):
        DocumentFile(str(tmp_path / "a.docx"))
    with pytest.raises(ValueError, match="'docx' but must be one of parquet, jsonl"):
        DocumentFile(str(tmp_path / "a.docx"), "docx")
    with pytest.raises(ValueError, match="Standard input has no file name"):
        DocumentFile("-")
    with pytest.raises(ValueError, match="--id_column is 'key', but a txt file has no columns"):
        DocumentFile(str(tmp_path / "a.docx"), "txt", id_column="key")
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column 'text' has the type int64, but texts are strings"):
        DocumentFile(str(tmp_path / "a.parquet"))


def test_without_pyarrow_only_parquet_is_refused(tmp_path, monkeypatch):
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "a.txt").write_text("x\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read_all(DocumentFile(str(tmp_path / "a.txt")))[0] == ["x"]
    with pytest.raises(ImportError, match=r"Reading parquet files needs `pyarrow`: pip install 'hf_xmtc\[train\]'"):
        DocumentFile(str(tmp_path / "a.parquet"))

"""Several processes write what one writes, and end as it does."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data.formats import conversion_processes
from hf_xmtc.data.formats.conversion import write_corpus
from hf_xmtc.data.formats.corpus import FileRows, ReadSettings
from hf_xmtc.data.formats.file_spans import cut_file
from hf_xmtc.data.formats.registry import CorpusFiles, find_format
from small_formats import FILES, write_files

CUT = ("csv", "tsv", "jsonl", "libmultilabel", "fasttext", "annif")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(conversion_processes, "_PROCESS_BYTES", 16)


def _documents(number=60):
    return [(f"text {i} ä" + " word" * (i % 7), [f"label{i % 5}", f"label{i % 3 + 5}"]) for i in range(number)]


def _content(name, documents, text_of=str):
    """A file of a format that can be cut."""
    lines = {"csv": ["text,labels"], "tsv": ["text\tlabels"]}.get(name, [])
    for number, (text, labels) in enumerate(documents):
        lines.append(
            {
                "csv": '"{}","{}"'.format(text.replace('"', '""'), json.dumps(labels).replace('"', '""')),
                "tsv": f"{text}\t{json.dumps(labels)}",
                "jsonl": json.dumps({"text": text, "labels": labels}, ensure_ascii=False),
                "libmultilabel": f"{number}\t{' '.join(labels)}\t{text}",
                "fasttext": " ".join(f"__label__{label}" for label in labels) + f" {text}",
                "annif": f"{text}\t{' '.join(f'<x:{label}>' for label in labels)}",
            }[name]
        )
    return "\n".join(lines) + "\n"


def _convert(path, folder, num_proc=None, format=None, **settings):
    """The table of each split that `write_corpus` writes."""
    kind, files = find_format(path, format, settings.get("encoding"))
    source = CorpusFiles(kind.name, files, ReadSettings(**settings))
    folder.mkdir()
    write_corpus(source.read(), folder, source, "corpus", num_proc)
    return {split: pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob(f"{split}*"))) for split in files}


def _rows_of_spans(path, name, num_spans, **settings):
    """The rows of a file at once, and those of its spans with how many there are."""
    source = CorpusFiles(name, {"train": [path]}, ReadSettings(**settings))
    rows = source.read().splits["train"].rows
    assert isinstance(rows, FileRows)
    spans = cut_file(path, settings.get("encoding"), rows.cut, num_spans)
    return list(rows()), [row for span in spans for row in rows.read(span)], len(spans)


@pytest.mark.parametrize("change", [str.encode, lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()])
@pytest.mark.parametrize("name", CUT)
def test_spans_of_a_file_hold_its_rows(tmp_path, name, change):
    path = write_files(tmp_path, {"train.txt": change(_content(name, _documents()).removesuffix("\n"))}) / "train.txt"
    for num_spans in (2, 7, 1_000):
        whole, in_spans, count = _rows_of_spans(path, name, num_spans)
        assert whole == in_spans and len(whole) == 60
        assert count == min(num_spans, 61 if name in ("csv", "tsv") else 60) or num_spans == 1_000


def test_csv_is_never_cut_within_quotes(tmp_path):
    chance = random.Random(0)
    for _ in range(50):
        texts = ["".join(chance.choices('a \n",;', k=chance.randint(0, 12))) for _ in range(20)]
        path = write_files(tmp_path, {"train.csv": "sep=,\n" + _content("csv", [(text, ["a"]) for text in texts])}) / "train.csv"
        whole, in_spans, count = _rows_of_spans(path, "csv", 5)
        assert whole == in_spans and count > 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
def test_lines_of_wide_units_are_not_cut(tmp_path, encoding):
    path = write_files(tmp_path, {"train.tsv": _content("tsv", _documents()).encode(encoding)}) / "train.tsv"
    assert cut_file(path, encoding, "line", 3) == []
    assert len(_rows_of_spans(path, "tsv", 3, encoding=encoding)[0]) == 60


@pytest.mark.parametrize("name", CUT)
def test_processes_write_what_one_writes(tmp_path, caplog, name):
    path = write_files(tmp_path / "corpus", {"train.txt": _content(name, _documents())}) / "train.txt"
    one, three = (_convert(path, tmp_path / str(number), number, name) for number in (1, 3))
    assert one["train"].equals(three["train"]) and one["train"].num_rows == 60
    assert len(list((tmp_path / "3").glob("train-*-of-*.parquet"))) > 3 and not caplog.records


def test_folders_of_files_are_shared_out(tmp_path, caplog):
    texts = {f"{split}/{i:02d}.txt": f"text {i}" * 5 for split in ("train", "test") for i in range(20)}
    subjects = {name.replace("txt", "key"): "a\nb\n" for name in texts}
    folder = write_files(tmp_path / "corpus", {"train/x.key": "", "test/x.key": "", **texts, **subjects})
    one, three = (_convert(folder, tmp_path / str(number), number) for number in (1, 3))
    assert one == three and one["test"].num_rows == 20
    assert len(list((tmp_path / "3").glob("test-*"))) > 1 and not caplog.records

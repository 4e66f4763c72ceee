"""Several processes write what one writes, and end as it does."""

import gzip
import json
import os
import random
import signal
import threading
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc import cli
from hf_xmtc.data.formats import conversion_processes
from hf_xmtc.data.formats.conversion import write_corpus
from hf_xmtc.data.formats.corpus import FileRows, ReadSettings
from hf_xmtc.data.formats.file_spans import cut_file
from hf_xmtc.data.formats.registry import CorpusFiles, find_format
from small_formats import write_files

CUT = ("csv", "tsv", "jsonl", "libmultilabel", "fasttext", "annif")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(conversion_processes, "_PROCESS_BYTES", 16)


def _documents(number=60):
    return [(f"text {i} ä" + " word" * (i % 7), [f"label{i % 5}", f"label{i % 3 + 5}"]) for i in range(number)]


def _content(name, documents):
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
        path = (
            write_files(tmp_path, {"train.csv": "sep=,\n" + _content("csv", [(text, ["a"]) for text in texts])})
            / "train.csv"
        )
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


def test_quoted_line_ends_are_shared_out_and_stray_quotes_read_by_one_process(tmp_path, caplog):
    quoted = write_files(tmp_path / "quoted", {"train.csv": _content("csv", [(f"a\n\n{i}", ["x"]) for i in range(60)])})
    one, three = (_convert(quoted, tmp_path / f"quoted{number}", number) for number in (1, 3))
    assert one == three and one["train"].num_rows == 60 and not caplog.records
    rows = "".join(('5" screen' if i == 3 else str(i)) + ',"x\ny"\n' for i in range(60))
    stray = write_files(tmp_path / "stray", {"train.csv": f"text,labels\n{rows}"})
    one, three = (_convert(stray, tmp_path / f"stray{number}", number, label_separator="") for number in (1, 3))
    assert one == three and one["train"].column("text")[3].as_py() == '5" screen'
    assert caplog.messages == [
        f"{stray / 'train.csv'}: quotes within cells hide where rows end, so one process reads the files from the beginning."
    ]
    assert [path.name for path in (tmp_path / "stray3").iterdir()] == ["train.parquet"]


def _lines_with(line, name="jsonl", place=50):
    lines = _content(name, _documents()).splitlines(keepends=True)
    return "".join([*lines[:place], line, *lines[place:]])


def _rows_of_flags(texts):
    return "text,a,b\n" + "".join(f'"{text}",0,1\n' for text in texts)


_WIDE = '{"text": "a", "labels": [0, 1]}\n' * 55 + '{"text": "a", "labels": [0, 1, 0]}\n' * 5


@pytest.mark.parametrize(
    ("name", "content", "message", "settings"),
    [
        ("jsonl", _lines_with("{\n"), "line 51 cannot be read as JSON", {}),
        ("tsv", _lines_with("\udce9\ta\n", "tsv").encode(errors="surrogateescape"), "line 51 is not utf-8", {}),
        ("csv", _content("csv", [("\n", ["a"])] * 60) + "a,b,c\n", "line 122 has 3 cells", {}),
        ("csv", _content("csv", _documents()) + '"a,b\n', "behind line 61 is no sound csv", {}),
        ("libmultilabel", _lines_with("a\tb\n", "libmultilabel"), "line 51 has 2 fields, but line 1 has 3", {}),
        ("jsonl", _WIDE, r"line 56: the multi-hot rows have different widths, \[2, 3\]", {"label_format": "multi_hot"}),
        ("csv", _rows_of_flags(["a\n"] * 60), "the label columns a, b hold nothing but 0, 1", {"label_column": "a,b"}),
    ],
)
def test_errors_are_those_of_one_process(tmp_path, caplog, name, content, message, settings):
    path = write_files(tmp_path / "corpus", {"train.txt": content}) / "train.txt"
    errors = []
    for number in (1, 3):
        with pytest.raises(ValueError, match=message) as error:
            _convert(path, tmp_path / str(number), number, name, **settings)
        errors.append(str(error.value))
    assert errors[0] == errors[1] and not caplog.records


def test_the_first_of_several_errors_counts(tmp_path):
    path = write_files(tmp_path, {"train.txt": _content("jsonl", _documents()) + "1\n" + _lines_with("{\n", place=10)})
    with pytest.raises(ValueError, match="line 61 is a int"):
        _convert(path / "train.txt", tmp_path / "result", 3, "jsonl")


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"train.csv": gzip.compress(_content("csv", _documents()).encode())}, "train.csv"),
        ({"train.tsv": _content("tsv", _documents()).encode("utf-16")}, "train.tsv"),
        ({"train_texts.txt": "some text\n" * 60, "train_labels.txt": "\n" * 60}, "train_texts.txt"),
    ],
)
def test_files_that_are_not_cut_are_named(tmp_path, caplog, files, name):
    folder = write_files(tmp_path / "corpus", files)
    assert _convert(folder, tmp_path / "result", 3)["train"].num_rows == 60
    assert caplog.messages[0].startswith(f"Not read in parts: {name}.") and len(caplog.messages) == 1


def test_small_files_are_read_by_one_process(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(conversion_processes, "_PROCESS_BYTES", 1 << 20)
    folder = write_files(tmp_path / "corpus", {"train.csv": _content("csv", _documents())})
    assert _convert(folder, tmp_path / "result", 3)["train"].num_rows == 60
    assert caplog.messages[0].startswith("One process reads the 0 MB") and len(caplog.messages) == 1
    with pytest.raises(ValueError, match="num_proc is 0 but must be at least 1"):
        _convert(folder, tmp_path / "none", 0)


def _workers():
    """Processes that convert, without the server that starts them."""
    return [worker for child in psutil.Process().children() for worker in child.children()]


def _as_soon_as_workers_start(act):
    def watch():
        deadline = time.monotonic() + 60
        while not (workers := _workers()) and time.monotonic() < deadline:
            time.sleep(0.01)
        act(workers)

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a server of processes")
@pytest.mark.parametrize(
    ("act", "code", "message"),
    [
        (lambda workers: os.kill(os.getpid(), signal.SIGINT), 130, "Interrupted; nothing was written."),
        (lambda workers: workers[0].kill(), "ChildProcessError: A process that read jsonl files was killed", ""),
    ],
)
def test_an_interrupted_conversion_leaves_no_file_and_no_process(tmp_path, capsys, act, code, message):
    folder = write_files(tmp_path / "corpus", {"train.jsonl": _content("jsonl", _documents())})
    assert not _workers()
    _as_soon_as_workers_start(act)
    with pytest.raises(SystemExit) as stop:
        cli.main(["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "out"), "--num_proc", "3"])
    assert str(stop.value.code).startswith(str(code)) and message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    deadline = time.monotonic() + 30  # a process that was just starting ends as soon as it has
    while _workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _workers()


def test_documents_without_labels_are_left_out_by_all_processes(tmp_path, capsys):
    documents = [(text, labels if i % 3 else []) for i, (text, labels) in enumerate(_documents())]
    folder = write_files(tmp_path / "corpus", {"train.jsonl": _content("jsonl", documents)})
    for number in ("1", "3"):
        output = ["--output_dir", str(tmp_path / number), "--num_proc", number]
        cli.main(["convert", "--dataset", str(folder), "--drop_unlabeled", *output])
        assert "40 in train; 7 labels" in (said := capsys.readouterr().out) and "left out: 20 in train" in said


def test_no_more_processes_start_than_the_files_are_worth(tmp_path, monkeypatch):
    path = write_files(tmp_path, {"train.jsonl": _content("jsonl", _documents())}) / "train.jsonl"
    monkeypatch.setattr(conversion_processes, "_PROCESS_BYTES", path.stat().st_size // 2)
    started, workers = [], conversion_processes._workers
    monkeypatch.setattr(
        conversion_processes, "_workers", lambda number, *more: started.append(number) or workers(number, *more)
    )
    assert _convert(path, tmp_path / "out", 16)["train"].num_rows == 60
    assert started == [2]

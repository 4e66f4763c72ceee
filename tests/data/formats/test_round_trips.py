"""What is written is read back, and damaged files are read or refused by name."""

import csv
import importlib.util
import io
import json
import sys
from pathlib import Path

import pytest

from small_formats import read_rows

hypothesis = pytest.importorskip("hypothesis")
strategies = pytest.importorskip("hypothesis.strategies")

_CHARACTERS = strategies.characters(exclude_categories=["Cs"], exclude_characters="\r\x00")
_TEXT = strategies.text(_CHARACTERS, max_size=20)
_LINE = strategies.text(_CHARACTERS.filter(lambda character: character not in "\n\t"), max_size=20)
# What splits labels in files of lines, as Python and the formats see it, is in none of them.
_WORD = strategies.text(
    strategies.characters(categories=["L", "N", "P", "S"], exclude_characters="<>"), min_size=1, max_size=8
)
_LABEL = _TEXT.map(str.strip).filter(bool)


def _documents(text, label):
    return strategies.lists(
        strategies.tuples(text, strategies.lists(label, max_size=3, unique=True)), min_size=1, max_size=4
    )


def _as_csv(documents):
    lines = io.StringIO(newline="")
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [("text", "labels"), *((text, json.dumps(labels)) for text, labels in documents)]
    )
    return {"train.csv": lines.getvalue()}


def _as_lines(name, line, first=""):
    return lambda documents: {name: first + "".join(f"{line(text, labels)}\n" for text, labels in documents)}


def _as_pair(texts, labels):
    return lambda documents: {
        texts: "".join(f"{text}\n" for text, _ in documents),
        labels: "".join(f"{' '.join(labels)}\n" for _, labels in documents),
    }


WRITERS = {
    "csv": (_as_csv, _TEXT, _LABEL),
    "jsonl": (_as_lines("train.jsonl", lambda text, labels: json.dumps({"text": text, "labels": labels})), _TEXT, _LABEL),
    "tsv": (_as_lines("train.tsv", lambda text, labels: f"{text}\t{json.dumps(labels)}", "text\tlabels\n"), _LINE, _LABEL),
    "lines": (_as_pair("train_texts.txt", "train_labels.txt"), _LINE, _WORD),
    "raw-lines": (_as_pair("train_raw_texts.txt", "train_labels.txt"), _LINE, _WORD),
    "sgm": (_as_pair("text_train", "label_train"), _LINE, _WORD),
    "libmultilabel": (_as_lines("train.txt", lambda text, labels: f"7\t{' '.join(labels)}\t{text}"), _LINE, _WORD),
    "annif": (
        _as_lines("train.tsv", lambda text, labels: f"{text}\t{' '.join(f'<{label}>' for label in labels)}"),
        _LINE,
        _WORD,
    ),
    "fasttext": (
        _as_lines("train.txt", lambda text, labels: " ".join([*(f"__label__{label}" for label in labels), text])),
        _LINE.filter(lambda text: "__label__" not in text),
        _WORD,
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read(tmp_path, name):
    write, text, label = WRITERS[name]

    @hypothesis.settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @hypothesis.given(_documents(text, label))
    def check(documents):
        for file, content in write(documents).items():
            (tmp_path / file).write_bytes(content.encode())
        assert read_rows(tmp_path, name) == [[text, labels] for text, labels in documents]

    check()


def test_damaged_files_are_read_or_refused_by_name(tmp_path, monkeypatch):
    folder = Path(__file__).parents[3] / "scripts" / "reliability"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = importlib.util.spec_from_file_location("mutate_text_files", folder / "mutate_text_files.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    outcomes = script.mutate(140, 0, tmp_path)
    assert {outcome for _, outcome in outcomes} == {"read", "refused"}

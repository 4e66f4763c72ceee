"""What is written is read back, and damaged files are read or refused by name."""

import csv
import importlib.util
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from hf_xmtc.data.formats.registry import FORMATS
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


def _labels(label, min_size=0):
    return strategies.lists(label, min_size=min_size, max_size=3, unique=True)


def _documents(text, labels):
    return strategies.lists(strategies.tuples(text, labels), min_size=1, max_size=4)


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


def _as_pecos(documents):
    names = sorted({label for _, labels in documents for label in labels})
    matrix = np.array([[name in labels for name in names] for _, labels in documents], dtype=np.float32)
    file = io.BytesIO()
    scipy.sparse.save_npz(file, scipy.sparse.csr_matrix(matrix))
    return {
        "X.trn.txt": "".join(f"{text}\n" for text, _ in documents),
        "output-items.txt": "".join(f"{name}\n" for name in names),
        "Y.trn.npz": file.getvalue(),
    }


def _as_xmc_raw(documents):
    names = sorted({label for _, labels in documents for label in labels})
    entries = [
        {"title": text, "content": "", "target_ind": [names.index(label) for label in labels]} for text, labels in documents
    ]
    return {
        "trn.json": "".join(f"{json.dumps(entry)}\n" for entry in entries),
        "lbl.json": "".join(f"{json.dumps({'uid': name, 'title': 'x'})}\n" for name in names),
    }


def _as_rcv1(documents):
    return {
        "lyrl2004_tokens_train.dat": "".join(f".I {i}\n.W\n{text}\n\n" for i, (text, _) in enumerate(documents)),
        "rcv1-v2.topics.qrels": "".join(f"{label} {i} 1\n" for i, (_, labels) in enumerate(documents) for label in labels),
    }


def _as_annif_folder(documents):
    texts = {f"{i}.txt": f"{text}\n" for i, (text, _) in enumerate(documents)}
    subjects = {f"{i}.tsv": "".join(f"<{label}>\tits name\n" for label in labels) for i, (_, labels) in enumerate(documents)}
    return texts | subjects


WRITERS = {
    "csv": (_as_csv, _TEXT, _labels(_LABEL)),
    "jsonl": (
        _as_lines("train.jsonl", lambda text, labels: json.dumps({"text": text, "labels": labels})),
        _TEXT,
        _labels(_LABEL),
    ),
    "tsv": (
        _as_lines("train.tsv", lambda text, labels: f"{text}\t{json.dumps(labels)}", "text\tlabels\n"),
        _LINE,
        _labels(_LABEL),
    ),
    "lines": (_as_pair("train_texts.txt", "train_labels.txt"), _LINE, _labels(_WORD)),
    "raw-lines": (_as_pair("train_raw_texts.txt", "train_labels.txt"), _LINE, _labels(_WORD)),
    "sgm": (_as_pair("text_train", "label_train"), _LINE, _labels(_WORD)),
    "libmultilabel": (_as_lines("train.txt", lambda text, labels: f"7\t{' '.join(labels)}\t{text}"), _LINE, _labels(_WORD)),
    "annif": (
        _as_lines("train.tsv", lambda text, labels: f"{text}\t{' '.join(f'<{label}>' for label in labels)}"),
        _LINE,
        _labels(_WORD),
    ),
    "fasttext": (
        _as_lines("train.txt", lambda text, labels: " ".join([*(f"__label__{label}" for label in labels), text])),
        _LINE.filter(lambda text: "__label__" not in text),
        _labels(_WORD),
    ),
    "annif-folder": (_as_annif_folder, _TEXT, _labels(_WORD)),
    "pecos": (_as_pecos, _LINE, _labels(_LINE.filter(bool))),
    "xmc-raw": (_as_xmc_raw, _TEXT, _labels(_LABEL)),
    # Each document has a topic, and lines of blanks are no tokens.
    "rcv1": (
        _as_rcv1,
        _LINE.filter(lambda text: (not text or text.strip()) and not text.startswith(".I ")),
        _labels(_WORD, min_size=1),
    ),
}


_CHECK = hypothesis.settings(max_examples=25, deadline=None, database=None, derandomize=True)


def test_every_format_is_written_and_read():
    assert {kind.name for kind in FORMATS} == {*WRITERS, "xmc-sparse"}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read(tmp_path, name):
    write, text, labels = WRITERS[name]

    @_CHECK
    @hypothesis.given(_documents(text, labels))
    def check(documents):
        # A matrix has the order of its columns.
        expected = [[text, sorted(labels) if name == "pecos" else labels] for text, labels in documents]
        assert read_rows(_write(tmp_path, write(documents)), name) == expected

    check()


def test_sparse_rows_that_are_written_are_read(tmp_path):
    ids = strategies.lists(strategies.integers(0, 5), max_size=3, unique=True)
    features = strategies.dictionaries(strategies.integers(0, 8), strategies.floats(0, 1, width=32), max_size=4)

    @_CHECK
    @hypothesis.given(strategies.lists(strategies.tuples(ids, features), max_size=4))
    def check(documents):
        rows = (
            f"{','.join(map(str, labels))} {' '.join(f'{i}:{value!r}' for i, value in features.items())}\n"
            for labels, features in documents
        )
        folder = _write(tmp_path, {"train.txt": f"{len(documents)} 9 6\n{''.join(rows)}"})
        assert read_rows(folder, "xmc-sparse", with_features=True) == [
            [[str(label) for label in labels], tuple(features), tuple(features.values())] for labels, features in documents
        ]

    check()


def _write(place, files):
    """Write files into a new folder."""
    folder = Path(tempfile.mkdtemp(dir=place))
    for file, content in files.items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_damaged_files_are_read_or_refused_by_name(tmp_path, monkeypatch):
    folder = Path(__file__).parents[3] / "scripts" / "reliability"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = importlib.util.spec_from_file_location("mutate_text_files", folder / "mutate_text_files.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    outcomes = script.mutate(140, 0, tmp_path)
    assert {outcome for _, outcome in outcomes} == {"read", "refused"}

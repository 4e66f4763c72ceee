"""Raw texts of the Extreme Classification Repository: ``trn.json.gz``, ``tst.json.gz``, ``lbl.json.gz`` or ``Yf.txt``, pairs to leave out."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.models.label_names import LabelNames

from ..label_file import LabelFile
from .corpus import LABEL_IDS, Corpus, Documents, Format, ReadSettings, check_label_id, documents_schema
from .json_objects import json_objects
from .line_files import names_of_rows
from .split_files import find_split_files
from .text_columns import XMC_TEXTS, text_of
from .text_lines import read_lines

__all__ = ["XMC_RAW"]

_LABELS = ("lbl.json.gz", "lbl.json")
# Label texts, one a line, of older data sets such as AmazonCat-13K. Beside lbl.json it holds features of labels.
_LABEL_TEXTS = ("Yf.txt", "Yf.txt.gz")
# The shape of a matrix, or a row of it.
_MATRIX_LINE = re.compile(r"\d+ \d+|\d+:\S+( \d+:\S+)*")
# As the repository names them, and as code for it does (LEVER, NGAME).
_FILTERS = r"(filter_labels_{split}|{split}_filter_labels)\.txt"


def _find(path: Path, given: bool) -> dict[str, list[Path]]:
    if not (path.is_dir() and _label_file(path)):
        return {}
    filters = find_split_files(path, _FILTERS)
    return {split: [*texts, *filters.get(split, ())] for split, texts in find_split_files(path, r"{split}\.json").items()}


def _label_file(folder: Path) -> Path | None:
    return next((folder / name for name in (*_LABELS, *_LABEL_TEXTS) if (folder / name).is_file()), None)


def _read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    folder = next(iter(files.values()))[0].parent
    path = _label_file(folder)
    labels = _read_label_texts(path, settings) if path.name in _LABEL_TEXTS else _read_labels(path, settings)
    splits = {}
    for split, (texts, *filters) in files.items():
        pairs = filters[0] if filters else None
        schema = documents_schema(LABEL_IDS, **({"filter_labels": LABEL_IDS} if pairs else {}))
        splits[split] = Documents(schema, _reader(texts, pairs, len(labels.names), settings))
    return Corpus(splits, labels)


def _read_labels(path: Path, settings: ReadSettings) -> LabelFile:
    """Label = ``uid`` where all are there and distinct, else the line's number from 0; name = title, description = content."""
    uids, names, descriptions = [], [], []
    for number, entry in json_objects(read_lines(path, settings.encoding), path):
        place = f"{path}, line {number}"
        uids.append(entry.get("uid"))
        names.append(text_of(entry, ["title"], place))
        descriptions.append(text_of(entry, ["content"], place) or None)
    distinct = len(set(map(str, uids))) == len(uids) and None not in uids and "" not in uids
    labels = [str(uid) for uid in uids] if distinct else [str(i) for i in range(len(uids))]
    return LabelFile(LabelNames(labels, names), descriptions if any(descriptions) else None)


def _read_label_texts(path: Path, settings: ReadSettings) -> LabelFile:
    lines = list(read_lines(path, settings.encoding))
    start = [line.strip() for line in lines[:3] if line.strip()]
    if any(":" in line for line in start) and all(map(_MATRIX_LINE.fullmatch, start)):
        raise ValueError(
            f"{path} begins with {' / '.join(start)!r:.60}: a matrix of the features of labels, not their texts. Put the data set's "
            f"{_LABELS[0]} beside it."
        )
    return names_of_rows(lines)


def _reader(
    path: Path, pairs: Path | None, num_labels: int, settings: ReadSettings
) -> Callable[[], Iterator[tuple[Any, ...]]]:
    def read() -> Iterator[tuple[Any, ...]]:
        filters = _read_pairs(pairs, num_labels, settings) if pairs else None
        document = 0
        for number, entry in json_objects(read_lines(path, settings.encoding), path):
            place = f"{path}, line {number}"
            ids = _label_ids(entry, place, settings.one_based)
            for label_id in ids:
                check_label_id(label_id, num_labels, place, settings.one_based)
            yield (text_of(entry, XMC_TEXTS, place), ids, *([filters(document)] if filters else ()))
            document += 1
        if filters and (left := filters(document, check_end=True)):
            raise ValueError(
                f"{pairs} names the document {left}, but {path} has {document} documents, 0 to {document - 1}. Do they belong together?"
            )

    return read


def _label_ids(entry: dict[str, Any], place: str, one_based: bool) -> list[int]:
    ids = entry.get("target_ind")
    if not isinstance(ids, list) or not all(type(label_id) is int for label_id in ids):
        raise ValueError(
            f"{place}: target_ind is {ids!r:.60}, but must be a list of label ids. Is this the file of labels, or of another format?"
        )
    return [label_id - one_based for label_id in ids]


def _read_pairs(path: Path, num_labels: int, settings: ReadSettings) -> Callable[..., Any]:
    """The labels that are left out of each document's evaluation, by the document's number."""
    documents, labels = [], []
    for number, line in enumerate(read_lines(path, settings.encoding), start=1):
        if not line.strip():
            continue
        try:
            document, label = map(int, line.split())
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is {line!r:.40}, but a line holds the number of a document and that of a label."
            ) from error
        check_label_id(label - settings.one_based, num_labels, f"{path}, line {number}", settings.one_based)
        if document < settings.one_based:
            raise ValueError(
                f"{path}, line {number} names the document {document}, but they count from {int(settings.one_based)}."
            )
        documents.append(document - settings.one_based)
        labels.append(label - settings.one_based)
    order = np.argsort(np.array(documents, dtype=np.int64), kind="stable")
    rows, ids = np.array(documents, dtype=np.int64)[order], np.array(labels, dtype=np.int32)[order]

    def of(document: int, check_end: bool = False) -> Any:
        if check_end:  # a document that is not there
            return int(rows[-1]) if len(rows) and rows[-1] >= document else None
        start, stop = np.searchsorted(rows, [document, document + 1])
        return ids[start:stop].tolist()

    return of


XMC_RAW = Format(
    "xmc-raw",
    _find,
    _read,
    "trn.json.gz, tst.json.gz, and lbl.json.gz or Yf.txt with the labels",
    side_files=(*_LABELS, *_LABEL_TEXTS),
)

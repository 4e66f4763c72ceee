"""Texts and labels in files of their own, line by line: AttentionXML, CorNet and LightXML, SGM, and PECOS with its matrix of labels."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from errno import EINVAL
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.file_checks import check_csr
from hf_xmtc.models.label_names import LabelNames

from ..label_file import LabelFile
from .corpus import LABEL_IDS, LABEL_STRINGS, Corpus, Documents, Format, ReadSettings, documents_schema
from .split_files import named_files
from .text_lines import read_lines

__all__ = ["LINES", "PECOS", "RAW_LINES", "SGM", "names_of_rows", "rows_together"]

_LABELS_OF_PECOS = "output-items.txt"


def rows_together(first: Iterator[Any], second: Iterator[Any], names: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of what two files hold row by row.

    Raises:
        ValueError: If one ends before the other.
    """
    number, end = 0, object()
    while True:
        pair = next(first, end), next(second, end)
        if end not in pair:
            number += 1
            yield pair
            continue
        if pair == (end, end):
            return
        counts = [
            number if entry is end else number + 1 + sum(1 for _ in rows)
            for entry, rows in zip(pair, (first, second), strict=True)
        ]
        raise ValueError(
            f"{names[0]} has {counts[0]} rows, but {names[1]} has {counts[1]}. Do they belong together? Was one of them cut off, or does a "
            "text hold a line end?"
        )


def names_of_rows(names: list[str]) -> LabelFile:
    """Labels of a file with a line each; where two lines read alike, their numbers are the labels and the lines their names."""
    if len(set(names)) == len(names) and all(names):
        return LabelFile(LabelNames(names))
    return LabelFile(LabelNames([str(i) for i in range(len(names))], names))


def _read_lines_of_labels(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    schema = documents_schema(LABEL_STRINGS)
    return Corpus({split: Documents(schema, _line_reader(*paths, settings.encoding)) for split, paths in files.items()})


def _line_reader(texts: Path, labels: Path, encoding: str | None) -> Callable[[], Iterator[tuple[str, list[str]]]]:
    def read() -> Iterator[tuple[str, list[str]]]:
        for text, line in rows_together(read_lines(texts, encoding), read_lines(labels, encoding), (texts, labels)):
            yield text, line.split()

    return read


def _read_pecos(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    path = next(iter(files.values()))[0].parent / _LABELS_OF_PECOS
    labels = names_of_rows(list(read_lines(path, settings.encoding))) if path.is_file() else None
    matrices = {split: _read_matrix(paths[1], labels and len(labels.names)) for split, paths in files.items()}
    widths = {split: width for split, (_, _, width) in matrices.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(
            f"The label matrices of {path.parent} have different numbers of columns, {widths}. Do they belong together?"
        )
    labels = labels or names_of_rows([str(i) for i in range(next(iter(widths.values())))])
    schema = documents_schema(LABEL_IDS)
    splits = {
        split: Documents(schema, _matrix_reader(*paths, *matrices[split][:2], settings)) for split, paths in files.items()
    }
    return Corpus(splits, labels)


def _read_matrix(path: Path, num_labels: int | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Row pointers, columns of the entries that are not 0, and the number of columns, out of a file of `scipy.sparse.save_npz`."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            kind = arrays["format"].item()
            if kind not in (b"csr", "csr"):
                raise ValueError(f"it holds a matrix of the kind {kind!r}")
            num_rows, num_columns = arrays["shape"].tolist()
            indptr, indices, data = arrays["indptr"], arrays["indices"], arrays["data"]
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in (None, EINVAL):  # a damaged zip names places that no file has
            raise
        raise ValueError(
            f"{path} is no CSR matrix of scipy ({error}). Was the download cut off? Write labels with scipy.sparse.save_npz(path, "
            "labels.tocsr())."
        ) from error
    for array in (indptr, indices):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"{path}: indptr and indices must be lists of whole numbers, but one is {array.dtype} of shape {array.shape}."
            )
    if len(data) != len(indices):
        raise ValueError(f"{path} has {len(data)} values for {len(indices)} places. Was it written by another program?")
    check_csr("labels", indptr, indices, num_rows, num_columns, source=f"{path}: ")
    if num_labels is not None and num_columns != num_labels:
        raise ValueError(
            f"{path} has {num_columns} columns, but {_LABELS_OF_PECOS} has {num_labels} lines. Do they belong together? Each column is one label."
        )
    kept = data != 0
    return np.concatenate([[0], np.cumsum(kept)])[indptr], indices[kept], num_columns


def _matrix_reader(
    texts: Path, matrix: Path, indptr: np.ndarray, indices: np.ndarray, settings: ReadSettings
) -> Callable[[], Iterator[tuple[str, list[int]]]]:
    def read() -> Iterator[tuple[str, list[int]]]:
        rows = (indices[start:stop].tolist() for start, stop in zip(indptr, indptr[1:], strict=False))
        yield from rows_together(read_lines(texts, settings.encoding), rows, (texts, matrix))

    return read


def _format(name: str, texts: str, labels: str) -> Format:
    found = named_files(texts, labels)
    expects = f"{texts.format(split='train')} and {labels.format(split='train')}, the same for test"
    return Format(name, found, _read_lines_of_labels, expects)


RAW_LINES = _format("raw-lines", "{split}_raw_texts.txt", "{split}_labels.txt")
LINES = _format("lines", "{split}_texts.txt", "{split}_labels.txt")
SGM = _format("sgm", "text_{split}", "label_{split}")
PECOS = Format(
    "pecos",
    named_files("X.{split}.txt", "Y.{split}.npz"),
    _read_pecos,
    f"X.trn.txt and Y.trn.npz, the same for tst, and {_LABELS_OF_PECOS}",
    side_files=(_LABELS_OF_PECOS,),
)

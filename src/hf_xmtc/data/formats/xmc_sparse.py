"""Sparse files of the Extreme Classification Repository: bags of words with label ids, or label ids alone; no texts."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from .corpus import LABEL_IDS, Corpus, Documents, Format, ReadSettings, check_label_id
from .line_files import names_of_rows
from .split_files import files_of_splits, find_split_files
from .text_lines import read_lines

__all__ = ["XMC_SPARSE"]

_HEADER = re.compile(r"\s*(\d+)\s+(\d+)(?:\s+(\d+))?\s*")


def _find(path: Path, given: bool) -> dict[str, list[Path]]:
    found = find_split_files(path, r"{split}_X_Y\.txt") if path.is_dir() else {}
    return found or files_of_splits(".txt")(path, given)


def _read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    headers = {split: _header(path, settings.encoding) for split, (path,) in files.items()}
    widths = {split: num_labels for split, (_, _, num_labels) in headers.items()}
    if len(set(widths.values())) > 1:
        raise ValueError(
            f"The headers of {', '.join(str(path) for (path,) in files.values())} name different numbers of labels, {widths}."
        )
    fields = {"labels": LABEL_IDS}
    if settings.with_features:
        if any(num_features is None for _, num_features, _ in headers.values()):
            raise ValueError(f"{next(iter(files.values()))[0]} holds labels alone and no features. Leave with_features out.")
        fields |= {"feature_ids": pa.list_(pa.int32()), "feature_values": pa.list_(pa.float32())}
    splits = {
        split: Documents(pa.schema(fields.items()), _reader(path, *headers[split], settings))
        for split, (path,) in files.items()
    }
    return Corpus(splits, names_of_rows([str(i) for i in range(next(iter(widths.values())))]))


def _header(path: Path, encoding: str | None) -> tuple[int, int | None, int]:
    """Documents, features (None for a matrix of labels) and labels."""
    line = next(read_lines(path, encoding), "")
    match = _HEADER.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{path}, line 1 is {line!r:.60}, but must name the numbers of documents, features and labels, such as '15449 186104 3956'. "
            "Write this line if it is missing."
        )
    first, second, third = (number and int(number) for number in match.groups())
    return (first, None, second) if third is None else (first, second, third)


def _reader(
    path: Path, num_documents: int, num_features: int | None, num_labels: int, settings: ReadSettings
) -> Callable[[], Iterator[tuple[list, ...]]]:
    def read() -> Iterator[tuple[list, ...]]:
        number = 1
        lines = read_lines(path, settings.encoding)
        next(lines)
        for number, line in enumerate(lines, start=2):
            place = f"{path}, line {number}"
            if "_" in line:  # which Python reads within numbers
                raise ValueError(f"{place}: {line!r:.60} holds '_', but must hold numbers.")
            # A line that begins with a blank has no label.
            head, _, tail = ("", "", line) if num_features is None else line.partition(" ")
            ids, features = _label_ids(head, place), _pairs(tail, place)
            if num_features is None:
                ids = [label_id for label_id, value in features if value]
            elif (wrong := next((i for i, _ in features if not 0 <= i < num_features), None)) is not None:
                raise ValueError(
                    f"{place} holds the feature {wrong}, but the header names {num_features} features, 0 to {num_features - 1}."
                )
            ids = [label_id - settings.one_based for label_id in ids]
            for label_id in ids:
                check_label_id(label_id, num_labels, place, settings.one_based)
            yield (ids, *zip(*features, strict=True)) if features else (ids, (), ())
        if number - 1 != num_documents:
            raise ValueError(
                f"{path}: the first line says {num_documents} documents, but {number - 1} follow. Was the file cut off, or rows removed? "
                "Correct the number."
            )

    return read


def _label_ids(field: str, place: str) -> list[int]:
    try:
        return [int(label) for label in field.split(",")] if field else []
    except ValueError as error:
        raise ValueError(
            f"{place} begins with {field!r:.60}, but must begin with label ids with commas between them, or a blank."
        ) from error


def _pairs(text: str, place: str) -> list[tuple[int, float]]:
    try:
        return [(int(index), float(value)) for index, value in (pair.split(":") for pair in text.split())]
    except ValueError as error:
        raise ValueError(f"{place}: {text!r:.60} are no pairs of index:value.") from error


XMC_SPARSE = Format(
    "xmc-sparse",
    _find,
    _read,
    "train.txt and test.txt that begin with a line of counts, or trn_X_Y.txt and tst_X_Y.txt",
    looks_right=lambda line: _HEADER.fullmatch(line) is not None,
)

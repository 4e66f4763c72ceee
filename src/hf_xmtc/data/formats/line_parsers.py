"""Text, labels and id on one line: LibMultiLabel, fastText, and the short texts of Annif. Nothing here needs pyarrow."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["ANNIF_LINES", "FASTTEXT_LINES", "LIBMULTILABEL_LINES", "LabelledLine", "LineParser", "parse_lines"]

_PREFIX = "__label__"
_BLANK = re.compile(r"[ \t\v\f\r\0]")  # what ends a word for fastText
_URI = re.compile(r"[^\t]*\t<\w+:[^\t]*")


class LabelledLine(NamedTuple):
    """A document."""

    text: str
    labels: list[str]
    id: str | None = None


@dataclass(frozen=True)
class LineParser:
    """How lines are read.

    Attributes:
        name: Name of the format.
        parse: Splits a line; it also gets the first line of the file, and raises a ValueError for a line of another format.
        looks_right: Decides by the first line.
    """

    name: str
    parse: Callable[[str, str], LabelledLine]
    looks_right: Callable[[str], bool]


def parse_lines(
    lines: Iterator[str], name: Any, parser: LineParser, start: int = 1, first: str | None = None
) -> Iterator[LabelledLine]:
    """The documents of a file, one a line.

    Args:
        lines: The lines without their ends.
        name: Of the file, for messages.
        parser: The format.
        start: Number of the first of these lines in the file.
        first: The file's first line; None where it is the first of these.

    Raises:
        ValueError: If a line is of another format, with its number.
    """
    for number, line in enumerate(lines, start=start):
        first = line if first is None else first
        try:
            yield parser.parse(line, first)
        except ValueError as error:
            raise ValueError(f"{name}, line {number} {error}") from error


def _libmultilabel(line: str, first: str) -> LabelledLine:
    fields = line.split("\t")
    if len(fields) not in (2, 3):
        raise ValueError(
            f"has {len(fields)} fields, but must have labels and text, or id, labels and text, with tabs between them."
        )
    if len(fields) != first.count("\t") + 1:
        raise ValueError(f"has {len(fields)} fields, but line 1 has {first.count(chr(9)) + 1}. Remove tabs from texts.")
    return LabelledLine(fields[-1], fields[-2].split(), fields[0] if len(fields) == 3 else None)


def _is_libmultilabel(line: str) -> bool:
    """Two or three fields that are no column names."""
    return line.count("\t") in (1, 2) and not {"text", "label", "labels"} & set(line.lower().split("\t"))


def _fasttext(line: str, first: str) -> LabelledLine:
    labels = []
    while line.startswith(_PREFIX):  # at the beginning, where they usually are
        label, *rest = _BLANK.split(line, maxsplit=1)
        labels.append(label)
        line = "".join(rest)
    if _PREFIX in line:
        words = _BLANK.split(line)
        labels += [word for word in words if word.startswith(_PREFIX)]
        line = " ".join(word for word in words if not word.startswith(_PREFIX))
    return LabelledLine(line, [label for label in (label.removeprefix(_PREFIX) for label in labels) if label])


def _annif(line: str, first: str) -> LabelledLine:
    text, tab, uris = line.rpartition("\t")
    if not tab:
        raise ValueError(
            "has no tab, but must be a text, a tab and the URIs of its subjects. For a text without subjects end it with a tab."
        )
    if strange := next((uri for uri in uris.split() if not re.fullmatch(r"<[^<>]+>|\w+:[^<>]+", uri)), None):
        raise ValueError(f"has {strange!r:.60} behind its last tab, but subjects are URIs such as <http://example.org/1>.")
    if "\t" in text:
        raise ValueError("has several tabs, but must have one, between text and subjects. Remove tabs from texts.")
    return LabelledLine(text, [uri.removeprefix("<").removesuffix(">") for uri in uris.split()])


FASTTEXT_LINES = LineParser("fasttext", _fasttext, lambda line: line.startswith(_PREFIX))
ANNIF_LINES = LineParser("annif", _annif, lambda line: _URI.fullmatch(line) is not None)
LIBMULTILABEL_LINES = LineParser("libmultilabel", _libmultilabel, _is_libmultilabel)

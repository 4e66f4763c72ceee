"""A document with its labels on each line: LibMultiLabel, fastText, and the short texts of Annif."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from .corpus import LABEL_STRINGS, Corpus, Documents, FileRows, Format, ReadSettings, documents_schema
from .split_files import files_of_splits, find_split_files
from .text_lines import Span, first_number, read_lines

__all__ = ["ANNIF", "FASTTEXT", "LIBMULTILABEL"]

_PREFIX = "__label__"
_BLANK = re.compile(r"[ \t\v\f\r\0]")  # what ends a word for fastText
_URI = re.compile(r"[^\t]*\t<\w+:[^\t]*")

_Line = tuple[str, list[str]]


def _format(name: str, parse: Callable[[str, str], _Line], looks_right: Callable[[str], bool], *endings: str) -> Format:
    """A format whose lines a function splits into text and labels; it gets a line and the first of its file."""

    def read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
        def read_file(path: Path | Span) -> Iterator[_Line]:
            first = next(read_lines(path.path, settings.encoding)) if isinstance(path, Span) else None
            for number, line in enumerate(read_lines(path, settings.encoding), start=first_number(path)):
                first = line if first is None else first
                try:
                    yield parse(line, first)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number} {error}") from error

        schema = documents_schema(LABEL_STRINGS)
        return Corpus(
            {split: Documents(schema, FileRows(tuple(paths), read_file, cut="line")) for split, paths in files.items()}
        )

    expects = f"train{endings[0]}, valid{endings[0]}, test{endings[0]}, or one file"
    return Format(name, files_of_splits(*endings), read, expects, looks_right)


def _libmultilabel(line: str, first: str) -> _Line:
    fields = line.split("\t")
    if len(fields) not in (2, 3):
        raise ValueError(
            f"has {len(fields)} fields, but must have labels and text, or id, labels and text, with tabs between them."
        )
    if len(fields) != first.count("\t") + 1:
        raise ValueError(f"has {len(fields)} fields, but line 1 has {first.count(chr(9)) + 1}. Remove tabs from texts.")
    return fields[-1], fields[-2].split()


def _is_libmultilabel(line: str) -> bool:
    """Two or three fields that are no column names."""
    return line.count("\t") in (1, 2) and not {"text", "label", "labels"} & set(line.lower().split("\t"))


def _fasttext(line: str, first: str) -> _Line:
    labels = []
    while line.startswith(_PREFIX):  # at the beginning, where they usually are
        label, *rest = _BLANK.split(line, maxsplit=1)
        labels.append(label)
        line = "".join(rest)
    if _PREFIX in line:
        words = _BLANK.split(line)
        labels += [word for word in words if word.startswith(_PREFIX)]
        line = " ".join(word for word in words if not word.startswith(_PREFIX))
    return line, [label for label in (label.removeprefix(_PREFIX) for label in labels) if label]


def _annif(line: str, first: str) -> _Line:
    text, tab, uris = line.rpartition("\t")
    if not tab:
        raise ValueError(
            "has no tab, but must be a text, a tab and the URIs of its subjects. For a text without subjects end it with a tab."
        )
    if strange := next((uri for uri in uris.split() if not re.fullmatch(r"<[^<>]+>|\w+:[^<>]+", uri)), None):
        raise ValueError(f"has {strange!r:.60} behind its last tab, but subjects are URIs such as <http://example.org/1>.")
    if "\t" in text:
        raise ValueError("has several tabs, but must have one, between text and subjects. Remove tabs from texts.")
    return text, [uri.removeprefix("<").removesuffix(">") for uri in uris.split()]


def _find_fasttext(path: Path, given: bool) -> dict[str, list[Path]]:
    found = find_split_files(path, r"[\w-]+\.{split}") if path.is_dir() else {}  # cooking.train and cooking.valid
    return found or files_of_splits(".txt", ".train", ".valid", ".test")(path, given)


FASTTEXT = replace(
    _format("fasttext", _fasttext, lambda line: line.startswith(_PREFIX), ".txt", ".train"), find=_find_fasttext
)
ANNIF = _format("annif", _annif, lambda line: _URI.fullmatch(line) is not None, ".tsv", ".txt")
LIBMULTILABEL = _format("libmultilabel", _libmultilabel, _is_libmultilabel, ".txt")

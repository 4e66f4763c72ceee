"""Full texts of Annif: a folder of ``.txt`` files, each with its subjects in a ``.tsv`` (URIs) or ``.key`` (names) of the same name."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .corpus import LABEL_STRINGS, Corpus, Documents, FileRows, Format, ReadSettings, documents_schema
from .full_texts import SUBJECT_ENDINGS, read_text, subjects_of, texts_in
from .split_files import find_split_files, split_folders
from .text_lines import read_lines

__all__ = ["ANNIF_FOLDER"]


def _find(path: Path, given: bool) -> dict[str, list[Path]]:
    if not path.is_dir():
        return {}
    found = {split: _texts(place) for split, place in split_folders(path).items()}
    if found := {split: texts for split, texts in found.items() if texts}:
        return found
    # train.txt beside train.tsv are rather two formats of lines.
    texts = [] if not given and find_split_files(path, r"{split}\.txt") else _texts(path)
    return {"train": texts} if texts else {}


def _texts(folder: Path) -> list[Path]:
    """The texts of a folder; none where no text has a file of subjects."""
    texts = texts_in(folder)
    return texts if any(map(subjects_of, texts)) else []


def _read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    schema = documents_schema(LABEL_STRINGS)
    read = partial(_read_text, encoding=settings.encoding)
    return Corpus({split: Documents(schema, FileRows(tuple(texts), read)) for split, texts in files.items()})


def _read_text(path: Path, encoding: str | None) -> Iterator[tuple[str, list[str]]]:
    """One document."""
    subjects = subjects_of(path)
    lines = read_lines(subjects, encoding) if subjects else ()
    yield read_text(path, encoding), [subject for line in lines if (subject := _subject(line))]


def _subject(line: str) -> str:
    uri, tab, _ = line.partition("\t")
    return (uri if tab else line).strip().removeprefix("<").removesuffix(">")


ANNIF_FOLDER = Format(
    "annif-folder",
    _find,
    _read,
    "files such as a.txt with a.tsv or a.key, or train/ and test/ with such files",
    side_files=SUBJECT_ENDINGS,
)

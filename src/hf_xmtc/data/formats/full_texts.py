"""Texts that are a file each, as Annif reads them: ``.txt``, with subjects in a file beside it. Nothing here needs pyarrow."""

from pathlib import Path

from .split_files import is_about_data
from .text_lines import read_lines

__all__ = ["SUBJECT_ENDINGS", "read_text", "subjects_of", "texts_in"]

SUBJECT_ENDINGS = (".tsv", ".key")


def texts_in(folder: Path) -> list[Path]:
    """The texts of a folder, in the order of their names; a README or licence is none, unless it has subjects."""
    return [path for path in sorted(folder.glob("*.txt")) if not is_about_data(path) or subjects_of(path)]


def subjects_of(text: Path) -> Path | None:
    """The file of a text's subjects; None where it has none."""
    return next((path for ending in SUBJECT_ENDINGS if (path := text.with_suffix(ending)).is_file()), None)


def read_text(path: Path, encoding: str | None) -> str:
    """A file as one text."""
    return "\n".join(read_lines(path, encoding))

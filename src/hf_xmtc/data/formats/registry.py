"""All formats, and which of them a folder or file has."""

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from .annif_folder import ANNIF_FOLDER
from .corpus import Corpus, Format, ReadSettings
from .json_lines import JSON_LINES
from .labelled_lines import ANNIF, FASTTEXT, LIBMULTILABEL
from .line_files import LINES, PECOS, RAW_LINES, SGM
from .rcv1 import RCV1
from .tables import CSV, TSV
from .text_lines import first_line
from .xmc_raw import XMC_RAW
from .xmc_sparse import XMC_SPARSE

__all__ = ["FORMATS", "CorpusFiles", "ambiguous_formats", "find_format", "format_named"]

# The first that recognises a folder or file reads it: those with names of their own, then those that look into the files.
FORMATS = (
    RAW_LINES,
    LINES,
    XMC_RAW,
    PECOS,
    SGM,
    RCV1,
    ANNIF_FOLDER,
    XMC_SPARSE,
    FASTTEXT,
    ANNIF,
    LIBMULTILABEL,
    CSV,
    TSV,
    JSON_LINES,
)
# Settings that change how files are read, with the formats that take them.
_TABLES = (CSV, TSV, JSON_LINES)
_TAKERS = {
    **dict.fromkeys(("text_column", "label_column", "label_format", "label_separator", "group_column"), _TABLES),
    "one_based": (JSON_LINES, XMC_RAW, XMC_SPARSE),
    "with_features": (XMC_SPARSE,),
}


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a data set and how they are read: all that another process needs.

    Attributes:
        format: Name of the format.
        files: The files of each split, as `find_format` gives them.
        settings: How they are read.
        drop_unlabeled: Whether `write_corpus` leaves out documents without labels.
    """

    format: str
    files: dict[str, list[Path]]
    settings: ReadSettings
    drop_unlabeled: bool = False

    def read(self) -> Corpus:
        """Open the files.

        Raises:
            ValueError: If a setting has no effect on the format, or files are damaged.
        """
        kind = format_named(self.format)
        for setting, takers in _TAKERS.items():
            value = getattr(self.settings, setting)
            if value != getattr(ReadSettings, setting) and kind not in takers:
                raise ValueError(
                    f"{setting}={value!r} (--{setting}) has no effect on {kind.name} files, only on {', '.join(other.name for other in takers)}. "
                    "Leave it out."
                )
        return kind.read(self.files, self.settings)

    def check_label_ids(self, num_labels: int) -> None:
        """Read the files once more, for the line of an integer label that is not among so many.

        Raises:
            ValueError: With the line, where the format has lines.
        """
        corpus = replace(self, settings=replace(self.settings, num_labels=num_labels)).read()
        for documents in corpus.splits.values():
            deque(documents.rows(), maxlen=0)


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        ValueError: If there is none.
    """
    for kind in FORMATS:
        if kind.name == name:
            return kind
    raise ValueError(
        f"format is {name!r} but must be parquet, {', '.join(kind.name for kind in FORMATS)}. Leave it out to have it recognised."
    )


def find_format(path: Path, name: str | None, encoding: str | None = None) -> tuple[Format, dict[str, list[Path]]] | None:
    """The format of a folder or file with the files of each split; None where no format recognises it.

    Args:
        path: A folder or file that exists.
        name: The format's name; None to recognise it by the names and first lines of the files.
        encoding: Encoding of the files, None for UTF-8 or a recognised UTF-16.

    Raises:
        FileNotFoundError: If the named format does not find its files.
        ValueError: If there is no format of that name, or there are files of two formats.
    """
    if name is not None:
        kind = format_named(name)
        if not (files := kind.find(path, True)):
            listing = ", ".join(sorted(entry.name for entry in path.iterdir())[:10]) if path.is_dir() else "a file"
            raise FileNotFoundError(
                f"{path} is no data of the format {name!r}: it needs {kind.expects}; there is {listing or 'nothing'}."
            )
        return kind, files
    found = [(kind, files) for kind in FORMATS if (files := kind.find(path, False)) and _looks_right(kind, files, encoding)]
    if not found:
        return None
    paths = _paths(found[0][1])
    for kind, files in found[1:]:
        # Formats of the same files go in order; bags of words often lie beside the texts that they were made of.
        if kind is not XMC_SPARSE and paths.isdisjoint(_paths(files)):
            raise ambiguous_formats(path, {other.name: _paths(of_other) for other, of_other in (found[0], (kind, files))})
    return found[0]


def ambiguous_formats(path: Path, files: dict[str, set[Path]]) -> ValueError:
    """The error for a folder with files of two formats.

    Args:
        path: The folder.
        files: Those of each format.
    """
    listing = " and ".join(f"{name} ({', '.join(sorted(file.name for file in of)[:3])})" for name, of in files.items())
    return ValueError(
        f"{path} holds data of two formats, {listing}. Name the one to read in format=… (--format), or move the other away."
    )


def _looks_right(kind: Format, files: dict[str, list[Path]], encoding: str | None) -> bool:
    return kind.looks_right(first_line(next(iter(files.values()))[0], encoding))


def _paths(files: dict[str, list[Path]]) -> set[Path]:
    return {path for paths in files.values() for path in paths}

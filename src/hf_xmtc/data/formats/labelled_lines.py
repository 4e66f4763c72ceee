"""A document with its labels on each line: LibMultiLabel, fastText, and the short texts of Annif."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .corpus import LABEL_STRINGS, Corpus, Documents, FileRows, Format, ReadSettings, documents_schema
from .line_parsers import ANNIF_LINES, FASTTEXT_LINES, LIBMULTILABEL_LINES, LineParser, parse_lines
from .split_files import files_of_splits, find_split_files
from .text_lines import Span, first_number, read_lines

__all__ = ["ANNIF", "FASTTEXT", "LIBMULTILABEL"]


def _format(parser: LineParser, *endings: str) -> Format:
    """The format of files with such lines."""

    def read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
        def read_file(path: Path | Span) -> Iterator[tuple[str, list[str]]]:
            first = next(read_lines(path.path, settings.encoding)) if isinstance(path, Span) else None
            for line in parse_lines(read_lines(path, settings.encoding), path, parser, first_number(path), first):
                yield line.text, line.labels

        schema = documents_schema(LABEL_STRINGS)
        return Corpus(
            {split: Documents(schema, FileRows(tuple(paths), read_file, cut="line")) for split, paths in files.items()}
        )

    expects = f"train{endings[0]}, valid{endings[0]}, test{endings[0]}, or one file"
    return Format(parser.name, files_of_splits(*endings), read, expects, parser.looks_right)


def _find_fasttext(path: Path, given: bool) -> dict[str, list[Path]]:
    found = find_split_files(path, r"[\w-]+\.{split}") if path.is_dir() else {}  # cooking.train and cooking.valid
    return found or files_of_splits(".txt", ".train", ".valid", ".test")(path, given)


FASTTEXT = replace(_format(FASTTEXT_LINES, ".txt", ".train"), find=_find_fasttext)
ANNIF = _format(ANNIF_LINES, ".tsv", ".txt")
LIBMULTILABEL = _format(LIBMULTILABEL_LINES, ".txt")

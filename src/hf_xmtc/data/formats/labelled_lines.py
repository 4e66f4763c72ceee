"""A document with its labels on each line: LibMultiLabel, fastText, and the short texts of Annif."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .corpus import LABEL_STRINGS, Corpus, Documents, Format, ReadSettings, documents_schema, read_all
from .line_parsers import ANNIF_LINES, FASTTEXT_LINES, LIBMULTILABEL_LINES, LineParser, parse_lines
from .split_files import files_of_splits, find_split_files
from .text_lines import read_lines

__all__ = ["ANNIF", "FASTTEXT", "LIBMULTILABEL"]


def _format(parser: LineParser, *endings: str) -> Format:
    """The format of files with such lines."""

    def read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
        def read_file(path: Path) -> Iterator[tuple[str, list[str]]]:
            for line in parse_lines(read_lines(path, settings.encoding), path, parser):
                yield line.text, line.labels

        schema = documents_schema(LABEL_STRINGS)
        return Corpus({split: Documents(schema, read_all(paths, read_file)) for split, paths in files.items()})

    expects = f"train{endings[0]}, valid{endings[0]}, test{endings[0]}, or one file"
    return Format(parser.name, files_of_splits(*endings), read, expects, parser.looks_right)


def _find_fasttext(path: Path, given: bool) -> dict[str, list[Path]]:
    found = find_split_files(path, r"[\w-]+\.{split}") if path.is_dir() else {}  # cooking.train and cooking.valid
    return found or files_of_splits(".txt", ".train", ".valid", ".test")(path, given)


FASTTEXT = replace(_format(FASTTEXT_LINES, ".txt", ".train"), find=_find_fasttext)
ANNIF = _format(ANNIF_LINES, ".tsv", ".txt")
LIBMULTILABEL = _format(LIBMULTILABEL_LINES, ".txt")

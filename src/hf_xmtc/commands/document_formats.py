"""Which format a file of documents to be tagged has, by its name and its first line."""

import json
from collections.abc import Callable
from pathlib import Path

from hf_xmtc.data.formats.full_texts import texts_in
from hf_xmtc.data.formats.line_parsers import ANNIF_LINES, FASTTEXT_LINES, LIBMULTILABEL_LINES
from hf_xmtc.data.formats.split_files import find_split_files
from hf_xmtc.data.formats.text_lines import first_line

from .predict_options import INPUT_FORMATS

__all__ = ["recognise_format"]

_ENDINGS = {".ndjson": "jsonl", ".json": "jsonl", ".tab": "tsv"} | {
    f".{name}": name for name in ("parquet", "jsonl", "csv", "tsv", "txt")
}


def _is_xmc_raw(line: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and "target_ind" in entry and "text" not in entry


# Formats that the first line shows, with the endings of their files.
_BY_FIRST_LINE: tuple[tuple[str, tuple[str, ...], Callable[[str], bool], str], ...] = (
    ("fasttext", (".txt", ".train", ".valid", ".test"), FASTTEXT_LINES.looks_right, "line 1 begins with __label__"),
    ("annif", (".tsv", ".txt"), ANNIF_LINES.looks_right, "line 1 ends in a tab and URIs"),
    ("rcv1", (".dat",), lambda line: line.startswith(".I "), "line 1 begins with .I"),
    ("xmc-raw", (".json", ".jsonl"), _is_xmc_raw, "line 1 has the key target_ind and no text"),
)


def recognise_format(path: Path, encoding: str | None, text_column: str) -> tuple[str, str | None]:
    """The format of a file that exists, or of a folder of texts, and a sentence where more than the ending of the name decided.

    Args:
        path: The file; gzip or not.
        encoding: Of a text file, None for UTF-8 or a recognised UTF-16.
        text_column: As the user named it; where it is not the default, JSON lines are read as such.

    Raises:
        ValueError: If neither shows a format.
    """
    change = "Another format can be named (--input_format)."
    if path.is_dir():
        if texts_in(path) and not find_split_files(path, r"{split}\.txt"):
            return "annif-folder", f"{path} is read as annif-folder: each .txt file is a document. {change}"
        raise ValueError(
            f"The input {path} is a folder. Name one of its files, or --input_format annif-folder for a folder whose .txt files are a "
            "document each."
        )
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    line = None
    for name, endings, looks_right, reason in _BY_FIRST_LINE:
        if ending not in endings or (name == "xmc-raw" and text_column != "text"):
            continue
        line = first_line(path, encoding) if line is None else line
        if looks_right(line):
            return name, f"{path} is read as {name}: {reason}. {change}"
    if ending not in _ENDINGS:
        raise ValueError(
            f"The input {path} ends in {ending!r}, which is none of {', '.join(_ENDINGS)}. "
            f"Name its format with --input_format {'|'.join(INPUT_FORMATS)}."
        )
    if ending == ".txt" and LIBMULTILABEL_LINES.looks_right(line):
        return (
            "txt",
            f"{path} is read as txt: each line is a text, tabs and all. For labels, a tab and a text name --input_format libmultilabel.",
        )
    return _ENDINGS[ending], None

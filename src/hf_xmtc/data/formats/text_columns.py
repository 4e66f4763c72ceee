"""Which columns an option names, and one text out of several of them."""

import fnmatch
from collections.abc import Sequence
from typing import Any

__all__ = [
    "XMC_TEXTS",
    "column_listing",
    "join_texts",
    "keys_of_entry",
    "matching_columns",
    "matching_label_columns",
    "text_of",
]

# Keys of the texts in files of the Extreme Classification Repository.
XMC_TEXTS = ["title", "content"]


def column_listing(columns: list[str]) -> str:
    """Names of columns for a message."""
    return ", ".join(map(repr, columns[:20])) + (", …" if len(columns) > 20 else "") or "none"


def matching_columns(columns: list[str], wanted: str, complete: bool = True) -> list[str]:
    """The columns that an option names, in its order: one, several with commas between them, or all that match a pattern with ``*``.

    Args:
        columns: Those there are.
        wanted: The option.
        complete: Give none where one of several is missing.
    """
    if wanted in columns:
        return [wanted]
    chosen: dict[str, None] = {}
    for pattern in map(str.strip, wanted.split(",")):
        matches = [pattern] if pattern in columns else [name for name in columns if fnmatch.fnmatchcase(name, pattern)]
        if complete and not matches:
            return []
        chosen.update(dict.fromkeys(matches))
    return list(chosen)


def matching_label_columns(columns: list[str], label_column: str, text_column: str, complete: bool = True) -> list[str]:
    """The columns that ``label_column`` names, as in `matching_columns`, less those of texts."""
    texts = matching_columns(columns, text_column, complete=False)
    return [column for column in matching_columns(columns, label_column, complete) if column not in texts]


def keys_of_entry(entry: dict[str, Any], keys: list[str], wanted: str, left_out: Sequence[str] = ()) -> list[str]:
    """The keys of an option, with those that match its pattern in this entry alone, less those left out."""
    if "*" not in wanted:
        return keys
    matches = matching_columns(list(entry), wanted, complete=False)
    return list(dict.fromkeys([*keys, *(key for key in matches if key not in left_out)]))


def join_texts(texts: Sequence[str | None]) -> str | None:
    """One text out of several columns; None where all are missing."""
    if len(texts) == 1:
        return texts[0]
    return "\n".join(text for text in texts if text)


def text_of(entry: dict[str, Any], columns: list[str], place: str) -> str | None:
    """The text under some keys, joined by line ends; None where it is missing.

    Raises:
        ValueError: If it is no string.
    """
    texts = [entry.get(column) for column in columns]
    if strange := [text for text in texts if not isinstance(text, str | None)]:
        raise ValueError(
            f"{place}: the text is {strange[0]!r:.60}, but texts are strings. Name another key in text_column=… (--text_column)."
        )
    return join_texts(texts)

"""Labels out of one cell of a table, or of one value in JSON."""

import ast
import json
import re
from typing import Any

from ..label_separators import SEPARATORS

__all__ = [
    "FLAGS",
    "MULTI_HOT_VALUES",
    "flags_without_multi_hot",
    "is_one",
    "labels_of_cell",
    "labels_of_value",
    "valid_unicode",
]

# What says in a cell whether a document has the label of the column.
_ONES, _ZEROS = {"1", "1.0", "true", "yes", "x"}, {"0", "0.0", "false", "no", ""}
FLAGS = _ONES | _ZEROS
MULTI_HOT_VALUES = "0 or 1, true or false, yes or no, or x and nothing"

# As Annif writes subjects.
_URIS = re.compile(r"<\w+:[^<>\s]+>(\s+<\w+:[^<>\s]+>)*")

# A string or whole number in a list, and such a list: numpy has no commas, and writes long ones in several lines.
_ENTRY = re.compile(r"""u?'(?:[^'\\]|\\.)*'|u?"(?:[^"\\]|\\.)*"|-?\d+""", re.DOTALL)
_LIST = re.compile(rf"\[\s*(?:(?:{_ENTRY.pattern})(?:\s*,\s*|\s+|(?=\])))*\]", re.DOTALL)


def is_one(value: Any) -> bool | None:
    """Whether a cell or a JSON value says that the document has a label; None where it says neither."""
    text = "" if value is None else str(value).strip().lower()
    return True if text in _ONES else False if text in _ZEROS else None


def flags_without_multi_hot(name: Any, columns: list[str], values: set[str]) -> ValueError:
    """The error for several label columns that hold nothing but flags, read as labels."""
    return ValueError(
        f"{name}: the label columns {', '.join(columns)} hold nothing but {', '.join(sorted(values))}. If each column says whether a document "
        "has its label, give label_format='multi_hot' (--label_format multi_hot)."
    )


def labels_of_cell(cell: str, separator: str | None, place: str, several: bool = False) -> list[str]:
    """The labels in a cell of text; blanks around them, empty ones, and the brackets of URIs such as ``<http://a> <http://b>`` do not count.

    Args:
        cell: The text.
        separator: What separates labels; ``""`` where a cell is one label, None where it is one label or a list in brackets.
        place: File and line, for messages.
        several: Whether it is one cell of several, so that one without brackets is one label.

    Raises:
        ValueError: If the cell may hold several labels and nothing says how they are separated.
    """
    cell = cell.strip()
    if _URIS.fullmatch(cell) and (separator is None or not separator.strip()):
        return [uri[1:-1] for uri in cell.split()]
    if separator is not None:
        parts = cell.split(separator) if separator.strip() else cell.split() if separator else [cell]
        return [label for part in parts if (label := part.strip())]
    if cell.startswith("[") and cell.endswith("]"):
        return _listed(cell, place)
    sign = next((sign for sign in SEPARATORS if sign in cell), None)
    if sign is not None and not several:
        raise ValueError(
            f"{place}: the labels {_shortened(cell)!r} hold {sign!r}. If that separates labels, give label_separator={sign!r} "
            f"(--label_separator '{sign}'); if each cell is one label, give label_separator='' (--label_separator '')."
        )
    return [cell] if cell else []


def labels_of_value(
    value: Any, multi_hot: bool, separator: str | None, place: str, several: bool = False
) -> list[str] | list[int]:
    """The labels in a JSON value: a list of strings or of integers, a text as in `labels_of_cell`, or nothing.

    Args:
        value: The value.
        multi_hot: Whether lists hold 0 and 1 for each label.
        separator: As in `labels_of_cell`.
        place: File and line, for messages.
        several: As in `labels_of_cell`.

    Raises:
        ValueError: If it is something else.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return valid_unicode(labels_of_cell(value, separator, place, several), place)
    values = value if isinstance(value, list) else [value]
    if multi_hot:
        ones = [is_one(entry) for entry in values]
        if None in ones:
            raise ValueError(
                f"{place}: the labels {value!r:.80} are not all {MULTI_HOT_VALUES}, but label_format='multi_hot'. Are they label ids? Then "
                "leave it out."
            )
        return [label_id for label_id, one in enumerate(ones) if one]
    if all(type(entry) is int for entry in values):
        return values
    if all(type(entry) is str for entry in values):
        return valid_unicode(values, place)
    hint = "Write each label as a string, and none for a missing one."
    if any(type(entry) is bool for entry in values):
        hint = "If they say whether a document has a label, give label_format='multi_hot' (--label_format multi_hot)."
    raise ValueError(
        f"{place}: the labels are {value!r:.80}, but must be a list of strings or a list of integer ids. {hint}"
    )


def valid_unicode(strings: list[str], place: str) -> list[str]:
    """The strings of a document, none of which may hold the lone surrogates that escapes in JSON and Python can write.

    Raises:
        ValueError: If one does.
    """
    try:
        "".join(strings).encode()
    except UnicodeEncodeError as error:
        strange = next(string for string in strings if any("\ud800" <= sign <= "\udfff" for sign in string))
        raise ValueError(
            f"{place}: {strange!r:.80} is not valid Unicode ({error.reason}): it holds a lone surrogate. Mend it in the file."
        ) from error
    return strings


def _shortened(cell: str) -> str:
    return cell if len(cell) <= 80 else cell[:79] + "…"


def _listed(cell: str, place: str) -> list[str]:
    """A list as JSON, Python or numpy write it; numbers stay as they are written."""
    try:
        values = json.loads(cell, parse_int=str)
    except (ValueError, RecursionError):
        values = _python_list(cell)
    if values is None or not all(isinstance(value, str) for value in values):
        raise ValueError(
            f"{place}: the labels {cell!r:.80} are no list of strings or whole numbers in JSON or Python. Put each label into quotes. If they "
            "are plain text, name what separates them: label_separator='|' (--label_separator '|'), or '' where a cell is one label."
        )
    return valid_unicode([label for value in values if (label := value.strip())], place)


def _python_list(cell: str) -> list[str] | None:
    # Python itself would join the strings of numpy, which have no comma between them.
    if not _LIST.fullmatch(cell):
        return None
    try:
        return [ast.literal_eval(entry) if entry[-1] in "'\"" else entry for entry in _ENTRY.findall(cell)]
    except (ValueError, SyntaxError):  # of an escape
        return None

"""JSON that every parser reads: what is undefined is null, numbers of numpy and torch are numbers."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["as_plain", "json_bytes", "json_text"]


def as_plain(value: Any) -> Any:
    """The value in Python's own types: scalars of numpy and torch as numbers, arrays as lists, NaN and infinity as None.

    Anything else stays as it is, in dictionaries, lists and tuples too.
    """
    if isinstance(value, Mapping):
        return {key: as_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # arrays and scalars of numpy and torch
        return as_plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(content: Any, *, default: Callable[[Any], Any] | None = None, **settings: Any) -> str:
    """Serialize as `json.dumps` does, with characters as they are and without the words NaN and Infinity, which JSON lacks.

    Args:
        content: What to write.
        default: Form of what has none in JSON, as for `json.dumps`; by default it is refused.
        settings: Other arguments of `json.dumps`.

    Raises:
        TypeError: If something has no form in JSON.
    """
    settings = {"ensure_ascii": False, **settings, "allow_nan": False}
    try:
        return json.dumps(content, **settings)
    except (TypeError, ValueError):
        # Rare, and walking over everything would make the usual case several times slower.
        return json.dumps(as_plain(content), **settings, default=default)


def json_bytes(content: Any, **settings: Any) -> bytes:
    """`json_text` in UTF-8; halves of a character, which UTF-8 lacks, in JSON's own notation."""
    return json_text(content, **settings).encode("utf-8", "backslashreplace")

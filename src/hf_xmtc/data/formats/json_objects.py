"""Objects of JSON lines with their line numbers."""

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["json_objects"]


def json_objects(lines: Iterator[str], name: Any, start: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines with their line numbers; blank lines are none.

    Args:
        lines: The lines.
        name: Of the file, for messages.
        start: Number of the first line.

    Raises:
        ValueError: If a line is no object.
    """
    for number, line in enumerate(lines, start=start):
        if not line or line.isspace():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and lists in lists in lists
            raise ValueError(
                f"{name}, line {number} cannot be read as JSON ({error}). JSON lines have one object per line; was the file cut off, or "
                "is it one large JSON list? Then write each of its entries on a line of its own (jq -c '.[]')."
            ) from error
        if not isinstance(entry, dict):
            raise ValueError(
                f'{name}, line {number} is a {type(entry).__name__}, not an object such as {{"text": "…", "labels": ["…"]}}. '
                "Write each entry of a list on a line of its own (jq -c '.[]')."
            )
        yield number, entry

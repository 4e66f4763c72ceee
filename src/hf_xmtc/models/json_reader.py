"""`read_json`: JSON files that a stranger may have written, refused in a sentence where they are damaged."""

import json
from pathlib import Path
from typing import Any

__all__ = ["read_json"]

_KINDS = {dict: "a JSON object", list: "a JSON list"}


def read_json(path: str | Path, kind: type = object) -> Any:
    """Read a JSON file.

    Args:
        path: The file, in UTF-8.
        kind: ``dict`` or ``list``, for a file that must hold an object or a list; ``object`` for anything.

    Raises:
        ValueError: If it is no JSON, or holds something else; the message names the file.
        OSError: If it cannot be read.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # deep nesting ends in the latter
        raise ValueError(f"{path} is not valid JSON ({error}). Copy the file again from where it came.") from error
    if not isinstance(content, kind):
        raise ValueError(f"{path} must hold {_KINDS[kind]}, found a {type(content).__name__}.")
    return content

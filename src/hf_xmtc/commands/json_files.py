"""JSON files that are never seen half written."""

from pathlib import Path
from typing import Any

from hf_xmtc.disk import replace_file
from hf_xmtc.strict_json import json_bytes

__all__ = ["write_json"]


def write_json(path: Path, content: dict[str, Any] | list[Any]) -> None:
    """Write a JSON file, in a folder that is made where it is missing; an interruption, of the power too, leaves the old content or the
    new.

    Args:
        path: The file.
        content: Its content; NaN and infinity become null.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(json_bytes(content, indent=2) + b"\n")
    replace_file(temporary, path)

"""JSON files that are never seen half written."""

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["write_json"]


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, in a folder that is made where it is missing; an interruption leaves the old content or the new.

    Args:
        path: The file.
        content: What it shall hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)

"""Keys of what is computed once and kept beside a data set."""

import hashlib
import json
from typing import Any

__all__ = ["cache_key"]


def cache_key(parts: list[Any]) -> str:
    """A short name for everything that a kept result depends on, as JSON values."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()

"""JSON read as a parser does that knows JSON alone."""

import json
from typing import Any

import pytest


def parse_strictly(text: str | bytes) -> Any:
    """What the text holds; NaN and Infinity, which Python reads, fail the test."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))

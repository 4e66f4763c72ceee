"""JSON that every parser reads, and only such JSON in the package's files."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import hf_xmtc
from hf_xmtc.strict_json import as_plain, json_bytes, json_text

PACKAGE = Path(hf_xmtc.__file__).parent
# What is hashed, or read again by the same program, and the files of models/, which stand alone on the Hub.
NO_FILES = {
    "commands/data_loading.py",
    "commands/file_lock.py",
    "commands/reopening.py",
    "data/cache_keys.py",
    "data/label_file.py",
    "retrieval/candidate_generator.py",
    "strict_json.py",
    "tokenization/multi_cls.py",
    "training/checkpoint_files.py",
}


def strict(text: str | bytes):
    """Parsed as a parser does that knows JSON alone."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize(
    "undefined", [float("nan"), float("-inf"), np.float32("inf"), np.float64("nan"), torch.tensor(np.nan)]
)
def test_ac68_undefined_is_null_at_any_depth(undefined):
    content = {"a": [1, {"b": undefined}], "c": (undefined,), "d": np.array([1.0, np.nan])}
    assert strict(json_text(content)) == {"a": [1, {"b": None}], "c": [None], "d": [1.0, None]}


def test_ac68_numbers_of_numpy_and_torch_are_numbers_whatever_the_default():
    content = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": torch.tensor(2),
        "d": np.bool_(True),
        "e": torch.ones(2),
        "f": Path("x"),
    }
    expected = {"a": 0.5, "b": 3, "c": 2, "d": True, "e": [1.0, 1.0], "f": "x"}
    assert strict(json_text(content, default=str)) == expected
    assert as_plain({**content, "f": 1}) == {**expected, "f": 1}


def test_what_has_no_form_is_refused_and_characters_stay():
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        json_text({"a": object()})
    assert json_text(["Käse"]) == '["Käse"]'
    assert strict(json_bytes(["a\udce9"])) == ["a\udce9"]


def test_files_are_written_by_the_strict_functions_alone():
    callers = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("dump", "dumps")
                and getattr(node.value, "id", "") == "json"
            ):
                callers.add(path.relative_to(PACKAGE).as_posix())
    assert {caller for caller in callers if not caller.startswith("models/")} == NO_FILES

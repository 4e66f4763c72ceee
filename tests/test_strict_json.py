"""JSON that every parser reads, and only such JSON in the package's files."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import hf_xmtc
from hf_xmtc.strict_json import as_plain, json_bytes, json_text
from strict_parser import parse_strictly

PACKAGE = Path(hf_xmtc.__file__).parent
# What is hashed, or read again by the same program, words in the head of a data card, and the files of models/, which stand alone on the Hub.
NO_FILES = {
    "commands/convert.py",
    "commands/data_loading.py",
    "commands/file_lock.py",
    "commands/export_check.py",
    "data/cache_keys.py",
    "data/label_file.py",
    "retrieval/candidate_generator.py",
    "retrieval/model_candidates.py",
    "strict_json.py",
    "tokenization/multi_cls.py",
    "training/checkpoint_files.py",
    "training/linear_trees.py",
}
# What is parsed but is no file of JSON: arguments, lines, what another process says, headers, and copies of something in memory.
PARSED_TEXTS = {
    "commands/config_overrides.py",
    "commands/document_formats.py",
    "commands/file_lock.py",
    "commands/output_folder.py",
    "commands/export_check.py",
    "data/formats/json_objects.py",
    "data/formats/label_cells.py",
    "models/configuration_xmtc.py",
    "models/weight_shapes.py",
    "tokenization/multi_cls.py",
    "tokenization/tokenizer_content.py",
}


@pytest.mark.parametrize(
    "undefined", [float("nan"), float("-inf"), np.float32("inf"), np.float64("nan"), torch.tensor(np.nan)]
)
def test_undefined_is_null_at_any_depth(undefined):  # AC-68
    content = {"a": [1, {"b": undefined}], "c": (undefined,), "d": np.array([1.0, np.nan])}
    assert parse_strictly(json_text(content)) == {"a": [1, {"b": None}], "c": [None], "d": [1.0, None]}


def test_numbers_of_numpy_and_torch_are_numbers_whatever_the_default():  # AC-68
    content = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": torch.tensor(2),
        "d": np.bool_(True),
        "e": torch.ones(2),
        "f": Path("x"),
    }
    expected = {"a": 0.5, "b": 3, "c": 2, "d": True, "e": [1.0, 1.0], "f": "x"}
    assert parse_strictly(json_text(content, default=str)) == expected
    assert as_plain({**content, "f": 1}) == {**expected, "f": 1}


def test_what_has_no_form_is_refused_and_characters_stay():
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        json_text({"a": object()})
    assert json_text(["Käse"]) == '["Käse"]'
    assert parse_strictly(json_bytes(["a\udce9"])) == ["a\udce9"]


def callers_of(*functions: str) -> set[str]:
    """Files of the package that call these functions of json."""
    callers = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in functions and getattr(node.value, "id", "") == "json":
                callers.add(path.relative_to(PACKAGE).as_posix())
    return callers


def test_files_are_written_by_the_strict_functions_alone():
    assert {caller for caller in callers_of("dump", "dumps") if not caller.startswith("models/")} == NO_FILES


def test_files_are_read_by_the_reader_alone():
    assert callers_of("load", "loads") == {"models/json_reader.py", *PARSED_TEXTS}

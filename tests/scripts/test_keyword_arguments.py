"""Scripts and notebooks use only arguments that the installed libraries have."""

import ast
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers

from hf_xmtc import XMTCTrainer

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *sorted((ROOT / "scripts").rglob("*.py")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "src" / "hf_xmtc" / "commands").glob("*.py")),
]
PACKAGES = ("hf_xmtc", "transformers", "datasets", "evaluate", "accelerate", "huggingface_hub")


def source_of(path: Path) -> str:
    """The Python code of a script or notebook; lines and cells for the shell are left out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    sources = ("".join(cell["source"]) for cell in cells)
    lines = "\n".join(source for source in sources if not source.startswith("%%")).splitlines()
    return "\n".join(re.sub(r"^(\s*)[!%].*", r"\1pass", line) for line in lines)


def imported_names(tree: ast.Module, package: str) -> dict[str, Any]:
    """What the code imports by name from the libraries that are checked; relative imports count from ``package``."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if module.split(".")[0] in PACKAGES:
                for alias in node.names:
                    found[alias.asname or alias.name] = getattr(importlib.import_module(module), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in PACKAGES:
                    found[alias.asname or alias.name] = importlib.import_module(alias.name)
    return found


def allowed_keywords(function: Any) -> set[str] | None:
    """Keyword arguments a function takes; None where it takes any."""
    if inspect.isclass(function) and issubclass(function, transformers.PreTrainedConfig):
        return None  # keeps unknown settings as attributes, by the library's design
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a subclass of dict says nothing
        return None
    names = {parameter.name for parameter in parameters}
    if function is XMTCTrainer:  # hands the rest on
        return names | set(inspect.signature(transformers.Trainer).parameters)
    return None if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters) else names


def unknown_keywords(source: str, package: str = "hf_xmtc.commands") -> Iterator[str]:
    """Calls with a keyword argument that the called function does not have."""
    tree = ast.parse(source)
    names = imported_names(tree, package)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = called(node.func, names)
        allowed = allowed_keywords(function) if callable(function) else None
        if allowed is not None:
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in allowed:
                    yield f"line {node.lineno}: {ast.unparse(node.func)}({keyword.arg}=…)"


def called(node: ast.expr, names: dict[str, Any]) -> Any:
    """The function behind ``name`` or ``name.attribute``, None where it is not known without running the code."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(names.get(node.value.id), node.attr, None)
    return None


def device_calls_at_start(source: str) -> Iterator[str]:
    """Use of a GPU in code that runs when the file is imported, before a launcher has given each process its device."""
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute) and node.attr in ("cuda", "accelerator"):
                    yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_keyword_arguments_exist(path):  # AC-35
    assert list(unknown_keywords(source_of(path))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_data_is_loaded_without_running_foreign_code(path):  # AC-35
    for node in ast.walk(ast.parse(source_of(path))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("load_dataset", "load_xmtc_dataset"):
            assert "trust_remote_code" not in {keyword.arg for keyword in node.keywords}


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".py"], ids=lambda path: path.name)
def test_no_device_is_touched_before_the_launcher_has_started(path):  # AC-35
    assert list(device_calls_at_start(source_of(path))) == []


def test_the_check_sees_arguments_that_are_gone():
    source = (
        "from transformers import Trainer as T, TrainingArguments\n"
        "from hf_xmtc import BertXMLForXMTC, XMTCTrainer, XMTCTrainingArguments\n"
        "TrainingArguments(output_dir='x', evaluation_strategy='epoch')\n"
        "T(model=None, tokenizer=None)\n"
        "XMTCTrainer(model=None, args=None, callbacks=[], tokenizer=None)\n"
        "XMTCTrainingArguments(output_dir='x', eval_top_k=5, **{'a': 1})\n"
        "BertXMLForXMTC.from_backbone('x', hidden_size=3)\n"
        "unknown(a=1)\n"
        "import datasets\n"
        "datasets.concatenate_datasets([], nothing=3)\n"
    )
    assert list(unknown_keywords(source)) == [
        "line 3: TrainingArguments(evaluation_strategy=…)",
        "line 4: T(tokenizer=…)",
        "line 5: XMTCTrainer(tokenizer=…)",
        "line 10: datasets.concatenate_datasets(nothing=…)",
    ]
    relative = "from .recipe_parsing import parse_recipe\nparse_recipe(argv=[], arguments=[])\n"
    assert list(unknown_keywords(relative)) == ["line 2: parse_recipe(arguments=…)"]
    assert list(device_calls_at_start("import torch\nif torch.cuda.is_available():\n    pass\n")) == ["line 2: torch.cuda"]

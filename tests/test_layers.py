"""Imports point one way, and what lives in models/ can be copied to the Hub.

Every check is a function from source text to complaints, so that each is also run on a snippet that it must complain about.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hf_xmtc"
FILES = sorted(SOURCE.rglob("*.py"))
MODEL_FILES = sorted((SOURCE / "models").glob("*.py"))

# Reading and writing files, for whatever does, except what stays with numpy or torch alone. What models need too is in models/, whose
# files stand alone on the Hub.
_FILES = ("disk", "file_checks", "strict_json")
_BOTTOM = ("models", "metrics", "label_tree", "tokenization")
_LOWER = ("data", "inference")
_MIDDLE = ("training", "evaluate_modules", "retrieval")
_UPPER = ("demo", "analysis", "ensemble", "hub", "significance")

# Part of the package → the other parts it may import. "" is the package's __init__, which names what users import.
MAY_IMPORT = {
    "file_checks": ("models",),
    "disk": (),
    "strict_json": (),
    **dict.fromkeys(_BOTTOM, ()),
    "label_tree": _FILES,
    **dict.fromkeys(_LOWER, (*_BOTTOM, *_FILES)),
    **dict.fromkeys(_MIDDLE, (*_BOTTOM, *_FILES, *_LOWER)),
    **dict.fromkeys(_UPPER, (*_BOTTOM, *_FILES, *_LOWER, *_MIDDLE)),
    "": (*_BOTTOM, *_FILES, *_LOWER, *_MIDDLE, *_UPPER),
    "commands": ("", *_BOTTOM, *_FILES, *_LOWER, *_MIDDLE, *_UPPER),
    "cli": ("", *_BOTTOM, *_FILES, *_LOWER, *_MIDDLE, *_UPPER, "commands"),
}

HUB_SAFE_PACKAGES = {"torch", "transformers", "safetensors", "numpy"}
MAX_LINES = 400
FOLDERS = sorted({path.parent for path in [*FILES, *(ROOT / "scripts").rglob("*.py")]} - {SOURCE, ROOT / "scripts"})


def part_of(path: Path) -> str:
    """The part of the package a file belongs to: its top folder, or its own name for a file at the top."""
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


def modules_imported(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything a file imports, ``package.name`` for ``from package import name``."""
    package = ["hf_xmtc", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = [*base, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*prefix, alias.name])) for alias in node.names)


def imports_within(folder: Path) -> dict[str, set[str]]:
    """File → the files of the same folder that it imports, for type checkers too."""
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    graph = {}
    for name in names:
        imported: set[str] = set()
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level <= 1:
                own = f"{'.'.join(('hf_xmtc', folder.name))}."
                imported.add(node.module.removeprefix(own) if node.level == 0 else node.module)
        graph[name] = (imported & names) - {name}
    return graph


def circle_in(graph: dict[str, set[str]]) -> list[str] | None:
    """Files that import each other in a circle, from one of them back to it; None where there is no circle."""
    done: set[str] = set()

    def follow(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        circles = [circle for other in sorted(graph[name]) if (circle := follow(other, [*path, name]))]
        done.add(name)
        return circles[0] if circles else None

    return next((circle for name in sorted(graph) if (circle := follow(name, []))), None)


def layer_complaints(source: str, path: Path) -> list[str]:
    """Imports of other parts of the package that the table does not allow."""
    own = part_of(path)
    if own not in MAY_IMPORT:
        return [f"{own} is not in the table of layers"]
    complaints = []
    for line, module in modules_imported(source, path):
        names = module.split(".")
        if names[0] != "hf_xmtc":
            continue
        # `from hf_xmtc import X` reaches a part of the package, or what its __init__ names.
        other = names[1] if len(names) > 1 and names[1] in MAY_IMPORT else ""
        if other != own and other not in MAY_IMPORT[own]:
            complaints.append(f"line {line}: {own} must not import {other or 'the package itself'} ({module})")
    return complaints


def own_folder_complaints(source: str, path: Path) -> list[str]:
    """Files of the same folder that are imported by their whole name instead of as `from .sibling import Name`."""
    folder = ".".join(["hf_xmtc", *path.relative_to(SOURCE).parts[:-1]])
    return [
        f"line {node.lineno}: write `from .{node.module.removeprefix(folder).lstrip('.')} import …`"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith(f"{folder}.")
    ]


def hub_complaints(source: str) -> list[str]:
    """What would break the copy of a file that lives beside the weights on the Hub."""
    complaints = []
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        where = f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.module is None:
                complaints.append(f"{where}: `from . import x` is not copied; write `from .x import Name`")
            elif node.level > 1 or "." in node.module:
                complaints.append(f"{where}: {'.' * node.level}{node.module} is not a sibling; the copy is flat")
            elif not (SOURCE / "models" / f"{node.module}.py").is_file():
                complaints.append(f"{where}: there is no models/{node.module}.py")
            continue
        modules = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for module in modules:
            package = module.split(".")[0]
            if package not in HUB_SAFE_PACKAGES and package not in sys.stdlib_module_names:
                complaints.append(f"{where}: {package} is not there where only torch and transformers are")
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom) and not _is_standard_library(node):
                    complaints.append(f"line {node.lineno}: an import inside a function counts as a requirement at load")
    # The exporter looks for siblings line by line, in strings too.
    real = {node.lineno for node in imports}
    for number, line in enumerate(source.splitlines(), start=1):
        if re.match(r"\s*(from|import)\s+\.", line) and number not in real:
            complaints.append(f"line {number}: text that begins like a relative import: {line.strip()!r}")
    return complaints


def _is_standard_library(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and node.module.split(".")[0] in sys.stdlib_module_names
    return all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)


def public_name_complaints(source: str) -> list[str]:
    """Names in ``__all__`` that the file neither defines nor imports at its top."""
    tree = ast.parse(source)
    defined: set[str] = set()
    public: list[str] = []
    for node in _top_statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            defined |= names
            if "__all__" in names:
                public = ast.literal_eval(node.value)
    return [f"__all__ names {name}, which is not there" for name in public if name not in defined]


def _top_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):  # such as `if TYPE_CHECKING:`
            yield from _top_statements([*node.body, *node.orelse])


def length_complaints(source: str) -> list[str]:
    lines = len(source.splitlines())
    return [f"{lines} lines; split it by content at {MAX_LINES}"] if lines > MAX_LINES else []


def complaints_about(files: list[Path], check) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {complaint}" for path in files for complaint in check(path)]


def test_there_are_files_to_look_at():
    assert {"modeling_xmtc.py", "cornet.py"} <= {path.name for path in MODEL_FILES}
    assert {"models", "metrics", "tokenization", "label_tree", "data", "training", "hub", "commands"} <= {
        part_of(path) for path in FILES
    }


def test_imports_point_one_way():
    assert complaints_about(FILES, lambda path: layer_complaints(path.read_text("utf-8"), path)) == []


def test_files_of_one_folder_import_each_other_relatively():
    in_folders = [path for path in FILES if path.parent != SOURCE]
    assert complaints_about(in_folders, lambda path: own_folder_complaints(path.read_text("utf-8"), path)) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_files_of_one_folder_do_not_import_each_other_in_a_circle(folder):
    graph = imports_within(folder)
    for name, others in graph.items():
        if name.startswith("configuration_"):
            # A config names its model for type checkers, so that transformers tells model folders apart by all of their code.
            graph[name] = {other for other in others if not other.startswith("modeling_")}
    assert circle_in(graph) is None


def test_a_circle_of_imports_is_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_files_of_tests_do_not_import_each_other():
    for path in Path(__file__).parent.rglob("test_*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        found = [node.module for node in nodes if (node.module or "").rpartition(".")[2].startswith("test_")]
        assert not found, f"{path} imports from {found}: move what they share into a file without tests"


def test_model_files_can_live_on_the_hub():
    assert complaints_about(MODEL_FILES, lambda path: hub_complaints(path.read_text("utf-8"))) == []
    assert [path for path in (SOURCE / "models").iterdir() if path.is_dir() and path.name != "__pycache__"] == []


def test_label_trees_do_without_torch():
    files = sorted((SOURCE / "label_tree").glob("*.py"))
    imported = {module.split(".")[0] for path in files for _, module in modules_imported(path.read_text("utf-8"), path)}
    assert imported - set(sys.stdlib_module_names) == {"hf_xmtc", "numpy", "scipy", "safetensors"}


def test_public_names_exist():
    assert complaints_about(FILES, lambda path: public_name_complaints(path.read_text("utf-8"))) == []


def test_no_file_is_too_long_to_read():
    files = FILES + sorted((ROOT / "scripts").rglob("*.py"))
    assert complaints_about(files, lambda path: length_complaints(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("models/x.py", "from hf_xmtc.metrics import ndcg_at_k", "models must not import metrics"),
        ("models/x.py", "from ..tokenization import add_cls_tokens", "models must not import tokenization"),
        ("metrics/x.py", "import hf_xmtc.models.cornet", "metrics must not import models"),
        ("tokenization/x.py", "from .. import BertXMLConfig", "tokenization must not import the package itself"),
        ("label_tree/x.py", "from hf_xmtc.models.label_names import LabelNames", "label_tree must not import models"),
        ("label_tree/x.py", "from hf_xmtc.metrics.label_sets import label_sets", "label_tree must not import metrics"),
        ("data/x.py", "def f():\n    from hf_xmtc.training import XMTCTrainer", "line 2: data must not import training"),
        ("training/x.py", "from hf_xmtc import evaluate_modules", "training must not import evaluate_modules"),
        ("training/x.py", "from hf_xmtc import load_xmtc_dataset", "training must not import the package itself"),
        ("evaluate_modules/x/x.py", "from ...hub import push_folder", "evaluate_modules must not import hub"),
        ("hub/x.py", "from hf_xmtc.commands.train import main", "hub must not import commands"),
        ("analysis.py", "from .hub import push_folder", "analysis must not import hub"),
        ("commands/x.py", "from ..cli import main", "commands must not import cli"),
        ("helpers.py", "", "helpers is not in the table"),
    ],
)
def test_a_wrong_import_is_seen(file, source, complaint):
    (found,) = layer_complaints(source, SOURCE / file)
    assert complaint in found


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("models/x.py", "from .cornet import CorNet"),
        ("data/x.py", "from hf_xmtc.models.label_names import LabelNames"),
        ("label_tree/x.py", "from hf_xmtc.file_checks import ArrayFile"),
        ("evaluate_modules/x/x.py", "from hf_xmtc import metrics"),
        ("hub/x.py", "from .verify import check_model_folder\nfrom ..training import XMTCTrainer"),
        ("commands/x.py", "import hf_xmtc\nfrom hf_xmtc import BertXMLConfig"),
        ("cli.py", "from .commands.train import main"),
        ("__init__.py", "from .models.cornet import CorNet\nfrom .training import XMTCTrainer"),
    ],
)
def test_a_right_import_is_not_complained_about(file, source):
    assert layer_complaints(source, SOURCE / file) == []


def test_an_absolute_import_within_a_folder_is_seen():
    path = SOURCE / "hub" / "x.py"
    assert own_folder_complaints(
        "from hf_xmtc.hub.verify import a\nfrom hf_xmtc.hubs import b\nfrom .push import c", path
    ) == ["line 1: write `from .verify import …`"]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("from . import cornet", "is not copied"),
        ("from .layers.cornet import CorNet", "is not a sibling"),
        ("from ..models.cornet import CorNet", "is not a sibling"),
        ("from .nothing import Name", "there is no models/nothing.py"),
        ("from hf_xmtc.models.cornet import CorNet", "hf_xmtc is not there"),
        ("import scipy.sparse", "scipy is not there"),
        ("if TYPE_CHECKING:\n    from datasets import Dataset", "line 2: datasets is not there"),
        ("def f():\n    import torch", "line 2: an import inside a function"),
        ("class A:\n    def f(self):\n        from .cornet import CorNet", "line 3: an import inside a function"),
        ('"""Take it\n\n    from .cornet import CorNet\n"""', "line 3: text that begins like a relative import"),
        ('def f():\n    """See\n    from .cornet\n    """', "line 3: text that begins like a relative import"),
    ],
)
def test_what_breaks_the_copy_on_the_hub_is_seen(source, complaint):
    (found,) = hub_complaints(source)
    assert complaint in found


def test_what_the_hub_takes_is_not_complained_about():
    source = (
        "import json\nfrom torch import (\n    Tensor,\n)\nfrom .cornet import (\n    CorNet,\n)\ndef f():\n    import re\n"
    )
    assert hub_complaints(source) == []


def test_a_public_name_that_is_not_there_is_seen():
    source = '__all__ = ["A", "b", "C", "d", "e"]\nclass A: ...\ndef b(): ...\nif T:\n    from .c import C\nd: int = 1\n'
    assert public_name_complaints(source) == ["__all__ names e, which is not there"]


def test_a_long_file_is_seen():
    assert length_complaints("\n" * MAX_LINES) == []
    assert length_complaints("\n" * (MAX_LINES + 1)) == ["401 lines; split it by content at 400"]

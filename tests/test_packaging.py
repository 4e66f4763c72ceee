"""What `import hf_xmtc` costs, and what a wheel holds."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

import hf_xmtc
from forked_python import run_python

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hf_xmtc"

OPTIONAL = ["accelerate", "datasets", "evaluate", "matplotlib", "pandas", "pyarrow", "sklearn", "yaml"]


def in_a_fresh_process(code: str) -> str:
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_of_the_extras():
    # transformers imports some of them itself where they are installed; that is its price, not ours.
    code = (
        "import json, sys\n"
        "from transformers import AutoModel, AutoTokenizer, Pipeline, PreTrainedConfig, PreTrainedModel\n"
        f"before = {{name for name in {OPTIONAL} if name in sys.modules}}\n"
        "import hf_xmtc\n"
        f"print(json.dumps([name for name in {OPTIONAL} if name in sys.modules and name not in before]))\n"
        "print(json.dumps(sorted(before)))\n"
        "from transformers import AutoConfig\n"
        "print(json.dumps(type(AutoConfig.for_model('xmlcnn', num_labels=1)).__name__))"
    )
    ours, of_transformers, known = (json.loads(line) for line in in_a_fresh_process(code).splitlines())
    assert ours == []
    assert known == "XMLCNNConfig"
    assert not {"datasets", "evaluate", "matplotlib", "pandas", "sklearn"} & set(of_transformers)


def test_every_public_name_resolves():
    assert len(set(hf_xmtc.__all__)) == len(hf_xmtc.__all__)
    for name in hf_xmtc.__all__:
        assert getattr(hf_xmtc, name) is not None
        assert name in dir(hf_xmtc)
    with pytest.raises(AttributeError, match="'hf_xmtc' has no attribute 'Nothing'"):
        hf_xmtc.Nothing  # noqa: B018


@pytest.mark.parametrize("name", ["load_xmtc_dataset", "XMTCTrainer"])
def test_a_missing_extra_gives_the_command_that_installs_it(name):
    code = (
        "import sys\n"
        "sys.modules['datasets'] = None\n"
        "import hf_xmtc\n"
        "try:\n"
        f"    hf_xmtc.{name}\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert in_a_fresh_process(code).strip() == f"`{name}` needs `datasets`: pip install 'hf_xmtc[train]'"


def test_a_bare_install_opens_models_and_tags_text_files(tiny_model_folder, tmp_path):
    (tmp_path / "a.txt").write_text("edit a text file\n")
    blocked = [name for name in OPTIONAL if name != "yaml"] + ["scipy"]  # yaml comes with transformers
    options = ["--model", str(tiny_model_folder), "--input", str(tmp_path / "a.txt"), "--output", str(tmp_path / "b.jsonl")]
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({blocked}))\n"
        "from hf_xmtc.cli import main\n"
        f"main(['predict', '--device', 'cpu', *{options}])\n"
    )
    assert "1 documents in" in in_a_fresh_process(code)


def _settings() -> dict:
    tomllib = pytest.importorskip("tomllib")
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_data_file_of_the_package_is_in_the_wheel():
    patterns = _settings()["tool"]["setuptools"]["package-data"]["hf_xmtc"]
    included = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    others = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert sorted(str(path.relative_to(PACKAGE)) for path in others - included) == []
    assert [pattern for pattern in patterns if not any(PACKAGE.glob(pattern))] == []
    names = {str(path.relative_to(PACKAGE)) for path in included}
    assert {f"data/demo/{split}.parquet" for split in ("train", "validation", "test")} <= names
    assert "evaluate_modules/xmtc_ranking/README.md" in names


def test_the_module_of_the_command_is_in_the_wheel():
    setuptools = _settings()["tool"]["setuptools"]
    assert setuptools["py-modules"] == [path.stem for path in (ROOT / "src").glob("*.py")]
    assert (ROOT / setuptools["package-dir"][""]) == ROOT / "src"


def test_every_folder_with_code_is_in_the_wheel():
    discovery = pytest.importorskip("setuptools.discovery")
    found = set(discovery.PEP420PackageFinder.find(str(ROOT / "src")))
    folders = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in PACKAGE.rglob("*.py")}
    assert folders - found == set()


def test_the_version_is_stated_once():
    assert _settings()["project"]["version"] == hf_xmtc.__version__


def test_the_command_of_the_wheel_is_there():
    module, function = _settings()["project"]["scripts"]["hf-xmtc"].split(":")
    assert callable(getattr(__import__(module, fromlist=[function]), function))


# Modules whose distribution has another name.
_DISTRIBUTIONS = {"faiss": "faiss-cpu", "yaml": "pyyaml", "sklearn": "scikit-learn"}
# Parts of the package that the base install runs; the rest needs the extra `train`.
_BASE_PARTS = ("models", "tokenization", "metrics", "hub")


def _third_party_imports(paths) -> set[str]:
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    names = {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"hf_xmtc"}
    return {_DISTRIBUTIONS.get(name, name) for name in names}


def test_every_package_that_is_imported_is_a_declared_dependency():
    project = _settings()["project"]
    extras = project["optional-dependencies"]
    base, train, retrieval, tree, skos = (
        {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}
        for requirements in (project["dependencies"], extras["train"], extras["retrieval"], extras["tree"], extras["skos"])
    )
    files = set(PACKAGE.rglob("*.py"))
    of_retrieval = set((PACKAGE / "retrieval").rglob("*.py"))
    of_tree = set((PACKAGE / "label_tree").rglob("*.py"))
    command = PACKAGE / "commands" / "tree.py"
    imported = _third_party_imports(files - of_retrieval - of_tree - {command})
    assert {"torch", "pyarrow", "pyyaml"} <= imported
    assert imported - base - train - tree - skos == set()
    for_training = {
        PACKAGE / "retrieval" / f"{name}.py" for name in ("candidate_columns", "neighbor_columns")
    }  # of data sets
    assert _third_party_imports(of_retrieval - for_training) - base - retrieval == set()
    assert _third_party_imports(of_retrieval) - base - train - retrieval == set()
    assert _third_party_imports(of_tree) - base - tree == set()
    assert _third_party_imports([command]) - base - train - tree == set()
    of_base_parts = {path for part in _BASE_PARTS for path in (PACKAGE / part).rglob("*.py")}
    card = PACKAGE / "hub" / "dataset_card.py"  # of data sets, as above
    assert _third_party_imports(of_base_parts - {card}) - base == set()

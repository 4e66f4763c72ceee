"""The notebooks run from top to bottom, offline and elsewhere than where they were written."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 400_000
MAX_SECONDS_OF_A_CELL = 300  # one that hangs

# Folders of a machine, and the files that a kernel runs cells from.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])(?:/(?:home|root|tmp|work|Users|usr|opt|var|mnt|content)/|[A-Za-z]:\\\\?)[\w.-]+")
BADGE = re.compile(r"https://colab\.research\.google\.com/github/(?P<repository>[\w.-]+/[\w.-]+)/blob/main/(?P<path>\S+?)\)")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts_of(output) -> list[str]:
    """Everything readable in an output; pictures are not."""
    data = output.get("data", {})
    readable = [value for kind, value in data.items() if kind.startswith(("text/", "application/"))]
    as_text = [value if isinstance(value, str) else json.dumps(value) for value in readable]
    return [output.get("text", ""), *output.get("traceback", []), *as_text]


# What a cell says that trains a model; all that follows depends on how long.
TRAINING = (".train()", "train_linear_trees(", "hf-xmtc train")


def lasting_outputs(cell) -> list[str]:
    """Outputs that are the same in every run: printed text, in however many pieces, and values, not warnings and pictures."""
    printed = (output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout")
    return ["".join(printed)] + [
        output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"
    ]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a kernel that is the Python of this test, whatever kernels the machine has."""
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    return "python3"


def execute(notebook, kernel: str, folder: Path):
    """Run all cells with ``folder`` as the working directory; a cell that raises is a failure of the test."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_XMTC_NOTEBOOK_SMOKE": "1"}
    caches = dict.fromkeys(("HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE"), str(folder / "cache"))
    # The kernel finds the package and its program where the test does, without them being installed.
    program = folder.parent / "bin" / "hf-xmtc"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\nimport hf_xmtc_command\n\nraise SystemExit(hf_xmtc_command.main())\n")
    program.chmod(0o755)
    sources = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    settings = {**os.environ, **offline, **caches, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1"}
    settings["PATH"] = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    client = nbclient.NotebookClient(
        notebook, kernel_name=kernel, timeout=MAX_SECONDS_OF_A_CELL, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute(env=settings)


def test_there_are_notebooks():
    assert "01_quickstart" in [path.stem for path in NOTEBOOKS]


@each_notebook
def test_notebook_runs_offline_in_another_folder(path, kernel, tmp_path):  # AC-35
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(path, folder)
    done = execute(read(folder / path.name), kernel, folder)
    errors = [output for cell in code_cells(done) for output in cell.outputs if output.output_type == "error"]
    assert errors == []
    # The stored outputs are those of the present code.
    has_trained = False
    for stored, cell in zip(code_cells(read(path)), code_cells(done), strict=True):
        has_trained = has_trained or any(words in stored.source for words in TRAINING)
        if not has_trained or "iterdir()" in stored.source:
            assert lasting_outputs(cell) == lasting_outputs(stored), stored.source
    # All that it wrote is in one folder.
    assert {entry.name for entry in folder.iterdir()} <= {path.name, "cache", "outputs"}


def test_the_run_is_in_this_python_and_fails_when_a_cell_fails(kernel, tmp_path):  # AC-35
    sources = ["import sys\n\nprint(sys.executable)", "no_such_name"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="no_such_name"):
        execute(notebook, kernel, tmp_path)
    assert notebook.cells[0].outputs[0].text.strip() == sys.executable


# In place of pip: shows the command as IPython passes it on.
RECORD_PIP = """\
from IPython.core.magic import register_line_magic

@register_line_magic
def pip(line):
    print("pip", line)
"""
# The package disappears from the path, and so does the finder of an editable installation.
HIDE_PACKAGE = """\
import sys
from pathlib import Path

sys.path[:] = [entry for entry in sys.path if not (Path(entry) / "hf_xmtc").is_dir()]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], ""),
        ([HIDE_PACKAGE], 'pip install -q "hf_xmtc[train] @ git+https://github.com/hf-xmtc/hf_xmtc"\n'),
    ],
    ids=["there", "missing"],
)
def test_install_cell_installs_only_where_the_package_is_missing(before, expected, kernel, tmp_path):  # AC-35
    install = code_cells(read(FOLDER / "01_quickstart.ipynb"))[0].source
    cells = [nbformat.v4.new_code_cell(source) for source in (RECORD_PIP, *before, install)]
    done = execute(nbformat.v4.new_notebook(cells=cells), kernel, tmp_path)
    assert "".join(output.get("text", "") for output in code_cells(done)[-1].outputs) == expected


@each_notebook
def test_first_code_cell_installs_before_the_package_is_imported(path):  # AC-35
    first, *others = [cell.source for cell in code_cells(read(path))]
    imports = re.compile(r"^\s*(?:import|from)\s+(\w+)", flags=re.MULTILINE)
    assert re.search(
        r'^ *%pip install -q "hf_xmtc\[train(,tree)?\] @ git\+https://github\.com/\{REPOSITORY\}"$', first, re.MULTILINE
    )
    assert set(imports.findall(first)) <= sys.stdlib_module_names
    assert not any(re.search(r"%pip|!pip|pip install", source) for source in others)
    assert any("hf_xmtc" in imports.findall(source) for source in others)


@each_notebook
def test_badge_opens_this_notebook_of_the_repository_that_is_installed(path):
    notebook = read(path)
    badges = [match for cell in notebook.cells if cell.cell_type == "markdown" for match in BADGE.finditer(cell.source)]
    assert [match["path"] for match in badges] == [f"notebooks/{path.name}"]
    assert f'REPOSITORY = "{badges[0]["repository"]}"' in code_cells(notebook)[0].source


@each_notebook
def test_stored_outputs_are_small_complete_and_without_paths_of_a_machine(path):
    notebook = read(path)
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert path.stat().st_size < MAX_BYTES
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert [output.output_type for output in outputs if output.output_type == "error"] == []
    found = [match[0] for output in outputs for text in texts_of(output) for match in MACHINE_PATH.finditer(text)]
    assert found == []
    # Run once from top to bottom, with no cell run again or out of order.
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize(
    "text",
    [
        "/tmp/ipykernel_12/3.py:1: UserWarning",
        "in /home/ann/x.py",
        r"C:\Users\ann",
        "saved to /content/outputs",
        "line\n/work/x",
    ],
)
def test_paths_of_a_machine_are_seen(text):
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    "text", ["https://huggingface.co/home/x", "either/or", "outputs/my-data", "a 4 / 5", "devel::lang:c"]
)
def test_other_slashes_are_not_taken_for_paths(text):
    assert not MACHINE_PATH.search(text)

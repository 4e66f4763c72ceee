"""The notebooks run from top to bottom, offline and elsewhere than where they were written."""

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 400_000
MAX_SECONDS = 90

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
    return [output.get("text", ""), *output.get("traceback", []), *(json.dumps(value) for value in readable)]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a kernel that is the Python of this test, whatever kernels the machine has."""
    pytest.importorskip("ipykernel")
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    return "python3"


def execute(notebook, kernel: str, folder: Path, **environment: str):
    """Run all cells with ``folder`` as the working directory; a cell that raises is a failure of the test."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache"), "HF_XMTC_NOTEBOOK_SMOKE": "1"}
    # The kernel finds the package where the test does, without it being installed.
    sources = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    settings = {**os.environ, **offline, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1", **environment}
    client = nbclient.NotebookClient(
        notebook, kernel_name=kernel, timeout=MAX_SECONDS, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute(env=settings)


def test_there_are_notebooks():
    assert "01_quickstart" in [path.stem for path in NOTEBOOKS]


@each_notebook
def test_ac35_notebook_runs_offline_in_another_folder(path, kernel, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(path, folder)
    started = time.monotonic()
    done = execute(read(folder / path.name), kernel, folder)
    assert time.monotonic() - started < MAX_SECONDS
    errors = [output for cell in code_cells(done) for output in cell.outputs if output.output_type == "error"]
    assert errors == []
    # All that it wrote is in one folder, which git ignores.
    assert {entry.name for entry in folder.iterdir()} == {path.name, "cache", "outputs"}
    assert (folder / "outputs" / "quickstart-tagger" / "model.safetensors").is_file()


def test_ac35_the_run_fails_when_a_cell_fails(kernel, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import hf_xmtc\nhf_xmtc.no_such_name")])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="no_such_name"):
        execute(notebook, kernel, tmp_path)


def test_ac35_the_install_cell_installs_only_where_the_package_is_missing(kernel, tmp_path):
    install = code_cells(read(FOLDER / "01_quickstart.ipynb"))[0].source
    # pip stands aside for a recorder, which shows the command after IPython has filled it in.
    record = (
        "from IPython.core.magic import register_line_magic\n\n"
        "@register_line_magic\n"
        "def pip(line):\n"
        "    print('pip', line)\n"
    )
    hide = "import sys\n\nsys.path[:] = [entry for entry in sys.path if not entry.startswith(SOURCES)]\n"
    hide += "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in repr(finder).lower()]"

    def printed(*before: str) -> str:
        cells = [nbformat.v4.new_code_cell(source) for source in (record, *before, install)]
        done = execute(nbformat.v4.new_notebook(cells=cells), kernel, tmp_path)
        return "".join(output.get("text", "") for output in code_cells(done)[-1].outputs)

    assert printed() == ""
    missing = printed(f"SOURCES = {str(ROOT / 'src')!r}", hide)
    assert missing.strip() == 'pip install -q "hf_xmtc[train] @ git+https://github.com/hf-xmtc/hf_xmtc"'


@each_notebook
def test_ac35_first_code_cell_installs_before_the_package_is_imported(path):
    first, *others = [cell.source for cell in code_cells(read(path))]
    imports = re.compile(r"^\s*(?:import|from)\s+(\w+)", flags=re.MULTILINE)
    assert re.search(r'^ *%pip install -q "hf_xmtc\[train\] @ git\+https://github\.com/\{REPOSITORY\}"$', first, re.MULTILINE)
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
    "text", ["/tmp/ipykernel_12/3.py:1: UserWarning", "in /home/ann/x.py", r"C:\Users\ann", "saved to /content/outputs"]
)
def test_paths_of_a_machine_are_seen(text):
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["https://huggingface.co/home/x", "either/or", "outputs/my-data", "a 4 / 5", "devel::lang:c"])
def test_other_slashes_are_not_taken_for_paths(text):
    assert not MACHINE_PATH.search(text)

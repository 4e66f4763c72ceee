import subprocess
import sys

import pytest

from forked_python import run_python
from hf_xmtc import __version__, cli


def test_the_version_is_the_packages(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hf_xmtc {__version__}\n"


def test_help_names_every_command(capsys):
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    commands = ("train", "predict", "ensemble", "compare", "extend", "convert", "describe", "tree", "push")
    assert all(f"  {command} " in said for command in commands)


def test_no_command_at_all_is_an_error_with_the_usage(capsys):
    assert cli.main([]) == 2
    assert "usage: hf-xmtc COMMAND" in capsys.readouterr().err


def test_an_unknown_command_is_refused_with_the_nearest_one(capsys):
    assert cli.main(["predictt", "--model", "x"]) == 2
    said = capsys.readouterr().err
    assert "no command 'predictt'. Did you mean predict?" in said
    assert "usage: hf-xmtc" in said


def test_arguments_go_to_the_command_and_its_status_comes_back(monkeypatch):
    received = []

    def push_main(argv):
        received.append(argv)
        return 1

    monkeypatch.setattr("hf_xmtc.commands.push.main", push_main)
    monkeypatch.setattr("hf_xmtc.commands.predict.main", received.append)
    push, predict = ["--model", "x", "--repo_id", "me/x"], ["--model", "x", "--input", "a.txt", "--output", "b.jsonl"]
    assert cli.main(["push", *push]) == 1
    assert cli.main(["predict", *predict]) == 0
    assert received == [push, predict]


@pytest.mark.parametrize(
    "command", ["train", "predict", "ensemble", "compare", "extend", "convert", "describe", "push", "tree"]
)
def test_every_command_explains_its_options(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_help_and_wrong_options_are_answered_without_torch_and_models_are_known_afterwards():
    code = (
        "import contextlib, io, sys\n"
        "from hf_xmtc_command import main\n"
        "for line in ('--help', '--version', 'train --help', 'predict -h', 'push --help', 'tree --help', 'extend --help', 'compare --help', 'predict --model x', 'push --modle x', 'train --config missing.yaml'):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):\n"
        "        main(line.split())\n"
        "heavy = {'huggingface_hub', 'numpy', 'torch', 'transformers', 'yaml'} & set(sys.modules)\n"
        "import warnings, hf_xmtc\n"
        "warnings.warn('3 documents have no labels.')\n"
        "names = hf_xmtc.LabelNames\n"
        "from transformers import AutoConfig\n"
        "print(sorted(heavy), type(AutoConfig.for_model('bertxml', num_labels=1)).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[] BertXMLConfig"
    assert "3 documents have no labels.\n" in done.stderr and "UserWarning" not in done.stderr
    assert done.stdout.count("usage: hf-xmtc") == 7


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("datasets", ["train", "--max_steps", "1"], "train"), ("scipy", ["tree", "--output_dir", "x"], "train,tree")],
)
def test_a_missing_extra_gives_the_command_that_installs_it(module, arguments, extra):
    code = f"import sys\nsys.modules['{module}'] = None\nfrom hf_xmtc.cli import main\nmain({arguments})\n"
    done = run_python(code)
    assert done.returncode == 1
    assert (
        done.stderr.strip().splitlines()[-1] == f"`hf-xmtc {arguments[0]}` needs `{module}`: pip install 'hf_xmtc[{extra}]'"
    )


def test_a_fault_of_the_package_is_not_called_a_missing_extra(monkeypatch):
    def broken(argv):
        raise ModuleNotFoundError("No module named 'hf_xmtc.nothing'", name="hf_xmtc.nothing")

    monkeypatch.setattr("hf_xmtc.commands.predict.main", broken)
    with pytest.raises(ModuleNotFoundError, match=r"hf_xmtc\.nothing"):
        cli.main(["predict", "--model", "x", "--input", "a.txt", "--output", "b.jsonl"])

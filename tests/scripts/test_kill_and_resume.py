"""The trial of killed runs: what a kill has hit, how long a repeated run has left, and the table."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "reliability" / "kill_and_resume.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("kill_and_resume", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_kill_has_hit_and_what_is_left_show_in_the_folder(script, tmp_path):
    # Six seconds of start, 100 steps in ten seconds, four seconds for what follows.
    course = script.Course(begun=6.0, trained=16.0, ended=20.0, steps=100)
    assert script.phase(tmp_path, 0.0) == "training before the first checkpoint" and course.left(tmp_path) == 14.0
    (tmp_path / "checkpoints" / "checkpoint-25").mkdir(parents=True)
    assert script.phase(tmp_path, 0.0) == "training after step 25" and course.left(tmp_path) == 11.5
    (tmp_path / "checkpoints" / ".unfinished" / "checkpoint-50").mkdir(parents=True)
    assert script.phase(tmp_path, 0.0) == "writing of a checkpoint"
    (tmp_path / "checkpoints" / "trained").mkdir()
    assert script.phase(tmp_path, 0.0) == "final evaluation" and course.left(tmp_path) == 4.0
    for name, then in (("model.safetensors", "writing"), ("README.md", "reopening")):
        (tmp_path / name).touch()
        assert script.phase(tmp_path, 0.0) == then
    # Written by an earlier run, which had come further.
    assert script.phase(tmp_path, (tmp_path / "README.md").stat().st_mtime + 1) == "final evaluation"


def test_the_table_counts_kills_and_shows_differences(script):
    kills = [{"during": "training after step 25"}, {"during": "final evaluation"}]
    same = {"setup": "one", "kills": kills, "same_weights": True, "same_metrics": True}
    other = {"setup": "two", "kills": [], "same_weights": False, "same_metrics": True}
    table = script.as_table([same, other])
    assert table.startswith("2 kills (SIGKILL at random times) in 2 runs; 1 of 2 ended with the weights")
    assert "| one | training after step 25; final evaluation | identical | identical |" in table
    assert "| two | not killed | DIFFERENT | identical |" in table

"""The trial of two runs at once: what is compared, what is seen of a refusal, and the table."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "reliability" / "two_at_once.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("two_at_once", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_more_other_weights_and_other_metrics_are_differences(script, tmp_path):
    metrics = {"train": {"seconds": 1}, "validation": {"P@1": 0.5}, "test": {"P@1": 0.25}}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    expected = script.content(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps(metrics | {"train": {"seconds": 2}}))
    assert script.content(tmp_path) == expected
    for name, written in (("metrics.json", json.dumps(metrics | {"test": {}}).encode()), ("model.safetensors", b"others")):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(written)
        assert script.content(tmp_path) != expected
        (tmp_path / name).write_bytes(before)
    (tmp_path / ".lock").touch()
    assert script.content(tmp_path) != expected


class Ended:
    """A process that has ended."""

    def __init__(self, pid: int, returncode: int, said: str):
        self.pid, self.returncode, self.said = pid, returncode, said

    def communicate(self) -> tuple[str, None]:
        return self.said, None


@pytest.mark.parametrize(
    ("first", "second", "one", "named"),
    [
        (Ended(5, 0, ""), Ended(6, 1, "x is being written by another run (process 5 on a, since b). Wait"), True, True),
        (Ended(5, 1, "x is being written by another run (process 6 on a, since b). Wait"), Ended(6, 0, ""), True, True),
        (Ended(5, 0, ""), Ended(6, 1, "x is being written by another run (process 6 on a, since b). Wait"), True, False),
        (Ended(5, 0, ""), Ended(6, 1, "Traceback"), True, False),
        (Ended(5, 0, ""), Ended(6, 0, ""), False, False),
        (Ended(5, 1, ""), Ended(6, 1, ""), False, False),
    ],
)
def test_exactly_one_run_is_refused_and_names_the_other(script, tmp_path, monkeypatch, first, second, one, named):
    processes = [first, second]
    monkeypatch.setattr(script, "start", lambda command: processes.pop(0))
    (tmp_path / "tags.jsonl").write_text("{}")
    (tmp_path / "tags.jsonl.partial.lock").touch()
    result = script.into_one(("predict", tmp_path / "tags.jsonl", {}), script.content(tmp_path / "tags.jsonl"))
    assert list(result["checks"].values()) == [one, named, True, False]
    assert not named or result["said"] == "x is being written by another run (process PID on HOST, since TIME). Wait"


@pytest.mark.parametrize(("ends", "holds"), [((0, 0), True), ((0, 1), False)])
def test_two_runs_into_two_outputs_both_have_to_go_through(script, tmp_path, monkeypatch, ends, holds):
    outputs = [tmp_path / f"{name}.jsonl" for name in "ab"]
    processes = [Ended(pid, end, "no room") for pid, end in enumerate(ends)]
    monkeypatch.setattr(script, "start", lambda command: processes.pop(0))
    for output in outputs:
        output.write_text(output.name)
    expected = [script.content(output) for output in outputs]
    result = script.into_two([("predict", output, {}) for output in outputs], expected)
    assert list(result["checks"].values()) == [holds, holds, True, True]


def test_the_table_counts_what_holds(script):
    results = [
        {"pair": "predict, two outputs", "checks": {"both go through": True, "the two results differ": False}, "said": ""}
    ]
    table = script.as_table(results)
    assert "1 of 2 checks hold" in table
    assert table.endswith("| predict, two outputs | both go through: yes; the two results differ: NO | – |\n")

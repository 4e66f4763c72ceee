"""The benchmark of label trees in training: every method has its line at every size, and a tree scores fewer labels."""

import json

import pytest
import torch

import label_tree_cost


def test_every_method_is_measured_at_every_size(tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(label_tree_cost, "in_new_process", lambda function, *arguments: function(*arguments))
    label_tree_cost.main(["--output", str(tmp_path / "found"), "--num_labels", "200", "800", "--repeats", "1"])
    torch.set_num_threads(threads)
    results = json.loads((tmp_path / "found.json").read_text())
    scored = [(case["num_labels"], case["method"], case["num_scored"]) for case in results["cases"]]
    assert scored[:4] == [(200, "flat", 200), *((200, name, 64 + 10 * 4) for name in ("joint", "joint, sparse", "levels"))]
    assert all(0 < case["gradients_ms"] <= case["step_ms"] for case in results["cases"])
    page = (tmp_path / "found.md").read_text()
    assert page.count("| joint |") == 2 and "A root has 0.5" in page


def test_growth_is_the_exponent_of_the_labels():
    cases = [{"method": "joint", "num_labels": count, "step_ms": 3 * count**0.5} for count in (100, 400, 1600)]
    assert label_tree_cost._growth(cases, "joint", "step_ms") == pytest.approx(0.5)

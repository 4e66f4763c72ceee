"""The trial with damaged files sees what it looks for."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "reliability"))

import mutate_array_files as trial
from file_mutations import MUTATIONS, mutate

CONTENTS = {
    "a.safetensors": save({"indices": torch.arange(6), "data": torch.ones(6)}),
    "weights.safetensors": save({"weight": torch.ones(2, 3)}),
    "a.json": b'{"num_labels": 3, "words": ["a", "b"], "auto_map": {"a": "b"}}',
    "labels.json": b'["a", "b"]',
}


@pytest.mark.parametrize("name", CONTENTS)
def test_damage_is_drawn_from_its_seed_and_of_every_kind(name):
    done = [mutate(name, CONTENTS[name], random.Random(f"0-{number}")) for number in range(150)]
    assert done[:20] == [mutate(name, CONTENTS[name], random.Random(f"0-{number}")) for number in range(20)]
    assert {kind for kind, _ in done} == set(MUTATIONS[name.rpartition(".")[2]])
    assert sum(content != CONTENTS[name] for _, content in done) > 120


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (lambda folder: os.kill(os.getpid(), signal.SIGKILL), trial.FAILURE, "SIGKILL"),
        (lambda folder: [][1], trial.FAILURE, "IndexError"),
        (lambda folder: int("x y"), trial.REFUSED, "invalid literal"),
        (lambda folder: [[("a", 0.5)]] * 3, trial.SAME, ""),
        (lambda folder: [[("a", 0.4)]] * 3, trial.OTHER, ""),
        (lambda folder: [[("a", float("nan"))]] * 3, trial.FAILURE, "another form"),
        (lambda folder: [[("a", 0.5)]] * 2, trial.FAILURE, "another form"),
    ],
)
def test_outcomes_are_told_apart(monkeypatch, tmp_path, answer, outcome, said):
    monkeypatch.setattr(trial, "answer", answer)
    found = trial.run_apart(tmp_path, [[("a", 0.5)]] * 3)
    assert found[0] == outcome and said in found[1]

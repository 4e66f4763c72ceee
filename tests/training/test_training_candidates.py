"""Scheduled injection of positives that the generator has missed, through the trainer."""

from types import SimpleNamespace

import pytest
import torch

from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.training.candidates import CANDIDATES, injection_rate, with_training_candidates
from hf_xmtc.training.document_seeds import SEEDS


def test_the_chance_falls_from_1_to_0_over_its_share_of_the_steps():
    assert [injection_rate(step, 100, 0.6) for step in (0, 30, 60, 99)] == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert injection_rate(0, 100, 0.0) == 0.0 and injection_rate(99, 100, 1.0) == pytest.approx(0.01)


@pytest.mark.parametrize(("step", "found"), [(0, True), (60, False)])
def test_a_missed_positive_is_put_in_at_the_beginning_alone(step, found):
    trainer = SimpleNamespace(
        args=SimpleNamespace(injection_share=0.6, num_random_candidates=1),
        state=SimpleNamespace(global_step=step, max_steps=100),
        current_epoch=0,
        evaluation=SimpleNamespace(label_counts=[5] * 20),
        num_labels=20,
    )
    inputs = {
        CANDIDATES: torch.tensor([[3, 4, 5, 6]]).expand(50, -1),
        "labels": torch.tensor([[4, 17, -100]]).expand(50, -1),
        SEEDS: torch.arange(50),
    }
    candidates = with_training_candidates(trainer, inputs)[CANDIDATES]
    assert candidates.shape == (50, 4) and (candidates == 4).any(dim=1).all()
    assert bool((candidates == 17).any(dim=1).all()) == found and bool((candidates == 17).any()) == found
    trainer.current_epoch = 1
    assert not torch.equal(with_training_candidates(trainer, inputs)[CANDIDATES], candidates)  # anew at each visit
    del inputs[SEEDS]  # a stream has none, and numbers are drawn
    assert with_training_candidates(trainer, inputs)[CANDIDATES].shape == (50, 4)


@pytest.mark.parametrize("settings", [{"num_random_candidates": -1}, {"injection_share": 1.5}])
def test_settings_that_make_no_sense_are_refused(settings, tmp_path):
    with pytest.raises(ValueError, match="must be at least 0 and injection_share="):
        XMTCTrainingArguments(output_dir=str(tmp_path), **settings)

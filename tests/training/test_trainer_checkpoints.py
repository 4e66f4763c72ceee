"""Checkpoints that were damaged, moved, not written, or written at the very end of a run."""

import json
import logging
import os
import shutil
import time

import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, InterruptAtEnd, Interrupted, largest_difference
from transformers import TrainerCallback

from hf_xmtc.training.checkpoint_files import checkpoints_in, damage_of


@pytest.fixture
def settings(corpus):
    return {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **EVERY_THREE_STEPS}


@pytest.fixture
def whole(make_trainer, settings):
    trainer = make_trainer("whole", **settings)
    trainer.train()
    return trainer


def interrupt(make_trainer, settings, callback=None, output="parts"):
    with pytest.raises(Interrupted):
        make_trainer(output, trainer={"callbacks": [callback or InterruptAt(7)]}, **settings).train()


class FirstStep(TrainerCallback):
    def __init__(self):
        self.step = None

    def on_step_begin(self, args, state, control, **kwargs):
        self.step = state.global_step if self.step is None else self.step


# AC-72
def test_a_damaged_newest_checkpoint_is_said_and_the_older_one_used(make_trainer, settings, whole, tmp_path, caplog):
    interrupt(make_trainer, settings)
    (tmp_path / "parts" / "checkpoint-6" / "rng_state.pth").unlink()
    first = FirstStep()
    resumed = make_trainer("parts", trainer={"callbacks": [first]}, **settings)
    with caplog.at_level(logging.INFO, "hf_xmtc.training"):
        resumed.train(resume_from_checkpoint=True)
    assert "checkpoint-6 cannot be used and is now called damaged-checkpoint-6: rng_state.pth is missing." in caplog.text
    assert "Resuming from checkpoint-3." in caplog.text
    assert first.step == 3 and largest_difference(whole.model, resumed.model) == 0


def test_without_a_whole_checkpoint_a_run_starts_anew_and_says_so(make_trainer, settings, whole, tmp_path, caplog):  # AC-72
    interrupt(make_trainer, settings)
    for step in (3, 6):
        (tmp_path / "parts" / f"checkpoint-{step}" / "trainer_state.json").write_text("")
    resumed = make_trainer("parts", **settings)
    with caplog.at_level(logging.WARNING, "hf_xmtc.training"):
        resumed.train(resume_from_checkpoint=True)
    assert f"No whole checkpoint is left in {tmp_path / 'parts'}, so training starts anew." in caplog.text
    assert largest_difference(whole.model, resumed.model) == 0


def test_a_damaged_checkpoint_that_is_named_is_refused(make_trainer, settings, tmp_path):  # AC-72
    interrupt(make_trainer, settings)
    named = tmp_path / "parts" / "checkpoint-6"
    (named / "scheduler.pt").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"checkpoint-6 cannot be used: scheduler.pt has 0 bytes instead of .* Name another one"
    ):
        make_trainer("parts", **settings).train(resume_from_checkpoint=str(named))
    with pytest.raises(ValueError, match="There is no checkpoint in .*other to resume from"):
        make_trainer("other", **settings).train(resume_from_checkpoint=True)


# AC-72
def test_a_named_checkpoint_whose_best_one_is_gone_is_refused_where_the_best_model_is_wanted(
    make_trainer, settings, tmp_path
):
    settings["learning_rate"] = 0.0  # so that the first checkpoint stays the best
    interrupt(make_trainer, settings)
    named, best = (tmp_path / "parts" / f"checkpoint-{step}" for step in (6, 3))
    (best / "model.safetensors").write_bytes(b"")
    refusal = (
        rf"{named} cannot be used: {best}, the best .* \(load_best_model_at_end=True\) and damaged: model.safetensors has 0"
    )
    with pytest.raises(ValueError, match=refusal):
        make_trainer("parts", **settings).train(resume_from_checkpoint=str(named))
    shutil.rmtree(best)
    with pytest.raises(ValueError, match=rf"{best}, the best .* damaged: the folder is missing"):
        make_trainer("parts", **settings).train(resume_from_checkpoint=str(named))
    assert named.exists()
    first = FirstStep()
    settings["load_best_model_at_end"] = False
    make_trainer("parts", trainer={"callbacks": [first]}, **settings).train(resume_from_checkpoint=str(named))
    assert first.step == 6


# AC-72
def test_a_best_checkpoint_that_was_damaged_in_training_is_not_replaced_by_the_last(make_trainer, settings, tmp_path):
    class Damage(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "train_loss" in logs:
                os.remove(os.path.join(state.best_model_checkpoint, "model.safetensors"))

    with pytest.raises(OSError, match=r"the best checkpoint, is damaged: model.safetensors is missing"):
        make_trainer(trainer={"callbacks": [Damage()]}, **settings).train()


def test_a_checkpoint_lists_all_its_files_and_nothing_else_is_left(make_trainer, tmp_path):
    make_trainer(max_steps=1, averaging_start_epoch=0, adaptive_gradient_clipping=True).train()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint-1"]
    listed = json.loads((tmp_path / "run" / "checkpoint-1" / "manifest.json").read_text())["files"]
    assert {
        "model.safetensors",
        "averaged_model.safetensors",
        "averaging.json",
        "gradient_clipping.json",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
    } <= set(listed)
    assert damage_of(tmp_path / "run" / "checkpoint-1") is None


# ---- a full disk ---------------------------------------------------------------------------------------------------------


# AC-72
def test_a_full_disk_is_named_and_the_run_goes_on_after_room_was_made(make_trainer, settings, whole, tmp_path, monkeypatch):
    save = torch.save

    def full_at_six(content, path, *args, **kwargs):
        if "checkpoint-6" in str(path) and str(path).endswith("optimizer.pt"):
            time.sleep(
                0.02
            )  # the time of a file is that of the kernel's last tick, so that of the one before might be the same
            save(content, path)
            path = "/dev/full"
        save(content, path, *args, **kwargs)

    monkeypatch.setattr(torch, "save", full_at_six)
    with pytest.raises(
        OSError,
        match=r"^The disk (is full|refuses): .*checkpoint-6 could not be written \(.* newest file in it is optimizer.pt",
    ):
        make_trainer("parts", **settings).train()
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["checkpoint-3"]
    monkeypatch.undo()
    resumed = make_trainer("parts", **settings)
    resumed.train(resume_from_checkpoint=True)
    assert largest_difference(whole.model, resumed.model) == 0


# ---- another path --------------------------------------------------------------------------------------------------------


def test_a_moved_run_ends_with_the_same_best_model(make_trainer, settings, tmp_path):  # AC-76
    settings["learning_rate"] = 0.2  # so that the last model is not the best
    whole = make_trainer("whole", **settings)
    whole.train()
    assert whole.state.best_global_step < 12
    interrupt(make_trainer, settings, InterruptAtEnd())
    stored = json.loads((tmp_path / "parts" / "checkpoint-12" / "trainer_state.json").read_text())
    assert stored["best_model_checkpoint"] == f"checkpoint-{whole.state.best_global_step}"
    shutil.move(tmp_path / "parts", tmp_path / "moved")
    first = FirstStep()
    resumed = make_trainer("moved", trainer={"callbacks": [first]}, **settings)
    resumed.train(resume_from_checkpoint=True)
    assert first.step is None
    assert resumed.state.best_model_checkpoint == str(tmp_path / "moved" / f"checkpoint-{whole.state.best_global_step}")
    assert largest_difference(whole.model, resumed.model) == 0


# ---- the end -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [{"save_total_limit": 1}, {"max_steps": 7}, {"early_stopping_patience": 1, "learning_rate": 0.0}],
    ids=["best-alone", "within-an-epoch", "early-stopping"],
)
def test_a_run_that_has_ended_is_not_trained_further(make_trainer, settings, ending, tmp_path):  # AC-77
    settings |= ending
    ended = make_trainer(**settings)
    ended.train()
    first = FirstStep()
    again = make_trainer(trainer={"callbacks": [first]}, **settings)
    again.train(resume_from_checkpoint=True)
    assert first.step is None and again.state.global_step == ended.state.global_step
    assert largest_difference(ended.model, again.model) == 0
    assert len(checkpoints_in(tmp_path / "run")) <= 2 if settings.get("save_total_limit") else True


def test_the_log_of_a_resumed_run_is_that_of_an_uninterrupted_one(make_trainer, settings):
    settings["logging_steps"] = 4  # a window that begins before the checkpoint of step 6 and ends behind it
    whole = make_trainer("whole", **settings)
    whole_result = whole.train()
    interrupt(make_trainer, settings)
    resumed = make_trainer("parts", **settings)
    result = resumed.train(resume_from_checkpoint=True)

    def lasting(history):
        timed = ("runtime", "per_second", "total_flos")
        return [{name: value for name, value in entry.items() if not name.endswith(timed)} for entry in history]

    assert lasting(resumed.state.log_history) == lasting(whole.state.log_history)
    assert result.training_loss == whole_result.training_loss
    assert resumed.training_seconds > 0

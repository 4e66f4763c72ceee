"""`hf-xmtc train` that is stopped and started again."""

import errno
import json
import shutil

import pytest
from safetensors.torch import load_file
from small_runs import Interrupted, power_cut
from transformers import TrainerCallback

import hf_xmtc.commands.train as command
import hf_xmtc.commands.training_run as run_module
from hf_xmtc.commands import export_check
from hf_xmtc.commands.output_folder import OutputFolder
from hf_xmtc.training import XMTCTrainer
from small_corpus import WORDS, write_corpus


@pytest.fixture(scope="module")
def finished(train, tmp_path_factory):
    """The folder of a run that nothing stopped."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_check, "check_reopens", lambda *args, **settings: 0.0)
        train(folder)
    return folder


@pytest.fixture
def stop_in_training(monkeypatch):
    """Call something before a step of the next runs; undone by calling it without."""

    class Calling(XMTCTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, callbacks=[Call()], **kwargs)

    class Call(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == Calling.step:
                Calling.action()

    def at(step: int | None, action=None):
        Calling.step, Calling.action = step, staticmethod(action)
        monkeypatch.setattr(command, "XMTCTrainer", XMTCTrainer if step is None else Calling)

    return at


@pytest.fixture
def interrupt(stop_in_training):
    """Make the next runs break off before the step after the given one; undone by calling it with None."""

    def at(step: int | None):
        stop_in_training(step, power_cut)
        return pytest.raises(Interrupted) if step is not None else None

    return at


def same_model(first, second) -> bool:
    return (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


# AC-21
def test_an_interrupted_run_goes_on_and_ends_like_an_uninterrupted_one(finished, train, unchecked, interrupt, tmp_path):
    with interrupt(8):
        train(tmp_path / "parts")
    progress = json.loads((tmp_path / "parts" / "checkpoints" / "checkpoint-6" / "progress.json").read_text())
    assert not (tmp_path / "parts" / "metrics.json").exists()
    interrupt(None)
    told = train(tmp_path / "parts")
    assert "Resuming from checkpoint-6." in told
    whole, parts = (load_file(folder / "model.safetensors") for folder in (finished, tmp_path / "parts"))
    assert max((whole[name] - parts[name]).abs().max() for name in whole) <= 1e-6
    first, second = (json.loads((folder / "metrics.json").read_text()) for folder in (finished, tmp_path / "parts"))
    assert first["test"] == pytest.approx(second["test"], abs=1e-6)
    assert (second["train"]["steps"], second["train"]["epochs"]) == (12, 2.0)
    assert second["train"]["seconds"] >= round(progress["seconds"], 1), "the time of the first run counts too"
    assert "resumed" not in (tmp_path / "parts" / "README.md").read_text()
    assert not (tmp_path / "parts" / "checkpoints").exists()


def test_other_settings_and_other_labels_are_not_resumed(train, unchecked, interrupt, tmp_path, corpus_folder):  # AC-21
    folder = tmp_path / "run"
    with interrupt(8):
        train(folder)
    with pytest.raises(SystemExit, match=r"unfinished run with other settings: learning_rate was 0.01 and is now 0.02"):
        train(folder, learning_rate=0.02)
    (tmp_path / "labels.json").write_text(json.dumps(sorted(WORDS, reverse=True)))
    with pytest.raises(SystemExit, match=r"data_digest was .*label_file was None and is now 'labels.json'"):
        train(folder, label_file=tmp_path / "labels.json")
    assert (folder / "checkpoints" / "checkpoint-6" / "trainer_state.json").exists()


def test_a_run_stopped_before_its_first_checkpoint_can_be_replaced(train, unchecked, interrupt, tmp_path):
    with interrupt(2):
        train(tmp_path / "run")
    interrupt(None)
    train(tmp_path / "run", learning_rate=0.02, num_train_epochs=1)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["learning_rate"] == 0.02


def test_a_run_goes_on_after_its_data_were_moved_and_their_card_was_mended(train, unchecked, interrupt, finished, tmp_path):
    write_corpus(tmp_path / "pay")
    with interrupt(8):
        train(tmp_path / "run", dataset=tmp_path / "pay")
    interrupt(None)
    shutil.move(tmp_path / "pay", tmp_path / "payments")
    (tmp_path / "payments" / "README.md").write_text("---\nlicense: mit\n---\n")
    assert "Resuming from checkpoint-6." in train(tmp_path / "run", dataset=tmp_path / "payments")
    assert same_model(tmp_path / "run", finished)
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (recipe["dataset_name"], recipe["dataset_license"]) == ("payments", "mit")


def test_a_run_is_refused_while_another_one_is_in_the_folder(train, unchecked, interrupt, finished, tmp_path):  # AC-73
    with interrupt(8):
        train(tmp_path / "run")
    interrupt(None)
    with OutputFolder(tmp_path / "run").lock():
        with pytest.raises(
            SystemExit, match=r"InUseError: The folder .*run is being written by another run \(process \d+ on"
        ):
            train(tmp_path / "run", seed=2)
    train(tmp_path / "run")
    assert same_model(tmp_path / "run", finished) and not (tmp_path / "run" / ".lock").exists()


@pytest.mark.parametrize("step", [2, 8])
# AC-48
def test_an_interrupted_run_says_what_the_same_command_does(train, unchecked, stop_in_training, capsys, tmp_path, step):
    def ctrl_c():
        raise KeyboardInterrupt

    stop_in_training(step, ctrl_c)
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path / "run")
    assert stopped.value.code == 130
    said = "start anew: there is no checkpoint yet" if step == 2 else f"go on from {tmp_path}/run/checkpoints/checkpoint-6"
    assert capsys.readouterr().err.endswith(f"Interrupted. Give the same command again to {said}.\n")


# AC-48
def test_an_interrupted_push_says_that_the_model_is_finished_and_how_to_push_it(
    train, unchecked, monkeypatch, capsys, tmp_path
):
    def ctrl_c(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "push_folder", ctrl_c)
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path / "run", num_train_epochs=1, push_to_hub=True, hub_model_id="me/tagger")
    assert stopped.value.code == 130
    finished = f"Interrupted, but the model is finished in {tmp_path}/run. To publish it, without training again: "
    assert capsys.readouterr().err.endswith(f"{finished}hf-xmtc push --model {tmp_path}/run --repo_id me/tagger\n")


def test_a_full_disk_while_a_finished_model_is_pushed_asks_for_no_second_training(train, unchecked, monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_module, "push_folder", full)
    with pytest.raises(SystemExit, match=r"The model is finished in .*/run, but was not published: .*No space left"):
        train(tmp_path / "run", num_train_epochs=1, push_to_hub=True)


def test_a_run_killed_while_it_replaced_its_only_checkpoint_goes_on(train, unchecked, interrupt, finished, tmp_path):
    with interrupt(8):
        train(tmp_path / "run")
    interrupt(None)
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / ".unfinished").mkdir(exist_ok=True)
    (checkpoints / "checkpoint-6").rename(checkpoints / ".unfinished" / "checkpoint-6-replaced")
    assert "Resuming from checkpoint-6." in train(tmp_path / "run")
    assert same_model(tmp_path / "run", finished)


# ---- after training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["TrainingRun._evaluate", "check_folder"])
# AC-77
def test_a_run_that_is_stopped_after_training_only_repeats_what_follows(
    train, unchecked, monkeypatch, finished, tmp_path, place
):
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(f"hf_xmtc.commands.training_run.{place}", power_cut)
        train(tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.json").exists()
    with monkeypatch.context() as patch:
        patch.setattr(XMTCTrainer, "train", power_cut)
        assert "Training had ended before; what follows it is repeated." in train(tmp_path / "run")
    assert same_model(tmp_path / "run", finished) and not (tmp_path / "run" / "checkpoints").exists()
    ours, theirs = (json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path / "run", finished))
    assert ours["test"] == theirs["test"] and ours["train"].keys() == theirs["train"].keys()
    assert ours["train"]["steps"] == 12


# AC-77
def test_a_stop_between_training_and_its_last_word_trains_no_step_again(
    train, unchecked, monkeypatch, stop_in_training, finished, tmp_path
):
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(run_module, "keep_trained", power_cut)
        train(tmp_path / "run")
    stop_in_training(12, power_cut)
    assert "Resuming from checkpoint-12." in train(tmp_path / "run")
    assert same_model(tmp_path / "run", finished)


# AC-72
def test_a_damaged_trained_model_is_said_and_training_goes_on_from_the_checkpoint(
    train, unchecked, monkeypatch, finished, tmp_path
):
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(run_module.TrainingRun, "_evaluate", power_cut)
        train(tmp_path / "run", averaging_start_epoch=0, load_best_model_at_end=False)
    trained = tmp_path / "run" / "checkpoints" / "trained"
    weights = (trained / "model.safetensors").read_bytes()
    (trained / "model.safetensors").write_bytes(b"")
    told = train(tmp_path / "run", averaging_start_epoch=0, load_best_model_at_end=False)
    assert "trained cannot be used: model.safetensors has 0 bytes instead of" in told
    assert "Resuming from checkpoint-12." in told
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


def test_a_folder_that_does_not_reopen_is_not_finished(train, monkeypatch, tmp_path):
    def fail(*args, **settings):
        raise RuntimeError("does not open")

    monkeypatch.setattr(export_check, "check_reopens", fail)
    with pytest.raises(RuntimeError, match="does not open"):
        train(tmp_path / "run", num_train_epochs=1)
    assert not (tmp_path / "run" / "metrics.json").exists()
    monkeypatch.setattr(export_check, "check_reopens", lambda *args, **settings: 0.0)
    assert "Training had ended before" in train(tmp_path / "run", num_train_epochs=1)
    assert (tmp_path / "run" / "metrics.json").exists()


def test_a_disk_that_is_full_after_training_is_named(train, unchecked, monkeypatch, tmp_path):  # AC-72
    def full(history, path, title):
        path.write_bytes(b"PNG")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hf_xmtc.commands.reporting.plot_training_curve", full)
    with pytest.raises(
        SystemExit, match=r"The disk is full: .*run/training_curve.png could not be written \(.* MiB are free"
    ):
        train(tmp_path / "run", num_train_epochs=1)

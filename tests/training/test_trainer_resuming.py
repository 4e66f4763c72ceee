"""A stopped and resumed run equals one that was never stopped, averaging and clipping included."""

import json

import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, Interrupted, Recorder, largest_difference
from safetensors.torch import load_file
from transformers import TrainerCallback


@pytest.mark.parametrize(
    ("settings", "stop"),
    [
        (EVERY_THREE_STEPS, 7),
        ({**EVERY_THREE_STEPS, "averaging_start_epoch": 0, "adaptive_gradient_clipping": True}, 7),
        ({**EVERY_THREE_STEPS, "adaptive_gradient_clipping": True}, 10),
        (
            {
                **EVERY_THREE_STEPS,
                "averaging_start_epoch": 2,
                "gradient_accumulation_steps": 2,
                "eval_steps": 1,
                "save_steps": 1,
            },
            3,
        ),
        ({"averaging_start_epoch": 1, "load_best_model_at_end": False}, 6),  # back to the end of the first epoch
        ({**EVERY_THREE_STEPS, "train_sampling_strategy": "random"}, 7),
    ],
    ids=["plain", "averaging-and-clipping", "clipping", "accumulation", "epoch-border", "random-order"],
)
def test_a_resumed_run_equals_an_uninterrupted_one(corpus, make_trainer, settings, stop):  # AC-21
    settings = {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **settings}
    whole = make_trainer("whole", **settings)
    whole.train()
    with pytest.raises(Interrupted):
        make_trainer("parts", trainer={"callbacks": [InterruptAt(stop)]}, **settings).train()
    resumed = make_trainer("parts", **settings)
    resumed.train(resume_from_checkpoint=True)
    assert largest_difference(whole.model, resumed.model) <= 1e-6
    assert resumed.state.best_metric == whole.state.best_metric
    assert resumed.state.best_global_step == whole.state.best_global_step
    if whole.averaging is not None:
        assert resumed.averaging.count == whole.averaging.count > 2
        assert largest_difference(whole.averaging.average, resumed.averaging.average) <= 1e-6
    if whole.adaptive_clipping is not None:
        assert list(resumed.adaptive_clipping.norms) == pytest.approx(list(whole.adaptive_clipping.norms))


def test_the_best_score_so_far_is_known_after_resuming(corpus, make_trainer, tmp_path):  # AC-21
    settings = {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **EVERY_THREE_STEPS}
    with pytest.raises(Interrupted):
        make_trainer("parts", trainer={"callbacks": [InterruptAt(7)]}, **settings).train()
    stored = json.loads((tmp_path / "parts" / "checkpoint-6" / "trainer_state.json").read_text())

    class BestAtStart(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            self.best = state.best_metric, state.global_step

    callback = BestAtStart()
    make_trainer("parts", trainer={"callbacks": [callback]}, **settings).train(resume_from_checkpoint=True)
    assert callback.best == (stored["best_metric"], 6)
    assert stored["best_metric"] > 0


def test_another_label_file_is_refused(make_model, make_trainer, tmp_path):  # AC-21
    make_trainer(max_steps=1).train()
    names = make_model().config.label_names.labels
    other = make_trainer(model=make_model(label_names=names[::-1]), max_steps=2)
    with pytest.raises(
        ValueError, match=r"trained on 6 labels that begin with \['animal', .*this run has 6 that begin with \['tool'"
    ):
        other.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))


def test_early_stopping_goes_on_counting_after_resuming(make_trainer, tmp_path):
    settings = {"num_train_epochs": 5, "learning_rate": 0.0, "early_stopping_patience": 2}
    with pytest.raises(Interrupted):
        make_trainer(trainer={"callbacks": [InterruptAt(12)]}, **settings).train()  # one evaluation without progress
    resumed = make_trainer(**settings)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.epoch == 3


# ---- weight averaging in a run -------------------------------------------------------------------------------------------


def test_the_average_is_evaluated_saved_and_left_in_the_model(make_trainer, tmp_path):
    recorder = Recorder()
    trainer = make_trainer(
        num_train_epochs=3, averaging_start_epoch=1, load_best_model_at_end=False, trainer={"callbacks": [recorder]}
    )
    trainer.train()
    name = "label_head.output.weight"
    # Epoch 0 is evaluated as it is, then the weights at the start of epoch 1 and at each evaluation are averaged.
    second = (recorder.begin[1] + recorder.end[1]) / 2
    third = (recorder.begin[1] + recorder.end[1] + recorder.end[2]) / 3
    for seen, expected in zip(recorder.evaluated, [recorder.end[0], second, third], strict=True):
        torch.testing.assert_close(seen, expected)
    torch.testing.assert_close(recorder.begin[2], recorder.end[1], rtol=0, atol=0)  # training goes on with live weights
    torch.testing.assert_close(trainer.model.state_dict()[name], third)

    first, _, last = (tmp_path / "run" / f"checkpoint-{step}" for step in (6, 12, 18))
    assert not (first / "averaged_model.safetensors").exists()
    torch.testing.assert_close(load_file(last / "model.safetensors")[name], recorder.end[2], rtol=0, atol=0)
    torch.testing.assert_close(load_file(last / "averaged_model.safetensors")[name], third)
    assert json.loads((last / "averaging.json").read_text())["count"] == 3
    logged = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(logged[-1])


def test_the_best_model_is_the_average_of_the_best_checkpoint(make_trainer):
    trainer = make_trainer(num_train_epochs=6, averaging_start_epoch=1)
    trainer.train()
    best = trainer.state.best_model_checkpoint
    assert best.endswith(f"checkpoint-{trainer.state.best_global_step}") and trainer.state.best_global_step > 6
    averaged, live = load_file(f"{best}/averaged_model.safetensors"), load_file(f"{best}/model.safetensors")
    name = "label_head.output.weight"
    assert torch.equal(trainer.model.state_dict()[name], averaged[name])
    assert not torch.equal(averaged[name], live[name])
    assert trainer.evaluate()["eval_nDCG@5"] == pytest.approx(trainer.state.best_metric)


def test_a_second_training_starts_its_own_average(make_trainer):
    trainer = make_trainer(num_train_epochs=1, averaging_start_epoch=0, adaptive_gradient_clipping=True)
    trainer.train()
    trainer.train()
    assert trainer.averaging.count == 2
    assert trainer.adaptive_clipping.norms.maxlen == 5

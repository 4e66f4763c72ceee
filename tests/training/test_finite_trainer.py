"""Training stops at the step whose numbers are no longer finite, and nothing of it is saved."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS
from transformers import TrainerCallback

from hf_xmtc.training.document_order import ShuffledSampler


class At(TrainerCallback):
    """Do something to the model when a step begins."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == self.step:
            self.action(model.label_head.output.weight)


def ruin(weight):
    weight.data[0, 0] = float("nan")


def ruin_gradient(weight):
    weight.register_hook(lambda gradient: gradient * float("inf"))


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (ruin, r"the loss of a batch of 2 documents with \d+ tokens \(rows ([\d, ]+) of the training data, from 0\) is nan"),
        (ruin_gradient, r"the norm of the gradient of a batch of 2 documents .*\(rows ([\d, ]+) of .*\) is nan"),
    ],
    ids=["loss", "gradient"],
)
def test_a_loss_or_gradient_that_is_not_finite_stops_that_step(corpus, make_trainer, tmp_path, action, reason):  # AC-75
    settings = {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **EVERY_THREE_STEPS}
    trainer = make_trainer(trainer={"callbacks": [At(4, action)]}, **settings)
    before = r"Training stopped in step 5, before anything was changed by it \(epoch 1.00\): "
    with pytest.raises(
        FloatingPointError, match=before + reason + r"\. The last good checkpoint is .*checkpoint-3\. A lower"
    ) as stopped:
        trainer.train()
    rows = {int(row) for row in re.search(r"rows ([\d, ]+) of", str(stopped.value))[1].split(", ")}
    order = ShuffledSampler(8, trainer.args.seed).order(np.random.default_rng((trainer.args.seed, 1)))
    tokens = list(trainer.train_dataset["input_ids"])
    assert rows == {row for row in range(8) if tokens[row] in [tokens[place] for place in order[:2]]}
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint-3"]


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [(evaluation, "the weights label_head.output.weight is not finite") for evaluation in ("steps", "no")],
)
def test_weights_that_are_not_finite_are_not_saved(corpus, make_trainer, tmp_path, evaluation, reason):  # AC-75
    class Ruin(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == 3:
                ruin(model.label_head.output.weight)

    settings = {**EIGHT, **EVERY_THREE_STEPS, "eval_strategy": evaluation, "load_best_model_at_end": False}
    trainer = make_trainer(train_dataset=corpus["train"].select(range(8)), trainer={"callbacks": [Ruin()]}, **settings)
    with pytest.raises(
        FloatingPointError, match=rf"Training stopped after step 3 .*: {reason}\. There is no checkpoint yet"
    ):
        trainer.train()
    assert not list(tmp_path.glob("run/checkpoint-*"))


def test_fp16_may_overflow_until_its_scale_fits(make_trainer):  # AC-75
    trainer = make_trainer()
    trainer.accelerator.scaler = SimpleNamespace(get_scale=lambda: 65536.0)
    trainer._check_finite_value(lambda: "the loss", torch.tensor(float("inf")))
    trainer.accelerator.scaler = SimpleNamespace(get_scale=lambda: 0.5)
    with pytest.raises(FloatingPointError, match="the loss is inf"):
        trainer._check_finite_value(lambda: "the loss", torch.tensor(float("inf")))

"""Runs that are cut off or watched, for the tests of resuming."""

from transformers import TrainerCallback

__all__ = ["EIGHT", "EVERY_THREE_STEPS", "InterruptAt", "InterruptAtEnd", "Interrupted", "Recorder", "largest_difference"]

# 8 documents in batches of 2: 4 steps an epoch, 12 in all; a checkpoint at every third.
EIGHT = {"num_train_epochs": 3, "per_device_train_batch_size": 2, "logging_steps": 1}
EVERY_THREE_STEPS = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3}


class Interrupted(Exception):
    """Stands for the power cut."""


class InterruptAt(TrainerCallback):
    def __init__(self, step: int):
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise Interrupted


class InterruptAtEnd(TrainerCallback):
    """After the last checkpoint and before the best model is loaded."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "train_loss" in logs:
            raise Interrupted


class Recorder(TrainerCallback):
    """Keeps the weights that training itself has at the beginning of each epoch and at its end, before evaluation."""

    def __init__(self):
        self.begin, self.end, self.evaluated = [], [], []

    def on_epoch_begin(self, args, state, control, model=None, **kwargs):
        self.begin.append(model.label_head.output.weight.detach().clone())

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        self.end.append(model.label_head.output.weight.detach().clone())

    def on_evaluate(self, args, state, control, model=None, **kwargs):
        self.evaluated.append(model.label_head.output.weight.detach().clone())


def largest_difference(first, second) -> float:
    ours, theirs = first.state_dict(), second.state_dict()
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours)

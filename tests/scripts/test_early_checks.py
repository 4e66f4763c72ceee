"""Checks on validation every 25 steps in the first two epochs, beside those of the recipe."""

from types import SimpleNamespace

from transformers import TrainerControl

from early_checks import EarlyChecks


def test_the_first_two_epochs_are_checked_every_25_steps():
    checked = []
    for step in range(1, 201):  # 40 steps an epoch
        control = TrainerControl()
        EarlyChecks().on_step_end(None, SimpleNamespace(global_step=step, epoch=step / 40), control)
        checked += [step] if control.should_evaluate else []
    assert checked == [25, 50, 75]

"""``scripts/train.py`` with checks on validation every 25 steps of the first two epochs, beside those of the recipe.

``python scripts/reproduction/early_checks.py`` takes the arguments of ``scripts/train.py`` and writes the same folder. CorNet's paper claims
faster convergence, which one check an epoch cannot show.
"""

import sys
from typing import Any

from transformers import TrainerCallback

from hf_xmtc import XMTCTrainer
from hf_xmtc.commands.processes import set_up_process
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.train import train

__all__ = ["EarlyCheckTrainer", "EarlyChecks", "main"]

STEPS, EPOCHS = 25, 2


class EarlyChecks(TrainerCallback):
    """Asks for an evaluation every 25 steps of the first two epochs."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % STEPS == 0 and state.epoch < EPOCHS:
            control.should_evaluate = True


class EarlyCheckTrainer(XMTCTrainer):
    """`XMTCTrainer` with `EarlyChecks`."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.add_callback(EarlyChecks())


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/early_checks.py``."""
    recipe = parse_recipe(argv)
    set_up_process(recipe.training)
    train(recipe, EarlyCheckTrainer)


if __name__ == "__main__":
    main(sys.argv[1:])

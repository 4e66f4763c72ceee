"""Training stops at the step whose numbers are no longer finite, not epochs later."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .checkpoint_files import checkpoints_in
from .strict_files import StrictFilesTrainer

__all__ = ["FiniteTrainer"]


class FiniteTrainer(StrictFilesTrainer):
    """Looks at the loss of every batch, the norm of every gradient, the loss of an evaluation, and the weights before they are saved.

    The first two come before the step, so that the weights are still good; a checkpoint is therefore always of finite weights. A
    step costs one number more that is fetched from the GPU, beside the two that the Trainer fetches to filter its log.
    """

    def training_step(self, model: nn.Module, inputs: dict, *args: Any, **kwargs: Any) -> Tensor:
        shape = tuple(inputs["input_ids"].shape) if "input_ids" in inputs else ()
        try:
            loss = super().training_step(model, inputs, *args, **kwargs)
        except FloatingPointError as error:
            raise self._stopped(str(error)) from error
        # The Trainer fetches the loss of every batch right after this, so the look costs a GPU no further wait.
        batch = " of {} documents with {} tokens".format(*shape) if len(shape) == 2 else ""
        self._refuse_not_finite(f"the loss of a batch{batch}", loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None):
        norm = super()._get_grad_norm(model, grad_norm)
        self._refuse_not_finite("the norm of the gradient", norm)
        return norm

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        if self.is_in_train:
            self._refuse_weights_not_finite()
        metrics = super()._evaluate(*args, **kwargs)
        loss = metrics.get("eval_loss")
        if self.is_in_train and isinstance(loss, float) and not math.isfinite(loss):
            raise self._stopped(f"eval_loss is {loss}.", changed=True)
        return metrics

    def _refuse_not_finite(self, what: str, value: Any) -> None:
        if value is None or math.isfinite(value):
            return
        scaler = getattr(self.accelerator, "scaler", None)
        # fp16 overflows until the scale fits, and the scaler leaves such steps out; below 1 it is not the scale that overflows.
        if scaler is None or scaler.get_scale() < 1:
            raise self._stopped(f"{what} is {float(value)}.")

    @torch.no_grad()
    def _refuse_weights_not_finite(self) -> None:
        weights = {name: weight for name, weight in self.model.named_parameters() if weight.numel()}
        # By the largest number of each, which takes no copy of a large matrix.
        wrong = [name for name, weight in weights.items() if not torch.linalg.vector_norm(weight, torch.inf).isfinite()]
        if wrong:
            others = f" and {len(wrong) - 1} others are" if len(wrong) > 1 else " is"
            raise self._stopped(f"the weights {wrong[0]}{others} not finite.", changed=True)

    def _stopped(self, reason: str, changed: bool = False) -> FloatingPointError:
        step = self.state.global_step + (0 if changed else 1)
        newest = next(iter(checkpoints_in(self._get_output_dir(None))), None)
        when = f"after step {step}" if changed else f"in step {step}, before anything was changed by it"
        saved = f"The last good checkpoint is {newest}." if newest else "There is no checkpoint yet."
        return FloatingPointError(
            f"Training stopped {when} (epoch {self.state.epoch or 0:.2f}): {reason} {saved} A lower learning_rate, more warmup_steps "
            "or a smaller max_grad_norm helps, in a new output folder."
        )

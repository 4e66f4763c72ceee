"""Training stops at the step whose numbers are no longer finite, not epochs later."""

import math
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn

from .checkpoint_files import checkpoints_in
from .document_order import places_of
from .strict_files import StrictFilesTrainer

__all__ = ["FiniteTrainer"]


class FiniteTrainer(StrictFilesTrainer):
    """Looks at the loss of every batch, the norm of every gradient, the loss of an evaluation, and the weights before they are saved.

    The first two come before the step, so that the weights are still good; a checkpoint is therefore always of finite weights. A
    step costs one number more that is fetched from the GPU, beside the two that the Trainer fetches to filter its log.
    """

    def training_step(self, model: nn.Module, inputs: dict, *args: Any, **kwargs: Any) -> Tensor:
        self._inputs = inputs
        try:
            loss = super().training_step(model, inputs, *args, **kwargs)
        except FloatingPointError as error:
            raise self._stopped(f"{error} It was in {self._batch()}.") from error
        # The Trainer fetches the loss of every batch right after this, so the look costs a GPU no further wait.
        self._check_finite_value(lambda: f"the loss of {self._batch()}", loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None):
        norm = super()._get_grad_norm(model, grad_norm)
        which = "" if self.args.gradient_accumulation_steps == 1 else "several batches, the last being "
        self._check_finite_value(lambda: f"the norm of the gradient of {which}{self._batch()}", norm)
        return norm

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        if self.is_in_train:
            self._check_weights_finite()
        metrics = super()._evaluate(*args, **kwargs)
        loss = metrics.get("eval_loss")
        if self.is_in_train and isinstance(loss, float) and not math.isfinite(loss):
            raise self._stopped(f"eval_loss is {loss}.", changed=True)
        return metrics

    def _batch(self) -> str:
        """The last batch in words; its documents are looked for in the training data by their tokens, which costs only a run that stops."""
        ids, mask = self._inputs.get("input_ids"), self._inputs.get("attention_mask")
        if ids is None or ids.dim() != 2:
            return "a batch"
        words = "a batch of {} documents with {} tokens".format(*ids.shape)
        if not isinstance(self.train_dataset, Dataset) or "input_ids" not in self.train_dataset.column_names:
            return words
        documents = [row[keep].tolist() for row, keep in zip(ids, ids >= 0 if mask is None else mask.bool(), strict=True)]
        rows = places_of(documents, self.train_dataset)
        return f"{words} (rows {', '.join(map(str, rows))} of the training data, from 0)" if rows else words

    def _check_finite_value(self, what: Callable[[], str], value: Any) -> None:
        if value is None or math.isfinite(value):
            return
        scaler = getattr(self.accelerator, "scaler", None)
        # fp16 overflows until the scale fits, and the scaler leaves such steps out; below 1 it is not the scale that overflows.
        if scaler is None or scaler.get_scale() < 1:
            raise self._stopped(f"{what()} is {float(value)}.")

    @torch.no_grad()
    def _check_weights_finite(self) -> None:
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

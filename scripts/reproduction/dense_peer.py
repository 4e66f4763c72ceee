"""The usual way to train a label head, which label blocks have to equal: ``scripts/train.py`` with (B, L) logits and targets.

``python scripts/reproduction/dense_peer.py`` takes the arguments of ``scripts/train.py`` and writes the same folder. The loss is
`torch.nn.BCEWithLogitsLoss` on a dense multi-hot matrix, differentiated by autograd through `torch.nn.Linear`. Before training it
takes one batch and compares all gradients with those of the label blocks; ``first_step_gradient_difference`` in
``metrics.json`` is the largest difference, relative to the largest gradient of the same parameter (or a hundredth of the
largest of all, where that is more).
"""

import json
import logging
import sys
from typing import Any

import torch
from torch import Tensor, nn

from hf_xmtc import XMTCTrainer, multi_hot_targets
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.output_folder import METRICS_FILE
from hf_xmtc.commands.processes import set_up_process
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.train import train
from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.models.label_head import loss_divisor

__all__ = ["DenseTrainer", "main"]

logger = logging.getLogger(__name__)


class DenseTrainer(XMTCTrainer):
    """`XMTCTrainer` whose loss is computed from logits and targets of size documents × labels.

    Attributes:
        first_step_gradient_difference: What the last `train` found; on the class, because `hf_xmtc.commands.train` keeps its
            trainer to itself.
    """

    first_step_gradient_difference: float | None = None

    def compute_loss(self, model: nn.Module, inputs: dict, return_outputs: bool = False, num_items_in_batch: Any = None):
        inputs = dict(inputs)
        labels = self._known_labels(inputs.pop("labels"))
        inputs.pop(FILTER_LABELS, None)
        output = model(**inputs)
        loss = dense_loss(output.logits, labels, self.model.config.loss_reduction)
        return (loss, output) if return_outputs else loss

    def train(self, *args: Any, **kwargs: Any):
        with torch.random.fork_rng():  # training is to see the random numbers that it would have seen
            batch = self._prepare_inputs(next(iter(self.get_train_dataloader())))
        difference = self._compare_gradients(batch)
        DenseTrainer.first_step_gradient_difference = difference
        logger.info(f"Gradients of one batch, label blocks against dense: {difference:.1e} apart at most.")
        return super().train(*args, **kwargs)

    def _compare_gradients(self, batch: dict) -> float:
        """Largest difference between the gradients of both ways, of the same batch without dropout."""
        self.model.eval()
        XMTCTrainer.compute_loss(self, self.model, dict(batch)).backward()
        by_blocks = {name: parameter.grad for name, parameter in self.model.named_parameters() if parameter.grad is not None}
        self.model.zero_grad(set_to_none=True)
        self.compute_loss(self.model, batch).backward()
        dense = {name: parameter.grad for name, parameter in self.model.named_parameters() if parameter.grad is not None}
        self.model.zero_grad(set_to_none=True)
        self.model.train()
        if by_blocks.keys() != dense.keys():
            raise AssertionError(f"Gradients reach {sorted(by_blocks)} by blocks and {sorted(dense)} the dense way.")
        largest = {name: float(gradient.abs().max()) for name, gradient in dense.items()}
        # Some gradients are zero but for rounding, such as those of the keys' biases in attention.
        floor = 1e-2 * max(largest.values())
        return max(float((by_blocks[name] - dense[name]).abs().max()) / max(largest[name], floor) for name in dense)


def dense_loss(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    """Binary cross-entropy with a dense matrix of targets.

    Args:
        logits: (B, L).
        labels: Label ids, (B, P), padded with -100.
        reduction: ``mean`` over B × L, or ``sum_labels``.
    """
    targets = multi_hot_targets(labels, logits.shape[1])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    return loss / loss_divisor(*logits.shape, reduction)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/dense_peer.py``."""
    recipe = parse_recipe(argv)
    set_up_process(recipe.training)
    file = train(recipe, DenseTrainer) / METRICS_FILE
    metrics = json.loads(file.read_text(encoding="utf-8"))
    metrics["train"]["first_step_gradient_difference"] = DenseTrainer.first_step_gradient_difference
    write_json(file, metrics)


if __name__ == "__main__":
    main(sys.argv[1:])

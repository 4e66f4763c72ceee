"""Candidates in training: positives that their generator has missed are put in, by a chance that falls."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Trainer

from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.models.label_losses import positive_ids
from hf_xmtc.models.laco_candidates import RANDOM_NUMBERS_PER_LABEL, training_candidates
from hf_xmtc.models.laco_cooccurrence import RANDOM_NUMBERS

from .arguments import XMTCTrainingArguments

__all__ = ["injection_rate", "num_random_numbers", "with_training_candidates"]


def injection_rate(step: int, num_steps: int, share: float) -> float:
    """Chance of a positive that the generator has missed to be put in: from 1 down to 0 over a share of the training's steps."""
    return max(0.0, 1.0 - step / (share * num_steps)) if share > 0 else 0.0


def num_random_numbers(args: XMTCTrainingArguments) -> int:
    """Random numbers that a document needs at a visit, besides one for each of its labels: for auxiliary tasks, then for random labels."""
    return RANDOM_NUMBERS + RANDOM_NUMBERS_PER_LABEL * args.num_random_candidates


def with_training_candidates(trainer: Trainer, inputs: dict[str, Any]) -> dict[str, Any]:
    """The batch of a training step with `training_candidates` instead of the generator's."""
    args, candidates = trainer.args, inputs[CANDIDATES]
    rate = injection_rate(trainer.state.global_step, max(1, trainer.state.max_steps), args.positive_injection_ratio)
    counts = _label_counts(trainer).to(candidates.device)
    positives = positive_ids(inputs["labels"], trainer.num_labels)
    inputs = {name: value for name, value in inputs.items() if name != VOTES}  # they count in scores alone
    numbers = inputs.get("random_numbers")
    if numbers is None:  # another collator, or candidates for a model that scores all labels too
        shape = (len(candidates), num_random_numbers(args) + positives.shape[1])
        numbers = torch.randint(2**62, shape, device=candidates.device)
    numbers = numbers[:, RANDOM_NUMBERS:]
    inputs[CANDIDATES] = training_candidates(candidates, positives, numbers, rate, args.num_random_candidates, counts)
    return inputs


def _label_counts(trainer: Trainer) -> Tensor:
    counts = trainer.evaluation.label_counts
    return torch.as_tensor(np.ones(trainer.num_labels) if counts is None else counts, dtype=torch.int64)

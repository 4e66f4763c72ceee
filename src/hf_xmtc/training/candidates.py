"""Candidates in training: from the generator's list to what a document is trained on."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hf_xmtc.models.candidates import training_candidates
from hf_xmtc.models.label_positives import positive_ids

from .document_seeds import SEEDS

if TYPE_CHECKING:
    from .trainer import XMTCTrainer

__all__ = ["CANDIDATES", "injection_rate", "with_training_candidates"]

CANDIDATES = "candidate_ids"


def injection_rate(step: int, num_steps: int, share: float) -> float:
    """Chance of a positive that the generator has missed to be put in: from 1 down to 0 over a share of the training's steps."""
    return max(0.0, 1.0 - step / (share * num_steps)) if share > 0 else 0.0


def with_training_candidates(trainer: "XMTCTrainer", inputs: dict[str, Any]) -> dict[str, Any]:
    """The batch of a training step with `training_candidates` in the place of the generator's."""
    args, candidates = trainer.args, inputs[CANDIDATES]
    seeds = inputs.get(SEEDS)
    if seeds is None:
        seeds = torch.randint(2**62, (len(candidates),), device=candidates.device)
    rate = injection_rate(trainer.state.global_step, max(1, trainer.state.max_steps), args.injection_share)
    shares = _label_shares(trainer).to(candidates.device)
    positives = positive_ids(inputs["labels"], trainer.num_labels)
    return {
        **inputs,
        CANDIDATES: training_candidates(candidates, positives, seeds, rate, args.num_random_candidates, shares),
    }


def _label_shares(trainer: "XMTCTrainer") -> Tensor:
    counts = trainer.evaluation.label_counts
    return torch.ones(trainer.num_labels) if counts is None else torch.as_tensor(counts, dtype=torch.float32)

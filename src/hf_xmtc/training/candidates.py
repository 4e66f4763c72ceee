"""Candidates in training: from the generator's list to what a document is trained on."""

from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import Trainer

from hf_xmtc.metrics import ranking_report
from hf_xmtc.models.label_losses import positive_ids
from hf_xmtc.models.laco_candidates import best_candidates, log_scores, training_candidates
from hf_xmtc.models.seeded_random import mix_seeds

from .document_seeds import SEEDS

__all__ = ["CANDIDATES", "VOTES", "injection_rate", "tune_retrieval_weight", "with_training_candidates"]

# Columns of a data set and arguments of a model.
CANDIDATES, VOTES = "candidate_ids", "candidate_votes"
SHARES = [round(0.05 * step, 2) for step in range(21)]


def injection_rate(step: int, num_steps: int, share: float) -> float:
    """Chance of a positive that the generator has missed to be put in: from 1 down to 0 over a share of the training's steps."""
    return max(0.0, 1.0 - step / (share * num_steps)) if share > 0 else 0.0


def with_training_candidates(trainer: Trainer, inputs: dict[str, Any]) -> dict[str, Any]:
    """The batch of a training step with `training_candidates` in the place of the generator's."""
    args, candidates = trainer.args, inputs[CANDIDATES]
    seeds = inputs.get(SEEDS)
    if seeds is None:
        seeds = torch.randint(2**62, (len(candidates),), device=candidates.device)
    else:
        seeds = mix_seeds(seeds, trainer.current_epoch)  # anew at each visit, whatever the auxiliary tasks do
    rate = injection_rate(trainer.state.global_step, max(1, trainer.state.max_steps), args.positive_injection_ratio)
    counts = _label_counts(trainer).to(candidates.device)
    positives = positive_ids(inputs["labels"], trainer.num_labels)
    inputs = {name: value for name, value in inputs.items() if name != VOTES}  # they count in scores alone
    inputs[CANDIDATES] = training_candidates(candidates, positives, seeds, rate, args.num_random_candidates, counts)
    return inputs


def tune_retrieval_weight(trainer: Trainer, dataset: Dataset) -> tuple[dict[float, float], dict[str, float]]:
    """Give the model the ``retrieval_weight`` with the best nDCG@5 on a validation split, the smallest of equally good ones.

    Args:
        trainer: Its model scores candidates.
        dataset: With `CANDIDATES` and `VOTES` of every document.

    Returns:
        nDCG@5 by share, from 0 to 1; and the trainer's metrics of the model's own scores (``test_nDCG@5`` …).
    """
    config, args = trainer.model.config, trainer.args
    candidates, votes = (np.asarray(dataset.with_format(None)[name][:]) for name in (CANDIDATES, VOTES))
    config.retrieval_weight, kept = 0.0, args.eval_top_k
    args.eval_top_k = max(kept, candidates.shape[1])
    try:
        output = trainer.predict(dataset)
    finally:
        args.eval_top_k = kept
    scores, label_ids = (array[:, : candidates.shape[1]] for array in output.predictions[:2])
    # The same labels in the model's order: sorted by id they are in the same order.
    rank = label_ids.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    votes = np.take_along_axis(np.take_along_axis(votes, candidates.argsort(axis=1, kind="stable"), axis=1), rank, axis=1)
    logits = torch.from_numpy(scores).double().logit(eps=1e-15)
    ids, votes = torch.from_numpy(label_ids), torch.from_numpy(votes)
    found = {}
    for share in SHARES:
        _, top_labels = best_candidates(log_scores(logits, votes, share), ids, 5)
        found[share] = ranking_report(top_labels.numpy(), output.label_ids, ks=(5,))["nDCG@5"]
    config.retrieval_weight = max(found, key=found.get)
    return found, output.metrics


def _label_counts(trainer: Trainer) -> Tensor:
    counts = trainer.evaluation.label_counts
    return torch.as_tensor(np.ones(trainer.num_labels) if counts is None else counts, dtype=torch.int64)

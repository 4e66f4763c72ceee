"""Start a new model from the training data: biases, label weights."""

import math

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers.utils import logging

from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.metrics import inverse_propensity
from hf_xmtc.models.laco_candidates import log_votes
from hf_xmtc.models.modeling_laco import LACOForXMTC
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .label_trees import initialize_tree_bias
from .sharded_label_head import own_labels, shard_of

__all__ = ["initialize_label_bias", "initialize_label_weights", "initialize_votes", "set_missing_label_weights"]

logger = logging.get_logger(__name__)

VOTING_DOCUMENTS = 5_000


@torch.no_grad()
def initialize_label_bias(
    model: XMTCPreTrainedModel, label_counts: np.ndarray, num_documents: int, label_ids: list[int] | None = None
) -> None:
    """Start every label's bias at the log-odds of its training frequency.

    With many labels, nearly all of them wrong, the first steps of training otherwise learn only that labels are rare. A model whose
    labels share one bias (AttentionXML without ``label_bias``) starts it at the log-odds of a label's mean frequency. Over a label tree
    frequencies are those among the documents whose candidate a label is.

    Args:
        model: A new model. LACO's auxiliary heads start at how often their answer is yes.
        label_counts: Training documents of each label, (L,).
        num_documents: Training documents N.
        label_ids: The new labels of a trained model (`resize_labels`), which alone start then, at the bias that had silenced them;
            where labels share one bias and there is no CorNet, they have none. A linear head scores them by their frequency alone,
            because random weights on the large states of a trained encoder would predict them. None for a new model.

    Raises:
        ValueError: If there is not one count per label.

    Source: the prior-probability initialisation of Lin et al. (2017), "Focal loss for dense object detection", §4.1, with
    each label's own prior (smoothed by half a document) in place of one for all.
    """
    _check_counts(model, label_counts)
    head = model.label_head
    if label_ids is None and getattr(model, "label_tree", None) is not None:
        initialize_tree_bias(model, label_counts, num_documents)
        return
    if label_ids is not None:
        _initialize_new_bias(model, label_counts, num_documents, label_ids)
        return
    prior = (np.asarray(label_counts, dtype=np.float64) + 0.5) / (num_documents + 1.0)
    own = prior[own_labels(model)]
    prior = prior.mean(keepdims=True) if len(head.label_bias) < len(own) else own
    head.label_bias.copy_(torch.from_numpy(np.log(prior / (1 - prior))))
    _initialize_auxiliary_bias(model, float(np.sum(label_counts)) / max(1, num_documents), num_documents)


def _initialize_new_bias(
    model: XMTCPreTrainedModel, label_counts: np.ndarray, num_documents: int, label_ids: list[int]
) -> None:
    """Where `resize_labels` has put what silences new labels; `torch.no_grad` is the caller's."""
    prior = (np.asarray(label_counts, dtype=np.float64)[label_ids] + 0.5) / (num_documents + 1.0)
    head, bias = model.label_head, model.label_head.label_bias
    if len(bias) == len(label_counts) and head.is_linear:
        head.output.weight[label_ids] = 0.0
    if len(bias) < len(label_counts):
        bias = model.cornet.blocks[-1].to_labels.bias if model.cornet is not None else None
    if bias is not None:
        bias[label_ids] = torch.from_numpy(np.log(prior / (1 - prior))).to(bias)


@torch.no_grad()
def initialize_votes(model: LACOForXMTC, dataset: Dataset) -> None:
    """Start the vote scale of a model of candidates, and the biases of its labels, so that votes become probabilities.

    They are slope and intercept of a logistic regression on the votes of training candidates. The order of the candidates stays that of their
    votes. Where votes say nothing, or the opposite, the scale stays as it is.

    Args:
        model: A new model with ``num_candidates``.
        dataset: Training documents with ``candidate_ids``, ``candidate_votes`` and ``labels``; `VOTING_DOCUMENTS` of them are looked at.

    Source: Platt (1999), "Probabilistic outputs for support vector machines".
    """
    step = max(1, len(dataset) // VOTING_DOCUMENTS)
    rows = dataset.select(range(0, len(dataset), step)).select_columns([CANDIDATES, VOTES, "labels"]).with_format(None)
    right = [label_id in row["labels"] for row in rows for label_id in row[CANDIDATES]]
    logs = log_votes(torch.tensor([vote for row in rows for vote in row[VOTES]], dtype=torch.float64))
    inputs, target = torch.stack([logs, torch.ones_like(logs)], dim=1), torch.tensor(right, dtype=torch.float64)
    slope, intercept = _logistic_regression(inputs, target).tolist()
    if slope > 0:
        model.vote_scale.fill_(slope)
        model.label_head.label_bias.fill_(intercept)


def _logistic_regression(inputs: Tensor, target: Tensor, ridge: float = 1e-3) -> Tensor:
    """Weights (d,) of a logistic regression on inputs (n, d) by Newton's method, slightly regularised."""
    weights, penalty = inputs.new_zeros(inputs.shape[1]), ridge * torch.eye(inputs.shape[1], dtype=inputs.dtype)
    for _ in range(50):
        scores = (inputs @ weights).sigmoid()
        curvature = inputs.t() @ (inputs * (scores * (1 - scores))[:, None]) + penalty
        step = torch.linalg.solve(curvature, inputs.t() @ (scores - target) + ridge * weights)
        weights = weights - step
        if step.abs().max() < 1e-6:
            break
    return weights


@torch.no_grad()
def initialize_label_weights(
    model: XMTCPreTrainedModel, label_counts: np.ndarray, num_documents: int, a: float = 0.55, b: float = 1.5
) -> None:
    """Give each label the weight that ``label_loss="propensity_bce"`` puts on its positives: its inverse propensity.

    The weights are a buffer of the model and saved with it. `XMTCTrainer` does this by itself for a new model, and for one with
    labels that have no weight yet, such as those of `resize_labels`; a model with weights for all of its labels keeps them.

    Args:
        model: A model whose loss weighs labels.
        label_counts: Training documents of each label, (L,).
        num_documents: Training documents N.
        a: Propensity constant A of the data set.
        b: Propensity constant B.

    Raises:
        ValueError: If the model's loss has no weights, or there is not one count per label.

    Source: Jain et al. (2016), "Extreme multi-label loss functions", §4.
    """
    _check_counts(model, label_counts)
    weights = model.label_head.positive_weight
    if weights is None:
        raise ValueError(
            f"label_loss={model.config.label_loss!r} puts no weights on labels. Build the model with label_loss='propensity_bce'."
        )
    weight_of_label = inverse_propensity(np.asarray(label_counts), num_documents, a=a, b=b)
    weights.copy_(torch.from_numpy(weight_of_label[own_labels(model)]))


@torch.no_grad()
def set_missing_label_weights(model: XMTCPreTrainedModel, weight_of_label: np.ndarray) -> None:
    """Give a model whose loss weighs labels its weights, unless it has one for every label; says so where it is not obvious.

    Args:
        model: Any model; nothing is done where its loss has no weights.
        weight_of_label: Weight of each label in the data at hand, (L,).
    """
    weights = model.label_head.positive_weight
    if weights is None:
        return
    head = model.label_head
    current = torch.from_numpy(weight_of_label[own_labels(model)]).to(weights)
    # Of all labels, wherever they are: processes that share them must decide alike.
    counts = torch.stack([(weights == 0).sum(), ((weights - current).abs() > 1e-3 * current).sum()])
    if (shard := shard_of(model)) is not None:
        shard.reduce(counts)
    missing, different = counts.tolist()
    if missing:
        if missing < head.num_labels:
            logger.warning(
                f"{missing} of {head.num_labels} labels have no weight in the loss yet; those of all are set anew."
            )
        weights.copy_(current)
    elif different:
        logger.warning(
            "The model keeps the label weights of its loss, which are not those of these data. Call initialize_label_weights of "
            "hf_xmtc.training to replace them."
        )


def _initialize_auxiliary_bias(model: XMTCPreTrainedModel, labels_per_document: float, num_documents: int) -> None:
    """Start PLCP and CLCP at the log-odds of a yes; `torch.no_grad` is the caller's."""
    pairs, conditions = getattr(model, "pair_head", None), getattr(model, "conditional_head", None)
    if pairs is not None:
        pairs.output.bias.fill_(math.log(1 / 2))  # a related pair for every two unrelated ones
    if conditions is not None:
        asked = model.config.num_read_labels - 1  # one is given
        remaining = min(max(0.0, labels_per_document - 1), asked)  # candidates may be fewer than a document's labels
        prior = (remaining * num_documents + 0.5) / (asked * num_documents + 1.0)
        conditions.output.bias.fill_(math.log(prior / (1 - prior)))


def _check_counts(model: XMTCPreTrainedModel, label_counts: np.ndarray) -> None:
    if len(label_counts) != model.config.num_labels:
        raise ValueError(
            f"There are counts for {len(label_counts)} labels but num_labels={model.config.num_labels}. Count the labels "
            "of the training split with label_counts(dataset, num_labels)."
        )

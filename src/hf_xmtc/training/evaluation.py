"""Metrics of the trainer: ranking metrics, metrics of predicted label sets, and the thresholds that make the sets."""

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers.trainer_utils import EvalPrediction

from hf_xmtc.data import label_counts as count_labels
from hf_xmtc.metrics import best_threshold, best_thresholds_per_label, inverse_propensity, ranking_report, set_report

from .arguments import XMTCTrainingArguments

__all__ = ["Evaluation", "measured", "of_one_width", "tuned_thresholds"]

# What evaluation reports of `ranking_report`: the field's headline metrics. More would only widen every log line.
REPORTED = {f"{name}@{k}" for name in ("P", "nDCG", "PSP") for k in (1, 3, 5)} | {"R@5", "num_documents", "num_left_out"}
# Of `set_report`, whose number of documents is that above.
SET_REPORTED = {
    *(f"{mean}_{what}" for mean in ("micro", "macro", "samples") for what in ("precision", "recall", "f1")),
    *(f"macro_f1_group{group}" for group in (1, 2, 3, 4)),
    "hamming_loss",
    "label_dependency_kl",
    "num_clipped_pairs",
    "num_distinct_sets",
    "subset_accuracy",
}
CUT = "num_cut_sets"


def measured(args: XMTCTrainingArguments, with_sets: bool | None = None) -> set[str]:
    """Names of the metrics that an evaluation reports, the loss included; by default with those of sets where they are asked for."""
    with_sets = args.measures_sets if with_sets is None else with_sets
    return {"loss", *REPORTED, *((*SET_REPORTED, CUT) if with_sets else ())}


class Evaluation:
    """Metrics of the ``eval_top_k`` best labels of each document.

    Args:
        args: Training arguments.
        num_labels: The model's labels L.
        counts: Training documents of each label, (L,); None leaves out what is weighed or grouped by them.
        num_documents: Documents behind ``counts``.

    Raises:
        ValueError: If there is not one count per label.
    """

    def __init__(self, args: XMTCTrainingArguments, num_labels: int, counts: np.ndarray | None, num_documents: int | None):
        if counts is not None and (len(counts) != num_labels or num_documents is None):
            raise ValueError(
                f"label_counts holds {len(counts)} counts and num_train_documents={num_documents}, but the model has "
                f"{num_labels} labels. Give one count per label, and the number of documents they were counted on."
            )
        self.args, self.num_labels, self.label_counts = args, num_labels, counts
        self.inverse_propensity = None
        if counts is not None:
            # One weight more than there are labels: that of a label with no training document.
            self.inverse_propensity = inverse_propensity(
                np.append(counts, 0), num_documents, a=args.propensity_a, b=args.propensity_b
            )

    @classmethod
    def of_training_data(cls, args: XMTCTrainingArguments, num_labels: int, dataset: Dataset | None) -> "Evaluation":
        """With counts from the training data, where they can be counted."""
        if not isinstance(dataset, Dataset):
            return cls(args, num_labels, None, None)
        return cls(args, num_labels, count_labels(dataset, num_labels), len(dataset))

    @property
    def kept_labels(self) -> int:
        """Labels that evaluation keeps of each document: ``eval_top_k``, and enough for whole sets where those are measured."""
        largest = self.args.set_top_k if self.args.measures_sets else 0
        return max(self.args.eval_top_k, min(self.num_labels, largest))

    def metrics(
        self, prediction: EvalPrediction, lowest_threshold: float = -np.inf, num_candidates: int = 0
    ) -> dict[str, float]:
        """Metrics of predictions (scores, label ids and, where sets are measured, which of them are in the set; each (N, K)).

        Args:
            prediction: With ``predictions`` and the true ``label_ids``.
            lowest_threshold: A score below which no label is in a set; -inf where it is not known.
            num_candidates: Labels scored for each document; 0 for all.
        """
        top_labels, positives = prediction.predictions[1], prediction.label_ids
        report = ranking_report(
            top_labels,
            positives,
            ks=(1, 3, 5),
            inverse_propensity=self.propensity_for(positives),
            ignore_unseen=self.num_labels if self.args.ignore_unseen_labels else None,
        )
        found = {name: value for name, value in report.items() if name in REPORTED}
        num_scored = min(num_candidates or self.num_labels, self.num_labels)
        return {**found, **self._set_metrics(prediction, lowest_threshold, num_scored)} if self.args.measures_sets else found

    def _set_metrics(self, prediction: EvalPrediction, lowest_threshold: float, num_scored: int) -> dict[str, float]:
        """Metrics of the predicted sets; ``num_cut_sets`` counts sets that may go on behind the labels that were kept."""
        scores, top_labels, in_set = prediction.predictions
        report = set_report(
            np.where(in_set, top_labels, -1),
            prediction.label_ids,
            self.num_labels,
            ignore_unseen=self.args.ignore_unseen_labels,
            label_counts=self.label_counts,
        )
        # With one threshold both say the same; with one for each label others may follow behind one that is not in the set.
        goes_on = in_set.all(axis=1) | ((scores[:, -1] > lowest_threshold) & np.isfinite(lowest_threshold))
        goes_on &= top_labels[:, -1] >= 0  # behind a filler there is nothing
        cut = goes_on.sum() if top_labels.shape[1] < num_scored else 0
        return {**{name: value for name, value in report.items() if name in SET_REPORTED}, CUT: int(cut)}

    def propensity_for(self, positives: np.ndarray) -> np.ndarray | None:
        """Extend the weights to labels that training never saw: the formula's value for a count of zero."""
        if self.inverse_propensity is None:
            return None
        extra = int(positives.max(initial=-1)) + 1 - self.num_labels
        return np.concatenate([self.inverse_propensity[:-1], np.repeat(self.inverse_propensity[-1], max(extra, 0))])


def of_one_width(found: tuple[Tensor, ...], width: int) -> tuple[Tensor, ...]:
    """Scores, label ids and, where there are any, marks of what is in the set, filled up to ``width`` with 0, -100 and False.

    Batches may have candidates of different numbers, and the Trainer, which joins them, would fill up all three with -100: a mark of
    -100 is True.
    """
    missing = max(0, width - found[1].shape[1])
    return tuple(
        torch.nn.functional.pad(array, (0, missing), value=filler)
        for array, filler in zip(found, (0.0, -100, False), strict=False)
    )


def tuned_thresholds(kind: str, scores: np.ndarray, top_labels: np.ndarray, positives: np.ndarray, num_labels: int):
    """The threshold with the best micro F1 (``global``), or each label's with its best F1 (``per_label``, (L,)).

    Args:
        kind: ``global`` or ``per_label``.
        scores: Of the labels that were kept, (N, K).
        top_labels: Their ids, (N, K).
        positives: True ids, (N, P), padded with -100.
        num_labels: Labels L.
    """
    shared = best_threshold(scores, top_labels, positives, num_labels)
    if kind == "global":
        return shared
    return best_thresholds_per_label(scores, top_labels, positives, num_labels, fallback=shared)

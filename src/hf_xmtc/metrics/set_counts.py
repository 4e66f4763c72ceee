"""Counts of hits, predictions and positives, from which all metrics of predicted label sets are computed."""

from dataclasses import dataclass

import numpy as np

from .label_sets import LabelSetsLike, predicted_and_true_sets

__all__ = ["SetCounts", "count_sets", "mean_ratio", "ratios"]

_AVERAGES = ("micro", "macro", "samples", "weighted")
_UNDEFINED_CHOICES = ("zero", "skip")


@dataclass(frozen=True, eq=False)
class SetCounts:
    """Hits, predictions and positives of each label and of each document. Build it with `count_sets`.

    Attributes:
        label_hits: Documents for which the label was predicted and that have it, (L,).
        label_predicted: Documents for which the label was predicted, (L,).
        label_positives: Documents that have the label, (L,).
        document_hits: Predicted labels that the document has, (N,).
        document_predicted: Predicted labels of the document, (N,).
        document_positives: Labels of the document, (N,).
    """

    label_hits: np.ndarray
    label_predicted: np.ndarray
    label_positives: np.ndarray
    document_hits: np.ndarray
    document_predicted: np.ndarray
    document_positives: np.ndarray

    def averaged(self, average: str, undefined: str) -> tuple[float, float, float]:
        """Precision, recall and F1 under one average, see `precision_recall_f1`."""
        if average not in _AVERAGES:
            raise ValueError(f"average must be one of {_AVERAGES}, got {average!r}.")
        _check_undefined(undefined)
        documents = (self.document_hits, self.document_predicted, self.document_positives)
        labels = (self.label_hits, self.label_predicted, self.label_positives)
        if average == "micro":
            precision, recall, f1 = (np.nan_to_num(ratio) for ratio in ratios(*(part.sum() for part in documents)))
            return float(precision), float(recall), float(f1)
        parts = ratios(*(documents if average == "samples" else labels))
        if average == "weighted":
            weights = self.label_positives / max(int(self.label_positives.sum()), 1)
            precision, recall, f1 = (float(np.nan_to_num(ratio) @ weights) for ratio in parts)
        else:
            precision, recall, f1 = (mean_ratio(ratio, average, undefined) for ratio in parts)
        return precision, recall, f1

    def hamming_loss(self) -> float:
        """Share of wrong cells, see `hamming_loss`."""
        wrong = self.label_predicted.sum() + self.label_positives.sum() - 2 * self.label_hits.sum()
        return float(wrong / (len(self.document_hits) * len(self.label_hits)))

    def subset_accuracy(self) -> float:
        """Share of exactly right documents, see `subset_accuracy`."""
        right = (self.document_hits == self.document_predicted) & (self.document_hits == self.document_positives)
        return float(right.mean())


def count_sets(
    predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int, ignore_unseen: bool = False
) -> SetCounts:
    """Count hits, predictions and positives by label and by document.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`.
        num_labels: As for `set_report`.
        ignore_unseen: As for `set_report`.

    Returns:
        The counts.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, or a predicted id is ≥ ``num_labels``.
    """
    guess, truth = predicted_and_true_sets(predicted, positives, num_labels)
    known = truth.below(num_labels)
    if ignore_unseen:
        truth = known
    hit = truth.positions(guess.rows, guess.label_ids) >= 0
    return SetCounts(
        label_hits=np.bincount(guess.label_ids[hit], minlength=num_labels),
        label_predicted=np.bincount(guess.label_ids, minlength=num_labels),
        label_positives=np.bincount(known.label_ids, minlength=num_labels),
        document_hits=np.bincount(guess.rows[hit], minlength=truth.num_documents),
        document_predicted=guess.sizes,
        document_positives=truth.sizes,
    )


def ratios(hits: np.ndarray, predicted: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1, element by element.

    Args:
        hits: Numbers of hits, any shape.
        predicted: Numbers of predictions, same shape.
        positives: Numbers of positives, same shape.

    Returns:
        Three arrays of this shape, NaN where a ratio is undefined.
    """

    def divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
        ratio = np.full(np.shape(denominator), np.nan)
        return np.divide(numerator, denominator, out=ratio, where=denominator > 0)

    return divided(hits, predicted), divided(hits, positives), divided(2 * hits, predicted + positives)


def mean_ratio(values: np.ndarray, name: str, undefined: str) -> float:
    """Average the ratios of labels or documents.

    Args:
        values: Ratios, (number of labels or documents,), NaN where undefined.
        name: What to call the ratio in an error.
        undefined: ``"zero"`` counts undefined ratios as 0, ``"skip"`` leaves them out.

    Returns:
        The mean.

    Raises:
        ValueError: If none is left, or ``undefined`` is neither word.
    """
    _check_undefined(undefined)
    if undefined == "zero":
        return float(np.nan_to_num(values).mean())
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        raise ValueError(
            f"A {name} ratio is undefined for all {len(values)} labels or documents, for example because nothing was "
            "predicted, and undefined='skip' leaves none. undefined='zero' counts them as 0."
        )
    return float(defined.mean())


def _check_undefined(undefined: str) -> None:
    if undefined not in _UNDEFINED_CHOICES:
        raise ValueError(f"undefined must be one of {_UNDEFINED_CHOICES}, got {undefined!r}.")

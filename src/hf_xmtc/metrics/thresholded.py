"""Metrics of predicted label sets, such as all labels above a threshold: precision, recall, F1, Hamming loss.

Everything is counted from flat lists of label ids; no documents × labels table is built.
"""

from dataclasses import dataclass

import numpy as np

from .label_sets import LabelSetsLike, label_sets

__all__ = [
    "PerLabelScores",
    "hamming_loss",
    "per_label_scores",
    "precision_recall_f1",
    "set_report",
    "subset_accuracy",
]

_AVERAGES = ("micro", "macro", "samples", "weighted")
_UNDEFINED_CHOICES = ("zero", "skip")


@dataclass(frozen=True, eq=False)
class PerLabelScores:
    """Scores of each label, every array (L,); a ratio that is undefined is 0.

    Attributes:
        precision: Share of the documents with the label predicted that have it.
        recall: Share of the documents with the label for which it was predicted.
        f1: 2 · hits / (predicted + support).
        support: Number of documents that have the label.
        predicted: Number of documents for which the label was predicted.
    """

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    support: np.ndarray
    predicted: np.ndarray


def set_report(
    predicted: LabelSetsLike,
    positives: LabelSetsLike,
    num_labels: int,
    undefined: str = "zero",
    ignore_unseen: bool = False,
) -> dict[str, float | int]:
    """Compute all metrics of predicted label sets.

    Undefined ratios: the precision of a label that is never predicted, the recall of one without a positive, the F1 of one
    with neither; for ``samples`` the same of a document. **The macro rule** is scikit-learn's default: the unweighted mean
    over all ``num_labels`` labels with undefined ratios counted as 0, and macro F1 is the mean of the labels' F1. With
    ``undefined="skip"`` the means leave them out (scikit-learn's ``zero_division=nan``). Micro ratios come from pooled
    counts and are 0 where undefined.

    Args:
        predicted: Predicted label ids: a list of id lists, a CSR matrix, or an integer array (N, P) padded with -100.
        positives: True label ids, in the same forms.
        num_labels: The model's number of labels L.
        undefined: ``"zero"`` or ``"skip"``.
        ignore_unseen: Drop positives with an id ≥ ``num_labels`` first. By default they count as missed in micro, samples
            and subset accuracy; macro and Hamming loss are about the ``num_labels`` labels only.

    Returns:
        ``{micro,macro,samples}_{precision,recall,f1}``, ``hamming_loss`` and ``subset_accuracy`` as floats;
        ``num_documents`` and ``num_undefined_labels``, the labels with neither a positive nor a prediction, as integers.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ ``num_labels``, or nothing is defined.
    """
    counts = _count(predicted, positives, num_labels, ignore_unseen)
    report: dict[str, float | int] = {}
    for average in ("micro", "macro", "samples"):
        for name, value in zip(("precision", "recall", "f1"), _averaged(counts, average, undefined), strict=True):
            report[f"{average}_{name}"] = value
    report["hamming_loss"] = _hamming_loss(counts)
    report["subset_accuracy"] = _subset_accuracy(counts)
    report["num_documents"] = len(counts.document_hits)
    report["num_undefined_labels"] = int((counts.label_predicted + counts.label_positives == 0).sum())
    return report


def precision_recall_f1(
    predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int, average: str = "micro", undefined: str = "zero"
) -> tuple[float, float, float]:
    """Precision, recall and F1 under one average; the rules are those of `set_report`.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`.
        num_labels: As for `set_report`.
        average: ``"micro"`` pools all counts, ``"macro"`` averages over labels, ``"weighted"`` over labels by their number
            of positives, ``"samples"`` over documents.
        undefined: ``"zero"`` or ``"skip"``, for macro and samples.

    Returns:
        Precision, recall, F1.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ ``num_labels``, nothing is defined, or a
            word is unknown.

    Source: LACO (Zhang et al., 2021), section 4.2; the definitions of scikit-learn's ``precision_recall_fscore_support``.
    """
    return _averaged(_count(predicted, positives, num_labels), average, undefined)


def per_label_scores(predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int) -> PerLabelScores:
    """Precision, recall, F1 and counts of each label.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`.
        num_labels: As for `set_report`.

    Returns:
        Arrays of the shape (L,).

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, or a predicted id is ≥ ``num_labels``.
    """
    counts = _count(predicted, positives, num_labels)
    precision, recall, f1 = _ratios(counts.label_hits, counts.label_predicted, counts.label_positives)
    return PerLabelScores(
        precision=np.nan_to_num(precision),
        recall=np.nan_to_num(recall),
        f1=np.nan_to_num(f1),
        support=counts.label_positives,
        predicted=counts.label_predicted,
    )


def hamming_loss(predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int) -> float:
    """Share of the N × L cells that are wrong: predicted but not a positive, or the other way round.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`; ids ≥ ``num_labels`` have no cell.
        num_labels: As for `set_report`.

    Returns:
        The share, lower is better.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, or a predicted id is ≥ ``num_labels``.
    """
    return _hamming_loss(_count(predicted, positives, num_labels))


def subset_accuracy(predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int) -> float:
    """Share of the documents whose predicted set is exactly the set of positives.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`.
        num_labels: As for `set_report`.

    Returns:
        The share.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, or a predicted id is ≥ ``num_labels``.
    """
    return _subset_accuracy(_count(predicted, positives, num_labels))


@dataclass(frozen=True, eq=False)
class _SetCounts:
    """Hits, predictions and positives of each label, (L,), and of each document, (N,)."""

    label_hits: np.ndarray
    label_predicted: np.ndarray
    label_positives: np.ndarray
    document_hits: np.ndarray
    document_predicted: np.ndarray
    document_positives: np.ndarray


def _count(predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int, ignore_unseen: bool = False) -> _SetCounts:
    if num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {num_labels}.")
    guess, truth = label_sets(predicted, "predicted"), label_sets(positives, "positives")
    if guess.num_documents != truth.num_documents:
        raise ValueError(
            f"predicted has {guess.num_documents} documents but positives has {truth.num_documents}. Both need one row per "
            "document, in the same order; a document without labels has an empty row."
        )
    if truth.num_documents == 0:
        raise ValueError("No document is left to average over: predicted and positives have 0 documents.")
    if guess.label_ids.max(initial=-1) >= num_labels:
        raise ValueError(
            f"predicted holds the label id {guess.label_ids.max()} but num_labels={num_labels}: a model cannot predict a "
            "label it does not have. Is num_labels that of another model?"
        )
    known = truth.below(num_labels)
    if ignore_unseen:
        truth = known
    hit = truth.positions(guess.rows, guess.label_ids) >= 0
    return _SetCounts(
        label_hits=np.bincount(guess.label_ids[hit], minlength=num_labels),
        label_predicted=np.bincount(guess.label_ids, minlength=num_labels),
        label_positives=np.bincount(known.label_ids, minlength=num_labels),
        document_hits=np.bincount(guess.rows[hit], minlength=truth.num_documents),
        document_predicted=guess.sizes,
        document_positives=truth.sizes,
    )


def _ratios(hits: np.ndarray, predicted: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1, element by element, with NaN where undefined."""

    def divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
        ratio = np.full(np.shape(denominator), np.nan)
        return np.divide(numerator, denominator, out=ratio, where=denominator > 0)

    return divided(hits, predicted), divided(hits, positives), divided(2 * hits, predicted + positives)


def _averaged(counts: _SetCounts, average: str, undefined: str) -> tuple[float, float, float]:
    if average not in _AVERAGES:
        raise ValueError(f"average must be one of {_AVERAGES}, got {average!r}.")
    if undefined not in _UNDEFINED_CHOICES:
        raise ValueError(f"undefined must be one of {_UNDEFINED_CHOICES}, got {undefined!r}.")
    documents = (counts.document_hits, counts.document_predicted, counts.document_positives)
    labels = (counts.label_hits, counts.label_predicted, counts.label_positives)
    if average == "micro":
        precision, recall, f1 = (np.nan_to_num(ratio) for ratio in _ratios(*(part.sum() for part in documents)))
        return float(precision), float(recall), float(f1)
    ratios = _ratios(*(documents if average == "samples" else labels))
    if average == "weighted":
        weights = counts.label_positives / max(int(counts.label_positives.sum()), 1)
        precision, recall, f1 = (float(np.nan_to_num(ratio) @ weights) for ratio in ratios)
    else:
        precision, recall, f1 = (_mean(ratio, average, undefined) for ratio in ratios)
    return precision, recall, f1


def _mean(ratios: np.ndarray, average: str, undefined: str) -> float:
    if undefined == "zero":
        return float(np.nan_to_num(ratios).mean())
    defined = ratios[~np.isnan(ratios)]
    if len(defined) == 0:
        raise ValueError(
            f"A {average} ratio is undefined for all {len(ratios)} labels or documents, for example because nothing was "
            "predicted, and undefined='skip' leaves none. undefined='zero' counts them as 0."
        )
    return float(defined.mean())


def _hamming_loss(counts: _SetCounts) -> float:
    wrong = counts.label_predicted.sum() + counts.label_positives.sum() - 2 * counts.label_hits.sum()
    return float(wrong / (len(counts.document_hits) * len(counts.label_hits)))


def _subset_accuracy(counts: _SetCounts) -> float:
    right = (counts.document_hits == counts.document_predicted) & (counts.document_hits == counts.document_positives)
    return float(right.mean())

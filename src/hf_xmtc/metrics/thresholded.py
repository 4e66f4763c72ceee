"""Metrics of predicted label sets, such as all labels above a threshold: precision, recall, F1, Hamming loss.

Everything is counted from flat lists of label ids; no documents × labels table is built.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .frequency_groups import label_frequency_groups, macro_f1_of_groups
from .label_correlation import label_dependency, num_distinct_sets
from .label_sets import LabelSetsLike, predicted_and_true_sets
from .set_counts import count_sets, ratios

__all__ = [
    "PerLabelScores",
    "hamming_loss",
    "per_label_scores",
    "precision_recall_f1",
    "set_report",
    "subset_accuracy",
]

_NUM_FREQUENCY_GROUPS = 4


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
    label_counts: ArrayLike | None = None,
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
            and subset accuracy; all else is about the ``num_labels`` labels only.
        label_counts: Number of training documents that have the label, (L,), for macro F1 by frequency; None leaves it out.

    Returns:
        ``{micro,macro,samples}_{precision,recall,f1}``, ``hamming_loss``, ``subset_accuracy`` and ``label_dependency_kl`` (see
        `label_dependency_kl`) as floats; ``num_clipped_pairs``, the pairs in it that are never predicted,
        ``num_distinct_sets``, ``num_documents`` and ``num_undefined_labels``, the labels with neither a positive nor a
        prediction, as integers. With ``label_counts`` also ``macro_f1_group1``, the most frequent quarter of the labels, to
        ``macro_f1_group4``; fewer than four labels make as many groups.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ ``num_labels``, nothing is defined, or
            ``label_counts`` is not a count for each label.
    """
    guess, truth = predicted_and_true_sets(predicted, positives, num_labels)
    counts = count_sets(guess, truth, num_labels, ignore_unseen)
    report: dict[str, float | int] = {}
    for average in ("micro", "macro", "samples"):
        for name, value in zip(("precision", "recall", "f1"), counts.averaged(average, undefined), strict=True):
            report[f"{average}_{name}"] = value
    if label_counts is not None:
        if np.shape(label_counts) != (num_labels,):
            raise ValueError(
                f"label_counts has the shape {np.shape(label_counts)} but num_labels={num_labels}: one count is needed for "
                "each of the model's labels. Count the training documents that have the label."
            )
        # With fewer labels than groups the last groups would be empty and are left out.
        groups = label_frequency_groups(label_counts, min(_NUM_FREQUENCY_GROUPS, num_labels))
        for number, value in enumerate(macro_f1_of_groups(counts, groups, undefined), start=1):
            report[f"macro_f1_group{number}"] = float(value)
    report["hamming_loss"] = counts.hamming_loss()
    report["subset_accuracy"] = counts.subset_accuracy()
    dependency = label_dependency(guess, truth, num_labels)
    report["label_dependency_kl"] = dependency.kl
    report["num_clipped_pairs"] = dependency.num_clipped_pairs
    report["num_distinct_sets"] = num_distinct_sets(guess)
    report["num_documents"] = truth.num_documents
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
    return count_sets(predicted, positives, num_labels).averaged(average, undefined)


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
    counts = count_sets(predicted, positives, num_labels)
    precision, recall, f1 = ratios(counts.label_hits, counts.label_predicted, counts.label_positives)
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
    return count_sets(predicted, positives, num_labels).hamming_loss()


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
    return count_sets(predicted, positives, num_labels).subset_accuracy()

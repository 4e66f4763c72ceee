"""Macro F1 of frequent and of rare labels apart, as in LACO's figure 2."""

import numpy as np
from numpy.typing import ArrayLike

from .label_sets import LabelSetsLike
from .set_counts import SetCounts, count_sets, mean_ratio, ratios

__all__ = ["label_frequency_groups", "macro_f1_by_frequency", "macro_f1_of_groups"]


def label_frequency_groups(label_counts: ArrayLike, num_groups: int = 4) -> np.ndarray:
    """Divide the labels by training frequency into groups of the same number of labels.

    Labels are ranked by count, the most frequent first, equal counts by the lower id; the groups are the quartiles of the
    rank (for ``num_groups=4``), and their sizes differ by at most one.

    Args:
        label_counts: Number of training documents that have the label, (L,).
        num_groups: Number of groups, at most L.

    Returns:
        Group of each label, int64, (L,): 1 for the most frequent labels, ``num_groups`` for the rarest.

    Raises:
        ValueError: If a count is negative or not a number, or there are fewer labels than groups.

    Source: LACO (Zhang et al., 2021), section 5.3 and figure 2 (a). Their four groups are called big head, high, middle and
    low frequency; where they are cut is not written, quartiles of the rank are our choice.
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    if counts.ndim != 1:
        raise ValueError(f"label_counts must have the shape (labels,) but has {counts.shape}.")
    if not np.all(counts >= 0):
        raise ValueError(
            f"label_counts must be numbers of documents, at least 0, but one is {counts[~(counts >= 0)][0]:g}. Pass the "
            "counts of the training data."
        )
    if not 1 <= num_groups <= len(counts):
        raise ValueError(
            f"num_groups must be between 1 and the number of labels, got {num_groups} for {len(counts)} labels: a group "
            "without labels has no F1. Use fewer groups."
        )
    most_frequent_first = np.argsort(-counts, kind="stable")
    groups = np.empty(len(counts), dtype=np.int64)
    groups[most_frequent_first] = np.arange(len(counts)) * num_groups // len(counts) + 1
    return groups


def macro_f1_by_frequency(
    predicted: LabelSetsLike,
    positives: LabelSetsLike,
    label_counts: ArrayLike,
    num_groups: int = 4,
    undefined: str = "zero",
) -> np.ndarray:
    """Mean F1 of the labels of each frequency group.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`; ids ≥ L belong to no group.
        label_counts: As for `label_frequency_groups`; its length is the model's number of labels L.
        num_groups: As for `label_frequency_groups`.
        undefined: The F1 of a label with neither a positive nor a prediction: ``"zero"`` counts it as 0, ``"skip"`` leaves
            it out.

    Returns:
        Macro F1 of the groups 1 … ``num_groups``, (num_groups,).

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ L, ``label_counts`` is refused by
            `label_frequency_groups`, or nothing is defined in a group.

    Source: LACO (Zhang et al., 2021), figure 2 (b).
    """
    groups = label_frequency_groups(label_counts, num_groups)
    return macro_f1_of_groups(count_sets(predicted, positives, len(groups)), groups, undefined)


def macro_f1_of_groups(counts: SetCounts, groups: np.ndarray, undefined: str = "zero") -> np.ndarray:
    """Mean F1 of the labels of each group.

    Args:
        counts: Counts of the predicted sets.
        groups: Group of each label, counted from 1, every group with at least one label, (L,).
        undefined: As for `macro_f1_by_frequency`.

    Returns:
        Macro F1, (number of groups,).

    Raises:
        ValueError: If nothing is defined in a group.
    """
    _, _, f1 = ratios(counts.label_hits, counts.label_predicted, counts.label_positives)
    numbers = range(1, int(groups.max()) + 1)
    return np.array([mean_ratio(f1[groups == number], f"macro_f1_group{number}", undefined) for number in numbers])

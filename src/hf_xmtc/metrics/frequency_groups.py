"""Frequent and rare labels apart: macro F1 (LACO's figure 2), AUC and AUPR (AttentionXML's table 6), P@k and PSP@k."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .label_auc import label_auc
from .label_sets import LabelSets, LabelSetsLike, label_sets, ranked_labels
from .report import ranking_report
from .set_counts import SetCounts, count_sets, mean_ratio, ratios

__all__ = [
    "auc_by_frequency",
    "equal_mass_groups",
    "head_torso_tail",
    "label_frequency_groups",
    "macro_f1_by_frequency",
    "macro_f1_of_groups",
    "ranking_by_frequency",
]

GROUP_NAMES = ("head", "torso", "tail")


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


def equal_mass_groups(label_counts: ArrayLike, num_groups: int = 3, min_count: int = 5) -> np.ndarray:
    """Divide the labels by frequency into groups whose labels occur about equally often together.

    Labels of the same count are in the same group, so each group is a range of counts, and its share as near to the others' as that
    allows.

    Args:
        label_counts: Number of documents that have the label, (L,); in the paper those of the test split.
        num_groups: Number of groups.
        min_count: Labels with fewer documents are in no group.

    Returns:
        Group of each label, int64, (L,): 1 for the most frequent labels, ``num_groups`` for the rarest, 0 for none. A group may be
        empty where there are few different counts.

    Raises:
        ValueError: If a count is negative or not a number, or there is no group.

    Source: AttentionXML (You et al., 2018), table 6 and the text before it.
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    if counts.ndim != 1 or not np.all(counts >= 0) or num_groups < 1:
        raise ValueError(
            f"label_counts must be numbers of documents of the shape (labels,), and num_groups at least 1; got the shape {counts.shape} "
            f"and {num_groups} groups."
        )
    groups = np.zeros(len(counts), dtype=np.int64)
    chosen = counts >= max(min_count, 1)
    values, places = np.unique(-counts[chosen], return_inverse=True)  # the most frequent first
    if not len(values):
        return groups
    mass = np.bincount(places, weights=counts[chosen]).cumsum()
    # The border after which the mass is nearest to each share of the whole.
    borders = [int(np.abs(mass - mass[-1] * share / num_groups).argmin()) for share in range(1, num_groups)]
    groups[chosen] = 1 + np.searchsorted(np.array(borders), places, side="left")
    return groups


def auc_by_frequency(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    top_scores: np.ndarray,
    positives: LabelSetsLike,
    num_labels: int,
    num_groups: int = 3,
    min_count: int = 5,
) -> list[dict[str, float | int]]:
    """Mean AUC and AUPR of frequent and of rare labels.

    Args:
        top_labels: As for `label_auc`.
        top_scores: Likewise.
        positives: Likewise; the frequencies are counted in them.
        num_labels: Likewise.
        num_groups: As for `equal_mass_groups`.
        min_count: Likewise.

    Returns:
        For each group that has labels, the most frequent first: ``least_count`` and ``largest_count``, the documents of its labels,
        ``num_labels``, ``share`` of all occurrences, ``AUC`` and ``AUPR``.

    Raises:
        TypeError: As for `label_auc`.
        ValueError: As for `label_auc` and `equal_mass_groups`.

    Source: AttentionXML (You et al., 2018), table 6.
    """
    found = label_auc(top_labels, top_scores, positives, num_labels)
    counts, groups = found.num_positives, equal_mass_groups(found.num_positives, num_groups, min_count)
    rows = []
    for group in range(1, num_groups + 1):
        own = groups == group
        if own.any():
            rows.append(
                {
                    "least_count": int(counts[own].min()),
                    "largest_count": int(counts[own].max()),
                    "num_labels": int(own.sum()),
                    "share": float(counts[own].sum() / counts.sum()),
                    # A label of all documents has no AUC.
                    "AUC": float(np.nanmean(found.auc[own])) if np.isfinite(found.auc[own]).any() else float("nan"),
                    "AUPR": float(np.nanmean(found.aupr[own])),
                }
            )
    return rows


def head_torso_tail(label_counts: ArrayLike, head_above: int = 100, tail_up_to: int = 5) -> np.ndarray:
    """Group of each label by its training documents, (L,): 1 head, 2 torso, 3 tail.

    Args:
        label_counts: Number of training documents that have the label, (L,).
        head_above: Labels with more documents than this are head labels.
        tail_up_to: Labels with at most this many are tail labels.

    Raises:
        ValueError: If the borders are in the wrong order.

    The borders are this package's convention, as in `hf_xmtc.data.dataset_statistics`; papers draw them in different places.
    """
    counts = np.asarray(label_counts)
    if not 0 <= tail_up_to <= head_above:
        raise ValueError(f"tail_up_to={tail_up_to} and head_above={head_above}, but the tail ends before the head begins.")
    return np.where(counts > head_above, 1, np.where(counts > tail_up_to, 2, 3))


def ranking_by_frequency(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    groups: np.ndarray,
    ks: Sequence[int] = (1, 3, 5),
    inverse_propensity: ArrayLike | None = None,
) -> dict[str, dict[str, float | int]]:
    """Ranking metrics of head, torso and tail labels apart: each as if there were no other labels.

    Of a document only the labels of the group are ranked and looked for, and documents without one are left out. Where the K best
    labels hold few of a group, places behind them count as wrong, so keep many labels (100) for the tail.

    Args:
        top_labels: As for `ranking_report`.
        positives: Likewise; ids without a group are left out.
        groups: Group of each label, (L,): 1 head, 2 torso, 3 tail, as of `head_torso_tail`; or up to three groups of another choice.
        ks: As for `ranking_report`.
        inverse_propensity: Likewise.

    Returns:
        ``head``, ``torso`` and ``tail`` → what `ranking_report` gives, and ``num_labels``; without groups that no document has.

    Raises:
        TypeError: As for `ranking_report`.
        ValueError: As for `ranking_report`.

    Source: the restriction to a group's labels is that of Chalkidis et al. (2019), who report frequent, few and zero-shot labels.
    """
    ranking, truth, groups = ranked_labels(top_labels), label_sets(positives), np.append(np.asarray(groups), 0)
    of_ranking = groups[np.where((ranking < 0) | (ranking >= len(groups)), -1, ranking)]
    of_truth = groups[np.minimum(truth.label_ids, len(groups) - 1)]
    found = {}
    for number, name in enumerate(GROUP_NAMES, start=1):
        own = of_truth == number
        if not own.any():
            continue
        sizes = np.bincount(truth.rows[own], minlength=truth.num_documents)
        restricted = LabelSets(np.append(0, sizes.cumsum()), truth.label_ids[own])
        # The group's labels move to the front, in their order.
        order = np.argsort(of_ranking != number, axis=1, kind="stable")
        ranked = np.take_along_axis(np.where(of_ranking == number, ranking, -100), order, axis=1)
        report = ranking_report(ranked, restricted, ks, inverse_propensity)
        found[name] = {**report, "num_labels": int((groups == number).sum())}
    return found

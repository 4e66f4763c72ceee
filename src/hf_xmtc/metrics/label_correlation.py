"""How well predicted label sets repeat the dependencies between labels: LACO's KL divergence and distinct sets.

Pairs of labels are counted from flat arrays in blocks of a fixed number of pairs; neither a documents × labels nor a labels
× labels table is built, so memory follows the number of ids and of distinct pairs that occur.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .label_sets import LabelSets, LabelSetsLike, label_sets, predicted_and_true_sets

__all__ = ["LabelDependency", "label_dependency", "label_dependency_kl", "num_distinct_sets"]

# About 150 MB of temporary arrays.
_PAIRS_PER_BLOCK = 2**21


@dataclass(frozen=True)
class LabelDependency:
    """The divergence of predicted from true label dependencies.

    Attributes:
        kl: LACO's equation 8, lower is better.
        num_pairs: Ordered pairs of labels (a, b) that some document has, the terms of the sum.
        num_clipped_pairs: Those of them that are never, or more rarely than ``clip``, predicted together.
    """

    kl: float
    num_pairs: int
    num_clipped_pairs: int


def label_dependency_kl(predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int, clip: float = 1e-6) -> float:
    """Distance between the label dependencies in the predictions and those in the positives, lower is better.

    The dependency of b on a is p(b|a) = #(a, b) / #a, counted over the given documents. The distance is the sum of
    p_true · ln(p_true / p_predicted) over all ordered pairs of different labels that some document has. Not normalised over
    b, it is no true KL divergence: single terms, and the sum, can be negative, and it grows with the number of labels and
    pairs. Compare it only between models on the same documents.

    Args:
        predicted: As for `set_report`.
        positives: As for `set_report`; ids ≥ ``num_labels`` are left out, as no prediction can have them.
        num_labels: As for `set_report`.
        clip: p_predicted below this is raised to it; without, a pair that is never predicted, as well as every pair of a
            label that is never predicted, would make the sum infinite. `label_dependency` counts such pairs.

    Returns:
        The sum; 0 where no document has two labels.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ ``num_labels``, or ``clip`` is not a
            probability above 0.

    Source: LACO (Zhang et al., 2021), equation 8 and table 5. How they treat pairs that are never predicted is not written;
    clipping is our choice, and one clipped pair adds up to 13.8.
    """
    return label_dependency(predicted, positives, num_labels, clip).kl


def label_dependency(
    predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int, clip: float = 1e-6
) -> LabelDependency:
    """`label_dependency_kl` together with the numbers of its pairs and of those that were clipped.

    Args:
        predicted: As for `label_dependency_kl`.
        positives: As for `label_dependency_kl`.
        num_labels: As for `label_dependency_kl`.
        clip: As for `label_dependency_kl`.

    Returns:
        The divergence and its counts.

    Raises:
        TypeError: As for `label_dependency_kl`.
        ValueError: As for `label_dependency_kl`.
    """
    if not 0 < clip <= 1:
        raise ValueError(f"clip must be a probability above 0 and at most 1, got {clip}.")
    guess, truth = predicted_and_true_sets(predicted, positives, num_labels)
    truth = truth.below(num_labels)
    first, second, true_together = _count_pairs(truth, num_labels)
    predicted_together = _count_given_pairs(guess, first, second, num_labels)
    true_counts = np.bincount(truth.label_ids, minlength=num_labels)
    predicted_counts = np.bincount(guess.label_ids, minlength=num_labels)

    kl, num_clipped_pairs = 0.0, 0
    for given in (first, second):  # p(second|first), then p(first|second)
        p_true = true_together / true_counts[given]
        p_predicted = predicted_together / np.maximum(predicted_counts[given], 1)
        num_clipped_pairs += int((p_predicted < clip).sum())
        kl += float((p_true * np.log(p_true / np.maximum(p_predicted, clip))).sum())
    return LabelDependency(kl, num_pairs=2 * len(first), num_clipped_pairs=num_clipped_pairs)


def num_distinct_sets(predicted: LabelSetsLike) -> int:
    """Number of different label sets among the predictions; the empty set counts as one.

    Args:
        predicted: As for `set_report`.

    Returns:
        The number, 0 without documents.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If an id is negative and not padding.

    Source: LACO (Zhang et al., 2021), C_test of table 6.
    """
    sets = label_sets(predicted, "predicted")
    num_distinct = 0
    for size in np.unique(sets.sizes):  # sets of one size make an array, in which equal rows are found by sorting
        starts = sets.indptr[:-1][sets.sizes == size]
        same_size = sets.label_ids[starts[:, None] + np.arange(size)]  # (documents of this size, size)
        num_distinct += len(np.unique(same_size, axis=0)) if size > 0 else 1
    return num_distinct


def _count_pairs(sets: LabelSets, num_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The unordered pairs of labels that occur: lower id, higher id, number of documents that have both."""
    entries = np.arange(len(sets.label_ids))
    num_following = sets.indptr[sets.rows + 1] - 1 - entries  # labels of the same document behind an entry
    pairs, together = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for start, stop in _blocks(num_following):
        entry, step = _expand(num_following[start:stop])
        first = entry + start
        keys = sets.label_ids[first] * num_labels + sets.label_ids[first + 1 + step]
        new_pairs, new_together = np.unique(keys, return_counts=True)
        pairs, places = np.unique(np.concatenate([pairs, new_pairs]), return_inverse=True)
        counts = np.concatenate([together, new_together])
        together = np.bincount(places, weights=counts, minlength=len(pairs)).astype(np.int64)
    first, second = np.divmod(pairs, num_labels)
    return first, second, together


def _count_given_pairs(sets: LabelSets, first: np.ndarray, second: np.ndarray, num_labels: int) -> np.ndarray:
    """Number of documents that have both labels of each pair.

    Going through the documents of each pair's rarer label stays cheap where a young model predicts thousands of labels for a
    document, whose own pairs would be millions.
    """
    label_counts = np.bincount(sets.label_ids, minlength=num_labels)
    starts = np.cumsum(label_counts) - label_counts
    rows_by_label = sets.rows[np.argsort(sets.label_ids, kind="stable")]
    swap = label_counts[first] > label_counts[second]
    rarer, other = np.where(swap, second, first), np.where(swap, first, second)
    num_rows = label_counts[rarer]
    together = np.zeros(len(first), dtype=np.int64)
    for start, stop in _blocks(num_rows):
        pair, step = _expand(num_rows[start:stop])
        rows = rows_by_label[starts[rarer[start:stop]][pair] + step]
        found = sets.positions(rows, other[start:stop][pair]) >= 0
        together[start:stop] = np.bincount(pair[found], minlength=stop - start)
    return together


def _blocks(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut items of these sizes into runs [start, stop) of together at most `_PAIRS_PER_BLOCK`, or of one item."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        room = ends[start] - sizes[start] + _PAIRS_PER_BLOCK
        stop = max(int(np.searchsorted(ends, room, side="right")), start + 1)
        yield start, stop
        start = stop


def _expand(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For items of these sizes: the item of each of their parts, and the part's number within it, from 0."""
    items = np.repeat(np.arange(len(sizes)), sizes)
    return items, np.arange(len(items)) - (np.cumsum(sizes) - sizes)[items]

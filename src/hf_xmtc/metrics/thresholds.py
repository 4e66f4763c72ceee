"""Tune the threshold above which a score makes a label part of the predicted set, one for all labels or one for each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .label_sets import LabelSets, LabelSetsLike, check_comparable, label_sets, ranked_labels

__all__ = ["best_threshold", "best_thresholds_per_label"]


def best_threshold(
    top_scores: ArrayLike,
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    num_labels: int,
    fallback: float = 0.5,
) -> float:
    """Find the threshold with the highest micro F1 of the sets {labels with a score > threshold}.

    Candidates are the midpoints between neighbouring different scores, so that no score of these documents equals the
    threshold, and one below all scores. Of equally good ones the highest is taken. Use validation documents: tuned on those
    it is reported for, the F1 is too good.

    Args:
        top_scores: Scores of the predictions, (N, K), in any order; not looked at where ``top_labels`` is padding.
        top_labels: Label ids, (N, K), padded with -1 or -100. A label given twice for a document counts once, with its
            higher score. Labels that are not among the K are not predicted at any threshold, so K must be large enough for
            the K-th score to lie below any sensible threshold.
        positives: A list of id lists, a CSR matrix, or an integer array (N, P) padded with -100. Positives that are not
            among the K, and ids ≥ ``num_labels``, count as missed.
        num_labels: The model's number of labels L.
        fallback: Returned where no threshold has an F1 above 0.

    Returns:
        The threshold, a number of the scores' precision: in float32 too it separates the scores that it separates here. It
        is in (0, 1) where the scores are.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If shapes or the numbers of documents differ, there are no documents, a predicted id is ≥ ``num_labels``,
            or a score is not finite.

    Source: LACO (Zhang et al., 2021) has 0.5 for all labels; tuning by F1 on validation documents is ours.
    """
    _, scores, hits, truth = _judged_predictions(top_scores, top_labels, positives, num_labels)
    one_group, num_positives = np.zeros(len(scores), dtype=np.int64), np.array([len(truth.label_ids)])
    return float(_best_of_each_group(one_group, scores, hits, num_positives, fallback)[0])


def best_thresholds_per_label(
    top_scores: ArrayLike,
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    num_labels: int,
    fallback: float = 0.5,
) -> np.ndarray:
    """Find the threshold of each label with the highest F1 of that label, otherwise as `best_threshold`.

    The macro F1 of these documents is the highest possible. With few positives a label's threshold is a guess: for
    documents yet unseen one threshold for all labels is often better.

    Args:
        top_scores: As for `best_threshold`.
        top_labels: As for `best_threshold`.
        positives: As for `best_threshold`; ids ≥ ``num_labels`` have no threshold.
        num_labels: As for `best_threshold`.
        fallback: Threshold of the labels without a positive in these documents and of those that no threshold gives an F1
            above 0; pass that of `best_threshold`.

    Returns:
        Thresholds, float64, (L,).

    Raises:
        TypeError: As for `best_threshold`.
        ValueError: As for `best_threshold`.

    Source: As for `best_threshold`.
    """
    label_ids, scores, hits, truth = _judged_predictions(top_scores, top_labels, positives, num_labels)
    num_positives = np.bincount(truth.below(num_labels).label_ids, minlength=num_labels)
    return _best_of_each_group(label_ids, scores, hits, num_positives, fallback)


def _judged_predictions(
    top_scores: ArrayLike, top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, num_labels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, LabelSets]:
    """Label, score and hit of all predictions, highest score first, and the positives."""
    ranking, truth = ranked_labels(top_labels), label_sets(positives)
    check_comparable(len(ranking), ranking, truth, num_labels, "top_labels")
    all_scores = np.asarray(top_scores)
    if all_scores.shape != ranking.shape:
        raise ValueError(
            f"top_scores has the shape {all_scores.shape} but top_labels {ranking.shape}: each predicted label needs its "
            "score. Pad labels with -1 where a document has fewer predictions."
        )
    rows, columns = np.nonzero(ranking >= 0)
    label_ids, scores = ranking[rows, columns], all_scores[rows, columns]
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"top_scores holds {scores[~np.isfinite(scores)][0]} for a predicted label. Did the training diverge? Where there "
            "is no prediction, the label must be padding (-1)."
        )
    best_first = np.argsort(-scores, kind="stable")
    rows, label_ids, scores = rows[best_first], label_ids[best_first], scores[best_first]
    _, first = np.unique(rows * num_labels + label_ids, return_index=True)
    kept = np.sort(first)  # of a label given twice for a document the higher score
    rows, label_ids, scores = rows[kept], label_ids[kept], scores[kept]
    return label_ids, scores, truth.positions(rows, label_ids) >= 0, truth


def _best_of_each_group(
    groups: np.ndarray, scores: np.ndarray, hits: np.ndarray, num_positives: np.ndarray, fallback: float
) -> np.ndarray:
    """The best threshold of each group of predictions, (G,).

    Args:
        groups: Group of each prediction, (number of predictions,).
        scores: Scores, highest first, same shape.
        hits: Whether the prediction is right, same shape.
        num_positives: Positives of each group, those without a prediction too, (G,).
        fallback: Threshold of groups without a hit.
    """
    thresholds = np.full(len(num_positives), fallback, dtype=np.float64)
    if len(scores) == 0:
        return thresholds
    by_group = np.argsort(groups, kind="stable")  # scores of a group stay highest first
    groups, scores, hits = groups[by_group], scores[by_group], hits[by_group]
    new_group = np.append(True, groups[1:] != groups[:-1])
    group_starts = np.flatnonzero(new_group)[np.cumsum(new_group) - 1]
    # The F1 of predicting everything up to here within the group.
    num_predicted = np.arange(len(scores)) - group_starts + 1
    num_hits = np.cumsum(hits) - (np.cumsum(hits) - hits)[group_starts]
    f1 = 2 * num_hits / (num_predicted + num_positives[groups])

    # A threshold lies only where the score falls, or behind the last of the group.
    last_of_group = np.append(new_group[1:], True)
    ends = np.flatnonzero(last_of_group | np.append(scores[1:] != scores[:-1], True))
    lower = np.where(last_of_group, _below(scores), np.append(scores[1:], scores[-1:]))
    best_first = ends[np.lexsort((-f1[ends], groups[ends]))]  # stable: of equal F1 the higher threshold
    best = best_first[np.unique(groups[best_first], return_index=True)[1]]
    best = best[f1[best] > 0]
    thresholds[groups[best]] = _midpoints(lower[best], scores[best])
    return thresholds


def _below(scores: np.ndarray) -> np.ndarray:
    # So that the midpoint for the lowest score is below it, and above 0 where the scores are.
    return np.where(scores > 0, np.zeros_like(scores), scores - 1)


def _midpoints(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    middle = lower + (upper - lower) / 2
    # Between two scores that are neighbours in their precision no number is left; the lower one separates them as well,
    # because the comparison is strict.
    return np.where(middle < upper, middle, lower)

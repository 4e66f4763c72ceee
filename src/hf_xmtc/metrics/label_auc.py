"""How well the documents of each label are ranked: area under the ROC curve and under the precision-recall curve."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .label_sets import LabelSetsLike, check_comparable, label_sets, ranked_labels

__all__ = ["LabelAUC", "label_auc"]


@dataclass(frozen=True, eq=False)
class LabelAUC:
    """Areas of each label, (L,), NaN where undefined.

    Attributes:
        auc: Chance that a document with the label has a higher score for it than one without, ties counting half. Undefined where
            no document has the label, or all have it.
        aupr: Average precision: mean of the precision at each document with the label. Undefined where none has it.
        num_positives: Documents with the label.
    """

    auc: np.ndarray
    aupr: np.ndarray
    num_positives: np.ndarray


def label_auc(
    top_labels: np.ndarray | Sequence[Sequence[int]], top_scores: np.ndarray, positives: LabelSetsLike, num_labels: int
) -> LabelAUC:
    """Areas of each label from the best labels of each document, without a table of documents × labels.

    A document that does not have a label among its best ones has the score 0 for it, so the more labels are kept, the more exact the
    areas are; with all they are those of scikit-learn.

    Args:
        top_labels: Label ids, best first, (N, K), padded with -1 or -100.
        top_scores: Their scores, at least 0, (N, K).
        positives: As for `ranking_report`; ids ≥ ``num_labels`` are left out.
        num_labels: The model's labels L.

    Returns:
        The areas.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the shapes or numbers of documents differ, a predicted id is ≥ ``num_labels``, or a score is negative.

    Source: AttentionXML (You et al., 2018), table 6. It does not say what becomes of labels without a score. Some of its AUCs are far
    below 50, so ties seem to count as errors there; here they count half, as they do in scikit-learn.
    """
    ranking, scores, truth = ranked_labels(top_labels), np.asarray(top_scores, dtype=np.float64), label_sets(positives)
    check_comparable(len(ranking), ranking, truth, num_labels, "top_labels")
    there = ranking >= 0
    if scores.shape != ranking.shape or not np.all(scores[there] >= 0):
        raise ValueError(
            f"top_scores has the shape {scores.shape}, and must hold a score of at least 0 for each of the label ids of the shape "
            f"{ranking.shape}. Pass scores after the sigmoid, not logits."
        )
    truth = truth.below(num_labels)
    is_positive = (truth.positions(np.arange(len(ranking))[:, None], ranking) >= 0)[there]
    labels, scores = ranking[there], scores[there]
    counts = np.bincount(truth.label_ids, minlength=num_labels)
    # The documents of a label without a score are one last group of equal scores.
    scored = np.bincount(labels, minlength=num_labels)
    hits = np.bincount(labels[is_positive], minlength=num_labels)
    labels = np.concatenate([labels, np.arange(num_labels)])
    scores = np.concatenate([scores, np.zeros(num_labels)])
    right = np.concatenate([is_positive, counts - hits])
    wrong = np.concatenate([~is_positive, len(ranking) - scored - (counts - hits)])
    order = np.lexsort((-scores, labels))
    labels, scores, right, wrong = labels[order], scores[order], right[order].astype(float), wrong[order].astype(float)
    # Equal scores of a label become one group.
    starts = np.flatnonzero(np.append(True, (labels[1:] != labels[:-1]) | (scores[1:] != scores[:-1])))
    labels, right, wrong = labels[starts], np.add.reduceat(right, starts), np.add.reduceat(wrong, starts)
    first = np.searchsorted(labels, labels)  # the first group of the same label
    right_so_far, wrong_so_far = right.cumsum(), wrong.cumsum()
    right_so_far -= (right_so_far - right)[first]
    wrong_so_far -= (wrong_so_far - wrong)[first]
    num_wrong = len(ranking) - counts
    with np.errstate(invalid="ignore", divide="ignore"):
        below = right * (num_wrong[labels] - wrong_so_far + wrong / 2)
        auc = np.bincount(labels, below, minlength=num_labels) / (counts * num_wrong)
        precision = np.nan_to_num(right_so_far / (right_so_far + wrong_so_far))
        aupr = np.bincount(labels, right * precision, minlength=num_labels) / counts
    return LabelAUC(auc, aupr, counts)

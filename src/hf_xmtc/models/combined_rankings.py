"""One ranking from those of several models, without a table of documents × labels."""

from collections.abc import Sequence

import numpy as np

__all__ = ["METHODS", "JoinedRankings", "combine_rankings"]

# consensus: 1 - Π (1 - p_i). mean_score: mean of p_i. mean_rank: mean of how far from the end of its list a label stands.
# weighted: Σ w_i · p_i^e_i, the weights adding up to 1.
METHODS = ("weighted", "consensus", "mean_score", "mean_rank")

# The largest score below 1 in float32. A score of 1, which a sigmoid rounds to, would hide what the other models say.
LARGEST_SCORE = 1.0 - 2.0**-24
# Up to so many labels are found by a search for each, which is faster than sorting.
FEW_LABELS = 10


class JoinedRankings:
    """Rankings of the same documents by several models (parts), with each label once per document.

    A label that is not among the labels of a part has the score 0 and the rank behind the last there.

    Args:
        rankings: For each part its label ids, best first, (N, K), negative where there is none, and their scores from 0 to 1,
            (N, K). K may differ; shorter lists have no label in the places behind.
        depth: Labels of each part that are combined, from which ``mean_rank`` counts down; by default the largest K.

    Attributes:
        label_ids: The labels that any part has for a document, ascending, padded with -100, (N, U).
        depth: As given, or the largest K.

    Raises:
        ValueError: If there is no part, the shapes differ, a score is not from 0 to 1, or a part has a label twice for a document.
    """

    def __init__(self, rankings: Sequence[tuple[np.ndarray, np.ndarray]], depth: int | None = None):
        shapes = [(labels.shape, scores.shape) for labels, scores in rankings]
        if not shapes or len({shape[0] for pair in shapes for shape in pair}) > 1 or any(a != b for a, b in shapes):
            raise ValueError(
                f"The parts' labels and scores have the shapes {shapes}, but each needs labels and scores of the same (documents, K), of "
                "the same documents in the same order."
            )
        if depth is not None and depth < 1:
            raise ValueError(f"depth={depth}, but at least 1 label of each part is combined.")
        rankings = [(labels[:, :depth], scores[:, :depth]) for labels, scores in rankings]
        for part, ranking in enumerate(rankings):
            _check_ranking(part, *ranking)
        width = max(labels.shape[1] for labels, _ in rankings)
        self.depth = width if depth is None else depth
        missing = [((0, 0), (0, width - labels.shape[1])) for labels, _ in rankings]
        self._scores = [np.pad(scores, more).astype(np.float64) for (_, scores), more in zip(rankings, missing, strict=True)]
        padded = [np.pad(labels, more, constant_values=-100) for (labels, _), more in zip(rankings, missing, strict=True)]
        ids = np.concatenate(padded, axis=1).astype(np.int64)
        order = np.argsort(np.where(ids < 0, np.iinfo(np.int64).max, ids), axis=1, kind="stable")
        ordered = np.take_along_axis(ids, order, axis=1)
        is_new = np.ones_like(ordered, dtype=bool)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        is_new &= ordered >= 0
        columns = is_new.cumsum(axis=1) - 1
        width = int(columns.max(initial=-1)) + 1
        self.label_ids = np.full((len(ids), width), -100, dtype=np.int64)
        rows, entries = np.nonzero(is_new)
        self.label_ids[rows, columns[rows, entries]] = ordered[rows, entries]
        places = np.empty_like(ids)
        # Padding goes into a column of its own behind the others.
        np.put_along_axis(places, order, np.where(ordered < 0, width, columns), axis=1)
        self._places = np.split(places, len(rankings), axis=1)
        self._rows = np.arange(len(ids))[:, None]

    @property
    def num_parts(self) -> int:
        return len(self._scores)

    def gains(self, part: int, method: str, exponent: float = 1.0) -> np.ndarray:
        """Contribution of a part to its labels' totals, (N, K)."""
        scores = self._scores[part]
        if method == "consensus":
            return -np.log1p(-np.minimum(scores, LARGEST_SCORE))
        if method == "mean_rank":
            return np.broadcast_to(self.depth - np.arange(scores.shape[1]), scores.shape)
        return scores**exponent if method == "weighted" and exponent != 1.0 else scores

    def total(self, gains: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
        """Weighted sum of the parts' gains for each label, (N, U); -inf at padding."""
        total = np.zeros((len(self.label_ids), self.label_ids.shape[1] + 1))
        for gain, weight, places in zip(gains, weights, self._places, strict=True):
            total[self._rows, places] += weight * gain
        total = total[:, :-1]
        total[self.label_ids < 0] = -np.inf
        return total

    def best(self, total: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k labels with the largest totals, equal ones going to the lower id.

        Args:
            total: As `total` gives it; it is overwritten.
            k: Labels per document; all U where there are fewer.

        Returns:
            Label ids, (N, min(k, U)), best first, padded with -100, and their totals.
        """
        k = min(k, total.shape[1])
        if k > FEW_LABELS:
            order = np.argsort(-total, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(self.label_ids, order, axis=1), np.take_along_axis(total, order, axis=1)
        order, values, rows = np.empty((len(total), k), dtype=np.int64), np.empty((len(total), k)), np.arange(len(total))
        for place in range(k):
            order[:, place] = total.argmax(axis=1)  # the first of equal ones, which has the lowest id
            values[:, place] = total[rows, order[:, place]]
            total[rows, order[:, place]] = -np.inf
        found = np.take_along_axis(self.label_ids, order, axis=1)
        return np.where(np.isneginf(values), -100, found), values

    def combine(
        self,
        k: int,
        method: str,
        weights: Sequence[float] | None = None,
        exponents: Sequence[float] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of all parts together; see `combine_rankings`."""
        if k < 1:
            raise ValueError(f"k={k}, but at least 1 label per document is ranked.")
        weights, exponents = _checked(self.num_parts, method, weights, exponents)
        gains = [self.gains(part, method, exponent) for part, exponent in enumerate(exponents)]
        labels, totals = self.best(self.total(gains, weights), k)
        if method == "consensus":
            scores = -np.expm1(-totals)
        else:  # divided only now, because rounding would tell equal sums apart
            scores = totals / {"mean_score": self.num_parts, "mean_rank": self.num_parts * self.depth}.get(method, 1)
        return labels, np.where(labels < 0, 0.0, scores).clip(0.0, 1.0).astype(np.float32)


def combine_rankings(
    rankings: Sequence[tuple[np.ndarray, np.ndarray]],
    k: int,
    method: str,
    weights: Sequence[float] | None = None,
    exponents: Sequence[float] | None = None,
    depth: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Combine rankings of the same documents.

    Args:
        rankings: As for `JoinedRankings`.
        k: Labels per document.
        method: One of `METHODS`.
        weights: A weight per part, for ``weighted`` alone; they are divided by their sum.
        exponents: An exponent per part, likewise; 1 by default.
        depth: As for `JoinedRankings`. Give it where K differs from call to call, as over label trees, or else ``mean_rank`` does too.

    Returns:
        Label ids, (N, k) or fewer where the parts have fewer together, best first, padded with -100; and their scores from 0 to 1, 0
        at padding. Equal scores go to the lower id.

    Raises:
        ValueError: If the method is unknown, weights or exponents do not fit, or rankings are not as `JoinedRankings` takes them.

    Source: ``consensus`` is AttentionXML (You et al., 2018), equation 9, for any number of models. ``mean_score`` is, up to the
    constant factor, how the trees of AttentionXML and Parabel are joined. The others are our choice.
    """
    return JoinedRankings(rankings, depth).combine(k, method, weights, exponents)


def _check_ranking(part: int, labels: np.ndarray, scores: np.ndarray) -> None:
    wrong = ~((scores >= 0) & (scores <= 1)) & (labels >= 0)
    if wrong.any():
        raise ValueError(
            f"Part {part} has the score {scores[wrong][0]:g}, but scores lie between 0 and 1. Are these logits? Take their sigmoid."
        )
    ordered = np.sort(labels, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if again.any():
        row, place = np.argwhere(again)[0]
        raise ValueError(
            f"Part {part} has the label id {ordered[row, place]} twice for document {row}, but a ranking has each label once."
        )


def _checked(
    num_parts: int, method: str, weights: Sequence[float] | None, exponents: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    if method not in METHODS:
        raise ValueError(f"method={method!r} is none of {', '.join(METHODS)}.")
    if method != "weighted":
        if weights is not None or exponents is not None:
            raise ValueError(f"weights={weights} and exponents={exponents} belong to method='weighted', not to {method!r}.")
        return [1.0] * num_parts, [1.0] * num_parts
    weights = [1.0] * num_parts if weights is None else list(weights)
    exponents = [1.0] * num_parts if exponents is None else list(exponents)
    if len(weights) != num_parts or len(exponents) != num_parts:
        raise ValueError(
            f"There are {len(weights)} weights and {len(exponents)} exponents for {num_parts} parts. Give one of each per part."
        )
    if not (min(weights) >= 0 and 0 < sum(weights) < np.inf and 0 < min(exponents) <= max(exponents) < np.inf):
        raise ValueError(
            f"weights={weights} and exponents={exponents}, but weights must be at least 0, one of them more, and exponents above 0."
        )
    return [weight / sum(weights) for weight in weights], exponents

"""`PredictedSets`: the labels a model predicts for a document, beside how it ranks them; and whether scores are numbers."""

from typing import Any

import torch
from torch import Tensor
from transformers.utils import ModelOutput

__all__ = ["PredictedSets", "check_scores"]

# Labels looked at first where all above a threshold are wanted.
FIRST_LOOK = 64


class PredictedSets:
    """The thresholds of a model: one for all labels in ``config.decision_threshold``, or one for each in ``label_thresholds``.

    Attributes:
        has_thresholds: Whether a predicted set is what has a score above a threshold.
    """

    has_thresholds = True

    @torch.no_grad()
    def set_thresholds(self, thresholds: Any) -> None:
        """Say what a label's score must exceed for the label to be in the predicted set; saved with the model.

        Args:
            thresholds: One number for all labels, or one for each, (L,).

        Raises:
            ValueError: If there are neither one nor L numbers, or one is not a number.
        """
        value = torch.as_tensor(thresholds, dtype=torch.float32)
        if value.dim() > 1 or (value.dim() == 1 and len(value) != self.config.num_labels) or not value.isfinite().all():
            raise ValueError(
                f"thresholds has the shape {tuple(value.shape)}, but it must be one finite number, or one for each of the "
                f"{self.config.num_labels} labels."
            )
        self.config.has_label_thresholds = value.dim() == 1
        if value.dim() == 0:
            self.config.decision_threshold, self.label_thresholds = float(value), None
        else:
            self.label_thresholds = value.to(self.device, copy=True)

    def in_predicted_set(self, output: ModelOutput, threshold: float | None = None) -> Tensor:
        """True at the best labels of an output that are in the predicted set: those whose score is above the threshold.

        Args:
            output: Of ``forward(top_k=…)``.
            threshold: In the place of the model's own.

        Returns:
            True for labels in the set, (B, K).
        """
        if threshold is None and self.label_thresholds is not None:
            threshold = self.label_thresholds.to(output.top_labels.device)[output.top_labels.clamp(min=0)]
        elif threshold is None:
            threshold = self.config.decision_threshold
        return (output.top_scores > threshold) & (output.top_labels >= 0)

    def lowest_threshold(self, threshold: float | None = None) -> float:
        """A score below which no label is in the predicted set; ``threshold`` as in `in_predicted_set`."""
        if threshold is not None or self.label_thresholds is None:
            return self.config.decision_threshold if threshold is None else threshold
        return float(self.label_thresholds.min())

    def predict_sets(
        self, threshold: float | None = None, top_k: int | None = None, **inputs: Tensor
    ) -> tuple[ModelOutput, Tensor]:
        """Score a batch for as many of its best labels as the predicted sets reach down to.

        Args:
            threshold: As in `in_predicted_set`.
            top_k: The best labels of each set, so many at most; None for the whole set.
            inputs: Of ``forward``.

        Returns:
            The output with ``top_scores`` and ``top_labels`` (B, K), K at least the size of the largest set; and which of them are
            wanted, (B, K).
        """
        candidates = inputs.get("candidate_ids")
        limit = self.config.num_labels if candidates is None else candidates.shape[1]
        most, lowest = top_k or limit, self.lowest_threshold(threshold)
        looked = min(limit, max(FIRST_LOOK, top_k or 0))
        if candidates is not None or not self.has_thresholds:
            looked = limit  # all of them have their scores anyway
        while True:
            output = self(**inputs, top_k=looked)
            in_set = self.in_predicted_set(output, threshold)
            goes_on = (output.top_scores[:, -1] > lowest) & (in_set.sum(dim=1) < most)
            if looked == limit or not goes_on.any():
                # Of the set, not of all labels: with thresholds of their own a label behind others can be in it and they not.
                return output, in_set & (in_set.cumsum(dim=1) <= most)
            looked = min(limit, 4 * looked)


def check_scores(scores: Any, label_ids: Any = None) -> None:
    """Refuse scores that are not finite.

    Args:
        scores: Tensor or array of scores or logits, (N, K).
        label_ids: Their labels, (N, K): what has a negative id is a filler and not looked at. None where there are no fillers.

    Raises:
        ValueError: If one is NaN or infinite.
    """
    scores = torch.as_tensor(scores)
    wrong = ~scores.isfinite()
    if label_ids is not None:
        wrong &= torch.as_tensor(label_ids) >= 0
    if wrong.any():
        documents = int(wrong.any(dim=1).sum())
        raise ValueError(
            f"The model gives the score {float(scores[wrong][0])} ({documents} of {len(scores)} documents looked at have such scores), "
            "which is no number. Did its training diverge (then train again with a lower learning rate), is a weights file damaged, or "
            "does half precision overflow (then open the model with dtype=torch.float32)?"
        )

"""`CandidateScores`: a model's scores of candidates and their generator's votes, mixed after prediction."""

from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset

from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.metrics import ranking_report
from hf_xmtc.models.label_candidates import best_candidates
from hf_xmtc.models.laco_candidates import log_scores

__all__ = ["CandidateScores"]

WEIGHTS = [round(0.05 * step, 2) for step in range(21)]


@dataclass
class CandidateScores:
    """Scores of the same candidates by the model and by their generator, each (N, C).

    Attributes:
        scores: The model's own, after the sigmoid.
        votes: The generator's.
        label_ids: Label ids.
    """

    scores: np.ndarray
    votes: np.ndarray
    label_ids: np.ndarray

    @classmethod
    def of_prediction(cls, scores: np.ndarray, label_ids: np.ndarray, rows: Dataset) -> "CandidateScores":
        """Put the votes beside the scores of a prediction.

        Args:
            scores: Scores of all candidates of each document, best first, (N, K), K ≥ C; what follows them is filled up.
            label_ids: Their label ids, (N, K).
            rows: The documents, with their candidates and votes.
        """
        candidates, votes = (np.asarray(rows.with_format(None)[name][:]) for name in (CANDIDATES, VOTES))
        scores, label_ids = scores[:, : candidates.shape[1]], label_ids[:, : candidates.shape[1]]
        # Sorted by id both are in the same order.
        votes = np.take_along_axis(votes, candidates.argsort(axis=1, kind="stable"), axis=1)
        rank = label_ids.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return cls(scores, np.take_along_axis(votes, rank, axis=1), label_ids)

    def mix(self, retrieval_weight: float, top_k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Scores and label ids, best first, (N, K), by `log_scores` with this weight of the votes; K = C by default."""
        logits = torch.from_numpy(self.scores).double().logit(eps=1e-300)
        mixed = log_scores(logits, torch.from_numpy(self.votes), retrieval_weight)
        scores, label_ids = best_candidates(mixed, torch.from_numpy(self.label_ids), top_k or self.label_ids.shape[1])
        return scores.float().numpy(), label_ids.numpy()

    def ndcg_by_weight(self, positives: np.ndarray) -> dict[float, float]:
        """nDCG@5 with weights from 0 to 1; ``positives`` (N, P) are padded with -100."""
        rankings = {weight: self.mix(weight, top_k=5)[1] for weight in WEIGHTS}
        return {weight: ranking_report(ids, positives, ks=(5,))["nDCG@5"] for weight, ids in rankings.items()}

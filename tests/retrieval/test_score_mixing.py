"""Scores of candidates mixed with votes after prediction."""

import numpy as np
import pytest
from datasets import Dataset

from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.retrieval.score_mixing import CandidateScores


@pytest.fixture
def scores() -> CandidateScores:
    """The model prefers label 7, the generator 4; a filler follows the three candidates."""
    rows = Dataset.from_dict({CANDIDATES: [[4, 9, 7]], VOTES: [[0.8, 0.1, 0.2]]})
    predicted = np.array([[0.9, 0.3, 0.2, 0.0]], dtype=np.float32), np.array([[7, 4, 9, -100]])
    return CandidateScores.of_prediction(*predicted, rows)


def test_each_label_gets_its_votes(scores):
    assert scores.label_ids.tolist() == [[7, 4, 9]]
    np.testing.assert_allclose(scores.votes, [[0.2, 0.8, 0.1]])


def test_mixed_scores_are_the_geometric_mean(scores):
    mixed, label_ids = scores.mix(0.5)
    assert label_ids.tolist() == [[4, 7, 9]]
    np.testing.assert_allclose(mixed, np.sqrt([[0.3 * 0.8, 0.9 * 0.2, 0.2 * 0.1]]), rtol=1e-6)
    np.testing.assert_array_equal(scores.mix(0.0)[1], scores.label_ids)
    assert scores.mix(1.0, top_k=1)[1].tolist() == [[4]]


def test_ndcg_by_weight_is_that_of_the_mixed_ranking(scores):
    by_weight = scores.ndcg_by_weight(np.array([[4, -100]]))
    assert list(by_weight)[0] == 0.0 and list(by_weight)[-1] == 1.0
    assert by_weight[1.0] == 1.0 and by_weight[0.0] == pytest.approx(1 / np.log2(3))

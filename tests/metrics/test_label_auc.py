import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from hf_xmtc.metrics import label_auc


def test_by_hand():
    # Label 0: scores 0.9 (right), 0.8 (wrong), none (right), none (wrong); label 1 has no document.
    found = label_auc([[0], [0], [1], [1]], [[0.9], [0.8], [0.1], [0.1]], [[0], [], [0], []], 2)
    # Pairs: 0.9 beats both; the one without a score loses to 0.8 and ties with the other: (1 + 1 + 0 + 0.5) / 4.
    assert found.auc[0] == pytest.approx(2.5 / 4) and np.isnan(found.auc[1]) and np.isnan(found.aupr[1])
    # Precision 1 at the first, 2/4 in the group without a score.
    assert found.aupr[0] == pytest.approx((1 + 2 / 4) / 2)
    assert found.num_positives.tolist() == [2, 0]


@pytest.mark.parametrize("depth", [3, 12])
def test_as_scikit_learn(depth):
    rng = np.random.default_rng(0)
    truth = rng.random((50, 12)) < 0.2
    truth[:, 3] = True
    scores = rng.integers(1, 9, size=truth.shape) / 10 + 0.3 * truth * rng.random(truth.shape).round(1)
    top = np.argsort(-scores, axis=1)[:, :depth]
    kept = np.zeros_like(scores)
    np.put_along_axis(kept, top, np.take_along_axis(scores, top, axis=1), axis=1)
    positives = [np.flatnonzero(row).tolist() + [40] for row in truth]  # 40 is no label of the model
    found = label_auc(top, np.take_along_axis(scores, top, axis=1), positives, 12)
    for label in range(12):
        assert found.aupr[label] == pytest.approx(average_precision_score(truth[:, label], kept[:, label]))
        if label != 3:
            assert found.auc[label] == pytest.approx(roc_auc_score(truth[:, label], kept[:, label]))
    assert np.isnan(found.auc[3]) and found.num_positives.tolist() == truth.sum(axis=0).tolist()


def test_logits_and_labels_of_other_models_are_refused():
    with pytest.raises(ValueError, match="Pass scores after the sigmoid, not logits"):
        label_auc([[0]], [[-2.0]], [[0]], 1)
    with pytest.raises(ValueError, match="Pass scores after the sigmoid"):
        label_auc([[0]], [[0.1, 0.2]], [[0]], 1)
    with pytest.raises(ValueError, match="top_labels holds the label id 5"):
        label_auc([[5]], [[0.5]], [[0]], 1)

import numpy as np
import pytest

from hf_xmtc.metrics import inverse_propensity, ranking_report
from hf_xmtc.metrics.document_values import document_values

METRICS = [f"{kind}@{k}" for kind in ("P", "nDCG", "R", "RP", "PSP") for k in (1, 3, 5)]


@pytest.mark.parametrize("ignore_unseen", [None, 8])
def test_means_are_the_reported_metrics(ignore_unseen):
    generator = np.random.default_rng(0)
    top_labels = np.argsort(generator.random((50, 12)), axis=1)[:, :7]
    positives = [generator.choice(12, size=size, replace=False).tolist() for size in generator.integers(0, 5, 50)]
    weights = inverse_propensity(np.arange(1, 13), 100)
    found = document_values(top_labels, positives, METRICS, weights, ignore_unseen)
    report = ranking_report(top_labels, positives, inverse_propensity=weights, ignore_unseen=ignore_unseen)
    assert dict(zip(METRICS, found.values.mean(axis=0), strict=True)) == pytest.approx(
        {name: report[name] for name in METRICS}
    )
    assert found.weights.mean(axis=0) == pytest.approx(np.ones(len(METRICS)))
    assert (len(found.values), found.num_left_out) == (50 - report["num_left_out"], report["num_left_out"])


def test_psp_of_a_document_is_its_share_of_a_ratio_of_sums():
    found = document_values([[0], [1]], [[0], [0, 1]], ["P@1", "PSP@1"], [1.0, 3.0])
    assert found.values.tolist() == [[1, 0.5], [1, 1.5]]  # best gains 1 and 3, on average 2
    assert found.weights.tolist() == [[1, 0.5], [1, 1.5]]


def test_an_unknown_metric_and_missing_weights_are_named():
    with pytest.raises(ValueError, match="'F1' is none of P@k"):
        document_values([[0]], [[0]], ["F1"])
    with pytest.raises(ValueError, match="PSP@k needs inverse_propensity"):
        document_values([[0]], [[0]], ["PSP@1"])
    with pytest.raises(ValueError, match="None of the 1 documents"):
        document_values([[0]], [[]], ["P@1"])

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from hf_xmtc import metrics
from hf_xmtc.metrics import propensity_report, ranking_report

TOP_LABELS = np.array([[1, 3, 0], [2, 0, 1], [0, 1, 2]])
POSITIVES = [[1, 3], [], [2, 0]]
WEIGHTS = [1.5, 2.0, 4.0, 8.0]


def test_every_value_is_that_of_the_single_function():
    report = ranking_report(TOP_LABELS, POSITIVES, ks=(1, 3, 5), inverse_propensity=WEIGHTS)
    for k in (1, 3, 5):
        assert report[f"P@{k}"] == metrics.precision_at_k(TOP_LABELS, POSITIVES, k)
        assert report[f"nDCG@{k}"] == metrics.ndcg_at_k(TOP_LABELS, POSITIVES, k)
        assert report[f"R@{k}"] == metrics.recall_at_k(TOP_LABELS, POSITIVES, k)
        assert report[f"RP@{k}"] == metrics.r_precision_at_k(TOP_LABELS, POSITIVES, k)
        assert report[f"PSP@{k}"] == metrics.psp_at_k(TOP_LABELS, POSITIVES, k, WEIGHTS)
        assert report[f"PSnDCG@{k}"] == metrics.psndcg_at_k(TOP_LABELS, POSITIVES, k, WEIGHTS)
    assert len(report) == 6 * 3 + 2


def test_values_are_plain_numbers():
    for key, value in ranking_report(TOP_LABELS, POSITIVES, inverse_propensity=WEIGHTS).items():
        assert type(value) is (int if key.startswith("num_") else float), key


def test_without_weights_nothing_is_propensity_scored():
    assert not [key for key in ranking_report(TOP_LABELS, POSITIVES) if key.startswith("PS")]


def test_the_other_variant_of_psndcg_is_named_in_the_key():
    report = ranking_report(TOP_LABELS, POSITIVES, ks=[3], inverse_propensity=WEIGHTS, psndcg_variant="corpus")
    assert report["PSnDCG-corpus@3"] == metrics.psndcg_at_k(TOP_LABELS, POSITIVES, 3, WEIGHTS, variant="corpus")
    assert "PSnDCG@3" not in report


@pytest.mark.filterwarnings("error")
def test_the_number_of_documents_left_out_is_reported():  # AC-23
    top_labels, positives = [[1, 3], [0, 2]], [[1, 3], []]
    report = ranking_report(top_labels, positives, ks=[1])
    assert (report["P@1"], report["nDCG@1"]) == (1.0, 1.0)
    assert (report["num_documents"], report["num_left_out"]) == (2, 1)
    counted = ranking_report(top_labels, positives, ks=[1], empty="zero")
    assert (counted["P@1"], counted["nDCG@1"]) == (0.5, 0.5)
    assert (counted["num_documents"], counted["num_left_out"]) == (2, 0)
    with pytest.raises(ValueError, match="none of the 2 documents"):
        ranking_report(top_labels, [[], []])


def test_labels_unknown_to_the_model_are_missed_or_ignored():  # AC-15
    top_labels, positives = [[0, 1, 2], [2, 1, 0]], [[0, 3], [3]]
    counted = ranking_report(top_labels, positives)
    assert (counted["P@1"], counted["R@3"], counted["num_left_out"]) == (0.5, 0.25, 0)
    ignoring = ranking_report(top_labels, positives, ignore_unseen=3)
    assert (ignoring["P@1"], ignoring["R@3"], ignoring["num_left_out"]) == (1.0, 1.0, 1)


def test_example_of_one_document():  # AC-15
    assert ranking_report([[0, 1, 2]], [[0, 3]])["P@1"] == 1.0
    assert ranking_report([[0, 1, 2]], [[0, 3]])["R@3"] == 0.5
    assert ranking_report([[0, 1, 2]], [[0, 3]], ignore_unseen=3)["R@3"] == 1.0


def test_ignoring_unseen_labels_needs_weights_for_the_known_ones_only():
    report = ranking_report([[0, 1]], [[0, 3]], ks=[1], inverse_propensity=[2.0, 3.0], ignore_unseen=2)
    assert report["PSP@1"] == 1.0


@pytest.mark.parametrize("ignore_unseen", [True, 0])
def test_ignore_unseen_is_a_number_of_labels(ignore_unseen):
    with pytest.raises(ValueError, match="ignore_unseen must be the model's number of labels"):
        ranking_report([[0]], [[0]], ignore_unseen=ignore_unseen)


@pytest.mark.parametrize("ks", [(), 5])
def test_cut_offs_must_be_a_list(ks):
    with pytest.raises(ValueError, match="ks must be a list of cut-offs"):
        ranking_report([[0]], [[0]], ks=ks)


def test_propensity_report_is_a_part_of_the_whole():
    whole = ranking_report(TOP_LABELS, POSITIVES, inverse_propensity=WEIGHTS)
    part = propensity_report(TOP_LABELS, POSITIVES, WEIGHTS)
    assert part == {key: whole[key] for key in part}
    assert {key.split("@")[0] for key in part} == {"PSP", "PSnDCG", "num_documents", "num_left_out"}


def test_names_in_all_exist():
    assert all(hasattr(metrics, name) for name in metrics.__all__)


def test_the_metrics_import_numpy_only():
    imported = set()
    for path in Path(metrics.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.split(".")[0])
    assert imported - sys.stdlib_module_names == {"numpy"}

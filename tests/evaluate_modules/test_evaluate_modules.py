"""The evaluate modules: loaded by path without a network, they give what `hf_xmtc.metrics` gives."""

import doctest
import json
from pathlib import Path

import numpy as np
import pytest

from forked_python import run_python
from hf_xmtc.evaluate_modules import available_modules, module_path
from hf_xmtc.metrics import inverse_propensity, psndcg_at_k, psp_at_k, ranking_report, set_report

PREDICTIONS, REFERENCES = [[1, 0], [2, 3]], [[], [5, 3]]
KWARGS = {
    "xmtc_ranking": {"ks": [1, 2]},
    "xmtc_propensity": {"ks": [1, 2], "label_counts": [4, 3, 2, 1, 0, 0], "num_documents": 9},
    "xmtc_set": {"num_labels": 6, "label_counts": [4, 3, 2, 1, 0, 0]},
}

OFFLINE_SCRIPT = """
import json, socket, sys, time

def no_network(*args, **kwargs):
    raise AssertionError(f"network used: {args}")

socket.socket.connect = socket.getaddrinfo = no_network
start = time.process_time()
import evaluate
from hf_xmtc.evaluate_modules import module_path
answers = {}
for name, kwargs in json.loads(sys.argv[1]).items():
    metric = evaluate.load(module_path(name))
    seconds, start = time.process_time() - start, time.process_time()
    answers[name] = seconds, metric.compute(predictions=[[1], [2, 3]], references=[[], [5]], **kwargs)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    evaluate = pytest.importorskip("evaluate")
    cache = tmp_path_factory.mktemp("evaluate-cache")
    loaded = {}

    def load_once(name):
        if name not in loaded:
            loaded[name] = evaluate.load(module_path(name), cache_dir=str(cache))
        return loaded[name]

    return load_once


def test_modules_are_found_by_name():
    assert available_modules() == ["xmtc_propensity", "xmtc_ranking", "xmtc_set"]
    for name in available_modules():
        assert {f"{name}.py", "README.md", "requirements.txt"} <= {path.name for path in Path(module_path(name)).iterdir()}


def test_an_unknown_module_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'accuracy'; available are xmtc_propensity, xmtc_ranking, xmtc_set"):
        module_path("accuracy")


def test_finding_a_module_imports_neither_evaluate_nor_datasets():
    code = (
        "import sys; from hf_xmtc.evaluate_modules import module_path; module_path('xmtc_set'); "
        "print('evaluate' in sys.modules, 'datasets' in sys.modules)"
    )
    assert run_python(code).stdout.split() == ["False", "False"]


def test_loads_by_path_offline_in_a_fresh_process(tmp_path):  # AC-26
    pytest.importorskip("evaluate")
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_EVALUATE_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
    done = run_python(OFFLINE_SCRIPT, json.dumps(KWARGS), environment={"HF_HOME": str(tmp_path), **offline})
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    for name in KWARGS:
        seconds, result = answers[name]
        assert seconds < 10  # of this process alone, whatever else runs; the first includes importing evaluate
        assert result["num_documents"] == 2


def test_values_are_those_of_the_metrics(load):  # AC-26
    assert load("xmtc_ranking").compute(predictions=PREDICTIONS, references=REFERENCES, ks=[1, 2]) == ranking_report(
        PREDICTIONS, REFERENCES, ks=[1, 2]
    )
    assert load("xmtc_set").compute(predictions=PREDICTIONS, references=REFERENCES, num_labels=6) == set_report(
        PREDICTIONS, REFERENCES, 6
    )
    ours = load("xmtc_set").compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS["xmtc_set"])
    assert ours == set_report(PREDICTIONS, REFERENCES, 6, label_counts=[4, 3, 2, 1, 0, 0])
    assert {"label_dependency_kl", "num_clipped_pairs", "num_distinct_sets", "macro_f1_group4"} <= set(ours)
    weights = inverse_propensity([4, 3, 2, 1, 0, 0], 9)
    ours = load("xmtc_propensity").compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS["xmtc_propensity"])
    for k in (1, 2):
        assert ours[f"PSP@{k}"] == psp_at_k(PREDICTIONS, REFERENCES, k, weights)
        assert ours[f"PSnDCG@{k}"] == psndcg_at_k(PREDICTIONS, REFERENCES, k, weights)


@pytest.mark.parametrize("name", KWARGS)
def test_values_are_plain_numbers(load, name):  # AC-26
    for key, value in load(name).compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS[name]).items():
        assert type(value) is (int if key.startswith("num_") else float), key


@pytest.mark.parametrize("name", KWARGS)
def test_lists_tuples_and_arrays_give_the_same(load, name):  # AC-26
    expected = load(name).compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS[name])
    for predictions, references in (
        ([tuple(row) for row in PREDICTIONS], tuple(tuple(row) for row in REFERENCES)),
        ([np.array(row) for row in PREDICTIONS], [np.array(row, dtype=np.int64) for row in REFERENCES]),
        (np.array(PREDICTIONS), np.array([[-100, -100], [5, 3]])),
    ):
        assert load(name).compute(predictions=predictions, references=references, **KWARGS[name]) == expected


@pytest.mark.parametrize("name", KWARGS)
def test_batches_give_the_same_as_one_call(load, name):  # AC-26
    metric = load(name)
    predictions, references = [[1], [2, 3], [0, 4, 2], [5, 1]], [[], [3], [0, 2], [1]]
    expected = metric.compute(predictions=predictions, references=references, **KWARGS[name])
    for start, stop in ((0, 1), (1, 3), (3, 4)):
        metric.add_batch(predictions=predictions[start:stop], references=references[start:stop])
    assert metric.compute(**KWARGS[name]) == expected
    for prediction, reference in zip(predictions, references, strict=True):
        metric.add(prediction=prediction, reference=reference)
    assert metric.compute(**KWARGS[name]) == expected


@pytest.mark.parametrize("name", KWARGS)
def test_a_mismatch_names_both_numbers_and_leaves_the_metric_usable(load, name):  # AC-26
    expected = load(name).compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS[name])
    with pytest.raises(ValueError, match=r"predictions \(2\) and references \(1\)"):
        load(name).compute(predictions=[[1], [2]], references=[[1]], **KWARGS[name])
    assert load(name).compute(predictions=PREDICTIONS, references=REFERENCES, **KWARGS[name]) == expected


def test_documents_without_references_are_left_out_or_counted(load):
    metric, rows = load("xmtc_ranking"), {"predictions": [[1, 3], [0, 2]], "references": [[1, 3], []]}
    left_out, counted = metric.compute(**rows), metric.compute(**rows, empty="zero")
    assert (left_out["P@1"], left_out["num_left_out"]) == (1.0, 1)
    assert (counted["P@1"], counted["num_left_out"]) == (0.5, 0)


@pytest.mark.parametrize("name", KWARGS)
@pytest.mark.parametrize(
    "scores", [[[0.9, 0.1]], np.array([[0.9, 0.1]]), [np.array([0.9, 0.1], dtype=np.float32)], [[True]]]
)
def test_scores_in_place_of_ids_are_refused(load, name, scores):
    with pytest.raises(TypeError, match="predictions must hold integer label ids"):
        load(name).compute(predictions=scores, references=[[1]], **KWARGS[name])
    with pytest.raises(TypeError, match="prediction must hold integer label ids"):
        load(name).add(prediction=scores[0], reference=[1])


def test_a_row_that_is_no_list_gets_the_message_of_evaluate(load):
    with pytest.raises(ValueError, match="Expected format"):
        load("xmtc_ranking").compute(predictions=[[1]], references=[1])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "needs the weights of the labels"),
        ({"label_counts": [1, 1]}, "label_counts and num_documents"),
        ({"inverse_propensity": [1.0, 2.0], "num_documents": 3}, "not both"),
    ],
)
def test_propensity_needs_its_weights_once(load, kwargs, message):
    with pytest.raises(ValueError, match=message):
        load("xmtc_propensity").compute(predictions=[[1]], references=[[1]], **kwargs)


@pytest.mark.parametrize("name", KWARGS)
def test_the_examples_of_card_and_docstring_are_true(load, name):
    card = (Path(module_path(name)) / "README.md").read_text(encoding="utf-8")
    assert "## Citation" in card and "### Inputs" in card and "### Output values" in card
    for text in (card, load(name).inputs_description):
        parsed = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
        assert len(parsed.examples) >= 4
        assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0

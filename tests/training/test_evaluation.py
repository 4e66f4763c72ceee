"""Predicted sets in evaluation, and thresholds tuned on a split."""

import numpy as np
import pytest
import torch
from transformers.trainer_utils import EvalPrediction

from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.metrics import set_report
from hf_xmtc.training.evaluation import tuned_thresholds


def test_set_metrics_are_those_of_the_labels_above_the_threshold(make_trainer, corpus):
    trainer = make_trainer(set_metrics=True)
    trainer.model.set_thresholds(0.45)
    metrics = trainer.evaluate()
    scores, top_labels, in_set = trainer.predict(corpus["validation"]).predictions
    assert np.array_equal(in_set, scores > 0.45) and 0 < in_set.sum() < in_set.size
    counts = np.bincount([label for labels in corpus["train"]["labels"] for label in labels], minlength=6)
    expected = set_report(np.where(in_set, top_labels, -1), corpus["validation"]["labels"], 6, label_counts=counts)
    names = (
        "micro_f1",
        "macro_f1",
        "hamming_loss",
        "subset_accuracy",
        "label_dependency_kl",
        "num_distinct_sets",
        "macro_f1_group4",
    )
    for name in names:
        assert metrics[f"eval_{name}"] == pytest.approx(expected[name]), name
    assert metrics["eval_num_cut_sets"] == 0
    assert "eval_micro_f1" not in make_trainer(output="plain").evaluate()


def test_sets_that_go_on_behind_what_was_kept_are_counted(make_trainer):
    trainer = make_trainer(set_metrics=True, eval_top_k=5, set_top_k=5)
    trainer.model.set_thresholds(0.0)
    assert trainer.evaluate()["eval_num_cut_sets"] == 8  # six labels, five of them kept
    trainer.model.set_thresholds([1.0] * 5 + [0.0])  # the last one may be behind the five
    assert trainer.evaluate()["eval_num_cut_sets"] == 8
    output = trainer.predict(trainer.eval_dataset)
    of_five = trainer.evaluation.metrics(EvalPrediction(output.predictions, output.label_ids), 0.0, num_candidates=5)
    assert of_five["num_cut_sets"] == 0  # five candidates, all of them kept
    trainer = make_trainer(output="more", set_metrics=True, eval_top_k=5, set_top_k=6)
    trainer.model.set_thresholds(0.0)
    assert trainer.evaluate()["eval_num_cut_sets"] == 0


def test_the_best_model_can_be_chosen_by_a_set_metric(make_trainer):
    trainer = make_trainer(set_metrics=True, metric_for_best_model="micro_f1")
    trainer.train()
    found = [entry["eval_micro_f1"] for entry in trainer.state.log_history if "eval_micro_f1" in entry]
    assert trainer.state.best_metric == max(found)


@pytest.mark.parametrize("kind", ["global", "per_label"])
def test_thresholds_are_at_least_as_good_as_one_half_on_the_split_they_are_tuned_on(make_trainer, corpus, kind):
    trainer = make_trainer(tune_threshold=kind, set_metrics=True, num_train_epochs=5)
    trainer.train()
    before = trainer.evaluate()
    trainer.tune_thresholds(trainer.predict(trainer.eval_dataset))
    after, metric = trainer.evaluate(), "eval_micro_f1" if kind == "global" else "eval_macro_f1"
    assert after[metric] > before[metric]
    assert (trainer.model.label_thresholds is None) == (kind == "global")


def test_tuned_thresholds_of_labels_without_a_positive_are_the_shared_one():
    scores = np.array([[0.9, 0.4, 0.2], [0.8, 0.3, 0.1]], dtype=np.float32)
    top_labels, positives = np.array([[0, 1, 2], [1, 0, 2]]), np.array([[0, -100], [1, -100]])
    shared = tuned_thresholds("global", scores, top_labels, positives, 3)
    assert 0.4 < shared < 0.8
    each = tuned_thresholds("per_label", scores, top_labels, positives, 3)
    assert each[2] == shared and 0.3 < each[0] < 0.9 and 0.4 < each[1] < 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tune_threshold": "best"}, "tune_threshold='best' is none of none, global, per_label"),
        ({"set_top_k": 0}, "set_top_k=0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        XMTCTrainingArguments(output_dir=str(tmp_path), **settings)


def test_scores_that_are_no_numbers_get_no_metrics(make_trainer, corpus):  # AC-75
    trainer = make_trainer(trainer={"compute_metrics": lambda prediction: {}})
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(float("nan"))
    for evaluate in (trainer.evaluate, lambda: trainer.predict(corpus["validation"])):
        with pytest.raises(ValueError, match="The model gives the score nan"):
            evaluate()


def test_labels_left_out_of_a_document_are_neither_predicted_nor_measured(make_trainer, corpus):  # AC-13
    plain = make_trainer(eval_top_k=6).predict(corpus["validation"])
    best = plain.predictions[1][:, 0].tolist()
    filtered = corpus["validation"].add_column("filter_labels", [[label] for label in best])
    trainer = make_trainer(
        output="filtered",
        train_dataset=corpus["train"].add_column("filter_labels", [[0]] * len(corpus["train"])),
        eval_top_k=5,
        set_metrics=True,
        set_top_k=5,
        num_train_epochs=1,
    )
    output = trainer.predict(filtered)
    assert np.array_equal(output.predictions[1], plain.predictions[1][:, 1:])
    assert np.array_equal(output.predictions[0], plain.predictions[0][:, 1:])
    gold = [set(labels) for labels in corpus["validation"]["labels"]]
    hits = [second in labels for second, labels in zip(plain.predictions[1][:, 1], gold, strict=True) if labels]
    assert output.metrics["test_P@1"] == pytest.approx(np.mean(hits))
    trainer.train()  # the model does not get the column

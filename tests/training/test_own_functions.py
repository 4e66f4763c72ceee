"""A loss, metrics and models of one's own: what `XMTCTrainer` hands to functions of its user, and what it says where they misuse it."""

import numpy as np
import pytest
import torch
from torch import nn

from hf_xmtc import LACOConfig, LACOForXMTC, SeqTagForXMTC, XMTCTrainer, multi_hot_targets
from hf_xmtc.data import label_info_of
from hf_xmtc.metrics import precision_at_k
from small_laco import SIZES as SMALL


def bce(outputs, labels, num_items_in_batch=None):
    return nn.functional.binary_cross_entropy_with_logits(outputs.logits, multi_hot_targets(labels, 6))


# ---- the loss ------------------------------------------------------------------------------------------------------------


def test_the_example_of_the_docstring_trains(make_trainer):
    example = XMTCTrainer.__doc__.partition("For example::")[2].partition("\n\n    A ``compute")[0]
    names = {"torch": torch, "pos_weight": torch.full((6,), 3.0)}
    exec("\n".join(line[8:] for line in example.splitlines()), names)  # defines compute_loss_func
    seen = []

    def note(outputs, labels, num_items_in_batch=None):
        seen.append((tuple(outputs.logits.shape), labels, num_items_in_batch))
        return names["compute_loss_func"](outputs, labels, num_items_in_batch)

    trainer = make_trainer(
        max_steps=2, trainer={"compute_loss_func": note}, eval_strategy="no", load_best_model_at_end=False
    )
    before = trainer.model.label_head.output.weight.clone()
    assert trainer.train().training_loss > 0
    logits, labels, num_items = seen[0]
    assert logits == (4, 6) and labels.shape[0] == 4 and labels.dtype == torch.long
    assert labels.max() < 6 and set(labels[labels < 0].tolist()) <= {-100}
    assert num_items is None
    assert not torch.equal(before, trainer.model.label_head.output.weight)


def test_accumulating_changes_nothing_in_a_loss_of_ones_own(make_model, make_trainer):
    found = []
    for documents, steps in ((8, 1), (2, 4)):
        trainer = make_trainer(
            model=make_model(classifier_dropout=0.0, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
            per_device_train_batch_size=documents,
            gradient_accumulation_steps=steps,
            train_sampling_strategy="sequential",
            max_steps=1,
            logging_steps=1,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            trainer={"compute_loss_func": bce},
        )
        trainer.train()
        found.append([trainer.state.log_history[0][name] for name in ("loss", "grad_norm")])
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_the_usual_loss_written_by_oneself_gives_the_usual_training(make_model, make_trainer):
    losses = []
    for own in (None, {"compute_loss_func": bce}):
        trainer = make_trainer(
            model=make_model(),
            max_steps=3,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="no",
            load_best_model_at_end=False,
            logging_steps=1,
            trainer=own,
        )
        trainer.train()
        losses.append([entry[key] for entry in trainer.state.log_history for key in ("loss", "eval_loss") if key in entry])
    assert len(losses[0]) == 6 and losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_evaluation_measures_the_loss_that_is_trained(make_trainer):
    trainer = make_trainer(
        trainer={"compute_loss_func": lambda outputs, labels, num_items_in_batch=None: outputs.logits.sum() * 0 + 7}
    )
    metrics = trainer.evaluate()
    assert metrics["eval_loss"] == pytest.approx(7) and 0 <= metrics["eval_nDCG@5"] <= 1


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda outputs, labels, num_items_in_batch=None: nn.BCEWithLogitsLoss()(outputs.logits, labels.float()), "same"),
        (lambda outputs, labels, num_items_in_batch=None: nn.functional.mse_loss(outputs.logits, labels[:, :0]), "size"),
        (lambda outputs, labels: outputs.logits.mean(), "num_items_in_batch"),
        (
            lambda outputs, labels, num_items_in_batch=None: outputs.logits.mean(dim=1),
            r"returned a tensor \(4,\), .*one number",
        ),
        (lambda outputs, labels, num_items_in_batch=None: 3.0, "returned a float, .*one number"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_that_misreads_its_arguments_is_named(make_trainer, own, said):
    with pytest.raises(ValueError, match=rf"(?s)compute_loss_func.*{said}.*padded with -100.*multi_hot_targets") as caught:
        make_trainer(trainer={"compute_loss_func": own}).train()
    assert "logits (4, 6)" in str(caught.value)


def test_memory_that_does_not_suffice_for_a_loss_is_still_said_as_such(make_trainer):
    def too_large(outputs, labels, num_items_in_batch=None):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        make_trainer(trainer={"compute_loss_func": too_large}).train()


def test_targets_are_made_of_padded_ids():
    targets = multi_hot_targets(torch.tensor([[2, 0, -100], [-100, -100, -100], [1, 1, -100]]), num_labels=3)
    assert targets.dtype == torch.float32
    assert targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert torch.equal(multi_hot_targets(targets, 3), targets)
    with pytest.raises(ValueError, match="Label id 3 is outside 0 … 2"):
        multi_hot_targets(torch.tensor([[3]]), 3)


# ---- metrics -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"eval_accumulation_steps": 1}, {"eval_use_gather_object": True}])
def test_metrics_of_ones_own_get_scores_label_ids_and_positives(make_trainer, corpus, options):
    seen = []

    def compute_metrics(prediction):
        seen.append(prediction)
        scores, label_ids = prediction.predictions
        return {"best": precision_at_k(label_ids, prediction.label_ids, k=1), "largest": scores.max()}

    arguments = {"include_for_metrics": ["inputs", "loss"], **options}
    metrics = make_trainer(trainer={"compute_metrics": compute_metrics}, **arguments).evaluate()
    usual = make_trainer(**options).evaluate()
    assert metrics["eval_best"] == usual["eval_P@1"] and "eval_P@1" not in metrics
    (prediction,) = seen
    scores, label_ids = prediction.predictions
    assert scores.shape == label_ids.shape == (8, 6) and np.all(np.diff(scores) <= 0)
    assert len(prediction.label_ids) == len(prediction.inputs) == len(prediction.losses) == 8
    assert metrics["eval_loss"] == pytest.approx(usual["eval_loss"])


def test_metrics_batch_by_batch_are_added_up_by_the_user(make_trainer):
    hits = []

    def compute_metrics(prediction, compute_result):
        _, label_ids = prediction.predictions
        hits.extend((label_ids[:, :1] == prediction.label_ids).any(dim=1).tolist())
        return {"best": np.mean(hits)} if compute_result else {}

    metrics = make_trainer(trainer={"compute_metrics": compute_metrics}, batch_eval_metrics=True).evaluate()
    assert len(hits) == 8 and metrics["eval_best"] == make_trainer().evaluate()["eval_P@1"]


def test_metrics_batch_by_batch_without_a_function_of_ones_own_are_refused(make_trainer):
    with pytest.raises(
        ValueError, match=r"batch_eval_metrics=True without compute_metrics.*XMTCTrainer's own .* Leave it out"
    ) as caught:
        make_trainer(batch_eval_metrics=True)
    assert "your `compute_metrics`" not in str(caught.value)


def test_functions_that_want_all_logits_in_evaluation_are_refused(make_trainer):
    with pytest.raises(ValueError, match=r"preprocess_logits_for_metrics.*eval_top_k.*compute_metrics"):
        make_trainer(trainer={"preprocess_logits_for_metrics": lambda logits, labels: logits.argmax(-1)})


def test_predictions_of_the_loss_alone_hold_nothing_else(make_trainer, corpus):
    output = make_trainer(prediction_loss_only=True).predict(corpus["test"])
    assert output.predictions is None and output.metrics["test_loss"] > 0
    assert set(make_trainer(trainer={"compute_metrics": None}).evaluate()) >= {"eval_loss"}


# ---- nothing to evaluate ---------------------------------------------------------------------------------------------------


def test_data_without_documents_are_named(make_trainer, corpus):  # AC-38
    nothing = corpus["validation"].filter(lambda row: False)
    trainer = make_trainer()
    for door in (trainer.evaluate, trainer.predict, lambda rows: make_trainer(eval_dataset=rows)):
        with pytest.raises(ValueError, match=r"The data have no documents \(0 rows\).*filter"):
            door(nothing)
    with pytest.raises(ValueError, match=r"The data 'rare' have no documents"):
        trainer.evaluate({"all": corpus["validation"], "rare": nothing})
    with pytest.raises(ValueError, match="no documents"):
        make_trainer(train_dataset=nothing)


# ---- training twice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"label_optimizer": "sgd_in_backward"}, {"averaging_start_epoch": 0}])
def test_a_second_training_goes_on_with_the_model_and_counts_anew(make_trainer, options):
    """As transformers' Trainer does without model_init."""
    trainer = make_trainer(num_train_epochs=1, save_strategy="no", load_best_model_at_end=False, **options)
    trainer.train()
    between = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.state.global_step == 6 and trainer.state.epoch == 1
    assert any(not torch.equal(weight, between[name]) for name, weight in trainer.model.state_dict().items())
    assert trainer.evaluate()["eval_loss"] < first
    if trainer.averaging is not None:
        assert trainer.averaging.count == 2  # the start and one evaluation of this training


def test_predictions_need_every_document_in_its_place_whatever_training_does_without(make_trainer, corpus):
    trainer = make_trainer(dataloader_drop_last=True, dataloader_in_order=False)
    train, test = trainer.get_train_dataloader(), trainer.get_test_dataloader(trainer.eval_dataset)
    assert (train.in_order, test.in_order, len(train), len(test)) == (False, True, 6, 3)
    assert trainer.args.dataloader_drop_last is True and trainer.args.dataloader_in_order is False


def test_a_loss_of_ones_own_reads_the_logits_of_families_that_read_labels(make_trainer, corpus, tokenizer):
    def make(model_class):
        config = model_class.config_class.for_tokenizer(
            tokenizer, label_names=label_info_of(corpus).names, backbone_config=SMALL
        )
        options = {"max_steps": 2, "eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
        return make_trainer(model=model_class(config), trainer={"compute_loss_func": bce}, **options)

    trainer = make(LACOForXMTC)
    trainer.train()
    assert 0 < trainer.evaluate()["eval_loss"] < 2
    with pytest.raises(ValueError, match=r"returned a tensor \(\) without a gradient.*logits of SeqTag"):
        make(SeqTagForXMTC).train()


def test_a_loss_of_ones_own_for_candidates_is_refused(make_trainer, corpus, tokenizer):
    settings = {"label_names": label_info_of(corpus).names, "backbone_config": SMALL, "num_candidates": 3}
    model = LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, **settings))
    with pytest.raises(ValueError, match="compute_loss_func with num_candidates=3: there are no logits of all labels"):
        make_trainer(model=model, trainer={"compute_loss_func": bce})

"""What `XMTCTrainer` does with data, loss, metrics and predictions; resuming and averaging have files of their own."""

import json
import math

import numpy as np
import psutil
import pytest
import torch
from datasets import Dataset
from torch import nn
from transformers import TrainerCallback

from hf_xmtc import XMTCDataCollator, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import tokenize_dataset
from hf_xmtc.training.trainer_inputs import tokenized


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def make_rows(tokenizer, labels: list[list[int]], num_words: int = 3) -> Dataset:
    """Tokenized documents of random words with the given label ids."""
    cls_ids = tokenizer("")["input_ids"]
    words = np.random.default_rng(0).integers(2, len(tokenizer) - len(cls_ids), size=(len(labels), num_words))
    return Dataset.from_dict({"input_ids": [cls_ids + row for row in words.tolist()], "labels": labels})


# ---- data and loss -------------------------------------------------------------------------------------------------------


def test_label_lists_of_any_length_give_the_loss_of_their_target_matrix(make_model, make_trainer, tokenizer):  # AC-19
    rows = make_rows(tokenizer, [[], [1], [0, 2, 4]])
    model = make_model(num_labels=5).eval()
    trainer = make_trainer(
        model=model, train_dataset=rows, eval_dataset=None, eval_strategy="no", load_best_model_at_end=False
    )
    batch = trainer.data_collator([rows[i] for i in range(3)])
    targets = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 1]], dtype=torch.float)
    loss, output = trainer.compute_loss(model, batch, return_outputs=True)
    assert loss.item() == pytest.approx(nn.functional.binary_cross_entropy_with_logits(output.logits, targets).item())

    # The same targets as rows of whole numbers.
    collator = XMTCDataCollator(tokenizer, num_labels=5, label_format="multi_hot")
    hot = [{"input_ids": rows[i]["input_ids"], "labels": targets[i].int().tolist()} for i in range(3)]
    assert trainer.compute_loss(model, collator(hot)).item() == pytest.approx(loss.item())


def test_labels_reach_the_loss_straight_from_the_loader(corpus, make_trainer):  # AC-20
    gradients = []

    class KeepGradient(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            gradients.append(model.label_head.output.weight.grad.abs().sum().item())

    assert corpus["train"].column_names == ["text", "labels"]
    trainer = make_trainer(max_steps=2, logging_steps=1, trainer={"callbacks": [KeepGradient()]})
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == len(gradients) == 2
    assert all(math.isfinite(loss) and loss > 0 for loss in losses)
    assert all(gradient > 0 for gradient in gradients)


def test_training_without_the_label_column_is_refused_and_prediction_works(corpus, make_model, make_trainer):  # AC-20
    unlabelled = corpus["test"].remove_columns("labels")
    with pytest.raises(ValueError, match=r"the columns \['text'\] and no 'labels', so there is nothing to learn"):
        make_trainer(train_dataset=corpus["train"].remove_columns("labels"))
    trainer = make_trainer(train_dataset=None, eval_dataset=None, eval_strategy="no", load_best_model_at_end=False)
    output = trainer.predict(unlabelled)
    assert output.label_ids is None
    assert not any("P@1" in name for name in output.metrics)
    np.testing.assert_array_equal(output.predictions[1], trainer.predict(corpus["test"]).predictions[1])
    with pytest.raises(ValueError, match=r"The batch holds \['attention_mask', 'input_ids'\] and no 'labels'"):
        trainer.compute_loss(trainer.model, trainer.data_collator([tokenized(trainer, unlabelled)[0]]))


def test_texts_are_tokenized_as_tokenize_dataset_does(corpus, tokenizer, make_trainer):
    trainer = make_trainer()
    tokenized, _ = tokenize_dataset(corpus["train"], tokenizer, max_length=16)
    assert trainer.train_dataset["input_ids"][:] == tokenized["input_ids"][:]
    assert make_trainer(train_dataset=tokenized).train_dataset is tokenized


def test_data_without_texts_and_tokens_is_refused(make_trainer):
    with pytest.raises(ValueError, match=r"the columns \['labels'\] and no 'input_ids'. Make them with tokenize_dataset"):
        make_trainer(train_dataset=Dataset.from_dict({"labels": [[0]]}))


def test_streams_are_trained_on_and_evaluated_once_they_are_tokenized(corpus, tokenizer, make_trainer):
    streams = {split: corpus[split].to_iterable_dataset() for split in ("train", "validation")}
    message = r"IterableDataset with the columns \['text', 'labels'\] and no 'input_ids'.* stream.map\(lambda rows"
    with pytest.raises(ValueError, match=message):
        make_trainer(train_dataset=streams["train"], max_steps=2)
    with pytest.raises(ValueError, match=message):
        make_trainer(eval_dataset=streams["validation"])
    train, validation = (
        stream.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True, remove_columns="text")
        for stream in streams.values()
    )
    trainer = make_trainer(train_dataset=train, eval_dataset=validation, max_steps=2)
    trainer.train()
    assert trainer.state.global_step == 2
    assert trainer.evaluate()["eval_nDCG@5"] == pytest.approx(trainer.evaluate(corpus["validation"])["eval_nDCG@5"])


def test_a_training_set_that_fills_no_batch_is_refused_where_incomplete_ones_are_dropped(make_trainer):
    with pytest.raises(ValueError, match="have 24 documents, a step takes 25 .*, so nothing would be trained"):
        make_trainer(dataloader_drop_last=True, per_device_train_batch_size=25)
    make_trainer(dataloader_drop_last=True, per_device_train_batch_size=24)
    make_trainer(per_device_train_batch_size=25)


def test_incomplete_batches_are_dropped_from_training_alone(corpus, make_trainer):
    trainer = make_trainer(dataloader_drop_last=True, per_device_train_batch_size=5, num_train_epochs=1)
    trainer.train()
    assert trainer.state.global_step == 4  # of 24 documents
    assert trainer.evaluate()["eval_num_documents"] == 8  # in batches of 3
    assert len(trainer.predict(corpus["test"]).predictions[1]) == 7


def test_a_missing_or_foreign_tokenizer_is_refused(tmp_path, corpus, make_model, tokenizer):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(ValueError, match="needs the model's tokenizer"):
        XMTCTrainer(make_model(), args, train_dataset=corpus["train"])
    with pytest.raises(ValueError, match="CLS tokens are"):
        XMTCTrainer(make_model(num_cls_tokens=3), args, train_dataset=corpus["train"], processing_class=tokenizer)


def test_gradient_accumulation_takes_the_step_of_the_whole_batch(make_model, make_trainer):
    settings = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
    runs = []
    for batch_size, accumulation in ((4, 1), (2, 2)):
        trainer = make_trainer(
            model=make_model(**settings),
            output=f"accumulate-{accumulation}",
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
            logging_steps=1,
            optim="sgd",
        )
        trainer.train()
        runs.append((weights_of(trainer.model), [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]))
    (whole, whole_losses), (parts, part_losses) = runs
    assert part_losses == pytest.approx(whole_losses, rel=1e-4)
    assert max((whole[name] - parts[name]).abs().max() for name in whole) < 1e-6


def test_the_gradient_is_clipped_at_max_grad_norm(make_model, make_trainer):
    moved = []
    for limit in (1e-3, 1e6):
        model = make_model()
        before = weights_of(model)
        settings = {"max_steps": 1, "optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant"}
        make_trainer(output=f"clip-{limit}", model=model, max_grad_norm=limit, **settings).train()
        moved.append(sum((model.state_dict()[name] - before[name]).square().sum() for name in before).sqrt().item())
    assert moved[0] == pytest.approx(1e-3, rel=1e-3)
    assert moved[1] > 1e-2


def test_adaptive_clipping_remembers_the_norms_of_training(make_trainer):
    trainer = make_trainer(adaptive_gradient_clipping=True, max_steps=3, logging_steps=1)
    trainer.train()
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert list(trainer.adaptive_clipping.norms) == pytest.approx([math.inf, *(min(norm, 1.0) for norm in norms)])


def test_bf16_trains_with_float32_weights(make_trainer):
    trainer = make_trainer(bf16=True, max_steps=8, averaging_start_epoch=0)
    trainer.train()
    assert {tensor.dtype for tensor in trainer.model.parameters()} == {torch.float32}
    assert all(tensor.isfinite().all() for tensor in trainer.model.parameters())
    assert trainer.evaluate()["eval_nDCG@5"] > 0.3


# ---- evaluation and prediction -------------------------------------------------------------------------------------------


def test_metrics_are_those_of_the_model_on_each_document(corpus, tokenizer, make_trainer):
    trainer = make_trainer()
    metrics = trainer.evaluate()
    assert {"eval_P@1", "eval_nDCG@5", "eval_PSP@3", "eval_R@5", "eval_loss", "eval_num_documents"} <= set(metrics)
    hits = [_best_labels(trainer.model, tokenizer, row["text"])[0][0] in row["labels"] for row in corpus["validation"]]
    assert metrics["eval_P@1"] == pytest.approx(np.mean(hits))
    assert (metrics["eval_num_documents"], metrics["eval_num_left_out"]) == (8, 0)


def test_predictions_come_in_data_order(corpus, tokenizer, make_trainer):
    trainer = make_trainer()
    lengths = [len(text.split()) for text in corpus["test"]["text"]]
    assert lengths != sorted(lengths, reverse=True)  # while evaluation goes from long to short texts
    output = trainer.predict(corpus["test"])
    for i, row in enumerate(corpus["test"]):
        label_ids, scores = _best_labels(trainer.model, tokenizer, row["text"])
        assert output.predictions[1][i].tolist() == label_ids
        np.testing.assert_allclose(output.predictions[0][i], scores, atol=1e-6)
        assert [label_id for label_id in output.label_ids[i].tolist() if label_id >= 0] == row["labels"]


def test_other_data_sets_are_predicted_in_order_too(make_trainer, corpus):
    trainer = make_trainer()
    rows = [dict(row) for row in tokenized(trainer, corpus["test"])]
    np.testing.assert_array_equal(trainer.predict(rows).predictions[1], trainer.predict(corpus["test"]).predictions[1])


def _best_labels(model, tokenizer, text: str) -> tuple[list[int], list[float]]:
    with torch.no_grad():
        output = model.eval()(**tokenizer([text], return_tensors="pt", truncation=True), top_k=10)
    return output.top_labels[0].tolist(), output.top_scores[0].tolist()


def test_labels_that_training_never_saw_count_as_missed_or_are_ignored(tokenizer, make_model, make_trainer):
    model = make_model(cornet_num_blocks=0)  # ranks the labels 0, 1, 2, 3, 4, 5 for every document
    with torch.no_grad():
        model.label_head.output.weight.zero_()
        model.label_head.output.bias.copy_(torch.arange(6.0, 0.0, -1.0))
    # Six labels are trained; the first document also has the unseen label 8, the second only the unseen label 7.
    rows = make_rows(tokenizer, [[0, 8], [7], [1, 2]])
    counted = make_trainer(model=model, eval_dataset=rows).evaluate()
    assert counted["eval_R@5"] == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert (counted["eval_num_documents"], counted["eval_num_left_out"]) == (3, 0)
    ignored = make_trainer(model=model, eval_dataset=rows, ignore_unseen_labels=True).evaluate()
    assert ignored["eval_R@5"] == 1.0
    assert ignored["eval_num_left_out"] == 1  # the second document has no label left
    assert math.isfinite(counted["eval_loss"])  # the loss knows the six labels only
    assert ignored["eval_loss"] == counted["eval_loss"]
    # An unseen label weighs as much as one without training documents, the most there is.
    trainer = make_trainer()
    weights = trainer.evaluation.propensity_for(np.array([[8, -100]]))
    assert len(weights) == 9
    assert weights[6] == weights[8] == trainer.evaluation.inverse_propensity[6] > weights[:6].max()


def test_propensities_of_other_training_data_can_be_given(make_trainer):
    counts = np.array([1, 2, 3, 4, 5, 6])
    given = make_trainer(train_dataset=None, trainer={"label_counts": counts, "num_train_documents": 50})
    assert given.evaluation.inverse_propensity.argsort().tolist() == [5, 4, 3, 2, 1, 0, 6]
    assert make_trainer(train_dataset=None).evaluation.inverse_propensity is None
    with pytest.raises(
        ValueError, match="label_counts holds 3 counts and num_train_documents=50, but the model has 6 labels"
    ):
        make_trainer(train_dataset=None, trainer={"label_counts": counts[:3], "num_train_documents": 50})


def test_evaluation_memory_does_not_grow_with_labels_times_documents(tokenizer, make_model, make_trainer):  # AC-24
    num_labels, num_documents = 50_000, 2_000
    memory, received = [], []

    class Watch(TrainerCallback):
        def on_prediction_step(self, args, state, control, **kwargs):
            memory.append(psutil.Process().memory_info().rss / 2**20)

    def keep(prediction):
        received.append((prediction.predictions[0].shape, prediction.predictions[1].shape, prediction.label_ids.shape))
        return {}

    chance = np.random.default_rng(1)
    rows = make_rows(tokenizer, chance.integers(0, num_labels, size=(num_documents, 5)).tolist())
    trainer = make_trainer(
        # Hidden states and attentions are further outputs that must not be collected.
        model=make_model(num_labels=num_labels, cornet_num_blocks=0, output_hidden_states=True, output_attentions=True),
        eval_dataset=rows,
        train_dataset=None,
        per_device_eval_batch_size=8,
        eval_top_k=5,
        trainer={"compute_metrics": keep, "callbacks": [Watch()]},
    )
    trainer.evaluate()
    assert received == [((num_documents, 5), (num_documents, 5), (num_documents, 5))]
    assert len(memory) == num_documents // 8
    assert max(memory) - memory[0] < 150  # MB; all scores together would be 400


def test_metrics_of_the_best_labels_equal_those_of_all_scores(tokenizer, make_model, make_trainer):  # AC-24
    chance = np.random.default_rng(2)
    positives = [chance.choice(50, size=chance.integers(1, 8), replace=False).tolist() for _ in range(40)]
    rows = make_rows(tokenizer, positives)
    trainer = make_trainer(model=make_model(num_labels=50), eval_dataset=rows, train_dataset=None)
    metrics = trainer.evaluate()
    with torch.no_grad():
        logits = trainer.model(torch.tensor(rows["input_ids"][:])).logits
    order = logits.argsort(dim=1, descending=True).tolist()
    for k in (1, 3, 5):
        hits = [len(set(order[i][:k]) & set(row)) for i, row in enumerate(positives)]
        assert metrics[f"eval_P@{k}"] == pytest.approx(np.mean(hits) / k)
    assert metrics["eval_R@5"] == pytest.approx(np.mean([hits[i] / len(row) for i, row in enumerate(positives)]))


# ---- a run ---------------------------------------------------------------------------------------------------------------


def test_the_best_model_by_ndcg_at_5_is_left_in_the_model(make_trainer):
    trainer = make_trainer(num_train_epochs=6)
    trainer.train()
    scores = [entry["eval_nDCG@5"] for entry in trainer.state.log_history if "eval_nDCG@5" in entry]
    assert trainer.state.best_metric == max(scores) > scores[-1]
    assert trainer.evaluate()["eval_nDCG@5"] == pytest.approx(max(scores))


def test_training_stops_early_without_a_better_score(make_trainer):
    trainer = make_trainer(num_train_epochs=5, learning_rate=0.0, early_stopping_patience=1)
    trainer.train()
    assert trainer.state.epoch == 2  # the second evaluation was no better than the first


def test_a_checkpoint_holds_its_arguments_as_json_and_no_pickled_ones(tmp_path, make_trainer):
    make_trainer(max_steps=1, hub_token="hf_secret").train()
    (checkpoint,) = (tmp_path / "run").iterdir()
    names = {path.name for path in checkpoint.iterdir()}
    assert "training_args.bin" not in names
    assert {"model.safetensors", "config.json", "labels.json", "tokenizer.json", "modeling_bertxml.py"} <= names
    text = (checkpoint / "training_args.json").read_text()
    assert json.loads(text)["per_device_train_batch_size"] == 4
    assert str(tmp_path) not in text and "hf_secret" not in text

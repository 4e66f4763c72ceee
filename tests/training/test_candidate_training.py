"""Candidates in training and evaluation, resuming."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, Interrupted, largest_difference
from sklearn.linear_model import LogisticRegression

from hf_xmtc import LACOConfig, LACOForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import label_info_of, tokenize_dataset
from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training import initialize_votes
from models.tiny_laco import build


@pytest.fixture
def candidate_trainer(corpus, tmp_path):
    """A LACO with both tasks, of three candidates that are drawn at random, or of all labels."""
    tokenizer = train_word_tokenizer(corpus["train"]["text"], num_cls_tokens=1, max_length=16, min_document_frequency=1)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}

    def columns(rows):
        tokenized, _ = tokenize_dataset(rows, tokenizer, 16)
        ids = np.random.default_rng(0).random((len(rows), 6)).argsort(axis=1)[:, :3]
        return tokenized.add_column(CANDIDATES, ids.tolist())

    def make(output="run", num_candidates=3, callbacks=None, **settings) -> XMTCTrainer:
        config = {"num_candidates": num_candidates, "auxiliary_task": "both", "cross_attention_channels": 4}
        torch.manual_seed(0)
        model = LACOForXMTC(
            LACOConfig.for_tokenizer(tokenizer, label_names=label_info_of(corpus).names, backbone_config=sizes, **config)
        )
        splits = [columns(rows) for rows in (corpus["train"].select(range(8)), corpus["test"])]
        if not num_candidates:
            splits = [rows.remove_columns(CANDIDATES) for rows in splits]
        fixed = {"use_cpu": True, "disable_tqdm": True, "dataloader_pin_memory": False, "save_total_limit": None}
        args = XMTCTrainingArguments(
            output_dir=str(tmp_path / output), **{**fixed, **EIGHT, **EVERY_THREE_STEPS, **settings}
        )
        return XMTCTrainer(model, args, *splits, processing_class=tokenizer, callbacks=callbacks)

    return make


def test_in_training_the_model_gets_its_generators_candidates_and_votes_as_they_are(candidate_trainer):
    trainer = candidate_trainer()
    rows = trainer.train_dataset
    votes = np.random.default_rng(1).random((len(rows), 3)).astype(np.float32).tolist()
    trainer.train_dataset = rows.add_column(VOTES, votes)
    seen = []

    def look(module, args, inputs):
        if module.training:
            seen.extend(zip(inputs[CANDIDATES].tolist(), inputs[VOTES].tolist(), strict=True))

    trainer.model.register_forward_pre_hook(look, with_kwargs=True)
    trainer.train()
    assert all(pair in list(zip(rows[CANDIDATES][:], votes, strict=True)) for pair in seen) and len(seen) >= len(rows)
    assert trainer.model.vote_scale != 1


def test_votes_start_as_a_logistic_regression_on_them_would_have_it():
    model = build(num_labels=50, num_candidates=6)
    rng = np.random.default_rng(0)
    votes = rng.random((400, 6)).astype(np.float32) ** 3
    right = rng.random(votes.shape) < 1 / (1 + np.exp(-2.5 * np.log(votes + 1e-4) - 1))
    ids = rng.random((400, 50)).argsort(axis=1)[:, :6]
    labels = [row[chosen].tolist() for row, chosen in zip(ids, right, strict=True)]
    initialize_votes(model, Dataset.from_dict({CANDIDATES: ids.tolist(), VOTES: votes.tolist(), "labels": labels}))
    expected = LogisticRegression(C=1e6).fit(np.log(votes.reshape(-1, 1) + 1e-4), right.ravel())
    assert model.vote_scale.item() == pytest.approx(expected.coef_.item(), rel=1e-3)
    assert model.label_head.label_bias.tolist() == pytest.approx([expected.intercept_.item()] * 50, rel=1e-3)
    # Votes for the wrong labels alone would turn the generator's ranking round.
    other = build(num_labels=50, num_candidates=6)
    wrong = [row[~chosen].tolist() for row, chosen in zip(ids, right, strict=True)]
    initialize_votes(other, Dataset.from_dict({CANDIDATES: ids.tolist(), VOTES: votes.tolist(), "labels": wrong}))
    assert other.vote_scale == 1 and not other.label_head.label_bias.any()


def test_in_evaluation_the_model_gets_the_columns_candidates_and_no_positives_beside(candidate_trainer):
    trainer = candidate_trainer()
    rows = trainer.eval_dataset
    missed = [set(truth) - set(ids) for truth, ids in zip(rows["labels"][:], rows[CANDIDATES][:], strict=True)]
    assert sum(map(len, missed)) > 3
    seen = []
    trainer.model.register_forward_pre_hook(
        lambda module, args, inputs: seen.extend(map(tuple, inputs[CANDIDATES].tolist())), with_kwargs=True
    )
    output = trainer.predict(rows)
    assert sorted(seen) == sorted(map(tuple, rows[CANDIDATES][:]))
    for kept, ids in zip(output.predictions[1][:, :3].tolist(), rows[CANDIDATES][:], strict=True):
        assert set(kept) == set(ids)


def test_fillers_of_shorter_lists_are_in_no_set_and_no_set_is_cut_behind_all_candidates(candidate_trainer):  # AC-67
    # Batches of one document, with three candidates, two, or one.
    settings = {"set_metrics": True, "per_device_eval_batch_size": 1}
    trainer = candidate_trainer(**settings)
    rows = trainer.eval_dataset
    short = [ids[: 1 + i % 3] for i, ids in enumerate(rows[CANDIDATES][:])]
    rows = rows.remove_columns(CANDIDATES).add_column(CANDIDATES, short)
    seen = []
    trainer.compute_metrics = lambda prediction: seen.append(prediction.predictions) or trainer._metrics(prediction)
    for threshold in (0.0, -1.0):
        trainer.model.set_thresholds(threshold)
        output = trainer.predict(rows)
        scores, top_labels, in_set = output.predictions
        assert [sorted(labels[labels >= 0].tolist()) for labels in top_labels] == [sorted(ids) for ids in short]
        assert in_set.dtype == bool and np.array_equal(in_set, top_labels >= 0)
        assert np.array_equal(seen[-1][2], seen[-1][1] >= 0)  # for metrics of one's own too
        assert not scores[top_labels < 0].any()
        assert output.metrics["test_num_cut_sets"] == 0


@pytest.mark.parametrize(("num_candidates", "accumulation"), [(3, 1), (0, 2)])
def test_a_resumed_run_draws_what_an_uninterrupted_one_does(candidate_trainer, num_candidates, accumulation):  # AC-21
    settings = {"num_candidates": num_candidates, "gradient_accumulation_steps": accumulation}
    whole = candidate_trainer("whole", **settings)
    whole.train()
    with pytest.raises(Interrupted):
        candidate_trainer("parts", callbacks=[InterruptAt(5)], **settings).train()
    resumed = candidate_trainer("parts", **settings)
    resumed.train(resume_from_checkpoint=True)
    assert largest_difference(whole.model, resumed.model) <= 1e-6

"""Candidates in training and evaluation: scheduled injection of positives that the generator has missed, resuming."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, Interrupted, largest_difference

from hf_xmtc import LACOConfig, LACOForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import label_info_of, tokenize_dataset
from hf_xmtc.data.collator import CANDIDATES
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.positive_injection import injection_rate, with_training_candidates


def test_the_chance_falls_from_1_to_0_over_its_share_of_the_steps():
    assert [injection_rate(step, 100, 0.6) for step in (0, 30, 60, 99)] == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert injection_rate(0, 100, 0.0) == 0.0 and injection_rate(99, 100, 1.0) == pytest.approx(0.01)


def trainer_at(
    step: int, label_counts: list[int] | None, positive_injection_ratio: float, num_random: int
) -> SimpleNamespace:
    """What candidates look at of a trainer, of 20 labels."""
    return SimpleNamespace(
        args=SimpleNamespace(positive_injection_ratio=positive_injection_ratio, num_random_candidates=num_random),
        state=SimpleNamespace(global_step=step, max_steps=100),
        evaluation=SimpleNamespace(label_counts=label_counts),
        num_labels=20,
    )


def batch_with(positives: list[int]) -> dict:
    """Fifty documents alike, of four candidates."""
    columns = {CANDIDATES: torch.tensor([[3, 4, 5, 6]]), "labels": torch.tensor([[*positives, -100]])}
    return {name: column.expand(50, -1) for name, column in columns.items()}


@pytest.mark.parametrize(("step", "found"), [(0, True), (60, False)])
def test_a_missed_positive_is_put_in_at_the_beginning_alone(step, found):
    trainer, inputs = trainer_at(step, [5] * 20, positive_injection_ratio=0.6, num_random=1), batch_with([4, 17])
    candidates = with_training_candidates(trainer, inputs)[CANDIDATES]
    assert candidates.shape == (50, 4) and (candidates == 4).any(dim=1).all()
    assert bool((candidates == 17).any(dim=1).all()) == found and bool((candidates == 17).any()) == found
    drawn = []
    for seed in (1, 1, 2):  # of a collator, which draws for each document and epoch
        numbers = torch.randint(2**62, (50, 16), generator=torch.Generator().manual_seed(seed))
        drawn.append(with_training_candidates(trainer, {**inputs, "random_numbers": numbers})[CANDIDATES])
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("counts", [[0] * 19 + [5], None])
def test_random_candidates_are_drawn_by_their_frequency_in_training(counts):
    trainer = trainer_at(0, counts, positive_injection_ratio=0.0, num_random=2)
    drawn = with_training_candidates(trainer, batch_with([3, 4]))[CANDIDATES].unique().tolist()
    assert 19 in drawn and (len(drawn) > 10) == (counts is None)  # without counts each is as likely


# ---- through the trainer ---------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("settings", [{"num_random_candidates": -1}, {"positive_injection_ratio": 1.5}])
def test_settings_that_make_no_sense_are_refused(settings, tmp_path):
    with pytest.raises(ValueError, match="but it must be at least 0|but a ratio is from 0 to 1"):
        XMTCTrainingArguments(output_dir=str(tmp_path), **settings)

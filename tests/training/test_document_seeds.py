"""LACO's auxiliary tasks in training: what is asked about a document follows from seed, epoch and document alone."""

import pytest
import torch

from hf_xmtc import LACOConfig, LACOForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import label_info_of
from hf_xmtc.models import modeling_laco
from hf_xmtc.tokenization import train_word_tokenizer

SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "hidden_dropout_prob": 0.0,
}


@pytest.fixture(scope="module")
def small(corpus):
    """The corpus, and a tokenizer with one CLS token in front, as an encoder reads it."""
    words = train_word_tokenizer(corpus["train"]["text"], num_cls_tokens=1, max_length=16, min_document_frequency=1)
    return corpus, words


@pytest.fixture
def drawn(small, tmp_path, monkeypatch):
    """Train and return what was drawn: per epoch a pair of labels for each document, found by its positives and seed."""

    def train(config: dict | None = None, **settings) -> tuple[list[dict], XMTCTrainer]:
        corpus, tokenizer = small
        torch.manual_seed(0)
        names = label_info_of(corpus).names
        model = LACOForXMTC(
            LACOConfig.for_tokenizer(
                tokenizer,
                label_names=names,
                auxiliary_task="both",
                backbone_config=SIZES,
                cross_attention_channels=4,
                **(config or {}),
            )
        )
        epochs: list[dict] = []
        trainer = None
        draw_pairs = modeling_laco.draw_pairs

        def noted(positives, num_labels, seeds, *args):
            pairs = draw_pairs(positives, num_labels, seeds, *args)
            while len(epochs) <= trainer.current_epoch:
                epochs.append({})
            for seed, ids in zip(seeds.tolist(), pairs.label_ids.tolist(), strict=True):
                epochs[trainer.current_epoch][seed] = ids
            return pairs

        monkeypatch.setattr(modeling_laco, "draw_pairs", noted)
        fixed = {
            "use_cpu": True,
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            "num_train_epochs": 2,
            "save_strategy": "no",
        }
        args = XMTCTrainingArguments(
            output_dir=str(tmp_path / "run"),
            **{**fixed, "per_device_train_batch_size": 4, "load_best_model_at_end": False, **settings},
        )
        trainer = XMTCTrainer(model, args, corpus["train"], corpus["validation"], processing_class=tokenizer)
        trainer.train()
        monkeypatch.setattr(modeling_laco, "draw_pairs", draw_pairs)
        return epochs, trainer

    return train


def test_workers_and_batches_change_no_draw_and_epochs_and_seeds_do(drawn):
    epochs, trainer = drawn()
    assert [len(epoch) for epoch in epochs] == [24, 24]  # a number of its own for every document
    assert not set(epochs[0]) & set(epochs[1])
    assert "document_seeds" in trainer.train_dataset.column_names
    for settings in ({"dataloader_num_workers": 2}, {"per_device_train_batch_size": 6, "train_sampling_strategy": "random"}):
        assert drawn(**settings)[0] == epochs
    assert not set(drawn(seed=7)[0][0]) & set(epochs[0])


def test_draws_are_the_same_in_every_epoch_where_they_are_to_be_fixed(drawn):
    epochs, _ = drawn({"auxiliary_sampling": "fixed"})
    assert epochs[0] == epochs[1]


def test_a_model_without_auxiliary_tasks_is_not_given_numbers(make_trainer):
    assert "document_seeds" not in make_trainer().train_dataset.column_names


def test_the_loss_of_evaluation_is_that_of_the_labels_alone(drawn, small):
    _, trainer = drawn()
    corpus, tokenizer = small
    batch = trainer.data_collator([trainer.eval_dataset[row] for row in range(4)])
    trainer.model.eval()
    expected = trainer.model(**batch).loss
    assert trainer.evaluate(corpus["validation"].select(range(4)))["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)

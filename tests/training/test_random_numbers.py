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
    """Train and return what was drawn: per epoch, the pairs and the given label of each document by its first random number."""

    def train(**settings) -> tuple[list[dict], XMTCTrainer]:
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
            )
        )
        epochs: list[dict] = [{}, {}]
        draw_pairs = modeling_laco.draw_pairs

        def noted(positives, num_labels, numbers):
            pairs = draw_pairs(positives, num_labels, numbers)
            for row, ids in zip(numbers[:, :9].tolist(), pairs.label_ids.tolist(), strict=True):
                epochs[trainer.data_collator.epoch][tuple(row)] = ids
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
    for settings in (
        {"dataloader_num_workers": 2},
        {"dataloader_num_workers": 1, "dataloader_persistent_workers": True},
        {"per_device_train_batch_size": 6, "train_sampling_strategy": "random"},
    ):
        assert drawn(**settings)[0] == epochs
    assert not set(drawn(seed=7)[0][0]) & set(epochs[0])


def test_a_model_that_draws_nothing_is_not_given_numbers(make_trainer):
    trainer = make_trainer()
    assert "random_numbers" not in trainer.data_collator([trainer.train_dataset[0]])


def test_the_loss_of_evaluation_is_that_of_the_labels_alone(drawn, small):
    _, trainer = drawn()
    corpus, tokenizer = small
    batch = trainer.data_collator([trainer.eval_dataset[row] for row in range(4)])
    trainer.model.eval()
    expected = trainer.model(**batch).loss
    assert trainer.evaluate(corpus["validation"].select(range(4)))["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)

"""`ContrastiveTrainer`: which texts are paired, the loss over a batch of pairs, and what training does to the vectors."""

import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertConfig

from hf_xmtc import NeighborsConfig, NeighborsForXMTC, XMTCTrainingArguments
from hf_xmtc.data import label_info_of
from hf_xmtc.training.contrastive import TEMPERATURE, ContrastiveTrainer, LabelledTexts, contrastive_loss

# Labels 0 and 1 have several documents, label 2 has one, and the last document has no label.
DOCUMENTS = [([5, 6], [0]), ([7], [0, 1]), ([8, 9], [1]), ([5], [1]), ([6, 7], [2]), ([9], [])]
LABEL_TEXTS = [[5], [], [7, 8], [], []]


def dataset(documents=DOCUMENTS) -> Dataset:
    return Dataset.from_list([{"input_ids": ids, "labels": labels} for ids, labels in documents])


def test_the_loss_is_that_by_hand():
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    candidates = torch.tensor([[0.6, 0.8], [0.8, 0.6]])
    near, far = 0.6 / TEMPERATURE, 0.8 / TEMPERATURE  # of both anchors: the own candidate, and the other's
    expected = math.log(math.exp(near) + math.exp(far)) - near
    loss = contrastive_loss(anchors, candidates, torch.eye(2, dtype=torch.bool))
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_texts_that_share_a_label_are_no_negatives():
    torch.manual_seed(0)
    anchors, candidates = torch.nn.functional.normalize(torch.randn(2, 3, 4), dim=2)
    shares = torch.eye(3, dtype=torch.bool)
    shares[0, 2] = True
    loss = contrastive_loss(anchors, candidates, shares)
    cosines = (anchors @ candidates.T / TEMPERATURE).tolist()
    rows = [(cosines[0][0], cosines[0][:2]), (cosines[1][1], cosines[1]), (cosines[2][2], cosines[2])]
    expected = sum(math.log(sum(map(math.exp, row))) - own for own, row in rows) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    shares[:] = True  # then there is nothing to tell it from
    assert contrastive_loss(anchors, candidates, shares).item() == 0


def test_a_text_is_paired_with_another_one_of_its_labels_and_with_a_labels_text():
    texts = LabelledTexts(dataset(), LABEL_TEXTS, 5)
    assert texts.anchors.tolist() == [0, 1, 2, 3, 4]
    assert LabelledTexts(dataset(), None, 5).anchors.tolist() == [0, 1, 2, 3]
    random = np.random.default_rng(0)
    assert {texts.draw(0, random) for _ in range(20)} == {(1, 0)}
    assert {texts.draw(2, random) for _ in range(20)} == {(1, None), (3, None)}  # its label has no text
    assert {texts.draw(4, random) for _ in range(5)} == {(None, 2)}  # nobody else has its label
    assert {texts.draw(1, random)[0] for _ in range(50)} == {0, 2, 3}


def test_rare_labels_are_drawn_more_often():
    texts = LabelledTexts(dataset([([5], [0, 1]), *[([6], [0])] * 9, ([7], [1])]), None, 2)
    random = np.random.default_rng(0)
    rare = np.mean([texts.draw(0, random)[0] == 10 for _ in range(400)])
    assert rare == pytest.approx((1 / 2) / (1 / 2 + 1 / 10), abs=0.06)  # label 0 has 10 documents, label 1 has 2


@pytest.fixture
def tuner(tmp_path, corpus, tokenizer):
    """A trainer of a tiny encoder on the corpus; keywords are training arguments, except the first."""

    def make(output="run", **args) -> ContrastiveTrainer:
        info = label_info_of(corpus)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        torch.manual_seed(0)
        backbone = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=16, initializer_range=0.2, **sizes)
        backbone.hidden_dropout_prob = backbone.attention_probs_dropout_prob = 0.0
        settings = {
            "per_device_train_batch_size": 6,
            "num_train_epochs": 3,
            "learning_rate": 0.01,
            "use_cpu": True,
            "disable_tqdm": True,
            "save_total_limit": None,
            "dataloader_pin_memory": False,
        }
        return ContrastiveTrainer(
            NeighborsForXMTC(NeighborsConfig(backbone_config=backbone, label_names=info.names)),
            XMTCTrainingArguments(output_dir=str(tmp_path / output), **{**settings, **args}),
            train_dataset=corpus["train"],
            eval_dataset=corpus["validation"],
            processing_class=tokenizer,
            label_texts=tokenizer(list(info.names.labels))["input_ids"],
        )

    return make


@torch.no_grad()
def cosines(trainer: ContrastiveTrainer) -> tuple[float, float]:
    """Mean cosine of validation texts that share a label, and of those that do not."""
    rows = trainer.eval_dataset
    vectors = trainer.model.encode_texts(rows["input_ids"][:]).values
    pairs = [(i, j) for i in range(len(rows)) for j in range(i)]
    share = np.array([not set(rows[i]["labels"]).isdisjoint(rows[j]["labels"]) for i, j in pairs])
    near = np.array([float(vectors[i] @ vectors[j]) for i, j in pairs])
    return near[share].mean(), near[~share].mean()


def test_texts_that_share_a_label_come_near_each_other(tuner):
    trainer = tuner(num_train_epochs=12, eval_strategy="no", save_strategy="no", load_best_model_at_end=False)
    near, far = cosines(trainer)
    before = trainer.evaluate()["eval_nDCG@5"]
    trainer.train()
    nearer, farther = cosines(trainer)
    assert nearer - farther > near - far + 0.05
    assert trainer.evaluate()["eval_nDCG@5"] > before
    assert trainer.model.config.num_documents == 0  # a checkpoint has the encoder alone


def test_a_resumed_training_equals_an_uninterrupted_one(tuner):
    strategy = {"save_strategy": "steps", "save_steps": 5, "eval_strategy": "steps", "eval_steps": 5}  # within an epoch
    whole, again = tuner("whole", **strategy), tuner("again", **strategy)
    whole.train()
    again.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-5")
    assert again.state.global_step == whole.state.global_step == 12
    measured = [
        [entry["eval_nDCG@5"] for entry in trainer.state.log_history if "eval_nDCG@5" in entry] for trainer in (whole, again)
    ]
    assert measured[0] == measured[1] and len(measured[0]) == 3  # at steps 5, 10 and 12
    for name, weight in whole.model.backbone.state_dict().items():
        assert torch.equal(weight, again.model.backbone.state_dict()[name]), name


def test_pairs_follow_from_seed_epoch_and_document_alone(tuner):
    trainer = tuner()
    collator, features = trainer.data_collator, list(trainer.anchors.select_columns(["row", "input_ids", "labels"]))
    whole, alone = collator(features[:4]), collator(features[2:3])
    width = alone["input_ids"].shape[1]
    assert torch.equal(whole["input_ids"][[2, 6], :width], alone["input_ids"])
    collator.epoch.fill_(1)
    later = collator(features[:4])["shares_label"]
    collator.seed = 7
    assert not torch.equal(later, whole["shares_label"]) and not torch.equal(later, collator(features[:4])["shares_label"])
    assert "labels" in collator([{"input_ids": [5], "labels": [0]}])  # of evaluation


@pytest.mark.parametrize("bf16", [False, True])
def test_the_encoder_reads_in_mixed_precision_where_that_is_chosen(tuner, bf16):
    trainer, seen = tuner(bf16=bf16, max_steps=1), set()
    trainer.model.backbone.register_forward_hook(lambda *_: seen.add(torch.is_autocast_enabled("cpu")))
    trainer.train()
    assert seen == {bf16}


def test_what_cannot_be_tuned_is_refused(tuner, corpus, tokenizer):
    trainer = tuner(eval_strategy="no", load_best_model_at_end=False)
    alone = [{"input_ids": [5], "labels": [0]}, {"input_ids": [6], "labels": [1]}]
    settings = {"args": trainer.args, "train_dataset": Dataset.from_list(alone), "processing_class": tokenizer}
    with pytest.raises(ValueError, match="No two of the 2 training documents share a label"):
        ContrastiveTrainer(trainer.model, label_texts=[[]] * 6, **settings)
    words = NeighborsForXMTC(NeighborsConfig(vocab_size=len(tokenizer), num_labels=6))
    with pytest.raises(ValueError, match="has no encoder to tune"):
        ContrastiveTrainer(words, label_texts=[[]] * 6, **settings)

"""The whole training loop against that of AttentionXML's authors: losses, weights, averages, which check was saved."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC, XMTCTrainer, XMTCTrainingArguments
from models.golden import ATTENTIONXML_NAMES, assert_close, load_golden, stored_parameters


class Weights(TrainerCallback):
    """Keeps the weights after each step, and those that are checked, which are the average once there is one."""

    def __init__(self):
        self.after_step, self.checked = {}, {}

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.after_step[state.global_step] = {name: value.clone() for name, value in model.state_dict().items()}

    def on_evaluate(self, args, state, control, model=None, **kwargs):
        self.checked[state.global_step] = {name: value.clone() for name, value in model.state_dict().items()}


def documents(ids: torch.Tensor, targets: torch.Tensor) -> Dataset:
    labels = [row.nonzero().flatten().tolist() for row in targets]
    return Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels})


def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
    width = max(len(row["labels"]) for row in rows)
    labels = [row["labels"] + [-100] * (width - len(row["labels"])) for row in rows]
    return {"input_ids": torch.tensor([row["input_ids"] for row in rows]), "labels": torch.tensor(labels)}


def assert_same_weights(ours: dict[str, torch.Tensor], golden: dict[str, torch.Tensor], prefix: str) -> None:
    theirs = stored_parameters(golden, ATTENTIONXML_NAMES, prefix)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert_close(ours[name], value, 2e-5, f"{prefix}{name}")


@pytest.mark.parametrize("name", ["training_run_frozen_embedding", "training_run_trainable_embedding"])
def test_losses_weights_checks_and_the_saved_model_equal_the_authors(name, tmp_path):
    golden, settings = load_golden(name)
    config = AttentionXMLConfig.reproduction(
        vocab_size=settings["vocab_size"],
        num_labels=settings["labels_num"],
        embedding_size=settings["emb_size"],
        hidden_size=settings["hidden_size"],
        linear_sizes=settings["linear_size"],
        embedding_dropout=settings["emb_dropout"],
        hidden_dropout_prob=settings["dropout"],
        freeze_embeddings=not settings["emb_trainable"],
        cornet_num_blocks=0,
    )
    model = AttentionXMLForXMTC(config)
    model.load_state_dict(stored_parameters(golden, ATTENTIONXML_NAMES, "init."))
    weights = Weights()
    checks = {"eval_steps": settings["eval_every_steps"], "save_steps": settings["eval_every_steps"]}
    trainer = XMTCTrainer(
        model,
        XMTCTrainingArguments(
            str(tmp_path),
            learning_rate=settings["lr"],
            lr_scheduler_type="constant",
            warmup_steps=0,
            num_train_epochs=settings["nb_epoch"],
            per_device_train_batch_size=settings["batch_size"],
            train_sampling_strategy="sequential",
            sparse_embeddings=settings["emb_trainable"],
            averaging_start_epoch=settings["swa_start_epoch"],
            adaptive_gradient_clipping=True,
            adam_epsilon_uncorrected=True,
            eval_strategy="steps",
            save_strategy="steps",
            save_total_limit=None,
            logging_steps=1,
            use_cpu=True,
            disable_tqdm=True,
            **checks,
        ),
        train_dataset=documents(golden["train_ids"], golden["train_targets"]),
        eval_dataset=documents(golden["valid_ids"], golden["valid_targets"]),
        data_collator=collate,
        callbacks=[weights],
    )
    trainer.train()

    history = trainer.state.log_history
    losses = [entry["loss"] for entry in history if "loss" in entry]
    assert losses == pytest.approx(golden["step_losses"].tolist(), abs=2e-5)
    for step in (1, 2, 3):
        assert_same_weights(weights.after_step[step], golden, f"after_step{step}.")
    assert_same_weights(weights.after_step[trainer.state.max_steps], golden, "final_live.")
    # transformers checks once more after the last step, which the authors leave out.
    last = int(golden["eval_step_p5_n5"][-1, 0])
    assert_same_weights(weights.checked[last], golden, "final_swa.")
    assert trainer.averaging.count == settings["swa_models_averaged"] + 1

    found = [[entry["step"], entry["eval_P@5"], entry["eval_nDCG@5"]] for entry in history if "eval_P@5" in entry]
    assert found.pop()[0] == trainer.state.max_steps
    np.testing.assert_allclose(found, golden["eval_step_p5_n5"], atol=1e-5)
    best, saved = -1.0, []
    for step, _, ndcg in found:
        if ndcg > best:
            best, saved = ndcg, [*saved, step]
    assert saved == golden["save_steps"].tolist()
    assert_same_weights(weights.checked[saved[-1]], golden, "saved_best.")

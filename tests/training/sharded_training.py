"""Training runs with the labels spread over two processes; a part of `in_two_processes.py` for `test_label_sharding.py`.

Every case writes its model into ``<folder>/<name>``, and what each process has seen into ``<folder>/<name>/<rank>.pt``.
"""

import contextlib
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.initialization import set_missing_label_weights
from hf_xmtc.training.sharded_label_head import full_state_dict
from training.interrupted_runs import InterruptAt, Interrupted

# A large epsilon, because Adam makes steps of full size of gradients that are rounding alone.
ADAMW = {"optim": "adamw_torch", "learning_rate": 0.01, "adam_epsilon": 1e-3}
# Name → model settings, training arguments. Epochs of six steps.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "clipped": ({}, {"max_grad_norm": 0.02}),
    "adaptively clipped": ({"cornet_num_blocks": 0}, {"adaptive_gradient_clipping": True}),
    "propensity, averaged": ({"label_loss": "propensity_bce"}, {"averaging_start_epoch": 0, "load_best_model_at_end": True}),
    "accumulated": ({}, {"gradient_accumulation_steps": 2}),
    "adamw": ({"loss_reduction": "sum_labels"}, {**ADAMW, "sparse_embeddings": True, "max_grad_norm": 0.5}),
    "rowwise": ({"loss_reduction": "sum_labels"}, {**ADAMW, "label_optimizer": "rowwise", "weight_decay": 0.1}),
    "sgd_in_backward": ({}, {**ADAMW, "label_optimizer": "sgd_in_backward"}),
    "rowwise_in_backward": ({}, {**ADAMW, "label_optimizer": "rowwise_in_backward"}),
    "adam_in_backward": ({"loss_reduction": "sum_labels"}, {**ADAMW, "label_optimizer": "adam_in_backward"}),
}
SIZES = {
    "num_cls_tokens": 2,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "cornet_context_size": 4,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
}


def read(folder: Path):
    """The corpus in ``<folder>/data`` and its tokenizer."""
    data = load_xmtc_dataset(folder / "data", cache_dir=folder / "cache")
    return data, train_word_tokenizer(data["train"]["text"], num_cls_tokens=2, max_length=16, min_document_frequency=1)


def make_trainer(output: Path, data, tokenizer, model_settings: dict, callbacks: tuple = (), **settings) -> XMTCTrainer:
    torch.manual_seed(0)
    config = BertXMLConfig(vocab_size=len(tokenizer), label_names=label_info_of(data).names, **{**SIZES, **model_settings})
    chosen = {
        "optim": "sgd",
        "learning_rate": 0.5,
        "num_train_epochs": 2,
        "per_device_eval_batch_size": 3,
        "use_cpu": True,
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_total_limit": None,
        "load_best_model_at_end": False,
        **settings,
    }
    return XMTCTrainer(
        BertXMLForXMTC(config),
        XMTCTrainingArguments(output_dir=str(output), **chosen),
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )


def observe(trainer: XMTCTrainer, data) -> dict:
    """What two processes and one must agree on."""
    output = trainer.predict(data["test"])
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    metrics = {name: value for name, value in output.metrics.items() if "@" in name}
    scores, labels = (torch.from_numpy(array) for array in output.predictions)
    return {"norms": norms, "losses": losses, "metrics": metrics, "scores": scores, "labels": labels}


def main(folder: Path) -> None:
    data, tokenizer = read(folder)
    for name, (model_settings, settings) in CASES.items():
        output = folder / name
        resumed = settings.get("label_optimizer", "").endswith("_in_backward") or name in ("adamw", "propensity, averaged")
        settings = {"per_device_train_batch_size": 2, "shard_labels": True, **settings}
        if not (resumed or name == "clipped"):
            settings["save_strategy"] = "no"
        trainer = make_trainer(output, data, tokenizer, model_settings, **settings)
        trainer.train()
        trainer.save_model()
        if name == "clipped":
            save_as_older_releases_do(trainer, folder / "older")
        torch.save(observe(trainer, data), output / f"{trainer.args.process_index}.pt")
        if resumed:
            resume(folder / f"{name}, resumed", trainer, data, tokenizer, model_settings, settings)
    found = weights_of_labels(folder / "weights", data, tokenizer)
    (folder / "weights").mkdir(exist_ok=True)
    torch.save(found, folder / "weights" / f"{trainer.args.process_index}.pt")


def save_as_older_releases_do(trainer: XMTCTrainer, output: Path) -> None:
    """transformers 5.13 calls `_save` in the writing process alone."""

    def save_model(trainer, output_dir=None, _internal_call=False):
        if trainer.args.should_save:
            trainer._save(output_dir)

    newer, Trainer.save_model = Trainer.save_model, save_model
    trainer.save_model(str(output))
    Trainer.save_model = newer


def weights_of_labels(output: Path, data, tokenizer) -> dict[str, torch.Tensor]:
    """What the trainer makes of label weights that are set for all labels, and for all but the last one."""
    found = {}
    for name, missing in (("all set", 0), ("one missing", 1)):
        trainer = make_trainer(output, data, tokenizer, {"label_loss": "propensity_bce"}, shard_labels=True)
        weights = trainer.model.label_head.positive_weight
        weights.fill_(2.0)
        if missing and trainer.model.label_head.shard.stop == trainer.model.config.num_labels:
            weights[-1] = 0.0
        set_missing_label_weights(trainer.model, trainer.evaluation.inverse_propensity[:-1])
        found[name] = weights.clone()
    return found


def resume(output: Path, whole: XMTCTrainer, data, tokenizer, model_settings: dict, settings: dict) -> None:
    """Train the same in two parts, and compare."""
    parts = make_trainer(output, data, tokenizer, model_settings, (InterruptAt(8),), **settings)
    with contextlib.suppress(Interrupted):
        parts.train()
    resumed = make_trainer(output, data, tokenizer, model_settings, **settings)
    resumed.train(resume_from_checkpoint=True)
    weights, expected = full_state_dict(resumed.model), full_state_dict(whole.model)
    differences = {name: (weights[name] - expected[name]).abs().max().item() for name in expected}
    torch.save(differences, output / f"{whole.args.process_index}.pt")

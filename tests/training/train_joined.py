"""A few steps on made-up documents, alone or joined with another process, for `test_label_optimizers_in_processes.py`."""

import os
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import save_file

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, XMTCTrainer, XMTCTrainingArguments

OPTIONS = {
    "sgd_in_backward": {},
    "rowwise_in_backward": {"sparse_embeddings": True},
    "adam_in_backward": {},
    "rowwise": {},
}


def make_model(rank: int) -> BertXMLForXMTC:
    torch.manual_seed(rank)  # processes that start apart must be made equal by training
    return BertXMLForXMTC(
        BertXMLConfig(
            vocab_size=30,
            num_labels=50,
            num_cls_tokens=2,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            cornet_context_size=4,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout=0.0,
            label_block_size=16,
        )
    )


def make_data() -> Dataset:
    random = torch.Generator().manual_seed(0)
    words = torch.randint(1, 27, (12, 5), generator=random)
    documents = torch.cat([torch.tensor([[28, 29]]).expand(12, 2), words], dim=1)
    labels = torch.randint(0, 50, (12, 3), generator=random)
    return Dataset.from_dict({"input_ids": documents.tolist(), "labels": labels.tolist()})


def train(
    folder: Path, batch_size: int, rank: int, label_optimizer: str, left_out: int = 0, spoilt: bool = False, **settings
) -> BertXMLForXMTC:
    """Three steps; of every batch ``left_out`` documents are dropped, and features may be spoilt to be no numbers."""

    def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
        rows = rows[: len(rows) - left_out]
        return {key: torch.tensor([row[key] for row in rows]) for key in ("input_ids", "labels")}

    model = make_model(rank).double()  # rounding differs from CPU to CPU
    if spoilt:
        features = model.label_head.features
        model.label_head.features = lambda hidden: features(hidden) * float("nan")
    arguments = XMTCTrainingArguments(
        str(folder / "run"),
        use_cpu=True,
        per_device_train_batch_size=batch_size,
        max_steps=3,
        learning_rate=0.05,
        adam_epsilon=1e-3,  # so that rounding is not blown up to a whole step
        max_grad_norm=0.0,
        warmup_steps=0,
        label_optimizer=label_optimizer,
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
        disable_tqdm=True,
        **settings,
    )
    XMTCTrainer(model, arguments, train_dataset=make_data(), data_collator=collate).train()
    return model


def main(folder: Path, batch_size: int) -> None:
    """Write the models, and what each of two processes refuses, into a folder."""
    rank, job = int(os.environ.get("RANK", "0")), (folder, batch_size)
    folder.mkdir(exist_ok=True)
    for name, settings in OPTIONS.items():
        save_file(train(*job, rank, name, **settings).state_dict(), folder / f"{name}.{rank}.safetensors")
    if "RANK" in os.environ:
        for name, error, settings in (
            ("unequal", ValueError, {"left_out": rank}),
            ("not_finite", FloatingPointError, {"spoilt": rank == 1}),
        ):
            try:
                train(*job, rank, "sgd_in_backward", **settings)
            except error as raised:
                (folder / f"{name}.{rank}.txt").write_text(str(raised), encoding="utf-8")

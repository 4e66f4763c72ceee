"""What two processes that share the labels of a model compute; a part of `in_two_processes.py` for `test_sharded_label_head.py`.

Each process takes its own documents of `documents`, and writes what it gets into ``<folder>/<rank>.pt``.
"""

import itertools
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.training.sharded_label_head import LabelShard, full_state_dict, shard_labels

NUM_LABELS = 11  # 5 in the first process, 6 in the second
DOCUMENTS = [slice(0, 3), slice(3, 8)]  # of each process
WIDTHS = [2, 4]  # of each process's labels
CANDIDATE_WIDTHS = [5, 3]
LOSSES = {"bce": {}, "propensity_bce": {}, "asymmetric": {"gamma_positive": 1.0, "gamma_negative": 2.0, "margin": 0.1}}
# Blocks of CorNet, loss, logits kept for the next pass or computed again, precision.
CASES = list(itertools.product((0, 2), LOSSES, ("kept", "recomputed"), (torch.float64, torch.float32)))


class LinearModel(XMTCPreTrainedModel):
    """A family whose encoder is one layer."""

    def __init__(self, config: XMTCConfig):
        super().__init__(config)
        self.encoder = nn.Linear(4, 6)
        self.build_label_scorer(6, bottleneck_size=5)
        self.post_init()

    def forward(self, hidden: Tensor, labels: Tensor | None = None, top_k: int | None = None):
        return self.compute_output(self.encoder(hidden), labels, top_k)


class Descent:
    """Gradient descent in the backward pass."""

    def __init__(self, model: LinearModel, name: str):
        self.model, self.name = model, name

    def agree(self, finite):
        return finite

    def begin(self) -> None:
        self.matrix = self.model.label_matrices()[self.name]

    @torch.no_grad()
    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None:
        self.matrix.rows[start:stop] -= 0.5 * left @ right
        if self.matrix.bias is not None:
            self.matrix.bias[start:stop] -= 0.5 * left.sum(1)


def make_model(cornet_num_blocks: int, loss: str = "bce", memory: str = "kept", dtype=torch.float64, seed: int = 0):
    torch.manual_seed(seed)
    config = XMTCConfig(
        num_labels=NUM_LABELS,
        cornet_num_blocks=cornet_num_blocks,
        cornet_context_size=3,
        label_loss=loss,
        label_loss_settings=LOSSES[loss],
        label_block_size=2,
        label_memory_mib=64.0 if memory == "kept" else 0.0,
    )
    model = LinearModel(config).to(dtype)
    if loss == "propensity_bce":
        model.label_head.positive_weight.copy_(torch.linspace(1, 4, NUM_LABELS))
    return model


def documents(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Hidden states (8, 4) and labels (8, 4); the first three documents have at most two."""
    hidden = torch.randn(8, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    labels = [
        [0, 10],
        [4, -100],
        [-100, -100],
        [5, 5, 1, 9],
        [-100] * 4,
        [10, 2, 3, 8],
        [7, -100, -100, -100],
        [6, 4, 0, -100],
    ]
    return hidden, torch.tensor([row + [-100] * (4 - len(row)) for row in labels])


def candidates() -> Tensor:
    """(8, 5); those of the last five documents have at most three labels."""
    rows = [
        [0, 5, 10, -100, 4],
        [1, 2, 3, 4, -100],
        [9, 8, 7, 6, 5],
        [10, 0, 5],
        [-100, -100, -100],
        [4, 6, -100],
        [3, 2, 1],
        [9, 10, 8],
    ]
    return torch.tensor([row + [-100] * (5 - len(row)) for row in rows])


def train_in_backward(model: nn.Module, inner: LinearModel, hidden: Tensor, labels: Tensor) -> list[Tensor]:
    """Losses of three steps of descent on everything."""
    inner.update_labels_in_backward({name: Descent(inner, name) for name in inner.label_matrices()})
    losses = []
    for _ in range(3):
        inner.zero_grad()
        loss = model(hidden, labels, 0).loss
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for parameter in inner.parameters():
                if parameter.grad is not None:
                    parameter -= 0.5 * parameter.grad
    inner.update_labels_in_backward(None)
    return losses


def predict(model: LinearModel, hidden: Tensor, labels: Tensor, ids: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        few, many, every = (model(hidden, labels, top_k) for top_k in (3, 20, None))
        features = model.encoder(hidden)
        return {
            "few_scores": few.top_scores,
            "few_labels": few.top_labels,
            "few_loss": few.loss,
            "many_scores": many.top_scores,
            "many_labels": many.top_labels,
            "logits": every.logits,
            "loss": every.loss,
            "candidates": model.label_head.scores_for(features, ids),
            "refined": model.label_head.scores_for(features, ids, model.cornet),
        }


def with_ties(model: LinearModel) -> LinearModel:
    """Labels 2, 4, 6 and 9 score the same, best of all."""
    with torch.no_grad():
        output = model.label_head.output
        output.weight[[2, 4, 6, 9]] = output.weight[2].clone()
        output.bias[[2, 4, 6, 9]] = 30.0
    return model


def refused(call) -> str:
    """Message of the error that a call raises."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return "not refused"


def main(folder: Path) -> None:
    rank = dist.get_rank()
    mine, width = DOCUMENTS[rank], WIDTHS[rank]
    found = {}
    for case in CASES:
        model = make_model(*case, seed=rank)  # the model is that of the first process
        shard_labels(model)
        hidden, labels = documents(case[-1])
        hidden = hidden[mine].requires_grad_()
        joined = nn.parallel.DistributedDataParallel(model)
        loss = joined(hidden, labels[mine, :width], 0).loss
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        found[str(case)] = {"loss": loss.detach(), "hidden": hidden.grad, "gradients": gradients}
    hidden, labels = (tensor[mine] for tensor in documents())
    for blocks in (0, 2):
        model = with_ties(make_model(blocks))
        shard_labels(model)
        found[f"predictions {blocks}"] = predict(
            model, hidden, labels[:, :width], candidates()[mine, : CANDIDATE_WIDTHS[rank]]
        )
        model = make_model(blocks, "propensity_bce")
        shard_labels(model)
        found[f"losses {blocks}"] = train_in_backward(
            nn.parallel.DistributedDataParallel(model), model, hidden, labels[:, :width]
        )
        found[f"trained {blocks}"] = full_state_dict(model)
        found[f"trained in one {blocks}"] = full_state_dict(model, to_rank=1)
    weights = full_state_dict(model)
    if rank == 0:
        model.save_pretrained(folder / "model", state_dict=weights)
    found["refused"] = {
        "again": refused(lambda: shard_labels(model)),
        "too few labels": refused(lambda: LabelShard(1)),
        "resized": refused(lambda: model.resize_labels(3)),
        "saved": refused(lambda: model.save_pretrained(folder / "part")),
        "logits": refused(lambda: model(hidden, labels[:, :width])),
    }
    torch.save(found, folder / f"{rank}.pt")

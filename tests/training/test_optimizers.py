"""Several optimizers as one, the row-wise rule on stored gradients, and lazy Adam against the authors' stored steps."""

import io
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hf_xmtc.models.label_block_loss import LabelMatrix
from hf_xmtc.training import (
    AdamUpdate,
    CompositeOptimizer,
    LazyAdam,
    RowwiseAdam,
    RowwiseUpdate,
    SGDUpdate,
    UncorrectedEpsilonAdam,
)
from hf_xmtc.training.optimizers import InBackwardOptimizer

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def matrices_of(output: nn.Linear, to_context: nn.Linear) -> dict[str, LabelMatrix]:
    return {
        "output": LabelMatrix(output.weight, output.bias, [output.weight, output.bias]),
        "to_context": LabelMatrix(to_context.weight.t(), None, [to_context.weight]),
    }


def make_layers() -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(0)
    return nn.Linear(4, 6), nn.Linear(6, 6)  # a square to_context: its shape does not show that columns are labels


def through(state: dict) -> dict:
    """Written and read as the Trainer does it."""
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


# ---- rowwise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient_factor", [1.0, 6.0])
def test_rowwise_on_stored_gradients_equals_rowwise_in_backward(gradient_factor):
    settings = {"lr": 0.1, "weight_decay": 0.1, "beta2": 0.9, "eps": 1e-3}
    stored, updated = make_layers(), make_layers()
    optimizer = RowwiseAdam(matrices_of(*stored), **settings, gradient_factor=gradient_factor)
    updates = {
        name: RowwiseUpdate(lambda name=name: matrices_of(*updated)[name], dict(settings), gradient_factor)
        for name in matrices_of(*updated)
    }
    for _ in range(3):
        for name, matrix in matrices_of(*stored).items():
            left, right = torch.randn(6, 3), torch.randn(3, matrix.rows.shape[1])
            weight, *bias = matrix.parameters
            weight.grad = left @ right if name == "output" else (left @ right).t().contiguous()
            for parameter in bias:
                parameter.grad = left.sum(1)
            updates[name].begin()
            updates[name](0, 6, left, right)
        optimizer.step()
    for first, second in zip(stored, updated, strict=True):
        torch.testing.assert_close(first.weight, second.weight)
        torch.testing.assert_close(first.bias, second.bias)


def test_rowwise_state_keeps_its_type_when_loaded():
    def steps(layers, optimizer, seeds):
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            for layer in layers:
                layer.weight.grad = torch.randn(layer.weight.shape, generator=generator).bfloat16()
                layer.bias.grad = torch.randn(layer.bias.shape, generator=generator).bfloat16()
            optimizer.step()

    def make():
        layers = [layer.bfloat16() for layer in make_layers()]
        return layers, RowwiseAdam(matrices_of(*layers), lr=0.1)

    layers, optimizer = make()
    steps(layers, optimizer, [1, 2])
    others, resumed = make()
    for other, layer in zip(others, layers, strict=True):
        other.load_state_dict(layer.state_dict())
    resumed.load_state_dict(through(optimizer.state_dict()))
    assert resumed.state[others[0].weight]["exp_avg_sq"].dtype == torch.float32
    steps(layers, optimizer, [3, 4])
    steps(others, resumed, [3, 4])
    assert torch.equal(others[0].weight, layers[0].weight) and torch.equal(others[1].weight, layers[1].weight)


# ---- several as one ------------------------------------------------------------------------------------------------------


class Everything:
    """A table with sparse gradients, a body on AdamW, and two label matrices updated with made-up gradients."""

    def __init__(self, rule, settings):
        torch.manual_seed(0)
        self.table, self.body = nn.Embedding(5, 4, sparse=True), nn.Linear(4, 4)
        self.layers = make_layers()
        self.updates = {
            name: rule(
                lambda name=name: matrices_of(*self.layers)[name],
                {"params": matrix.parameters, "lr": 0.1, "weight_decay": 0.0, **settings},
            )
            for name, matrix in matrices_of(*self.layers).items()
        }
        self.optimizer = CompositeOptimizer(
            {
                "rest": torch.optim.AdamW(self.body.parameters(), lr=0.1, fused=True),
                "embeddings": LazyAdam(self.table.parameters(), lr=0.1),
                "labels": InBackwardOptimizer(self.updates),
            }
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))

    def step(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.body(self.table(torch.tensor([seed % 5, 2]))).square().sum().backward()
        for update in self.updates.values():
            update.begin()
            width = update.find().rows.shape[1]
            update(0, 6, torch.randn(6, 3, generator=generator), torch.randn(3, width, generator=generator))
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()

    def weights(self) -> list[torch.Tensor]:
        return [p for module in (self.table, self.body, *self.layers) for p in module.parameters()]


IN_BACKWARD = pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (SGDUpdate, {}),
        (RowwiseUpdate, {"beta2": 0.99, "eps": 1e-8}),
        (AdamUpdate, {"betas": (0.9, 0.99), "eps": 1e-8}),
    ],
    ids=["sgd", "rowwise", "adam"],
)


@IN_BACKWARD
def test_state_round_trip_goes_on_the_same(rule, settings):
    whole, resumed = Everything(rule, settings), Everything(rule, settings)
    for seed in (1, 2):
        whole.step(seed)
    with torch.no_grad():
        for ours, theirs in zip(resumed.weights(), whole.weights(), strict=True):
            ours.copy_(theirs)
    resumed.optimizer.load_state_dict(through(whole.optimizer.state_dict()))
    resumed.scheduler.load_state_dict(whole.scheduler.state_dict())
    for seed in (3, 4):
        whole.step(seed)
        resumed.step(seed)
    for ours, theirs in zip(resumed.weights(), whole.weights(), strict=True):
        assert torch.equal(ours, theirs)


@IN_BACKWARD
def test_one_schedule_moves_all_rates_even_after_loading(rule, settings):
    everything = Everything(rule, settings)
    everything.optimizer.load_state_dict(everything.optimizer.state_dict())  # as accelerate does when it prepares one
    everything.step(1)
    groups = [group for part in everything.optimizer.parts.values() for group in part.param_groups]
    assert [group["lr"] for group in groups] == pytest.approx([0.05] * 4)
    assert all(seen is own for seen, own in zip(everything.optimizer.param_groups, groups, strict=True))
    assert all(update.group["lr"] == pytest.approx(0.05) for update in everything.updates.values())


def test_zero_grad_reaches_every_part():
    everything = Everything(SGDUpdate, {})
    everything.body(everything.table(torch.tensor([1]))).sum().backward()
    everything.optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in everything.weights())


def test_the_state_of_other_optimizers_is_refused():
    everything = Everything(SGDUpdate, {})
    alone = torch.optim.AdamW(everything.body.parameters())
    with pytest.raises(
        ValueError, match="that of a single optimizer, but this run trains with rest, embeddings, labels. Resume"
    ):
        everything.optimizer.load_state_dict(alone.state_dict())
    state = everything.optimizer.state_dict()
    del state["parts"]["labels"]["state"]["to_context"]
    with pytest.raises(
        ValueError, match="label matrices output, but the model has output, to_context. Was cornet_num_blocks"
    ):
        everything.optimizer.load_state_dict(state)


# ---- Adam of the authors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dense_sparse_adam", "dense_sparse_adam_wd"])
def test_equals_the_authors_optimizer(name):
    # dense_sparse_adam*: four steps of `DenseSparseAdam` of the AttentionXML repository on given gradients, one table and one
    # dense matrix; without and with weight decay.
    golden = load_file(GOLDEN / f"{name}.safetensors")
    settings = json.loads((GOLDEN / f"{name}.json").read_text())["config"]
    settings["betas"] = tuple(settings["betas"])
    table, dense = nn.Parameter(golden["sparse_param.0"].clone()), nn.Parameter(golden["dense_param.0"].clone())
    lazy, adam = LazyAdam([table], **settings), UncorrectedEpsilonAdam([dense], **settings)
    for step in range(1, 5):
        rows, values = golden[f"sparse_grad_rows.{step}"], golden[f"sparse_grad_values.{step}"]
        table.grad = torch.sparse_coo_tensor(rows[None], values, table.shape, check_invariants=True)
        dense.grad = golden[f"dense_grad.{step}"].clone()
        lazy.step()
        adam.step()
        torch.testing.assert_close(table.detach(), golden[f"sparse_param.{step}"], rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(dense.detach(), golden[f"dense_param.{step}"], rtol=1e-6, atol=1e-7)
        for moment in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(lazy.state[table][moment], golden[f"sparse_{moment}.{step}"], rtol=1e-6, atol=1e-9)


def test_epsilon_counts_for_more_in_early_steps_where_gradients_are_small():
    # A gradient of 1e-8 as epsilon: √v = 1e-8 · √0.001 in the first step, so it is √0.001 / (√0.001 + 1) of a learning rate, in
    # torch's AdamW 1/2.
    steps = {}
    for optimizer_class in (UncorrectedEpsilonAdam, torch.optim.AdamW):
        weight = nn.Parameter(torch.zeros(1))
        optimizer = optimizer_class([weight], lr=1.0, weight_decay=0.0)
        weight.grad = torch.tensor([1e-8])
        optimizer.step()
        steps[optimizer_class] = -weight.item()
    assert steps[UncorrectedEpsilonAdam] == pytest.approx(0.001**0.5 / (0.001**0.5 + 1), rel=1e-4)
    assert steps[torch.optim.AdamW] == pytest.approx(0.5, rel=1e-4)


def test_rows_outside_the_batch_rest_and_those_in_it_decay():
    table = nn.Embedding(4, 2, padding_idx=0, sparse=True)
    with torch.no_grad():
        table.weight.fill_(1.0)
    optimizer = LazyAdam(table.parameters(), lr=0.1, weight_decay=0.5)
    for words in ([0, 1, 1], [0, 2]):
        table(torch.tensor(words)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    # A first step of Adam is one learning rate, then decay: (1 - 0.1) · (1 - 0.1 · 0.5). The padding row has no gradient.
    torch.testing.assert_close(table.weight[[0, 1, 3], 0].detach(), torch.tensor([1.0, 0.855, 1.0]))
    assert 0.855 < table.weight[2, 0] < 1.0  # its first step is the table's second, and the correction is the table's

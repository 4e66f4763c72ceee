"""Every in-backward rule against its dense formula in float64, for any blocks, on dense and strided rows, with and without bias."""

import copy

import pytest
import torch
from torch import nn

from hf_xmtc.models.label_block_loss import LabelMatrix
from hf_xmtc.training import AdamUpdate, RowwiseUpdate, SGDUpdate, label_updates

NUM_LABELS, WIDTH, DOCUMENTS, STEPS = 13, 5, 3, 4
GROUPS = {
    SGDUpdate: {"lr": 0.3, "weight_decay": 0.1},
    RowwiseUpdate: {"lr": 0.1, "weight_decay": 0.1, "beta2": 0.9, "eps": 1e-3},
    AdamUpdate: {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3},
}


class Case:
    """A matrix, as output layer (dense rows and a bias) or as CorNet's to_context (columns of a parameter)."""

    def __init__(self, strided: bool, dtype=torch.float64):
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(NUM_LABELS, WIDTH, generator=generator, dtype=torch.float64)
        self.weight = nn.Parameter((weight.t().contiguous() if strided else weight).to(dtype))
        self.bias = None if strided else nn.Parameter(torch.randn(NUM_LABELS, generator=generator).to(dtype))
        self.strided = strided
        self.factors = [
            (
                torch.randn(NUM_LABELS, DOCUMENTS, generator=generator, dtype=torch.float64).to(dtype),
                torch.randn(DOCUMENTS, WIDTH, generator=generator, dtype=torch.float64).to(dtype),
            )
            for _ in range(STEPS)
        ]

    def matrix(self) -> LabelMatrix:
        rows = self.weight.t() if self.strided else self.weight
        return LabelMatrix(rows, self.bias, [self.weight] if self.strided else [self.weight, self.bias])

    def make_update(self, rule, **changes):
        factor = changes.pop("gradient_factor", 1.0)
        return rule(self.matrix, {"params": self.matrix().parameters, **GROUPS[rule], **changes}, factor)

    def run(self, update, block_size: int, steps=range(STEPS)) -> None:
        for step in steps:
            left, right = self.factors[step]
            update.begin()
            for start in range(0, NUM_LABELS, block_size):
                stop = min(start + block_size, NUM_LABELS)
                before = left[start:stop].clone(), right.clone()
                update(start, stop, left[start:stop], right)
                assert torch.equal(left[start:stop], before[0]) and torch.equal(right, before[1])  # others read them too

    def wide(self) -> torch.Tensor:
        """Rows and bias side by side, in float64."""
        rows = self.matrix().rows.detach().double()
        return rows if self.bias is None else torch.cat([rows, self.bias.detach().double()[:, None]], dim=1)


def dense_formula(rule, case: Case, group: dict, gradient_factor: float = 1.0, rates=None) -> torch.Tensor:
    """The rule with plain tensors: rows and bias side by side, the gradient formed; what `case` should become."""
    weight = case.wide().clone()
    decay = torch.full_like(weight, group["weight_decay"])
    if case.bias is not None:
        decay[:, -1] = 0.0
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, (left, right) in enumerate(case.factors, start=1):
        rate = group["lr"] if rates is None else rates[step - 1]
        left, right = left.double(), right.double()
        gradient = left @ right
        if case.bias is not None:
            gradient = torch.cat([gradient, left.sum(1, keepdim=True)], dim=1)
        gradient = gradient * gradient_factor
        weight = weight - rate * decay * weight
        if rule is SGDUpdate:
            weight = weight - rate * gradient
        elif rule is RowwiseUpdate:
            beta2 = group["beta2"]
            square = beta2 * square + (1 - beta2) * gradient.square().mean(dim=1, keepdim=True)
            weight = weight - rate * gradient / ((square / (1 - beta2**step)).sqrt() + group["eps"])
        else:
            beta1, beta2 = group["betas"]
            mean = beta1 * mean + (1 - beta1) * gradient
            square = beta2 * square + (1 - beta2) * gradient.square()
            corrected = mean / (1 - beta1**step)
            weight = weight - rate * corrected / ((square / (1 - beta2**step)).sqrt() + group["eps"])
    return weight


RULES = pytest.mark.parametrize("rule", [SGDUpdate, RowwiseUpdate, AdamUpdate])
STRIDED = pytest.mark.parametrize("strided", [False, True], ids=["rows", "columns"])


@pytest.fixture(params=[0.0, 10.0], ids=["formed", "factors"], autouse=True)
def forming(request, monkeypatch):
    """The row-wise rule both with and without the gradient of a block; the others form it always or never."""
    monkeypatch.setattr("hf_xmtc.training.label_updates.FORMED", request.param)


@RULES
@STRIDED
def test_equals_the_dense_formula_for_any_blocks(rule, strided):
    for block_size in (1, 4, 13, 50):
        case = Case(strided)
        expected = dense_formula(rule, case, GROUPS[rule])
        case.run(case.make_update(rule), block_size)
        torch.testing.assert_close(case.wide(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("tile_numbers", [1, 8, 30])
def test_tiles_of_strided_rows_change_nothing(monkeypatch, tile_numbers):
    monkeypatch.setattr(label_updates, "TILE_ELEMENTS", tile_numbers)
    case = Case(strided=True)
    expected = dense_formula(AdamUpdate, case, GROUPS[AdamUpdate])
    case.run(case.make_update(AdamUpdate), block_size=4)
    torch.testing.assert_close(case.wide(), expected)


@RULES
@STRIDED
def test_a_gradient_factor_is_as_if_all_gradients_were_multiplied(rule, strided):
    case = Case(strided)
    expected = dense_formula(rule, case, GROUPS[rule], gradient_factor=50.0)
    # The given gradients are 50 times too small, as those of loss_reduction="mean" with 50 labels are.
    case.run(case.make_update(rule, gradient_factor=50.0), block_size=4)
    torch.testing.assert_close(case.wide(), expected, rtol=1e-10, atol=1e-12)


@RULES
@STRIDED
def test_the_learning_rate_is_read_anew_in_every_step(rule, strided):
    case, rates = Case(strided), [0.4, 0.2, 0.0, 0.1]
    expected = dense_formula(rule, case, GROUPS[rule], rates=rates)
    update = case.make_update(rule)
    for step, rate in enumerate(rates):
        update.group["lr"] = rate
        case.run(update, 4, steps=[step])
    torch.testing.assert_close(case.wide(), expected, rtol=1e-10, atol=1e-12)


@RULES
@STRIDED
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_narrow_weights_have_wide_state(rule, strided, dtype, tolerance):
    case = Case(strided, dtype)
    expected = dense_formula(rule, case, GROUPS[rule])
    update = case.make_update(rule)
    case.run(update, block_size=4)
    torch.testing.assert_close(case.wide(), expected, rtol=tolerance, atol=tolerance)
    assert {value.dtype for value in update.state.values() if isinstance(value, torch.Tensor)} <= {torch.float32}


@STRIDED
def test_state_sizes(strided):
    case = Case(strided)
    sizes = {}
    for rule in (SGDUpdate, RowwiseUpdate, AdamUpdate):
        update = case.make_update(rule)
        case.run(update, 4, steps=[0])
        sizes[rule] = sum(value.numel() for value in update.state.values() if isinstance(value, torch.Tensor))
    assert sizes == {SGDUpdate: 0, RowwiseUpdate: NUM_LABELS, AdamUpdate: 2 * case.wide().numel()}


@RULES
@STRIDED
def test_versions_of_the_weights_move(rule, strided):
    case = Case(strided)
    before = case.weight._version
    case.run(case.make_update(rule), 50, steps=[0])
    assert case.weight._version > before  # so that autograd notices a second use of the old weights


@RULES
def test_weights_whose_storage_is_exchanged_are_found_again(rule):
    case = Case(strided=False)
    expected = dense_formula(rule, case, GROUPS[rule])
    update = case.make_update(rule)
    case.run(update, 4, steps=[0, 1])
    case.weight.data, old = case.weight.data.clone(), case.weight.data
    before = old.clone()
    case.run(update, 4, steps=[2, 3])
    torch.testing.assert_close(case.wide(), expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(old, before)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-4])
def test_a_row_whose_gradient_cancels_out_takes_no_wild_first_step(spread):
    case = Case(strided=False, dtype=torch.float32)
    left, right = torch.full((NUM_LABELS, 2), 1e3), torch.full((2, WIDTH), 1 / 3)
    left[:, 1] = -1e3
    right[1] += spread * torch.arange(WIDTH)  # nearly the same document twice, with opposite signs
    case.factors = [(left, right)] * STEPS
    before = case.wide()
    case.run(case.make_update(RowwiseUpdate, lr=1.0, weight_decay=0.0, eps=1e-16), 4, steps=[0])
    assert (case.wide() - before).abs().max() <= 3.0  # an Adam-like step is lr · √d for one number of d at most


def test_a_copied_model_does_not_copy_the_updates():
    update = Case(strided=False).make_update(AdamUpdate)
    assert copy.deepcopy({"label_head.output": update})["label_head.output"] is update

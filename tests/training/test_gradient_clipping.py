"""Adaptive clipping against a stored run of the authors' training loop, and by hand."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hf_xmtc.training import AdaptiveGradientClipping
from hf_xmtc.training.gradient_clipping import clip_sparse_and_dense

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def clip(clipping: AdaptiveGradientClipping, parameter: nn.Parameter) -> float:
    return clipping.clip(lambda norm: nn.utils.clip_grad_norm_([parameter], norm))


def test_equals_the_authors_training_loop():
    # gradient_clip.*: 14 steps of the AttentionXML repository's `Model.clip_gradient` on given gradients of 3 numbers.
    golden = load_file(GOLDEN / "gradient_clip.safetensors")
    settings = json.loads((GOLDEN / "gradient_clip.json").read_text())["config"]
    clipping = AdaptiveGradientClipping(settings["gradient_clip_value"], settings["queue_maxlen"])
    parameter = nn.Parameter(torch.zeros(3))
    for step, gradient in enumerate(golden["grad_in"]):
        assert clipping.threshold == pytest.approx(golden["threshold"][step].item())
        parameter.grad = gradient.clone()
        assert clip(clipping, parameter) == pytest.approx(gradient.norm().item(), rel=1e-6)
        torch.testing.assert_close(parameter.grad, golden["grad_out"][step], rtol=1e-5, atol=1e-6)
        remembered = sorted(norm for norm in golden["queue_after"][step].tolist() if norm == norm)
        assert sorted(clipping.norms) == pytest.approx(remembered)


def test_nothing_is_clipped_while_the_starting_infinity_is_remembered():
    clipping = AdaptiveGradientClipping()
    parameter = nn.Parameter(torch.zeros(1))
    kept = []
    for _ in range(6):
        parameter.grad = torch.tensor([100.0])
        clip(clipping, parameter)
        kept.append(round(parameter.grad.item(), 3))
    assert kept == [100.0, 100.0, 100.0, 100.0, 100.0, 5.0]  # then 5 · max(1, 1, 1, 1, 1)


def test_state_survives_json_and_goes_on_the_same():
    first = AdaptiveGradientClipping()
    for norm in (0.5, 0.25, 3.0):
        first.clip(lambda _, norm=norm: norm)
    second = AdaptiveGradientClipping()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert list(second.norms) == list(first.norms) == [float("inf"), 0.5, 0.25, 1.0]
    for norm in (0.1, 0.2, 0.3, 0.4):
        first.clip(lambda _, norm=norm: norm)
        second.clip(lambda _, norm=norm: norm)
    assert second.threshold == first.threshold == 5.0
    assert second.norms.maxlen == 5


def test_a_nan_norm_is_not_remembered():
    clipping = AdaptiveGradientClipping(memory=1)
    clipping.clip(lambda _: 0.5)
    clipping.clip(lambda _: float("nan"))
    assert clipping.threshold == 2.5


@pytest.mark.parametrize("max_norm", [0.5, 100.0, math.inf])
def test_sparse_gradients_are_clipped_like_dense_ones(max_norm):
    def gradients(sparse: bool) -> list[nn.Parameter]:
        torch.manual_seed(0)
        table, linear = nn.Embedding(5, 2, sparse=sparse), nn.Linear(2, 3)
        linear(table(torch.tensor([1, 3, 3]))).square().sum().backward()  # row 3 twice
        return [table.weight, *linear.parameters(), nn.Parameter(torch.zeros(1))]  # the last has no gradient

    sparse, dense = gradients(True), gradients(False)
    assert sparse[0].grad.is_sparse
    norm = clip_sparse_and_dense(sparse, max_norm)
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(dense, max_norm))
    for ours, theirs in zip(sparse[:-1], dense[:-1], strict=True):
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad)


@pytest.mark.parametrize(
    "state", [[1.0], {}, {"norms": []}, {"norms": "x"}, {"norms": ["1"]}, {"norms": [float("nan")]}, {"norms": [-1.0]}]
)
def test_a_damaged_state_is_refused(state):
    with pytest.raises(ValueError, match="The state of gradient clipping is .* Is the checkpoint damaged"):
        AdaptiveGradientClipping().load_state_dict(state)

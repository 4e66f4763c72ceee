"""LACO's cross attention: a worked example, even kernels, and blocks of labels against all at once."""

import pytest
import torch
from torch import nn

from hf_xmtc.models import label_scorer
from hf_xmtc.models.laco_cross_attention import CrossAttention


@torch.no_grad()
def test_the_worked_example_of_the_cross_attention():
    attention = CrossAttention((1, 1), 1)
    attention.conv.weight.fill_(1.0)
    attention.conv.bias.zero_()
    document, read = torch.tensor([[[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]]), torch.ones(1, 3, dtype=torch.bool)
    labels = torch.tensor([[[1.0, 0.0], [0.0, -1.0]]])
    found = attention(document, read, labels)
    torch.testing.assert_close(found.weights, torch.tensor([[0.537050, 0.761594, 0.0]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(found.features, torch.tensor([[1.083824, 0.429640]]), rtol=0, atol=1e-6)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(found.features, torch.tensor([[1.0, 0.0]]), reduction="sum")
    assert loss.item() == pytest.approx(1.222265, abs=1e-6)
    padded = torch.cat([document, torch.tensor([[[0.6, 0.8]]])], dim=1)
    features = attention(padded, torch.tensor([[True, True, True, False]]), labels).features
    torch.testing.assert_close(features, found.features, rtol=0, atol=1e-6)


@torch.no_grad()
def test_an_even_kernel_reaches_one_further_behind_than_before():
    attention = CrossAttention((10, 1), 1)
    attention.conv.weight.fill_(1.0)
    attention.conv.bias.zero_()
    document = torch.zeros(1, 20, 1)
    document[0, 10] = 1.0
    weights = attention(document, torch.ones(1, 20, dtype=torch.bool), torch.ones(1, 1, 1)).weights
    assert weights[0].nonzero().flatten().tolist() == list(range(5, 15))


@torch.no_grad()
def test_an_even_kernel_reaches_one_label_further_behind_than_before():
    attention = CrossAttention((1, 10), 1)
    nn.init.ones_(attention.conv.weight), nn.init.zeros_(attention.conv.bias)
    # One token; the label at place 10 alone is near it. The largest over labels hides where, so the map itself is asked.
    similarity = torch.zeros(1, 1, 1, 20)
    similarity[..., 10] = 1.0
    reached = attention.conv(nn.functional.pad(similarity, attention.padding))
    assert reached.flatten().nonzero().flatten().tolist() == list(range(5, 15))


@pytest.mark.parametrize("kernel", [(3, 1), (4, 4)])
@pytest.mark.parametrize("elements", [1, 400, 2**22])
def test_the_cross_attention_by_blocks_of_labels_is_the_dense_one_in_values_and_gradients(monkeypatch, kernel, elements):
    monkeypatch.setitem(label_scorer.BLOCK_ELEMENTS, "cpu", elements)
    torch.manual_seed(0)
    attention = CrossAttention(kernel, 5).double()
    document, labels = torch.randn(3, 7, 4).double(), torch.randn(3, 9, 4).double()
    read = torch.arange(7) < torch.tensor([[7], [4], [1]])
    is_label = torch.arange(9) < torch.tensor([[9], [2], [0]])

    def dense(states, targets):
        values, targets = nn.functional.normalize(states, dim=-1), nn.functional.normalize(targets, dim=-1)
        similarity = (values @ targets.mT) * read[:, :, None] * is_label[:, None]
        answers = attention.conv(nn.functional.pad(similarity[:, None], attention.padding))
        answers = answers.masked_fill(~is_label[:, None, None], float("-inf"))
        weights = answers.amax(dim=(1, 3)).relu().tanh() * read
        return (weights[:, None] @ values)[:, 0]

    found = []
    for by in (lambda *states: attention(states[0], read, states[1], is_label).features, dense):
        inputs = [states.clone().requires_grad_() for states in (document, labels)]
        attention.zero_grad()
        features = by(*inputs)
        (features * torch.arange(4)).sum().backward()
        found.append([features, *(state.grad for state in inputs), *(weight.grad for weight in attention.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert all(bool(part.any()) for part in found[0])  # neither is zero throughout
    with torch.no_grad():
        torch.testing.assert_close(attention(document, read, labels, is_label).features, found[0][0].detach())


def test_in_half_precision_scores_are_the_same_with_and_without_gradients():
    torch.manual_seed(0)
    attention = CrossAttention((3, 1), 8)
    document, labels, read = torch.randn(2, 12, 16), torch.randn(2, 20, 16), torch.ones(2, 12, dtype=torch.bool)
    exact = attention(document, read, labels).weights
    with torch.autocast("cpu", torch.bfloat16):
        trained = attention(document, read, labels).weights
        with torch.no_grad():
            evaluated = attention(document, read, labels).weights
    assert trained.dtype == evaluated.dtype == torch.bfloat16
    torch.testing.assert_close(trained, evaluated, rtol=0.02, atol=0.005)
    torch.testing.assert_close(trained.float(), exact, rtol=0.03, atol=0.01)
    trained.sum().backward()
    assert attention.conv.weight.grad.isfinite().all() and attention.conv.weight.grad.any()

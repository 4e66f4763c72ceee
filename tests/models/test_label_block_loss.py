import itertools

import pytest
import torch
from torch import nn

from hf_xmtc.models.cornet import ACTIVATIONS, CorNet
from hf_xmtc.models.label_head import LabelHead, loss_divisor
from hf_xmtc.models.label_losses import LABEL_LOSSES
from models.dense_scoring import (
    BLOCK_SIZES,
    LABELS,
    MEMORY_MIB,
    NUM_LABELS,
    build_head,
    dense_logits,
    dense_loss,
    documents,
    multi_hot,
    parameters_of,
    take_gradients,
)

REDUCTIONS = {"mean": 4 * NUM_LABELS, "sum_labels": 4, "sum": 1}


def assert_equals_dense(head, cornet, hidden, labels, reduction="mean", scale=1.0, **tolerance) -> None:
    """Loss and all gradients against logits and targets of size documents × labels."""
    tensors = [hidden.requires_grad_(), *parameters_of(head, cornet)]
    loss = head.loss(hidden, labels, reduction, cornet)
    (loss * scale).backward()
    ours = take_gradients(tensors)
    expected = dense_loss(dense_logits(head, hidden, cornet), labels, reduction)
    (expected * scale).backward()
    tolerance = tolerance or {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(loss, expected, **tolerance)
    for gradient, dense in zip(ours, take_gradients(tensors), strict=True):
        torch.testing.assert_close(gradient, dense, **tolerance)


# ---- loss and gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bottleneck_size", [None, 3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_loss_and_gradients_by_blocks_equal_the_dense_ones(block_size, reduction, bottleneck_size):
    head, _ = build_head(block_size=block_size, bottleneck_size=bottleneck_size)
    assert_equals_dense(head, None, documents(), LABELS, reduction, rtol=1e-5, atol=1e-5)
    assert loss_divisor(4, NUM_LABELS, reduction) == REDUCTIONS[reduction]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_loss_and_gradients_through_cornet_equal_the_dense_ones(num_blocks, activation):
    for block_size, memory_mib in itertools.product((1, 3, 11, None), MEMORY_MIB.values()):
        head, cornet = build_head(num_blocks, activation, block_size=block_size, memory_mib=memory_mib)
        assert_equals_dense(head, cornet, documents(), LABELS)


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize("scale", [2.5, -1.0, 0.0, 65536.0])
def test_the_incoming_gradient_scales_all_gradients(num_blocks, scale):
    head, cornet = build_head(num_blocks, block_size=3)
    assert_equals_dense(head, cornet, documents(), LABELS, scale=scale, rtol=1e-5, atol=1e-6 * max(1, abs(scale)))


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize(
    "labels",
    [
        torch.full((4, 2), -100),
        torch.zeros(4, 0, dtype=torch.long),
        torch.arange(NUM_LABELS).expand(4, -1),
        torch.tensor([[3, 3, 3], [3, -100, 3], [0, 0, 10], [10, 0, 10]]),
    ],
    ids=["padding alone", "no column", "every label", "repeated"],
)
def test_unusual_positives_give_the_dense_loss_and_gradients(num_blocks, labels):
    head, cornet = build_head(num_blocks, block_size=3)
    assert_equals_dense(head, cornet, documents(), labels)


@pytest.mark.parametrize("num_blocks", [0, 2])
def test_multi_hot_labels_have_the_loss_of_their_ids(num_blocks):
    head, cornet = build_head(num_blocks, block_size=3)
    expected = head.loss(documents(), LABELS, cornet=cornet)
    for hot in (multi_hot(LABELS), multi_hot(LABELS).bool(), multi_hot(LABELS).half()):
        assert torch.equal(head.loss(documents(), hot, cornet=cornet), expected)


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize(("count", "num_labels"), [(1, NUM_LABELS), (4, 1), (1, 1)])
def test_one_document_and_one_label_are_enough(num_blocks, count, num_labels):
    head, cornet = build_head(num_blocks, num_labels=num_labels, block_size=4)
    labels = torch.tensor([[0], [-100], [0], [0]])[:count]
    assert_equals_dense(head, cornet, documents(count), labels)


@pytest.mark.parametrize("reduction", ["mean", "sum_labels", "sum"])
def test_a_batch_without_documents_has_a_loss_of_nothing_and_no_best_labels(reduction):
    head, cornet = build_head(1, block_size=4)
    labels = torch.zeros(0, 2, dtype=torch.long)
    loss = head.loss(documents(0), labels, reduction, cornet)
    loss.backward()
    assert loss == 0 and not head.output.weight.grad.any()
    scores, label_ids = head.topk(documents(0), 3, cornet)
    assert scores.shape == label_ids.shape == (0, 3)


@pytest.mark.parametrize("num_blocks", [0, 1, 2])
@pytest.mark.parametrize("block_size", [2, None])
@pytest.mark.parametrize("name", LABEL_LOSSES)
def test_gradients_equal_finite_differences(name, block_size, num_blocks):
    settings = {"margin": 0.1} if name == "asymmetric" else None
    head, cornet = build_head(
        num_blocks,
        dtype=torch.float64,
        num_labels=5,
        bottleneck_size=2,
        block_size=block_size,
        loss=name,
        loss_settings=settings,
    )
    scored = _Loss(head, cornet)
    names = [name for name, _ in scored.named_parameters()]
    labels = torch.tensor([[0, 4], [2, -100]])

    def loss(hidden, *parameters):
        return torch.func.functional_call(scored, dict(zip(names, parameters, strict=True)), (hidden, labels))

    hidden = documents(2, torch.float64).requires_grad_()
    values = [parameter.detach().clone().requires_grad_() for parameter in scored.parameters()]
    assert torch.autograd.gradcheck(loss, (hidden, *values))


class _Loss(nn.Module):
    def __init__(self, head: LabelHead, cornet: CorNet | None):
        super().__init__()
        self.head, self.cornet = head, cornet

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.head.loss(hidden, labels, cornet=self.cornet)


@pytest.mark.parametrize("name", LABEL_LOSSES)
@pytest.mark.parametrize("num_blocks", [0, 2])
def test_every_loss_by_blocks_is_that_of_the_full_logits(name, num_blocks):
    head, cornet = build_head(num_blocks, block_size=3, loss=name)
    hidden = documents().requires_grad_()
    tensors = [hidden, *parameters_of(head, cornet)]
    loss = head.loss(hidden, LABELS, "sum_labels", cornet)
    loss.backward()
    ours = take_gradients(tensors)
    logits = dense_logits(head, hidden, cornet)
    hot, weights = multi_hot(LABELS), head.positive_weight
    if name == "asymmetric":
        shifted = (logits.sigmoid() - 0.05).clamp(min=0)
        terms = -hot * logits.sigmoid().log() - (1 - hot) * shifted**4 * (1 - shifted).log()
        expected = terms.sum() / 4
    else:
        expected = nn.functional.binary_cross_entropy_with_logits(logits, hot, pos_weight=weights, reduction="sum") / 4
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours, take_gradients(tensors), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head.loss_from_logits(logits, LABELS, "sum_labels"), expected)
    torch.testing.assert_close(head.topk_and_loss(hidden, 2, LABELS, "sum_labels", cornet)[2], expected)


# ---- parts without a gradient ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frozen",
    [
        ["hidden"],
        ["head.output.weight"],
        ["head.output.bias"],
        ["head.output.weight", "head.output.bias"],
        ["cornet.blocks.0.to_context.weight"],
        ["cornet.blocks.1.to_context.bias"],
        ["cornet.blocks.0.to_labels.weight", "cornet.blocks.0.to_labels.bias"],
        ["head.output.weight", "head.output.bias", *(f"cornet.blocks.{index}.to_labels.weight" for index in (0, 1))],
    ],
    ids=lambda names: " ".join(names),
)
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen):
    head, cornet = build_head(2, block_size=3)
    scored = nn.ModuleDict({"head": head, "cornet": cornet})
    hidden = documents().requires_grad_()
    tensors = {"hidden": hidden, **dict(scored.named_parameters())}
    head.loss(hidden, LABELS, cornet=cornet).backward()
    expected = dict(zip(tensors, take_gradients(list(tensors.values())), strict=True))
    for name in frozen:
        tensors[name].requires_grad_(False)
    head.loss(hidden, LABELS, cornet=cornet).backward()
    for name, tensor in tensors.items():
        if name in frozen:
            assert tensor.grad is None, name
        else:
            torch.testing.assert_close(tensor.grad, expected[name], msg=name)


def test_with_all_parameters_frozen_the_features_still_learn_and_without_any_there_is_no_graph():
    head, cornet = build_head(1, block_size=3)
    head.requires_grad_(False), cornet.requires_grad_(False)
    hidden = documents().requires_grad_()
    loss = head.loss(hidden, LABELS, cornet=cornet)
    dense_loss(dense_logits(head, hidden, cornet), LABELS).backward()
    (expected,) = take_gradients([hidden])
    loss.backward()
    torch.testing.assert_close(hidden.grad, expected, rtol=1e-5, atol=1e-7)
    assert not head.loss(documents(), LABELS, cornet=cornet).requires_grad


def test_transposed_and_strided_weights_have_the_same_loss_and_gradients():
    head, cornet = build_head(1, block_size=3)
    for linear in (head.output, cornet.blocks[0].to_context, cornet.blocks[0].to_labels):
        linear.weight.data = linear.weight.data.t().contiguous().t()
        assert not linear.weight.is_contiguous()
    assert_equals_dense(head, cornet, documents(), LABELS)


def test_the_backward_pass_can_be_run_again():
    head, cornet = build_head(2, block_size=3)
    hidden = documents().requires_grad_()
    loss = head.loss(hidden, LABELS, cornet=cornet)
    tensors = [hidden, *parameters_of(head, cornet)]
    loss.backward(retain_graph=True)
    first = take_gradients(tensors)
    loss.backward()
    torch.testing.assert_close(take_gradients(tensors), first)


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_the_loss_without_a_gradient_is_the_same(num_blocks, context):
    head, cornet = build_head(num_blocks, block_size=3)
    expected = head.loss(documents(), LABELS, cornet=cornet)
    with context():
        found = head.loss(documents(), LABELS, cornet=cornet)
    assert torch.equal(found, expected) and not found.requires_grad


def test_two_losses_of_one_graph_add_up():
    head, cornet = build_head(1, block_size=3)
    hidden = documents().requires_grad_()
    tensors = [hidden, *parameters_of(head, cornet)]
    (head.loss(hidden, LABELS, cornet=cornet) + 0.5 * head.loss(hidden[:2], LABELS[2:], cornet=cornet)).backward()
    ours = take_gradients(tensors)
    logits = dense_logits(head, hidden, cornet)
    (dense_loss(logits, LABELS) + 0.5 * dense_loss(logits[:2], LABELS[2:])).backward()
    torch.testing.assert_close(ours, take_gradients(tensors), rtol=1e-5, atol=1e-6)


def test_a_gradient_of_the_gradient_is_refused():
    head, _ = build_head()
    loss = head.loss(documents().requires_grad_(), LABELS)
    with pytest.raises(RuntimeError, match="has no gradient itself, but create_graph=True asks for one"):
        torch.autograd.grad(loss, [head.output.weight], create_graph=True)


def test_weights_that_change_between_forward_and_backward_are_refused():
    head, cornet = build_head(1)
    for weight in (head.output.weight, cornet.blocks[0].to_context.weight, cornet.blocks[0].to_labels.bias):
        loss = head.loss(documents(), LABELS, cornet=cornet)
        with torch.no_grad():
            weight.add_(1.0)
        with pytest.raises(RuntimeError, match="have changed between the forward and the backward pass"):
            loss.backward()


def test_logits_that_change_after_their_loss_are_refused():
    head, _ = build_head()
    logits = head.logits(documents()) * 1.0
    loss = head.loss_from_logits(logits, LABELS)
    logits.sigmoid_()
    with pytest.raises(RuntimeError, match="logits changed in place"):
        loss.backward()

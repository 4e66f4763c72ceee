"""Updates of label matrices in the backward pass of the loss by blocks."""

import pytest
import torch
from torch import nn

from hf_xmtc.models.cornet import CorNet
from hf_xmtc.models.label_head import LabelHead
from models.dense_scoring import (
    LABELS,
    MEMORY_MIB,
    NUM_LABELS,
    build_head,
    dense_logits,
    dense_loss,
    documents,
    parameters_of,
    take_gradients,
)

# ---- updates in the backward pass ------------------------------------------------------------------------------------------


class Recording:
    """A `RowUpdate` that keeps what it is given, and may change the matrix as one would."""

    def __init__(self, matrix: torch.Tensor | None = None):
        self.matrix, self.begun, self.parts = matrix, 0, []

    def agree(self, finite):
        return finite

    def begin(self) -> None:
        assert not self.parts
        self.begun += 1

    def __call__(self, start, stop, left, right) -> None:
        assert self.begun == 1 and left.shape[0] == stop - start and left.shape[1] == right.shape[0]
        self.parts.append((start, stop, left.clone(), right.clone()))
        if self.matrix is not None:
            with torch.no_grad():
                self.matrix[start:stop].fill_(1e6)

    def gradient(self) -> torch.Tensor:
        return torch.cat([left @ right for _, _, left, right in self.parts])

    def bias_gradient(self) -> torch.Tensor:
        return torch.cat([left.sum(1) for _, _, left, _ in self.parts])


def recordings(head: LabelHead, cornet: CorNet | None, change: bool = False) -> dict[str, Recording]:
    matrices = {"label_head.output": head.output.weight}
    for index, block in enumerate(cornet.blocks if cornet is not None else ()):
        matrices[f"cornet.blocks.{index}.to_context"] = block.to_context.weight.t()
        matrices[f"cornet.blocks.{index}.to_labels"] = block.to_labels.weight
    return {name: Recording(matrix if change else None) for name, matrix in matrices.items()}


@pytest.mark.parametrize("memory_mib", MEMORY_MIB.values(), ids=MEMORY_MIB)
@pytest.mark.parametrize("block_size", [1, 3, 11, None])
@pytest.mark.parametrize("num_blocks", [0, 1, 3])
def test_updates_get_every_row_of_the_dense_gradient_once(num_blocks, block_size, memory_mib):
    head, cornet = build_head(num_blocks, block_size=block_size, memory_mib=memory_mib)
    hidden = documents().requires_grad_()
    (dense_loss(dense_logits(head, hidden, cornet), LABELS) * 3).backward()
    scored = nn.ModuleDict({"label_head": head, **({"cornet": cornet} if cornet is not None else {})})
    named = {"hidden": hidden, **dict(scored.named_parameters())}
    expected = dict(zip(named, take_gradients(list(named.values())), strict=True))

    # The updates overwrite their matrices: what comes later in the pass must not have needed the old values.
    head.updates = recordings(head, cornet, change=True)
    (head.loss(hidden, LABELS, cornet=cornet) * 3).backward()
    close = {"rtol": 1e-5, "atol": 1e-6}
    for name, update in head.updates.items():
        assert update.begun == 1
        starts, stops = [part[0] for part in update.parts], [part[1] for part in update.parts]
        assert starts == [0, *stops[:-1]] and stops[-1] == NUM_LABELS
        weight, bias = named[f"{name}.weight"], named[f"{name}.bias"]
        assert weight.grad is None
        dense = expected[f"{name}.weight"]
        torch.testing.assert_close(update.gradient(), dense.t() if "to_context" in name else dense, msg=name, **close)
        if "to_context" in name:  # its bias belongs to no label
            torch.testing.assert_close(bias.grad, expected[f"{name}.bias"], **close)
        else:
            assert bias.grad is None
            torch.testing.assert_close(update.bias_gradient(), expected[f"{name}.bias"], msg=name, **close)
    torch.testing.assert_close(hidden.grad, expected["hidden"], **close)


def test_matrices_without_an_update_keep_their_gradients():
    head, cornet = build_head(1, block_size=3)
    head.loss(documents(), LABELS, cornet=cornet).backward()
    expected = cornet.blocks[0].to_labels.weight.grad.clone()
    head.zero_grad(), cornet.zero_grad()
    head.updates = {"label_head.output": Recording()}
    head.loss(documents(), LABELS, cornet=cornet).backward()
    assert head.output.weight.grad is None and head.output.bias.grad is None
    torch.testing.assert_close(cornet.blocks[0].to_labels.weight.grad, expected)


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize("spoil", ["features", "weight", "incoming gradient"])
def test_nothing_is_written_for_a_loss_that_is_not_finite(num_blocks, spoil):
    head, cornet = build_head(num_blocks, block_size=3)
    head.updates = recordings(head, cornet, change=True)
    hidden, factor = documents(), 1.0
    with torch.no_grad():
        if spoil == "features":
            hidden[2, 3] = float("nan")
        elif spoil == "weight":
            head.output.weight[NUM_LABELS - 1, 0] = float("inf")
        else:
            factor = float("inf")
    before = [parameter.clone() for parameter in parameters_of(head, cornet)]
    with pytest.raises(FloatingPointError, match="is not finite .*nothing was written to the label matrices"):
        (head.loss(hidden, LABELS, cornet=cornet) * factor).backward()
    assert all(update.begun == 0 and not update.parts for update in head.updates.values())
    assert all(torch.equal(now, old) for now, old in zip(parameters_of(head, cornet), before, strict=True))


def test_features_that_are_not_finite_are_never_written_though_the_loss_is():
    head, _ = build_head(block_size=3)
    with torch.no_grad():
        head.output.weight.abs_().neg_()
    head.updates = recordings(head, None, change=True)
    hidden = torch.full_like(documents(), float("inf"))
    before = head.output.weight.clone()
    with pytest.raises(FloatingPointError, match="what the labels are scored from, is not finite"):
        head.loss(hidden, torch.full((len(hidden), 1), -100)).backward()  # all logits are -inf: a loss of nothing
    assert torch.equal(head.output.weight, before)


def test_two_losses_of_one_graph_cannot_both_update():
    head, _ = build_head(block_size=3)
    head.updates = recordings(head, None, change=True)
    total = head.loss(documents(), LABELS) + head.loss(documents(), LABELS)
    with pytest.raises(RuntimeError, match="used twice in one graph while it is updated in the backward pass"):
        total.backward()


def test_evaluation_never_updates():
    head, cornet = build_head(1, block_size=3)
    head.updates = recordings(head, cornet, change=True)
    before = [parameter.clone() for parameter in parameters_of(head, cornet)]
    with torch.no_grad():
        head.loss(documents(), LABELS, cornet=cornet)
    head.topk(documents(), 3, cornet), head.topk_and_loss(documents(), 3, LABELS, cornet=cornet)
    head.loss(documents().requires_grad_(), LABELS, cornet=cornet)  # a forward pass alone does not either
    assert all(update.begun == 0 for update in head.updates.values())
    assert all(torch.equal(now, old) for now, old in zip(parameters_of(head, cornet), before, strict=True))

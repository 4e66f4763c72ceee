import pytest
import torch

from hf_xmtc.models.label_head import LabelHead, bce_loss, exact_topk, positive_ids

NUM_LABELS = 11
BLOCK_SIZES = [1, 2, 3, 4, 10, 11, 12, 8192]
LABELS = torch.tensor([[0, 10, -100], [3, 4, 5], [-100, -100, -100], [7, -100, 7]])


def multi_hot(labels: torch.Tensor, num_labels: int = NUM_LABELS) -> torch.Tensor:
    hot = torch.zeros(len(labels), num_labels)
    for document, row in enumerate(labels.tolist()):
        for label_id in row:
            if label_id >= 0:
                hot[document, label_id] = 1.0
    return hot


@pytest.fixture
def head_of_blocks():
    """Heads with the same weights, whatever their block size."""

    def build(block_size: int, bottleneck_size: int | None = None) -> LabelHead:
        torch.manual_seed(0)
        return LabelHead(6, NUM_LABELS, bottleneck_size, block_size)

    return build


@pytest.fixture
def hidden() -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


# ---- block by block --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bottleneck_size", [None, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum_labels", "sum"])
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_loss_and_gradients_by_blocks_equal_the_dense_ones(head_of_blocks, hidden, block_size, reduction, bottleneck_size):
    head = head_of_blocks(block_size, bottleneck_size)
    dense = torch.nn.functional.binary_cross_entropy_with_logits(head.logits(hidden), multi_hot(LABELS), reduction="sum")
    dense = dense / {"mean": 4 * NUM_LABELS, "sum_labels": 4, "sum": 1}[reduction]
    inputs = hidden.clone().requires_grad_()
    loss = head.loss(inputs, LABELS, reduction)
    torch.testing.assert_close(loss, dense, rtol=1e-6, atol=1e-6)

    loss.backward()
    ours = [inputs.grad, *(parameter.grad.clone() for parameter in head.parameters())]
    head.zero_grad()
    reference = hidden.clone().requires_grad_()
    torch.nn.functional.binary_cross_entropy_with_logits(head.logits(reference), multi_hot(LABELS)).backward()
    scale = {"mean": 1, "sum_labels": NUM_LABELS, "sum": 4 * NUM_LABELS}[reduction]
    for mine, expected in zip(ours, [reference.grad, *(parameter.grad for parameter in head.parameters())], strict=True):
        torch.testing.assert_close(mine, expected * scale, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("block_size", [4, 8192])
def test_gradients_equal_finite_differences(block_size):
    torch.manual_seed(0)
    head = LabelHead(3, 5, bottleneck_size=2, block_size=block_size).double()
    labels = torch.tensor([[0, 4], [2, -100]])
    names = [name for name, _ in head.named_parameters()]

    def loss(hidden, *parameters):
        return torch.func.functional_call(
            _Loss(head), {f"head.{name}": value for name, value in zip(names, parameters, strict=True)}, (hidden, labels)
        )

    hidden = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    parameters = [parameter.detach().clone().requires_grad_() for parameter in head.parameters()]
    assert torch.autograd.gradcheck(loss, (hidden, *parameters))


class _Loss(torch.nn.Module):
    def __init__(self, head: LabelHead):
        super().__init__()
        self.head = head

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.head.loss(hidden, labels)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("k", [1, 4, NUM_LABELS, 50])
def test_top_k_by_blocks_equals_a_stable_sort(head_of_blocks, hidden, block_size, k):
    head = head_of_blocks(block_size)
    with torch.no_grad():
        head.output.weight.mul_(2).round_()  # whole weights and states: many equal logits
        head.output.bias.zero_()
    scores, label_ids = head.topk(hidden.round(), k)
    expected = head.logits(hidden.round()).sort(dim=1, descending=True, stable=True)
    assert label_ids.tolist() == expected.indices[:, :k].tolist()
    torch.testing.assert_close(scores, expected.values[:, :k].sigmoid())


def test_a_block_is_never_wider_than_the_block_size(head_of_blocks, hidden, monkeypatch):
    head = head_of_blocks(4)
    widths = []
    block_logits = head.block_logits

    def counting(features, start, stop):
        widths.append(stop - start)
        return block_logits(features, start, stop)

    monkeypatch.setattr(head, "block_logits", counting)
    head.loss(hidden.requires_grad_(), LABELS).backward()
    head.topk(hidden, 3)
    assert max(widths) == 4


def test_chosen_labels_score_as_in_the_full_logits(head_of_blocks, hidden):
    head = head_of_blocks(4, bottleneck_size=3)
    label_ids = torch.tensor([[0, 10], [4, 4], [9, 1], [2, 3]])
    torch.testing.assert_close(head.scores_for(hidden, label_ids), head.logits(hidden).sigmoid().gather(1, label_ids))


# ---- top-k with ties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_exact_topk_equals_a_stable_sort_on_many_ties(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 4, (8, 30), generator=generator).float()
    expected = logits.sort(dim=1, descending=True, stable=True)
    for k in (1, 2, 7, 29, 30, 31):
        values, ids = exact_topk(logits, k)
        assert ids.tolist() == expected.indices[:, :k].tolist()
        assert torch.equal(values, expected.values[:, :k])


def test_exact_topk_leaves_its_input_and_rows_without_ties_alone():
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    before = logits.clone()
    assert exact_topk(logits, 2)[1].tolist() == [[1, 3], [0, 1]]
    assert torch.equal(logits, before)


def test_exact_topk_passes_gradients_through_tied_rows():
    logits = torch.tensor([[1.0, 1.0, 0.0]], requires_grad=True)
    exact_topk(logits, 1)[0].sum().backward()
    assert logits.grad.tolist() == [[1.0, 0.0, 0.0]]


def test_zero_and_minus_zero_are_a_tie():
    assert exact_topk(torch.tensor([[-0.0, 0.0, -1.0]]), 1)[1].tolist() == [[0]]


# ---- labels ----------------------------------------------------------------------------------------------------------------


def test_ids_and_multi_hot_labels_become_the_same_ids():
    from_ids = positive_ids(LABELS, NUM_LABELS)
    assert [sorted(set(row) - {-100}) for row in from_ids.tolist()] == [[0, 10], [3, 4, 5], [], [7]]
    for hot in (multi_hot(LABELS), multi_hot(LABELS).bool(), multi_hot(LABELS).bfloat16()):
        from_hot = positive_ids(hot, NUM_LABELS)
        assert [[label_id for label_id in row if label_id >= 0] for row in from_hot.tolist()] == [
            [0, 10],
            [3, 4, 5],
            [],
            [7],
        ]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_holds_ids(dtype):
    assert positive_ids(torch.tensor([[2, -100]], dtype=dtype), 3).tolist() == [[-100, 2]]


def test_a_batch_without_any_label_has_a_loss():
    logits = torch.zeros(2, 3)
    for labels in (torch.full((2, 1), -100), torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3)):
        loss = bce_loss(logits, positive_ids(labels, 3))
        assert loss.item() == pytest.approx(0.6931472)


def test_loss_is_computed_in_single_precision_for_half_precision_logits():
    logits = torch.full((4, 20_000), 4.0, dtype=torch.float16)  # the sum, 3e5, is beyond float16
    assert bce_loss(logits, torch.full((4, 1), -100), "sum").item() == pytest.approx(4 * 20_000 * 4.01815, rel=1e-4)


def test_labels_that_stay_keep_their_rows_and_the_bottleneck_stays_as_it_is():
    head = LabelHead(4, 3, bottleneck_size=2)
    weight, bias = head.output.weight.detach().clone(), head.output.bias.detach().clone()
    bottleneck = head.bottleneck.weight.detach().clone()
    head.resize_labels(torch.tensor([-1, 2, 1, -1]))
    assert head.num_labels == 4 and head.logits(torch.randn(1, 4)).shape == (1, 4)
    assert torch.equal(head.output.weight[1:3], weight[[2, 1]]) and torch.equal(head.output.bias[1:3], bias[[2, 1]])
    assert torch.equal(head.bottleneck.weight, bottleneck)

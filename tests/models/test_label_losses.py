import math

import pytest
import torch

from hf_xmtc.models.label_losses import (
    LABEL_LOSSES,
    AsymmetricLoss,
    BatchPositives,
    BinaryCrossEntropy,
    PositivesInBlock,
    PropensityCrossEntropy,
    positive_ids,
    sum_type,
)
from models.dense_scoring import LABELS, NUM_LABELS, multi_hot

# A logit of ln 3 is a probability of 3/4, one of -ln 3 a probability of 1/4.
LN3 = math.log(3.0)
LOSSES = {
    "bce": BinaryCrossEntropy(),
    "propensity_bce": PropensityCrossEntropy(),
    "asymmetric": AsymmetricLoss(),
    "asymmetric, both focused": AsymmetricLoss(gamma_positive=1.0, gamma_negative=2.0, margin=0.2),
    "asymmetric, broken exponents": AsymmetricLoss(gamma_positive=0.5, gamma_negative=0.5, margin=0.1),
    "asymmetric, no margin": AsymmetricLoss(gamma_positive=2.0, gamma_negative=1.0, margin=0.0),
    "asymmetric, margin alone": AsymmetricLoss(gamma_positive=0.0, gamma_negative=0.0, margin=0.3),
    "asymmetric, tiny margin": AsymmetricLoss(gamma_positive=0.0, gamma_negative=2.0, margin=1e-9),
    "asymmetric, nothing": AsymmetricLoss(gamma_positive=0.0, gamma_negative=0.0, margin=0.0),
}


@pytest.fixture(params=LOSSES.values(), ids=LOSSES)
def loss(request):
    return request.param


def positives_at(*places: tuple[int, int], weights: list[float] | None = None) -> PositivesInBlock:
    rows, documents = torch.tensor(places, dtype=torch.long).reshape(-1, 2).unbind(1)
    return PositivesInBlock(rows, documents, None if weights is None else torch.tensor(weights, dtype=torch.float64))


def value_of_one(loss, logit: float, positive: bool, weight: float = 1.0) -> float:
    positives = positives_at((0, 0), weights=[weight]) if positive else positives_at(weights=[])
    return loss.value(torch.tensor([[logit]], dtype=torch.float64), positives).item()


# ---- by hand ---------------------------------------------------------------------------------------------------------------


def test_binary_cross_entropy_by_hand():
    loss = BinaryCrossEntropy()
    assert value_of_one(loss, LN3, positive=True) == pytest.approx(-math.log(3 / 4))
    assert value_of_one(loss, LN3, positive=False) == pytest.approx(-math.log(1 / 4))
    block = torch.tensor([[0.0, LN3], [-LN3, 0.0], [LN3, LN3]])  # 3 labels, 2 documents
    positives = positives_at((0, 1), (1, 0))
    expected = math.log(2) + math.log(4 / 3) + math.log(4) + math.log(2) + 2 * math.log(4)
    assert loss.value(block, positives).item() == pytest.approx(expected)
    gradient = torch.tensor([[0.5, -0.25], [-0.75, 0.5], [0.75, 0.75]])  # probability, minus 1 where positive
    torch.testing.assert_close(loss.gradient(block, positives), gradient)


def test_propensity_weights_multiply_positives_alone():
    loss = PropensityCrossEntropy()
    block = torch.tensor([[0.0, LN3], [-LN3, 0.0]])
    positives = positives_at((0, 1), (1, 0), weights=[5.0, 10.0])
    positives = positives._replace(weights=positives.weights.float())
    expected = math.log(2) + 5 * math.log(4 / 3) + 10 * math.log(4) + math.log(2)
    assert loss.value(block, positives).item() == pytest.approx(expected)
    torch.testing.assert_close(loss.gradient(block, positives), torch.tensor([[0.5, -1.25], [-7.5, 0.5]]))


def test_asymmetric_loss_by_hand():
    loss = AsymmetricLoss(gamma_positive=2.0, gamma_negative=3.0, margin=0.25)
    assert value_of_one(loss, LN3, positive=True) == pytest.approx((1 / 4) ** 2 * math.log(4 / 3))
    assert value_of_one(loss, -LN3, positive=True) == pytest.approx((3 / 4) ** 2 * math.log(4))
    # A negative of probability 3/4 counts as one of 1/2: (1/2)³ · ln 2.
    assert value_of_one(loss, LN3, positive=False) == pytest.approx(math.log(2) / 8)
    assert value_of_one(loss, -LN3, positive=False) == pytest.approx(0.0, abs=1e-12)
    assert value_of_one(loss, -2 * LN3, positive=False) == 0.0  # below the margin
    below = loss.gradient(torch.tensor([[-2 * LN3]]), positives_at())
    assert below.item() == 0.0


def test_asymmetric_loss_without_exponents_and_margin_is_binary_cross_entropy():
    asymmetric, bce = LOSSES["asymmetric, nothing"], LOSSES["bce"]
    block = torch.linspace(-30, 30, 24).reshape(6, 4)
    positives = positives_at((0, 0), (3, 2), (5, 3))
    torch.testing.assert_close(asymmetric.value(block, positives), bce.value(block, positives))
    torch.testing.assert_close(asymmetric.gradient(block, positives), bce.gradient(block, positives))


def test_asymmetric_loss_has_the_defaults_of_its_paper():
    loss = AsymmetricLoss()
    assert (loss.gamma_positive, loss.gamma_negative, loss.margin) == (0.0, 4.0, 0.05)


@pytest.mark.parametrize("settings", [{"gamma_positive": -1.0}, {"gamma_negative": -0.1}, {"margin": 1.0}, {"margin": -0.1}])
def test_asymmetric_settings_out_of_range_are_refused(settings):
    ((field, value),) = settings.items()
    with pytest.raises(ValueError, match=f"{field}={value}.*at least 0 and the margin in"):
        AsymmetricLoss(**settings)


def test_every_loss_has_the_name_that_configs_give_it():
    assert list(LABEL_LOSSES) == ["bce", "propensity_bce", "asymmetric"]
    assert list(LABEL_LOSSES.values()) == [BinaryCrossEntropy, PropensityCrossEntropy, AsymmetricLoss]
    assert [name for name, kind in LABEL_LOSSES.items() if kind.weighs_labels] == ["propensity_bce"]


# ---- gradients and limits --------------------------------------------------------------------------------------------------


def a_block(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, PositivesInBlock]:
    """Logits on both sides of every margin, and a few positives among them."""
    block = torch.linspace(-6.03, 6.01, 40, dtype=dtype).reshape(10, 4)
    return block, positives_at((0, 1), (4, 0), (4, 3), (9, 2), weights=[1.0, 3.0, 0.5, 7.0])


def test_gradients_equal_finite_differences(loss):
    block, positives = a_block()
    step = 1e-6
    for place in range(block.numel()):
        shift = torch.zeros_like(block)
        shift.view(-1)[place] = step
        slope = (loss.value(block + shift, positives) - loss.value(block - shift, positives)) / (2 * step)
        assert loss.gradient(block, positives).view(-1)[place].item() == pytest.approx(slope.item(), rel=1e-5, abs=1e-8)


def test_gradients_equal_those_that_autograd_finds(loss):
    block, positives = a_block()
    block.requires_grad_()
    loss.value(block, positives).backward()
    torch.testing.assert_close(loss.gradient(block.detach(), positives), block.grad, rtol=1e-9, atol=1e-12)


def test_a_block_without_positives_is_all_negatives(loss):
    block, _ = a_block()
    none = positives_at(weights=[])
    torch.testing.assert_close(loss.value(block, none), loss.negative(block).sum())
    assert torch.equal(loss.gradient(block, none), loss.negative_gradient(block))


def test_logits_are_left_as_they_are(loss):
    block, positives = a_block()
    before = block.clone()
    loss.value(block, positives)
    loss.gradient(block, positives).fill_(0.0)
    assert torch.equal(block, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits_have_a_finite_loss_and_gradient(loss, dtype):
    for logit in (-1e4, -200.0, -100.0, -30.0, 0.0, 30.0, 100.0, 1e4):
        block = torch.full((2, 1), logit, dtype=dtype)
        positives = positives_at((0, 0), weights=[2.0])
        positives = positives._replace(weights=positives.weights.to(dtype))
        assert loss.value(block, positives).isfinite()
        gradient = loss.gradient(block, positives)
        assert gradient.isfinite().all() and gradient[0] <= 0 <= gradient[1]


def test_a_loss_of_many_labels_keeps_its_small_parts():
    # A block's sum stays in float32, the sum of the blocks does not: 4,000 blocks of 1e-4 beside one of 1e5.
    loss, none = BinaryCrossEntropy(), positives_at()
    total = loss.value(torch.full((100, 1), 1e3), none)
    for _ in range(4_000):
        total = total + loss.value(torch.full((1, 1), math.log(math.expm1(1e-4))), none)
    assert total.item() == pytest.approx(1e5 + 0.4, abs=1e-3)


def test_losses_are_summed_in_double_precision_where_the_device_has_it():
    assert [sum_type(torch.device(kind)) for kind in ("cpu", "cuda", "mps")] == [torch.float64, torch.float64, torch.float32]


# ---- positives -------------------------------------------------------------------------------------------------------------


def rows_of(ids: torch.Tensor) -> list[list[int]]:
    return [[label_id for label_id in row if label_id >= 0] for row in ids.tolist()]


def test_ids_and_multi_hot_labels_become_the_same_ids():
    expected = [[0, 10], [3, 4, 5], [], [7]]
    assert rows_of(positive_ids(LABELS, NUM_LABELS)) == expected
    for hot in (multi_hot(LABELS), multi_hot(LABELS).bool(), multi_hot(LABELS).bfloat16(), multi_hot(LABELS).double()):
        assert rows_of(positive_ids(hot, NUM_LABELS)) == expected


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_holds_ids(dtype):
    assert positive_ids(torch.tensor([[2, -100]], dtype=dtype), 3).tolist() == [[-100, 2]]


def test_labels_given_are_left_as_they_are():
    labels = LABELS.clone()
    positive_ids(labels, NUM_LABELS)
    assert torch.equal(labels, LABELS)


@pytest.mark.parametrize("labels", [torch.full((2, 1), -100), torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3)])
def test_documents_without_positives_have_a_row_of_padding(labels):
    ids = positive_ids(labels, 3)
    assert len(ids) == 2 and rows_of(ids) == [[], []]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([[0, 3]]), r"Label id 3 is outside 0 … 2 \(num_labels=3\)"),
        (torch.tensor([[-1]]), "Label id -1 is outside 0 … 2"),
        (torch.tensor([0, 1]), r"labels must have two dimensions.*got \(2,\)"),
        (torch.ones(1, 2), "have 2 columns but the model has num_labels=3"),
        (torch.tensor([[0.0, 1.0, 0.5]]), "hold the value 0.5"),
        (torch.tensor([[0.0, 1.0, float("nan")]]), "hold the value nan"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        positive_ids(labels, 3)


# ---- by blocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size", [1, 2, 4, 10, 11])
def test_every_positive_is_in_the_block_of_its_label(block_size):
    starts = [*range(0, NUM_LABELS, block_size), NUM_LABELS]
    positives = BatchPositives(positive_ids(LABELS, NUM_LABELS), starts)
    found = torch.zeros(len(LABELS), NUM_LABELS)
    for start, stop in zip(starts, starts[1:], strict=False):
        rows, documents, weights = positives.within(start)
        assert weights is None
        assert all(0 <= row < stop - start for row in rows.tolist())
        found[documents, rows + start] += 1
    assert torch.equal(found, multi_hot(LABELS))


def test_a_positive_carries_the_weight_of_its_label():
    weights = torch.tensor([1.0, 2.0, 4.0, 8.0])
    positives = BatchPositives(torch.tensor([[0, 3], [-100, 2]]), [0, 3, 4], weights)
    first, second = positives.within(0), positives.within(3)
    assert (first.rows.tolist(), first.documents.tolist(), first.weights.tolist()) == ([0, 2], [0, 1], [1.0, 4.0])
    assert (second.rows.tolist(), second.documents.tolist(), second.weights.tolist()) == ([0], [0], [8.0])


def test_a_batch_without_positives_has_none_in_any_block():
    positives = BatchPositives(torch.full((2, 1), -100), [0, 2, 4])
    assert [len(positives.within(start).rows) for start in (0, 2)] == [0, 0]

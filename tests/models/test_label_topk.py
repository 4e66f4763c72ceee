import pytest
import torch

from hf_xmtc.models.label_losses import BinaryCrossEntropy, positive_ids
from hf_xmtc.models.label_scorer import BlockSettings, GivenLogits, LabelLayers, LabelScorer
from hf_xmtc.models.label_topk import block_topk, exact_topk
from models.dense_scoring import dense_loss

BLOCK_SIZES = [1, 2, 7, 29, 30, 31]


def by_blocks(logits: torch.Tensor, block_size: int, labels: torch.Tensor | None = None) -> LabelScorer:
    positives = positive_ids(labels, logits.shape[1]) if labels is not None else None
    layers = LabelLayers(GivenLogits(logits))
    return LabelScorer(layers, BlockSettings(block_size=block_size), BinaryCrossEntropy(), positives)


def assert_best(found: tuple[torch.Tensor, torch.Tensor], logits: torch.Tensor, k: int) -> None:
    expected = logits.sort(dim=1, descending=True, stable=True)
    values, ids = found
    assert ids.tolist() == expected.indices[:, :k].tolist()
    assert torch.equal(values, expected.values[:, :k])


@pytest.mark.parametrize("seed", range(20))
def test_exact_topk_equals_a_stable_sort_on_many_ties(seed):
    logits = torch.randint(0, 4, (8, 30), generator=torch.Generator().manual_seed(seed)).float()
    for k in (1, 2, 7, 29, 30, 31):
        assert_best(exact_topk(logits, k), logits, k)


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
    assert block_topk(by_blocks(torch.tensor([[-0.0, 0.0, -1.0]]), 1), 1)[1].tolist() == [[0]]


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("levels", [1, 3, 10])
def test_top_k_by_blocks_equals_a_stable_sort_on_many_ties(block_size, levels):
    for seed in range(6):
        logits = torch.randint(0, levels, (8, 30), generator=torch.Generator().manual_seed(seed)).float()
        for k in (1, 2, 7, 29, 30, 31, 1000):
            values, ids, loss = block_topk(by_blocks(logits, block_size), k)
            assert loss is None
            assert_best((values, ids), logits, k)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_top_k_is_found_wherever_the_best_labels_lie(block_size):
    rising = torch.arange(30.0)
    logits = torch.stack([rising, -rising, rising.roll(15), torch.full((30,), float("-inf")), rising * 1e30])
    for k in (1, 5, 30):
        assert_best(block_topk(by_blocks(logits, block_size), k)[:2], logits, k)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_the_loss_comes_from_the_same_pass(block_size):
    logits = torch.randn(8, 30, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 30, (8, 5), generator=torch.Generator().manual_seed(1))
    labels[3] = -100
    values, ids, loss = block_topk(by_blocks(logits, block_size, labels), 4)
    assert_best((values, ids), logits, 4)
    torch.testing.assert_close(loss.float(), dense_loss(logits, labels, "sum"))


@pytest.mark.parametrize("block_size", [1, 4, 30])
@pytest.mark.parametrize("place", [0, 13, 29])
def test_a_logit_that_is_not_a_number_harms_no_other_document(block_size, place):
    logits = torch.randn(3, 30, generator=torch.Generator().manual_seed(0))
    logits[1, place] = float("nan")
    values, ids, _ = block_topk(by_blocks(logits, block_size), 5)
    assert ids.shape == (3, 5) and ((ids >= 0) & (ids < 30)).all()
    assert_best((values[[0, 2]], ids[[0, 2]]), logits[[0, 2]], 5)


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(k):
    for topk in (lambda: exact_topk(torch.zeros(1, 3), k), lambda: block_topk(by_blocks(torch.zeros(1, 3), 2), k)):
        with pytest.raises(ValueError, match=f"top_k={k}, but it must be at least 1"):
            topk()


def test_a_logit_that_is_no_number_comes_out_on_top_from_every_block():  # AC-75
    logits = torch.arange(6.0).repeat(2, 1)
    logits[1, 4] = float("nan")
    for block_size in (1, 2, 4, 6):
        values, ids, _ = block_topk(by_blocks(logits, block_size), 2)
        assert ids.tolist() == [[5, 4], [4, 5]] and values[1, 0].isnan()

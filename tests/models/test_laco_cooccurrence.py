"""LACO's auxiliary tasks: what they draw, their losses, and worked examples of both."""

import pytest
import torch

from hf_xmtc.models.label_losses import mark_positives
from hf_xmtc.models.laco_cooccurrence import (
    RANDOM_NUMBERS,
    LabelPairs,
    PairHead,
    clcp_loss,
    draw_given,
    draw_pairs,
    plcp_loss,
)

DRAWS = 10_000
NUMBERS = torch.randint(2**62, (DRAWS, RANDOM_NUMBERS), generator=torch.Generator().manual_seed(0))


def documents(*labels: int, width: int = 5) -> torch.Tensor:
    """The same document at many visits."""
    row = list(labels) + [-100] * (width - len(labels))
    return torch.tensor([row]).expand(DRAWS, -1)


@pytest.mark.parametrize("num_labels", [8, 54])
def test_a_third_of_the_pairs_is_related_and_negatives_have_one_label_of_the_document(num_labels):
    labels = torch.tensor([1, 4, 6])
    pairs = draw_pairs(documents(6, 1, 4), num_labels, NUMBERS)
    assert pairs.valid.all() and pairs.related.float().mean().item() == pytest.approx(1 / 3, abs=1e-6)
    inside = torch.isin(pairs.label_ids, labels)
    assert inside[:, 0].all() and (pairs.label_ids[:, 0, 0] != pairs.label_ids[:, 0, 1]).all()
    assert (inside[:, 1:].sum(dim=-1) == 1).all()
    # Every ordered pair and every label is as likely as another; the two irrelevant labels are different.
    ordered = pairs.label_ids[:, 0, 0] * num_labels + pairs.label_ids[:, 0, 1]
    counts = ordered.unique(return_counts=True)[1]
    assert len(counts) == 6 and (counts / DRAWS - 1 / 6).abs().max() < 0.02
    away = pairs.label_ids[:, 1:][~inside[:, 1:]].reshape(-1, 2)
    assert (away[:, 0] != away[:, 1]).all()
    counts = torch.bincount(away.flatten(), minlength=num_labels)
    assert (counts[labels] == 0).all()
    others = counts[counts > 0] / (2 * DRAWS)
    assert len(others) == num_labels - 3 and (others * (num_labels - 3) - 1).abs().max() < 0.25
    flipped = inside[:, 1:, 1].float().mean().item()
    assert flipped == pytest.approx(0.5, abs=0.015)


def test_documents_without_a_pair_get_none():
    head = PairHead(4)
    states = torch.randn(DRAWS, 6, 4)
    one = draw_pairs(documents(2), 6, NUMBERS)
    assert one.valid.sum() == 0 and plcp_loss(head(states, one.label_ids), one).item() == 0
    loss = plcp_loss(head(states, one.label_ids), one)
    loss.backward()
    assert head.output.weight.grad.abs().sum() == 0  # 0, and still a part of the graph
    everything = draw_pairs(documents(0, 1, 2), 3, NUMBERS)
    assert everything.valid.sum(dim=0).tolist() == [DRAWS, 0, 0]
    all_but_one = draw_pairs(documents(0, 2), 3, NUMBERS)
    assert all_but_one.valid.sum(dim=0).tolist() == [DRAWS, DRAWS, 0]
    assert draw_pairs(documents(), 6, NUMBERS).valid.sum() == 0


def test_the_given_label_is_one_of_the_document_and_each_is_as_likely():
    given = draw_given(documents(1, 3, 5, 7), 9, NUMBERS[:, 0])
    assert (given.sum(dim=1) == 1).all() and not given[:, [0, 2, 4, 6, 8]].any()
    assert (given[:, [1, 3, 5, 7]].float().mean(dim=0) - 1 / 4).abs().max() < 0.015
    assert draw_given(documents(3), 5, NUMBERS[:, 0])[:, 3].all()
    assert not draw_given(documents(), 5, NUMBERS[:, 0]).any()


def test_draws_follow_from_the_numbers_and_the_labels_alone():
    labels = torch.tensor([[0, 2, 5, -100], [1, 4, -100, -100], [0, 1, 2, 3]])
    together = draw_pairs(labels, 8, NUMBERS[:3]), draw_given(labels, 8, NUMBERS[:3, 8])
    for row in range(3):
        # Alone, in another batch with another padding, in another order: as workers and processes would have it.
        wider = torch.nn.functional.pad(labels[row : row + 1].flip(1), (0, 3), value=-100)
        assert torch.equal(draw_pairs(wider, 8, NUMBERS[row : row + 1]).label_ids[0], together[0].label_ids[row])
        assert torch.equal(draw_given(wider, 8, NUMBERS[row : row + 1, 8])[0], together[1][row])


def test_the_worked_example_of_plcp():
    def pairs(related: bool) -> LabelPairs:
        return LabelPairs(torch.zeros(1, 1, 2, dtype=torch.long), torch.tensor([[related]]), torch.tensor([[True]]))

    one = torch.tensor([[2.0]])
    assert plcp_loss(one, pairs(True)).item() == pytest.approx(0.126928, abs=1e-6)
    assert plcp_loss(one, pairs(False)).item() == pytest.approx(2.126928, abs=1e-6)


def test_the_worked_example_of_clcp():
    positive = mark_positives(torch.tensor([[0, 2]]), 4)
    given = torch.tensor([[False, False, True, False]])
    logits = torch.tensor([[1.0, -1.0, 50.0, 0.0]])
    assert clcp_loss(logits, positive, given).item() == pytest.approx(0.439890, abs=1e-6)


def test_the_loss_ignores_what_is_given_and_documents_without_labels():
    positive = mark_positives(torch.tensor([[0, 2], [-100, -100], [1, -100]]), 4)
    given = torch.tensor([[False, False, True, False], [False] * 4, [False, True, False, False]])
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    expected = clcp_loss(logits, positive, given)
    changed = logits.clone()
    changed[0, 2], changed[2, 1], changed[1] = 1e4, -1e4, 1e4
    torch.testing.assert_close(clcp_loss(changed, positive, given), expected)
    nothing = clcp_loss(logits[1:2].requires_grad_(), positive[1:2], given[1:2])
    nothing.backward()
    assert nothing.item() == 0

"""LACO's auxiliary tasks: what they draw, their losses, and worked examples of both."""

import pytest
import torch

from hf_xmtc.models.label_losses import mark_positives
from hf_xmtc.models.laco_cooccurrence import (
    ConditionalHead,
    LabelPairs,
    PairHead,
    clcp_loss,
    draw_given,
    draw_pairs,
    plcp_loss,
)
from hf_xmtc.models.seeded_random import mix_seeds, uniform_numbers

DRAWS = 10_000
SEEDS = torch.arange(DRAWS)


def documents(*labels: int, width: int = 5) -> torch.Tensor:
    """The same document at many visits."""
    row = list(labels) + [-100] * (width - len(labels))
    return torch.tensor([row]).expand(DRAWS, -1)


def test_numbers_are_uniform_and_those_of_places_and_streams_independent():
    numbers = uniform_numbers(SEEDS, 3)
    assert (numbers >= 0).all() and (numbers < 1).all()
    torch.testing.assert_close(numbers.mean(dim=0), torch.full((3,), 0.5), rtol=0, atol=0.015)
    torch.testing.assert_close(numbers.var(dim=0), torch.full((3,), 1 / 12), rtol=0, atol=0.005)
    several = torch.cat([numbers, uniform_numbers(SEEDS, 1, stream=1)], dim=1)
    assert (torch.corrcoef(several.T) - torch.eye(4)).abs().max() < 0.04
    assert len(numbers[:, 0].unique()) > 0.99 * DRAWS


@pytest.mark.parametrize("num_labels", [8, 54])
def test_a_third_of_the_pairs_is_related_and_negatives_have_one_label_of_the_document(num_labels):
    labels = torch.tensor([1, 4, 6])
    pairs = draw_pairs(documents(6, 1, 4), num_labels, SEEDS)
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
    one = draw_pairs(documents(2), 6, SEEDS)
    assert one.valid.sum() == 0 and plcp_loss(head(states, one.label_ids), one).item() == 0
    loss = plcp_loss(head(states, one.label_ids), one)
    loss.backward()
    assert head.output.weight.grad.abs().sum() == 0  # 0, and still a part of the graph
    negatives = draw_pairs(documents(2), 6, SEEDS, single="negatives_only")
    assert negatives.valid.sum(dim=0).tolist() == [0, DRAWS, DRAWS] and not negatives.related.any()
    everything = draw_pairs(documents(0, 1, 2), 3, SEEDS)
    assert everything.valid.sum(dim=0).tolist() == [DRAWS, 0, 0]
    all_but_one = draw_pairs(documents(0, 2), 3, SEEDS)
    assert all_but_one.valid.sum(dim=0).tolist() == [DRAWS, DRAWS, 0]
    assert draw_pairs(documents(), 6, SEEDS).valid.sum() == 0
    assert draw_pairs(documents(0), 1, SEEDS, single="negatives_only").valid.sum() == 0


def test_the_single_pair_of_the_authors_is_related_in_a_third_of_the_draws():
    pairs = draw_pairs(documents(1, 4, 6), 54, SEEDS, kinds="one")
    assert pairs.label_ids.shape == (DRAWS, 1, 2) and pairs.valid.all()
    assert pairs.related.float().mean().item() == pytest.approx(1 / 3, abs=0.015)
    both = torch.isin(pairs.label_ids, torch.tensor([1, 4, 6])).all(dim=-1)
    assert torch.equal(both, pairs.related)
    assert draw_pairs(documents(1), 54, SEEDS, kinds="one").valid.sum() == 0
    assert draw_pairs(documents(0, 1), 2, SEEDS, kinds="one").related.all()


@pytest.mark.parametrize(
    ("count", "sizes"),
    [("one", {1: 1.0}), ("uniform", {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}), ("bernoulli", {1: 5 / 16, 2: 6 / 16, 3: 5 / 16})],
)
def test_given_labels_are_some_of_the_document(count, sizes):
    given = draw_given(documents(1, 3, 5, 7), 9, SEEDS, count)
    assert not given[:, [0, 2, 4, 6, 8]].any()
    found = given.sum(dim=1)
    for size, share in sizes.items():
        assert (found == size).float().mean().item() == pytest.approx(share, abs=0.015)
    assert int(found.max()) == max(sizes)
    each = given[:, [1, 3, 5, 7]].float().mean(dim=0)
    assert (each - each.mean()).abs().max() < 0.015


@pytest.mark.parametrize("count", ["one", "uniform", "bernoulli"])
def test_of_one_label_that_one_is_given_and_of_none_nothing(count):
    assert draw_given(documents(3), 5, SEEDS, count)[:, 3].all()
    assert not draw_given(documents(), 5, SEEDS, count).any()
    two = draw_given(documents(0, 1), 2, SEEDS, count)
    assert (two.sum(dim=1) == 1).all()


def test_draws_follow_from_seed_epoch_and_document_alone():
    labels = torch.tensor([[0, 2, 5, -100], [1, 4, -100, -100], [0, 1, 2, 3]])
    ids = torch.tensor([10, 11, 12])
    together = draw_pairs(labels, 8, mix_seeds(ids, 0)), draw_given(labels, 8, mix_seeds(ids, 0), "uniform")
    for row in range(3):
        # Alone, in another batch with another padding, in another order: as workers and processes would have it.
        wider = torch.nn.functional.pad(labels[row : row + 1].flip(1), (0, 3), value=-100)
        seeds = mix_seeds(ids[row : row + 1], 0)
        assert torch.equal(draw_pairs(wider, 8, seeds).label_ids[0], together[0].label_ids[row])
        assert torch.equal(draw_given(wider, 8, seeds, "uniform")[0], together[1][row])
    many = torch.arange(100)
    rows = labels[:1].expand(100, -1)
    epochs = [draw_pairs(rows, 8, mix_seeds(many, epoch)).label_ids for epoch in (0, 1)]
    assert (epochs[0] != epochs[1]).any(dim=(1, 2)).float().mean() > 0.9


def test_the_worked_example_of_plcp():
    def pairs(related: bool) -> LabelPairs:
        return LabelPairs(torch.zeros(1, 1, 2, dtype=torch.long), torch.tensor([[related]]), torch.tensor([[True]]))

    one = torch.tensor([[[2.0]]])
    assert plcp_loss(one, pairs(True)).item() == pytest.approx(0.126928, abs=1e-6)
    assert plcp_loss(one, pairs(False)).item() == pytest.approx(2.126928, abs=1e-6)
    head = PairHead(1, units=2, dropout=0.0)
    with torch.no_grad():
        head.output.weight.zero_()
        for raw, expected in (([0.0, 2.0], 0.820075), ([-3.0, 4.0], 0.711297)):
            head.output.bias.copy_(torch.tensor(raw))
            logits = head(torch.zeros(1, 2, 1), torch.tensor([[[0, 1]]]))
            assert plcp_loss(logits, pairs(True)).item() == pytest.approx(expected, abs=1e-6)


def test_the_worked_example_of_clcp():
    positive = mark_positives(torch.tensor([[0, 2]]), 4)
    given = torch.tensor([[False, False, True, False]])
    logits = torch.tensor([[[1.0], [-1.0], [50.0], [0.0]]])
    assert clcp_loss(logits, positive, given, "sum").item() == pytest.approx(1.319671, abs=1e-6)
    assert clcp_loss(logits, positive, given).item() == pytest.approx(0.439890, abs=1e-6)
    head = ConditionalHead(2, plain=True)
    with torch.no_grad():
        head.output.weight.copy_(torch.tensor([[0.0, 0.0, 1.0, 10.0]]))
        head.output.bias.zero_()
        states = torch.tensor([[[1.0, 0.0], [7.0, 7.0], [2.0, 2.0], [9.0, 9.0]]])
        mean = head(states, torch.tensor([[True, False, True, False]]))
    assert mean[0, :, 0].tolist() == pytest.approx([11.5] * 4)  # 1 * 1.5 + 10 * 1


def test_the_loss_ignores_what_is_given_and_documents_without_labels():
    positive = mark_positives(torch.tensor([[0, 2], [-100, -100], [1, -100]]), 4)
    given = torch.tensor([[False, False, True, False], [False] * 4, [False, True, False, False]])
    logits = torch.randn(3, 4, 1, generator=torch.Generator().manual_seed(0))
    expected = clcp_loss(logits, positive, given)
    changed = logits.clone()
    changed[0, 2], changed[2, 1], changed[1] = 1e4, -1e4, 1e4
    torch.testing.assert_close(clcp_loss(changed, positive, given), expected)
    torch.testing.assert_close(clcp_loss(logits, positive, given, "sum"), 3 * expected)
    nothing = clcp_loss(logits[1:2].requires_grad_(), positive[1:2], given[1:2])
    nothing.backward()
    assert nothing.item() == 0


def test_two_units_cost_twice_as_much_for_opposite_logits():
    pairs = LabelPairs(torch.zeros(1, 2, 2, dtype=torch.long), torch.tensor([[True, False]]), torch.tensor([[True, True]]))
    one = torch.tensor([[[0.7], [-0.3]]])
    two = torch.cat([-one, one], dim=-1)
    torch.testing.assert_close(plcp_loss(two, pairs), 2 * plcp_loss(one, pairs))
    assert ConditionalHead(4, units=2)(torch.randn(1, 3, 4), torch.tensor([[True, False, False]])).shape == (1, 3, 2)

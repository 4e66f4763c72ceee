"""The tagger over labels, and its CRF against sums over all sequences."""

import itertools

import pytest
import torch
from torch import nn

from hf_xmtc.models.seqtag_head import LinearChainCRF, SequenceTagHead

# ---- the CRF ---------------------------------------------------------------------------------------------------------------


def random_crf(num_tags: int, seed: int) -> LinearChainCRF:
    crf = LinearChainCRF(num_tags)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_()
    return crf


def scores_of_all(crf: LinearChainCRF, emissions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All sequences (S, L) and their scores for one document's emissions (L, G)."""
    length, num_tags = emissions.shape
    sequences = torch.tensor(list(itertools.product(range(num_tags), repeat=length)))
    score = crf.start[sequences[:, 0]] + crf.end[sequences[:, -1]]
    score = score + emissions[torch.arange(length), sequences].sum(dim=1)
    return sequences, score + crf.transitions[sequences[:, :-1], sequences[:, 1:]].sum(dim=1)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("num_tags", [2, 3])
def test_sum_best_sequence_and_marginals_are_those_of_all_sequences(length, num_tags):
    crf = random_crf(num_tags, seed=length)
    emissions = torch.randn(3, length, num_tags)
    found = crf.log_partition(emissions), crf.best_tags(emissions), crf.log_marginals(emissions).exp()
    for document in range(3):
        sequences, scores = scores_of_all(crf, emissions[document])
        torch.testing.assert_close(found[0][document], scores.logsumexp(0))
        assert torch.equal(found[1][document], sequences[scores.argmax()])
        shares = scores.softmax(0)
        expected = torch.stack([(shares[:, None] * (sequences == tag)).sum(0) for tag in range(num_tags)], dim=1)
        torch.testing.assert_close(found[2][document], expected)
        for sequence, score in zip(sequences[:5], scores[:5], strict=True):
            loss = crf.negative_log_likelihood(emissions[document : document + 1], sequence[None])
            torch.testing.assert_close(loss[0], scores.logsumexp(0) - score)


def test_a_constant_on_both_emissions_of_a_position_changes_nothing():
    crf, emissions = random_crf(2, seed=0), torch.randn(2, 5, 2)
    tags = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 0, 1]])
    shifted = emissions.clone()
    shifted[:, 2] += 3.0
    torch.testing.assert_close(crf.negative_log_likelihood(shifted, tags), crf.negative_log_likelihood(emissions, tags))
    marginals = crf.log_marginals(emissions).exp()
    assert (marginals >= 0).all() and (marginals <= 1 + 1e-6).all()
    torch.testing.assert_close(marginals.sum(-1), torch.ones(2, 5))


def test_the_worked_example():
    crf, emissions = LinearChainCRF(), torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    assert crf.log_partition(emissions).item() == pytest.approx(2.006409, abs=1e-6)
    assert crf.negative_log_likelihood(emissions, torch.tensor([[1, 0]])).item() == pytest.approx(1.006409, abs=1e-6)
    with torch.no_grad():
        crf.transitions[1, 1] = 1.0
    assert crf.log_partition(emissions).item() == pytest.approx(2.493812, abs=1e-6)
    assert crf.negative_log_likelihood(emissions, torch.tensor([[1, 1]])).item() == pytest.approx(0.493812, abs=1e-6)
    assert crf.log_marginals(emissions)[0, 1, 1].exp().item() == pytest.approx(0.692890, abs=1e-6)


def test_marginals_far_from_one_half_keep_their_order():
    crf = LinearChainCRF()
    emissions = torch.tensor([[[0.0, 30.0], [0.0, 31.0], [0.0, -40.0]]])
    marginals = crf.log_marginals(emissions)
    torch.testing.assert_close(marginals[..., 1] - marginals[..., 0], torch.tensor([[30.0, 31.0, -40.0]]))


def test_hundreds_of_positions_are_a_few_products_and_have_gradients():
    crf, emissions = random_crf(2, seed=3), torch.randn(2, 300, 2, requires_grad=True)
    tags = (torch.rand(2, 300) > 0.5).long()
    crf.negative_log_likelihood(emissions, tags).sum().backward()
    marginals = crf.log_marginals(emissions)[..., 1].exp()
    torch.testing.assert_close(emissions.grad[..., 1], marginals - tags, rtol=0, atol=1e-4)


# ---- the tagger ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def head() -> SequenceTagHead:
    torch.manual_seed(0)
    return SequenceTagHead(4, num_labels=5, lstm_size=3, dropout=0.5).eval()


def step(cell: nn.LSTM, suffix: str, read: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor):
    """One step of an LSTM by its equations; rows are the gates i, f, g, o."""
    weights = [getattr(cell, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    gates = read @ weights[0].T + weights[2] + hidden @ weights[1].T + weights[3]
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * memory.tanh(), memory


@torch.no_grad()
def test_emission_i_is_made_of_the_states_up_to_label_i_and_from_it_on(head):
    labels = torch.randn(2, 5, 4)
    states = {}
    for suffix, order in (("", range(5)), ("_reverse", range(4, -1, -1))):
        hidden = memory = torch.zeros(2, 3)
        for label in order:
            hidden, memory = step(head.lstm, suffix, labels[:, label], hidden, memory)
            states[label, suffix] = hidden
    both = torch.stack([torch.cat([states[label, ""], states[label, "_reverse"]], dim=-1) for label in range(5)], dim=1)
    expected = both @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(head.emissions(labels), expected)
    assert expected.shape == (2, 5, 2)


@torch.no_grad()
def test_dropout_acts_on_both_sides_of_the_lstm_in_training_alone(head):
    labels = torch.randn(2, 5, 4)
    assert torch.equal(head.emissions(labels), head.emissions(labels))
    head.train()
    assert not torch.equal(head.emissions(labels), head.emissions(labels))
    dropped = []
    head.dropout.register_forward_hook(lambda module, inputs, output: dropped.append(tuple(output.shape)))
    head.emissions(labels)
    assert dropped == [(2, 5, 4), (2, 5, 6)]


def test_sizes_are_those_that_were_asked_for_and_yes_is_the_second_tag(head):
    assert head.lstm.hidden_size == 3 and head.lstm.bidirectional and head.lstm.num_layers == 1
    assert head.output.out_features == 2
    with torch.no_grad():
        emissions = torch.zeros(1, 5, 2)
        emissions[0, 3, 1] = 9.0
        assert head.best_set(emissions)[0, 3]
        assert head.raw_logits(emissions).argmax().item() == 3
    assert torch.equal(head.label_bias, head.output.bias[1:])

"""The tagger over labels: what its emissions are made of, and in which order."""

import pytest
import torch
from torch import nn

from hf_xmtc.models.sequence_tag_head import SequenceTagHead


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

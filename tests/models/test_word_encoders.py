"""What the families of words share: alignment, embedding, LSTM with trained initial states."""

import pytest
import torch

from hf_xmtc import XMLCNNConfig, XMLCNNForXMTC
from hf_xmtc.models.word_encoders import BiLSTM
from models.families import LONG, SHORT, make_batch
from models.golden import assert_close, load_golden, stored_parameters

TINY = {"vocab_size": 40, "embedding_size": 12, "num_filters": 6, "pool_size": 4, "bottleneck_size": 10, "num_labels": 5}
RENAMED = [
    (r"^bilstm\.init_state$", "bilstm.initial_state"),
    (r"^bilstm\.(?!initial_state)", "bilstm.lstm."),
]


def test_words_move_to_the_front_and_back_into_their_columns():
    model = XMLCNNForXMTC(XMLCNNConfig(**TINY))
    ids = torch.tensor([[0, 0, 7, 8], [9, 5, 6, 0], [0, 0, 0, 0], [4, 0, 3, 0]])
    words = model.align(ids)
    assert words.ids.tolist() == [[7, 8, 0, 0], [9, 5, 6, 0], [0, 0, 0, 0], [4, 3, 0, 0]]
    assert words.lengths.tolist() == [2, 3, 1, 2]
    assert words.read.sum(dim=1).tolist() == [2, 3, 1, 2] and words.mask.sum(dim=1).tolist() == [2, 3, 0, 2]
    assert words.in_input_columns(words.ids[:, :, None])[:, :, 0].tolist() == ids.tolist()
    assert model.align(torch.zeros(2, 0), torch.zeros(2, 0)).ids.tolist() == [[0], [0]]


def test_what_stands_in_masked_columns_is_not_read():
    model = XMLCNNForXMTC(XMLCNNConfig(**TINY)).eval()
    batch = make_batch(model, [SHORT], length=6)
    other = {**batch, "input_ids": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 12)}
    assert torch.equal(model(**other).logits, model(**batch).logits)


def test_frozen_embeddings_get_no_gradient_and_stay_frozen_when_opened(tmp_path):
    model = XMLCNNForXMTC(XMLCNNConfig(**TINY, freeze_embeddings=True))
    model(**make_batch(model, [SHORT]), labels=torch.tensor([[0]])).loss.backward()
    frozen = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert frozen == ["words.embedding.weight"]
    model.save_pretrained(tmp_path)
    opened = XMLCNNForXMTC.from_pretrained(tmp_path)
    assert not opened.get_input_embeddings().weight.requires_grad
    assert XMLCNNForXMTC(XMLCNNConfig(**TINY)).get_input_embeddings().weight.requires_grad


def test_the_padding_row_starts_at_zero_and_has_no_gradient():
    for settings in ({}, {"pooling": "padded", "padded_length": 20}):
        model = XMLCNNForXMTC(XMLCNNConfig(**TINY, **settings))
        table = model.get_input_embeddings().weight
        assert (table[0] == 0).all() and (table[1:].std() - 0.1).abs() < 0.02
        model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0], [1]])).loss.backward()
        assert (table.grad[0] == 0).all() and (table.grad[7] != 0).any()


def test_sparse_gradients_of_the_embedding_equal_the_dense_ones():
    gradients = []
    for sparse in (False, True):
        torch.manual_seed(0)
        model = XMLCNNForXMTC(XMLCNNConfig(**TINY)).eval()
        model.get_input_embeddings().sparse = sparse
        model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0], [1]])).loss.backward()
        gradients.append(model.get_input_embeddings().weight.grad)
    assert gradients[1].is_sparse
    torch.testing.assert_close(gradients[1].to_dense(), gradients[0])


@torch.no_grad()
@pytest.mark.parametrize("name", ["attentionrnn", "meshprobenet"])
def test_lstm_states_equal_the_authors(name):
    golden, settings = load_golden(name)
    num_layers = settings.get("layers_num") or settings["n_layers"]
    lstm = BiLSTM(settings["emb_size"], settings["hidden_size"], num_layers, dropout=0.5).eval()
    stored = stored_parameters(golden, RENAMED)
    lstm.load_state_dict({key: stored[f"bilstm.{key}"] for key in lstm.state_dict()})
    ids = golden["input_ids"]
    states = lstm(golden["embedding.weight"][ids], (ids != 0).sum(dim=1))
    expected = golden["mid.bilstm_out"]  # as long as the longest document
    assert_close(states[:, : expected.shape[1]], expected, 1e-5, "states")
    assert (states[:, expected.shape[1] :] == 0).all()


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("lengths", [[5, 1, 3, 7], [2, 1, 1, 2], [7, 7, 7, 7]], ids=str)
def test_an_lstm_for_each_direction_gives_the_states_and_gradients_of_a_packed_one(num_layers, lengths):
    torch.manual_seed(0)
    lstm = BiLSTM(3, 4, num_layers, dropout=0.0).double()
    torch.nn.init.normal_(lstm.initial_state)
    embedded, lengths = torch.randn(4, 7, 3, dtype=torch.float64, requires_grad=True), torch.tensor(lengths)
    cells, hidden = (state.contiguous() for state in lstm.initial_state.expand(-1, 4, -1).chunk(2))
    inputs = [embedded, *lstm.parameters()]
    weights = torch.randn(4, 7, 8, dtype=torch.float64)
    found = []
    for states in (lstm._run_packed(embedded, lengths, hidden, cells), lstm(embedded, lengths)):
        found.append([states, *torch.autograd.grad((states * weights).sum(), inputs, retain_graph=True)])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)
    assert not found[1][0][torch.arange(7) >= lengths[:, None]].any()

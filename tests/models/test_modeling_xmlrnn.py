import pytest
import torch

from hf_xmtc import XMLRNNConfig, XMLRNNForXMTC
from models.families import LONG, SHORT, make_batch

TINY = {"vocab_size": 40, "embedding_size": 12, "hidden_size": 8, "linear_sizes": [10, 6]}
TINY |= {"cornet_num_blocks": 0, "num_labels": 5}


@torch.no_grad()
def test_scores_equal_the_lstm_run_over_each_document_alone():
    torch.manual_seed(1)
    model = XMLRNNForXMTC(XMLRNNConfig(**TINY)).eval()
    model.bilstm.initial_state.uniform_(-1, 1)
    logits = model(**make_batch(model, [SHORT, LONG])).logits
    cells, hidden = model.bilstm.initial_state.chunk(2)
    for row, document in enumerate((SHORT, LONG)):
        embedded = model.get_input_embeddings().weight[document][None]  # (1, T, E)
        states, _ = model.bilstm.lstm(embedded, (hidden.contiguous(), cells.contiguous()))
        features = states[0].max(dim=0).values
        for linear in model.linears:
            features = linear(features).relu()
        torch.testing.assert_close(logits[row], model.label_head(features[None])[0], rtol=0, atol=1e-5)


@torch.no_grad()
def test_padding_does_not_count_in_the_maximum_even_where_all_states_are_negative():
    model = XMLRNNForXMTC(XMLRNNConfig(**{**TINY, "linear_sizes": []})).eval()
    model.bilstm.initial_state[: len(model.bilstm.initial_state) // 2] = -5.0  # cells
    features, (embedded, states) = model.encode(**make_batch(model, [SHORT, LONG]), output_hidden_states=True)
    assert (features[0] == states[0, : len(SHORT)].amax(dim=0)).all() and (features[0] < 0).any()
    assert embedded.shape == (2, len(LONG), 12) and (states[0, len(SHORT) :] == 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_size": 0}, "hidden_size=0, but a size is at least 1"),
        ({"linear_sizes": [5, -1]}, r"linear_sizes=\[5, -1\], but a size is at least 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        XMLRNNConfig(**{**TINY, **settings})


def test_every_setting_comes_back_from_a_file(tmp_path):
    for settings in ({}, {"embedding_dropout": 0.0, "hidden_dropout_prob": 0.1, "linear_sizes": []}):
        written = XMLRNNConfig(**{**TINY, **settings})
        written.save_pretrained(tmp_path)
        read = XMLRNNConfig.from_pretrained(tmp_path)
        fields = {*XMLRNNConfig.file_defaults(), *TINY}
        assert {field: getattr(read, field) for field in fields} == {field: getattr(written, field) for field in fields}

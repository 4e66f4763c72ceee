import numpy as np
import pytest
import torch

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC, LACOConfig, LACOForXMTC
from hf_xmtc.data import label_counts
from hf_xmtc.metrics import inverse_propensity
from hf_xmtc.training import initialization, initialize_label_bias, initialize_label_weights


def test_scores_start_at_the_frequency_of_the_labels(make_model):
    model = make_model(num_labels=3)
    initialize_label_bias(model, np.array([0, 50, 99]), num_documents=99)
    assert model.label_head.output.bias.sigmoid().tolist() == pytest.approx([0.005, 0.505, 0.995])
    assert torch.isfinite(model.label_head.output.bias).all()


def test_a_bias_that_all_labels_share_starts_at_their_mean_frequency():
    sizes = {"vocab_size": 20, "num_labels": 3, "hidden_size": 4, "embedding_size": 4}
    model = AttentionXMLForXMTC(AttentionXMLConfig.reproduction(**sizes))
    initialize_label_bias(model, np.array([0, 50, 99]), num_documents=99)
    assert model.label_head.output.bias.sigmoid().tolist() == pytest.approx([(0.005 + 0.505 + 0.995) / 3])
    model = AttentionXMLForXMTC(AttentionXMLConfig(**sizes, label_bias=True))
    initialize_label_bias(model, np.array([0, 50, 99]), num_documents=99)
    assert model.label_head.bias.sigmoid().tolist() == pytest.approx([0.005, 0.505, 0.995])


def laco(**settings) -> LACOForXMTC:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 20}
    fixed = {"num_labels": 20, "backbone_config": {"model_type": "bert", **sizes}, "sep_token_id": 3}
    return LACOForXMTC(LACOConfig(**{**fixed, **settings}))


@pytest.mark.parametrize(
    ("settings", "remaining", "asked"),
    [
        ({}, 3, 19),  # of 4 labels one is given
        ({"num_candidates": 10}, 3, 9),
    ],
)
def test_auxiliary_heads_start_at_how_often_their_answer_is_yes(settings, remaining, asked):
    model = laco(auxiliary_task="both", **settings)
    initialize_label_bias(model, np.full(20, 200), num_documents=1000)  # 4 labels a document
    assert model.pair_head.output.bias.sigmoid().item() == pytest.approx(1 / 3)
    assert model.conditional_head.output.bias.sigmoid().item() == pytest.approx(remaining / asked, rel=1e-2)


def test_auxiliary_heads_start_finite_with_few_labels():
    for count, settings in ((1, {"num_labels": 1}), (1, {}), (90, {"num_candidates": 5})):
        model = laco(auxiliary_task="clcp", **settings)
        initialize_label_bias(model, np.full(model.config.num_labels, count), num_documents=100)
        assert model.conditional_head.output.bias.isfinite()


def test_counts_of_another_label_set_are_refused(make_model):
    with pytest.raises(ValueError, match="counts for 2 labels but num_labels=3"):
        initialize_label_bias(make_model(num_labels=3), np.array([1, 2]), num_documents=9)


def test_positives_weigh_as_much_as_their_labels_inverse_propensity(make_model):
    model = make_model(num_labels=3, label_loss="propensity_bce")
    counts = np.array([0, 50, 99])
    initialize_label_weights(model, counts, num_documents=99)
    expected = inverse_propensity(counts, 99, a=0.55, b=1.5)
    assert model.label_head.positive_weight.tolist() == pytest.approx(expected.tolist())
    with pytest.raises(ValueError, match="label_loss='bce' puts no weights on labels"):
        initialize_label_weights(make_model(num_labels=3), counts, num_documents=99)


def test_the_trainer_sets_label_weights_unless_they_are_set(make_model, make_trainer, corpus, monkeypatch):
    said = []
    monkeypatch.setattr(initialization.logger, "warning", said.append)
    model = make_model(label_loss="propensity_bce")
    trainer = make_trainer(model=model, max_steps=1, eval_strategy="no", save_strategy="no", load_best_model_at_end=False)
    expected = pytest.approx(inverse_propensity(label_counts(corpus["train"], 6), 24, a=0.55, b=1.5).tolist())
    assert model.label_head.positive_weight.tolist() == expected
    trainer.train()
    make_trainer(model=model)
    assert not said
    model.label_head.positive_weight.fill_(2.0)
    make_trainer(model=model)
    assert model.label_head.positive_weight.tolist() == [2.0] * 6
    assert "keeps the label weights of its loss, which are not those of these data" in said.pop()
    model.label_head.positive_weight[1] = 0.0
    make_trainer(model=model)
    assert model.label_head.positive_weight.tolist() == expected
    assert "1 of 6 labels have no weight in the loss yet; those of all are set anew" in said.pop()

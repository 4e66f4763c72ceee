"""Settings of LACO's parts and tasks do something and are saved; defaults are those that the specification decides for."""

import itertools

import pytest
import torch

from hf_xmtc import LACOConfig, LACOForXMTC, SeqTagConfig
from models.families import make_batch
from models.tiny_laco import BATCH, build

# Enough documents for rare draws to differ: of three labels, of one, of none.
DOCUMENTS = BATCH * 12
LABELS = torch.tensor([[0, 2, 3, 5], [1, -100, -100, -100], [1, 2, 4, -100], [-100] * 4] * 6)


def test_defaults_are_those_of_the_specification():
    config = LACOConfig(num_labels=6)
    decided = {
        "label_positions": "shared",  # D3, for any number of labels in any order
        "cross_attention_similarity": "cosine",
        "cross_attention_values": "normalized",
        "cross_attention_kernel": [11, 1],  # D7, r = 5
        "cross_attention_channels": 64,
        "cross_attention_tokens": "all",
        "loss_reduction": "sum_labels",
        "auxiliary_sampling": "visit",
        "plcp_pairs": "one_to_two",
        "plcp_single_label": "masked",
        "auxiliary_units": 1,
        "clcp_given": "one",
        "clcp_head": "transformed",
        "plcp_weight": 2.0,
        "clcp_weight": 10.0,
        "decision_threshold": 0.5,
        "classifier_token": "pooler",
        "classifier_dropout": 0.1,
        "auxiliary_task": "none",
    }
    assert {name: getattr(config, name) for name in decided} == decided
    assert SeqTagConfig(num_labels=6).lstm_hidden_size == 256 and SeqTagConfig(num_labels=6).classifier_dropout == 0.1


def test_the_reproduction_is_the_authors_code():
    config = LACOConfig.reproduction(num_labels=6)
    authors = {"label_positions": "sequential", "cross_attention_kernel": [10, 10], "cross_attention_channels": 6}
    assert {name: getattr(config, name) for name in authors} == authors
    assert LACOConfig.reproduction(num_labels=6, cross_attention_channels=3).cross_attention_channels == 3


@torch.no_grad()
def loss_of(model: LACOForXMTC) -> float:
    torch.manual_seed(0)  # of dropout
    batch = make_batch(model, DOCUMENTS, length=20)
    return model.train()(**batch, labels=LABELS, document_seeds=torch.arange(len(DOCUMENTS))).loss.item()


@pytest.mark.parametrize(
    ("settings", "field", "values"),
    [
        ({}, "cross_attention_similarity", ("cosine", "dot")),
        ({}, "cross_attention_values", ("normalized", "raw")),
        ({}, "cross_attention_tokens", ("all", "words", "padded")),
        ({"cross_attention": False}, "classifier_token", ("pooler", "cls")),
        ({}, "cross_attention", (True, False)),
        ({}, "joint_embedding", (True, False)),
        ({}, "cross_attention_kernel", ([3, 1], [5, 1], [3, 3])),
        ({}, "cross_attention_channels", (4, 8)),
        ({}, "loss_reduction", ("sum_labels", "mean")),
        ({}, "classifier_dropout", (0.0, 0.5)),
        ({}, "label_positions", ("shared", "sequential")),
        ({}, "joint_attention", ("full", "one_way")),
        ({"auxiliary_task": "plcp"}, "plcp_pairs", ("one_to_two", "one")),
        ({"auxiliary_task": "plcp"}, "plcp_single_label", ("masked", "negatives_only")),
        ({"auxiliary_task": "plcp"}, "plcp_weight", (2.0, 1.0)),
        ({"auxiliary_task": "clcp"}, "clcp_given", ("one", "uniform", "bernoulli")),
        ({"auxiliary_task": "clcp", "clcp_given": "bernoulli"}, "clcp_given_probability", (0.5, 0.1)),
        ({"auxiliary_task": "clcp"}, "clcp_head", ("transformed", "plain")),
        ({"auxiliary_task": "clcp"}, "clcp_weight", (10.0, 5.0)),
        ({"auxiliary_task": "both"}, "auxiliary_alpha", (0.5, 0.2)),
        ({"auxiliary_task": "both"}, "auxiliary_units", (1, 2)),
        ({"auxiliary_task": "both"}, "literal_equation_7", (False, True)),
        ({"auxiliary_task": "both"}, "auxiliary_task", ("both", "plcp", "clcp", "none")),
    ],
)
def test_each_value_of_a_setting_has_its_own_loss_and_is_saved(settings, field, values, tmp_path):
    losses = []
    for value in values:
        config = {**settings, field: value}
        if field == "auxiliary_task" and value == "none":
            config = {}
        model = build(**config)
        with torch.no_grad():  # some answers of the filters above 0
            for parameter in model.parameters():
                parameter.add_(
                    0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
                )
        losses.append(loss_of(model))
        folder = tmp_path / str(value)
        model.save_pretrained(folder)
        opened = LACOForXMTC.from_pretrained(folder)
        assert getattr(opened.config, field) == value and loss_of(opened) == pytest.approx(losses[-1], abs=1e-5)
    for first, second in itertools.combinations(losses, 2):
        assert abs(first - second) > 1e-4


def test_tasks_are_drawn_anew_at_each_visit_unless_they_are_fixed():
    seeds = torch.arange(5)
    anew, fixed = build(auxiliary_task="plcp"), build(auxiliary_task="plcp", auxiliary_sampling="fixed")
    assert not torch.equal(anew.visit_seeds(seeds, 0), anew.visit_seeds(seeds, 1))
    assert torch.equal(fixed.visit_seeds(seeds, 0), fixed.visit_seeds(seeds, 1))


def test_two_units_are_the_authors_and_a_plain_head_has_no_transformation():
    two, plain = build(auxiliary_task="both", auxiliary_units=2), build(auxiliary_task="clcp", clcp_head="plain")
    assert two.pair_head.output.out_features == two.conditional_head.output.out_features == 2
    assert sum(p.numel() for p in plain.conditional_head.parameters()) == 2 * plain.config.hidden_size + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"plcp_weight": 1.0}, r"plcp_weight=1.0 with auxiliary_task='none', which does not read it: .*'plcp' or 'both'"),
        ({"plcp_pairs": "one", "auxiliary_task": "clcp"}, "plcp_pairs='one' with auxiliary_task='clcp'"),
        ({"plcp_single_label": "negatives_only", "auxiliary_task": "clcp"}, "plcp_single_label='negatives_only' with"),
        ({"clcp_given": "uniform", "auxiliary_task": "plcp"}, "clcp_given='uniform' with auxiliary_task='plcp'"),
        ({"classifier_token": "cls"}, "classifier_token='cls' with cross_attention=True"),
        ({"clcp_head": "plain"}, "clcp_head='plain' with auxiliary_task='none'"),
        ({"clcp_weight": 5.0}, "clcp_weight=5.0 with auxiliary_task='none'"),
        ({"clcp_given_probability": 0.2, "auxiliary_task": "clcp"}, "it goes with clcp_given='bernoulli'"),
        (
            {"auxiliary_alpha": 0.2, "auxiliary_task": "plcp"},
            "it goes with auxiliary_task='both' or literal_equation_7=True",
        ),
        ({"auxiliary_units": 2}, "auxiliary_units=2 with auxiliary_task='none'"),
        ({"auxiliary_sampling": "fixed"}, "auxiliary_sampling='fixed' with auxiliary_task='none'"),
        ({"literal_equation_7": True}, "literal_equation_7=True with auxiliary_task='none'"),
    ],
)
def test_settings_of_a_task_that_is_not_learnt_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_a_threshold_of_seqtag_in_its_config_is_refused():
    with pytest.raises(ValueError, match=r"decision_threshold=0.1, but for SeqTag it must be 0.5: .* best sequence"):
        SeqTagConfig(num_labels=3, decision_threshold=0.1)

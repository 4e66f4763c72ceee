"""Settings of LACO's parts and tasks do something and are saved; defaults are those that the specification decides for."""

import itertools
import json

import pytest
import torch
from transformers import AutoConfig

from hf_xmtc import LACOConfig, LACOForXMTC, SeqTagConfig
from hf_xmtc.models.configuration_laco import REMOVED
from models.families import make_batch
from models.tiny_laco import BATCH, build

# Enough documents for rare draws to differ: of three labels, of one, of none.
DOCUMENTS = BATCH * 12
LABELS = torch.tensor([[0, 2, 3, 5], [1, -100, -100, -100], [1, 2, 4, -100], [-100] * 4] * 6)


def test_defaults_are_those_of_the_specification():
    config = LACOConfig(num_labels=6)
    decided = {
        "label_positions": "shared",  # D3, for any number of labels in any order
        "cross_attention_kernel": [11, 1],
        "cross_attention_channels": 64,
        "loss_reduction": "sum_labels",
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
    torch.manual_seed(0)  # of dropout and of what the tasks ask
    batch = make_batch(model, DOCUMENTS, length=20)
    return model.train()(**batch, labels=LABELS).loss.item()


@pytest.mark.parametrize(
    ("settings", "field", "values"),
    [
        ({"cross_attention": False}, "classifier_token", ("pooler", "cls", "mean")),
        ({}, "cross_attention", (True, False)),
        ({}, "joint_embedding", (True, False)),
        ({}, "cross_attention_kernel", ([3, 1], [5, 1], [3, 3])),
        ({}, "cross_attention_channels", (4, 8)),
        ({}, "loss_reduction", ("sum_labels", "mean")),
        ({}, "classifier_dropout", (0.0, 0.5)),
        ({}, "label_positions", ("shared", "sequential")),
        ({}, "joint_attention", ("full", "one_way")),
        ({"auxiliary_task": "plcp"}, "plcp_weight", (2.0, 1.0)),
        ({"auxiliary_task": "clcp"}, "clcp_weight", (10.0, 5.0)),
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"plcp_weight": 1.0}, r"plcp_weight=1.0 with auxiliary_task='none', which does not read it: .*'plcp' or 'both'"),
        ({"classifier_token": "cls"}, "classifier_token='cls' with cross_attention=True"),
        ({"clcp_weight": 5.0}, "clcp_weight=5.0 with auxiliary_task='none'"),
    ],
)
def test_settings_of_a_task_that_is_not_learnt_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


@pytest.mark.parametrize("opener", [LACOConfig, AutoConfig])
def test_settings_of_earlier_versions_open_with_their_default_and_are_refused_with_another(tmp_path, opener):
    build().config.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**stored, **REMOVED}), encoding="utf-8")
    opened = opener.from_pretrained(tmp_path)
    assert not any(hasattr(opened, name) for name in REMOVED)
    for name, value in {"clcp_given": "uniform", "cross_attention_tokens": "padded", "auxiliary_alpha": 0.2}.items():
        file.write_text(json.dumps({**stored, name: value}), encoding="utf-8")
        with pytest.raises(ValueError, match=f"{name}={value!r}, but this setting was removed .* Train the model anew"):
            opener.from_pretrained(tmp_path)


def test_a_threshold_of_seqtag_in_its_config_is_refused():
    with pytest.raises(ValueError, match=r"decision_threshold=0.1, but for SeqTag it must be 0.5: .* best sequence"):
        SeqTagConfig(num_labels=3, decision_threshold=0.1)


@pytest.mark.parametrize("former", ["generator_share", "retrieval_weight", "label_term"])
def test_files_of_models_whose_scores_mixed_votes_in_afterwards_are_refused(former, tmp_path):
    LACOConfig(num_labels=6, num_candidates=3, cornet_num_blocks=0).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, former: 0.6 if former != "label_term" else True}))
    with pytest.raises(ValueError, match=f"{former}=.*, but this setting was removed .* Train the model anew"):
        LACOConfig.from_pretrained(tmp_path)
    file.write_text(json.dumps({**settings, former: 0.0 if former != "label_term" else False}))
    assert LACOConfig.from_pretrained(tmp_path).num_candidates == 3

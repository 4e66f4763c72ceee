"""Learning rates by layer, as LACO's code has them."""

import pytest
import torch
from transformers import AutoConfig

from hf_xmtc import (
    BertXMLConfig,
    BertXMLForXMTC,
    LACOConfig,
    LACOForXMTC,
    XMLCNNConfig,
    XMLCNNForXMTC,
    XMTCTrainingArguments,
)
from hf_xmtc.data import label_info_of
from hf_xmtc.training.layer_rates import freeze_heads, layer_learning_rates
from hf_xmtc.training.optimizer_options import build_optimizer

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}


def model_on(model_type: str, **sizes) -> LACOForXMTC:
    backbone = AutoConfig.for_model(model_type, **{**SIZES, **sizes})
    return LACOForXMTC(LACOConfig(num_labels=5, backbone_config=backbone, cross_attention_channels=2, sep_token_id=3))


def test_the_rates_are_those_of_the_authors():
    rates = layer_learning_rates(model_on("bert", num_hidden_layers=12), 5e-5, 0.8)
    assert rates["backbone.embeddings.word_embeddings.weight"] == pytest.approx(2.2e-6, rel=1e-2)
    assert rates["backbone.encoder.layer.0.attention.self.query.weight"] == pytest.approx(2.75e-6, rel=1e-2)
    assert rates["backbone.encoder.layer.11.output.dense.bias"] == pytest.approx(3.2e-5, rel=1e-2)


@pytest.mark.parametrize(
    ("model_type", "sizes", "layer"),
    [
        ("distilbert", {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 8}, "transformer.layer.1."),
        ("electra", {"num_hidden_layers": 2, "embedding_size": 8}, "encoder.layer.1."),
        ("roberta", {"num_hidden_layers": 2, "pad_token_id": 1}, "encoder.layer.1."),
        ("albert", {"num_hidden_layers": 2, "embedding_size": 8}, "encoder.albert_layer_groups.0."),
    ],
)
def test_the_layers_of_every_encoder_are_found(model_type, sizes, layer):
    rates = layer_learning_rates(model_on(model_type, **sizes), 1.0, 0.5)
    of_layer = {rate for name, rate in rates.items() if name.startswith(f"backbone.{layer}")}
    assert of_layer == {0.25}  # the topmost
    assert rates["backbone.embeddings.word_embeddings.weight"] == (0.125 if model_type == "albert" else 0.0625)


def test_a_norm_above_all_layers_has_the_rate_of_the_topmost_one():
    rates = layer_learning_rates(model_on("roberta-prelayernorm", num_hidden_layers=2, pad_token_id=1), 1.0, 0.5)
    assert rates["backbone.LayerNorm.weight"] == rates["backbone.encoder.layer.1.output.dense.weight"] == 0.25
    assert rates["backbone.embeddings.LayerNorm.weight"] == 0.0625


def test_every_parameter_is_trained_once_by_its_rate_and_heads_by_the_full_one(tmp_path):
    model = model_on("bert", num_hidden_layers=2)
    args = XMTCTrainingArguments(
        output_dir=str(tmp_path),
        layer_learning_rate_decay=0.5,
        learning_rate=0.1,
        weight_decay=0.01,
        label_learning_rate=0.3,
    )
    optimizer, _ = build_optimizer(model, args, torch.optim.AdamW, {"lr": 0.1})
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(found) == len(list(model.parameters()))
    expected = {
        "backbone.embeddings.word_embeddings.weight": (0.1 / 16, 0.0),
        "backbone.encoder.layer.0.attention.self.query.weight": (0.1 / 8, 0.01),
        "backbone.encoder.layer.1.attention.self.query.bias": (0.1 / 4, 0.0),
        "cross_attention.conv.weight": (0.1, 0.01),
        "label_embedding.weight": (0.1, 0.0),
        "label_head.output.weight": (0.3, 0.01),
    }
    named = dict(model.named_parameters())
    for name, rate_and_decay in expected.items():
        assert found[id(named[name])] == pytest.approx(rate_and_decay), name
    before = named["cross_attention.conv.weight"].clone()
    model(torch.tensor([[4, 5, 6, 3]]), labels=torch.tensor([[1]])).loss.backward()
    optimizer.step()
    assert not torch.equal(named["cross_attention.conv.weight"], before)


def test_frozen_heads_stay_as_they_start_and_all_below_them_learns(tmp_path):
    model = model_on("bert", num_hidden_layers=2)
    freeze_heads(model)
    args = XMTCTrainingArguments(output_dir=str(tmp_path), learning_rate=0.1, layer_learning_rate_decay=0.8)
    optimizer, _ = build_optimizer(model, args, torch.optim.AdamW, {"lr": 0.1})
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    model(torch.tensor([[4, 5, 6, 3]]), labels=torch.tensor([[1]])).loss.backward()
    optimizer.step()
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert not [name for name in moved if not name.startswith(("backbone.", "label_embedding."))]
    assert {"label_embedding.weight", "backbone.encoder.layer.0.attention.self.query.weight"} <= moved
    assert {"cross_attention.conv.weight", "label_head.output.weight", "label_head.output.bias"} <= set(before) - moved


def test_a_trainer_leaves_frozen_heads_alone(make_trainer, corpus, tokenizer):
    backbone = {"model_type": "bert", "num_hidden_layers": 1, **SIZES, "vocab_size": len(tokenizer)}
    names = label_info_of(corpus).names
    model = BertXMLForXMTC(BertXMLConfig(label_names=names, num_cls_tokens=2, cornet_num_blocks=0, backbone_config=backbone))
    head, words = (
        weight.detach().clone() for weight in (model.label_head.output.weight, model.get_input_embeddings().weight)
    )
    make_trainer(
        model=model, freeze_heads=True, max_steps=2, eval_strategy="no", save_strategy="no", load_best_model_at_end=False
    ).train()
    assert torch.equal(model.label_head.output.weight, head)
    assert not torch.equal(model.get_input_embeddings().weight, words)


def test_what_has_no_layers_and_factors_that_make_no_sense_are_refused(tmp_path):
    model = XMLCNNForXMTC(XMLCNNConfig(num_labels=3, vocab_size=20))
    with pytest.raises(ValueError, match="XMLCNNForXMTC has no encoder of transformers"):
        layer_learning_rates(model, 1.0, 0.8)
    with pytest.raises(ValueError, match="freeze_heads=True, but this XMLCNNForXMTC has no encoder .* choose a family"):
        freeze_heads(model)
    bert = BertXMLForXMTC(BertXMLConfig(num_labels=3, **SIZES))
    with pytest.raises(ValueError, match="freeze_heads=True, but this BertXMLForXMTC has no encoder .* name a backbone"):
        freeze_heads(bert)
    with pytest.raises(ValueError, match=r"layer_learning_rate_decay=1.5, but the factor is more than 0 and at most 1"):
        XMTCTrainingArguments(output_dir=str(tmp_path), layer_learning_rate_decay=1.5)
    with pytest.raises(ValueError, match="freeze_heads=True with label_learning_rate=0.1, but frozen label matrices"):
        XMTCTrainingArguments(output_dir=str(tmp_path), freeze_heads=True, label_learning_rate=0.1)
    with pytest.raises(ValueError, match="with sparse_embeddings=True"):
        XMTCTrainingArguments(output_dir=str(tmp_path), layer_learning_rate_decay=0.8, sparse_embeddings=True)


def test_a_frozen_encoder_stays_as_it_is_through_training(make_model, make_trainer):  # AC-36
    model = make_model()
    model.base_model.requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    make_trainer(model=model, max_steps=2).train()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != name.startswith(("label_head.", "cornet.")), name

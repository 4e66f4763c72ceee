"""Graphs recorded from a model are right for other batches or refused; int8 layers answer in every way alike."""

import warnings

import pytest
import torch
from torch import nn
from transformers import AutoTokenizer

from hf_xmtc import BertXMLForXMTC, XMTCPipeline
from hf_xmtc.models.label_topk import exact_topk
from hf_xmtc.models.word_encoders import BiLSTM
from models.families import FAMILIES, LONG, NUM_LABELS, SHORT, make_batch

# What torch records takes seconds to export, so one variant stands for those that record the same.
EXPORTED = [family for family in FAMILIES if family.name in {"bertxml-on-bert", "xmlcnn", "laco-on-bert"}]
WITH_LSTM = [family for family in FAMILIES if family.name in {"xmlrnn", "attentionxml-blocks", "meshprobenet"}]


class Logits(nn.Module):
    """Ids and mask in, one tensor out, as exporters want it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask).logits


class TopLabels(Logits):
    def forward(self, input_ids, attention_mask):
        output = self.model(input_ids, attention_mask, top_k=3)
        return output.top_scores, output.top_labels


def batches(model) -> tuple[tuple, tuple]:
    """Two documents of at most 12 words, and three of at most 16."""
    return tuple(
        tuple(make_batch(model, documents).values()) for documents in ([SHORT, LONG], [LONG[:5], LONG + LONG[:4], SHORT])
    )


@torch.no_grad()
def traced(module: nn.Module, example: tuple):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constants, and that tracing is deprecated
        return torch.jit.trace(module, example, check_trace=False)


@torch.no_grad()
def exported(module: nn.Module, example: tuple, *dimensions: int):
    dynamic = dict.fromkeys(dimensions, torch.export.Dim.DYNAMIC)
    return torch.export.export(module, example, dynamic_shapes=(dynamic, dynamic)).module()


def build(family, **settings):
    return family.build(cornet_num_blocks=0 if family.has_own_loss else 1, **settings)


@pytest.mark.parametrize("wrapper", [Logits, TopLabels])
def test_a_traced_model_answers_for_other_batches_as_the_model_does(family, wrapper):  # AC-44
    module = wrapper(build(family, label_block_size=2)).eval()
    example, other = batches(module.model)
    if family.has_own_loss:
        with pytest.raises(ValueError, match="Export another family"):
            traced(module, example)
        return
    with torch.no_grad():
        torch.testing.assert_close(traced(module, example)(*other), module(*other))


@pytest.mark.parametrize("family", EXPORTED, ids=lambda family: family.name)
def test_an_exported_model_answers_for_other_batches_as_the_model_does(family):  # AC-44
    module = Logits(build(family)).eval()
    example, other = batches(module.model)
    with torch.no_grad():
        torch.testing.assert_close(exported(module, example, 0, 1)(*other), module(*other))


@pytest.mark.parametrize("family", WITH_LSTM, ids=lambda family: family.name)
def test_a_model_with_an_lstm_is_not_exported_with_any_length(family):  # AC-44
    module = Logits(build(family)).eval()
    with pytest.raises(ValueError, match="Export with a fixed length"):
        exported(module, batches(module.model)[0], 0, 1)


def test_a_model_with_an_lstm_is_exported_with_a_fixed_length():  # AC-44
    module = Logits(build(WITH_LSTM[0])).eval()
    example, other = batches(module.model)
    other = tuple(tensor[:, :12] for tensor in other)
    with torch.no_grad():
        torch.testing.assert_close(exported(module, example, 0)(*other), module(*other))


def test_what_depends_on_the_numbers_of_a_batch_is_not_exported():  # AC-44
    (laco,) = (family.build() for family in FAMILIES if family.name == "laco-on-bert-without-joint-embedding")
    (ids, _), _ = batches(laco)

    class Loss(Logits):
        def forward(self, input_ids, labels):
            return self.model(input_ids, labels=labels).loss

    class Candidates(Logits):
        def forward(self, input_ids, candidate_ids):
            return self.model(input_ids, candidate_ids=candidate_ids).top_scores

    for module, complaint in ((Loss, "Export the model without labels"), (Candidates, "Export the model without them")):
        with pytest.raises(ValueError, match=complaint):
            traced(module(laco), (ids, torch.tensor([[0], [1]])))


def test_traced_top_labels_resolve_ties_that_the_example_did_not_have():  # AC-44
    best = traced(lambda logits: exact_topk(logits, 2), (torch.tensor([[0.1, 0.2, 0.3]]),))
    logits = torch.tensor([[1.0, 1.0, 1.0], [0.0, 2.0, 2.0]])
    assert best(logits)[1].tolist() == exact_topk(logits, 2)[1].tolist() == [[0, 1], [1, 2]]


def int8(model: nn.Module, *types: type) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that these tools will move to torchao
        return torch.ao.quantization.quantize_dynamic(model, set(types) or {nn.Linear}, dtype=torch.qint8)


@torch.no_grad()
def test_top_labels_of_int8_layers_follow_the_logits(model):  # AC-43
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[1, -100], [0, 2]])
    with_lstm = [nn.Linear, nn.LSTM]
    for quantized in (int8(model), int8(model, *with_lstm)):
        logits = quantized(**batch).logits
        torch.testing.assert_close(logits, model(**batch).logits, rtol=0, atol=0.6)
        output = quantized(**batch, labels=labels, top_k=3)
        expected = logits.sort(dim=1, descending=True, stable=True)
        assert output.top_labels.tolist() == expected.indices[:, :3].tolist()
        torch.testing.assert_close(output.top_scores, expected.values[:, :3].sigmoid())
        torch.testing.assert_close(output.loss, quantized(**batch, labels=labels).loss)


def test_an_int8_model_answers_through_the_pipeline(tiny_model_folder):  # AC-43
    model, tokenizer = BertXMLForXMTC.from_pretrained(tiny_model_folder), AutoTokenizer.from_pretrained(tiny_model_folder)
    quantized = int8(model)
    answer = XMTCPipeline(model=quantized, tokenizer=tokenizer)("play music", top_k=3)
    with torch.no_grad():
        scores, label_ids = (
            quantized(**tokenizer("play music", return_tensors="pt")).logits[0].sigmoid().sort(descending=True)
        )
    assert [entry["label"] for entry in answer] == [model.config.id2label[label_id] for label_id in label_ids.tolist()[:3]]
    assert [entry["score"] for entry in answer] == pytest.approx(scores.tolist()[:3], abs=1e-5)


@pytest.mark.parametrize("name", ["meshprobenet", "laco-on-bert"])
def test_what_reads_int8_weights_says_so(name):  # AC-43
    (family,) = (family for family in FAMILIES if family.name == name)
    model = int8(build(family))
    batch = make_batch(model, [SHORT])
    with pytest.raises(ValueError, match="A token's contribution reads the weights of layers that were quantized"):
        model.token_weights(**batch, label_ids=torch.tensor([[0]]))
    with pytest.raises(ValueError, match="CorNet on candidates reads the weights"):
        model.cornet.refine_candidates(torch.zeros(1, NUM_LABELS), torch.arange(NUM_LABELS)[None])


def test_a_chosen_label_of_an_int8_head_has_the_score_of_all_labels():
    model = int8(build(FAMILIES[0], bottleneck_size=None))
    hidden = torch.randn(2, model.label_head.output.in_features)
    with torch.no_grad():
        all_scores = model.label_head.logits(hidden).sigmoid()
        chosen = model.label_head.scores_for(hidden, torch.tensor([[3, 0], [1, -100]]))
    assert chosen.flatten().tolist() == pytest.approx([*all_scores[0, [3, 0]].tolist(), float(all_scores[1, 1]), 0.0])


def test_an_lstm_is_never_traced_through_packed_documents():
    lstm = BiLSTM(4, 3, num_layers=2, dropout=0.0).eval()
    embedded, lengths = torch.randn(2, 5, 4), torch.tensor([5, 2])
    other, other_lengths = torch.randn(4, 9, 4), torch.tensor([3, 9, 1, 7])
    with torch.no_grad():
        torch.testing.assert_close(
            traced(lstm, (embedded, lengths))(other, other_lengths), lstm(other, other_lengths), rtol=1e-5, atol=1e-6
        )

"""AttentionXML: equal to the authors' code, attention of chosen labels, and what belongs to one family alone."""

import pytest
import torch

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC
from hf_xmtc.training.sharded_label_head import shard_labels
from models.golden import ATTENTIONXML_NAMES, assert_close, assert_gradients_close, load_golden, stored_parameters

# Attention kept for the backward pass, and computed again in blocks that do not divide the 23 labels.
WAYS = pytest.mark.parametrize("memory", [{}, {"label_memory_mib": 0, "label_block_size": 5}], ids=["kept", "blocks"])


def authors_model(golden: dict, settings: dict, **changes) -> AttentionXMLForXMTC:
    config = AttentionXMLConfig.reproduction(
        vocab_size=settings["vocab_size"],
        num_labels=settings["labels_num"],
        embedding_size=settings["emb_size"],
        hidden_size=settings["hidden_size"],
        num_hidden_layers=settings["layers_num"],
        linear_sizes=settings["linear_size"],
        **{"cornet_num_blocks": 0, "cornet_context_size": settings.get("cornet_context_size", 1), **changes},
    )
    model = AttentionXMLForXMTC(config).eval()
    stored = stored_parameters(golden, ATTENTIONXML_NAMES)
    model.load_state_dict({name: stored[name] for name in model.state_dict()})
    return model


@WAYS
@pytest.mark.parametrize(
    ("name", "num_blocks", "logits", "loss", "prefix"),
    [
        ("attentionrnn", 0, "logits", "loss", "grad."),
        ("attentionxml", 0, "logits", "loss", "grad."),
        ("attentionxml", 2, "logits_cornet", "loss_cornet", "grad_cornet."),
    ],
)
def test_logits_loss_and_all_gradients_equal_the_authors(name, num_blocks, logits, loss, prefix, memory):
    golden, settings = load_golden(name)
    model = authors_model(golden, settings, cornet_num_blocks=num_blocks, **memory)
    output = model(golden["input_ids"], labels=golden["targets"])
    assert_close(output.logits, golden[logits], 1e-5, logits)
    assert_close(output.loss, golden[loss], 1e-5, loss)
    output.loss.backward()
    assert_gradients_close(model, stored_parameters(golden, ATTENTIONXML_NAMES, prefix))


@torch.no_grad()
def test_more_padding_changes_nothing():
    golden, settings = load_golden("attentionxml")
    assert_close(authors_model(golden, settings)(golden["input_ids_longer"]).logits, golden["logits_longer"], 1e-5)


@torch.no_grad()
def test_states_contexts_and_the_mask_equal_the_authors():
    golden, settings = load_golden("attentionrnn")
    model = authors_model(golden, settings)
    documents, _, _ = model.encode(golden["input_ids"])
    longest = golden["mid.bilstm_out"].shape[1]
    assert_close(documents.states[:, :longest], golden["mid.bilstm_out"], 1e-5, "states")
    assert torch.equal(documents.read[:, :longest], golden["mid.attention_in_mask"].bool())
    every_label = torch.arange(settings["labels_num"]).expand(len(documents.states), -1)
    contexts = model.label_head.attention_of(documents, every_label) @ documents.states
    assert_close(contexts, golden["mid.label_context"], 1e-5, "contexts")


def test_sizes_for_large_data_sets_are_the_authors():
    config = AttentionXMLConfig.large(num_labels=2)
    assert (config.hidden_size, config.linear_sizes, config.num_hidden_layers) == (512, [512, 256], 1)


@torch.no_grad()
def test_a_document_of_one_token_scores_all_labels_alike():
    golden, settings = load_golden("attentionxml")
    logits = authors_model(golden, settings)(torch.tensor([[7, 0, 0]])).logits
    torch.testing.assert_close(logits, logits[:, :1].expand(-1, 23))  # equal but for the order of float sums


@torch.no_grad()
def test_attention_is_that_of_the_labels_named_or_of_the_best():
    golden, settings = load_golden("attentionxml")
    model, ids = authors_model(golden, settings), golden["input_ids"]
    best = model(ids, top_k=4, output_attentions=True)
    named = model(ids, attention_labels=best.top_labels, output_attentions=True)
    assert torch.equal(best.attentions[0], named.attentions[0]) and named.attentions[0].shape == (5, 1, 4, 20)
    weights = model.token_weights(ids, None, best.top_labels)
    assert torch.equal(weights, named.attentions[0][:, 0])
    assert not weights.masked_select((ids == 0)[:, None]).any()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(5, 4))
    assert not torch.allclose(weights[:, 0], weights[:, 1])  # every label has its own


@torch.no_grad()
def test_attention_of_padding_is_nothing_and_of_unknown_labels_refused():
    golden, settings = load_golden("attentionxml")
    model, ids = authors_model(golden, settings), golden["input_ids"][:1]
    weights = model.token_weights(ids, None, torch.tensor([[3, -100]]))
    assert weights[0, 0].sum() == pytest.approx(1.0) and not weights[0, 1].any()
    for wrong in (23, -1):
        with pytest.raises(ValueError, match=f"label_ids holds label id {wrong}, but the ids are 0 … 22"):
            model(ids, attention_labels=torch.tensor([[wrong]]), output_attentions=True)


@pytest.mark.parametrize(
    ("labels", "shape"), [(torch.tensor([1, 2]), r"\(2,\)"), ([[1], [2]], "list"), (torch.tensor([[1]]), r"\(1, 1\)")]
)
def test_labels_whose_attention_is_wanted_have_a_row_for_each_document(labels, shape):
    golden, settings = load_golden("attentionxml")
    model, ids = authors_model(golden, settings), golden["input_ids"][:2]
    with pytest.raises(ValueError, match=rf"one row per document, \(2, S\); got {shape}"):
        model(ids, output_attentions=True, attention_labels=labels)
    with pytest.raises(ValueError, match="without output_attentions=True"):
        model(ids, attention_labels=torch.tensor([[1], [2]]))


def test_attention_of_all_labels_is_refused():
    golden, settings = load_golden("attentionxml")
    with pytest.raises(ValueError, match="attention of all 23 labels .*attention_labels=.*or give top_k"):
        authors_model(golden, settings)(golden["input_ids"], output_attentions=True)


def test_labels_that_read_tokens_are_not_spread_over_processes():
    golden, settings = load_golden("attentionxml")
    with pytest.raises(
        ValueError, match="AttentionXMLForXMTC cannot be spread over processes: every label reads all tokens"
    ):
        shard_labels(authors_model(golden, settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_size": 0}, "hidden_size=0, but a size is at least 1"),
        ({"linear_sizes": [5, -1]}, r"linear_sizes=\[5, -1\], but a size is at least 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AttentionXMLConfig(num_labels=2, **settings)


def test_every_setting_comes_back_from_a_file(tmp_path):
    for settings in ({}, {"embedding_dropout": 0.0, "linear_sizes": [], "label_memory_mib": 64.0}):
        written = AttentionXMLConfig(num_labels=2, **settings)
        written.save_pretrained(tmp_path)
        read = AttentionXMLConfig.from_pretrained(tmp_path)
        fields = AttentionXMLConfig.file_defaults()
        assert {field: getattr(read, field) for field in fields} == {field: getattr(written, field) for field in fields}

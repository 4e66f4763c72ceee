"""LACO: what its scores depend on, what it refuses, its ablations, and worked examples."""

import pytest
import torch
from transformers import AutoConfig, BertConfig, BertModel

from hf_xmtc import LACOConfig, LACOForXMTC, train_word_tokenizer
from hf_xmtc.models.laco_cooccurrence import RANDOM_NUMBERS
from models.families import make_batch, overwrite_parameters
from models.tiny_laco import BACKBONE, BATCH, LABELS, SEP, build


@torch.no_grad()
def features_of(model: LACOForXMTC, documents: list[list[int]] = BATCH) -> torch.Tensor:
    return model.encode(model.read_jointly(**make_batch(model, documents)))


@torch.no_grad()
def reordered(model: LACOForXMTC, order: torch.Tensor) -> None:
    for weight in (model.label_embedding.weight, model.label_head.output.weight, model.label_head.output.bias):
        weight.copy_(weight[order].clone())


# ---- the order of labels ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_labels_in_another_order_permute_the_logits_and_leave_the_document_alone():
    model, order = build(), torch.tensor([3, 5, 0, 1, 4, 2])
    features, logits = features_of(model), model(**make_batch(model, BATCH)).logits
    assert features.abs().sum() > 0.1
    reordered(model, order)
    torch.testing.assert_close(features_of(model), features, rtol=0, atol=1e-5)
    torch.testing.assert_close(model(**make_batch(model, BATCH)).logits, logits[:, order], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("settings", [{"label_positions": "sequential"}, {"cross_attention_kernel": (10, 10)}])
def test_with_positions_in_a_row_or_a_kernel_over_labels_the_order_matters(settings):
    model, order = build(**settings), torch.tensor([3, 5, 0, 1, 4, 2])
    model.cross_attention.conv.weight.normal_(std=0.1)
    features = features_of(model)
    reordered(model, order)
    assert (features_of(model) - features).abs().max() > 1e-3


# ---- what the scores depend on -----------------------------------------------------------------------------------------------


def test_logits_do_not_depend_on_labels_or_on_what_is_asked_about_them():
    model = build(auxiliary_task="both").train()
    batch = make_batch(model, BATCH)
    plain = model(**batch).logits
    first, second = torch.randint(2**62, (2, 2, RANDOM_NUMBERS))
    outputs = [
        model(**batch, labels=labels, random_numbers=numbers)
        for labels, numbers in ((LABELS, first), (LABELS.flip(0), first), (LABELS, second))
    ]
    for output in outputs:
        torch.testing.assert_close(output.logits, plain, rtol=0, atol=0)
    assert len({output.loss.item() for output in outputs}) == 3


@torch.no_grad()
def test_weights_are_from_0_to_1_and_nothing_at_padding():
    model = build()
    states = model.read_jointly(**make_batch(model, BATCH))
    found = model.attend(states)
    assert (found.weights >= 0).all() and (found.weights < 1).all() and found.weights.sum() > 0
    lengths = torch.tensor([len(document) + 1 for document in BATCH])  # the closing separator is read too
    assert states.read.sum(dim=1).tolist() == lengths.tolist()
    assert (found.weights[0, lengths[0] :] == 0).all()
    assert (found.features.norm(dim=1) <= lengths).all()


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reproduction": True},
        {"joint_embedding": False},
        {"cross_attention": False},
        {"cross_attention": False, "classifier_token": "mean"},
    ],
)
def test_scores_depend_on_neither_batch_nor_padding(settings):
    model = build(**settings)
    alone = model(**make_batch(model, BATCH[:1])).logits
    for batch in (make_batch(model, BATCH), make_batch(model, BATCH[:1], length=model.max_input_tokens)):
        torch.testing.assert_close(model(**batch).logits[:1], alone, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_layout_is_that_of_one_sequence_written_out():
    model = build(reproduction=True)
    backbone, text = model.backbone, torch.tensor(BATCH[:1])
    words = backbone.embeddings.word_embeddings(torch.cat([text, torch.tensor([[SEP]])], dim=1))
    embedded = torch.cat([words[:, :-1], model.label_embedding.weight[None], words[:, -1:]], dim=1)
    segments = torch.tensor([[0] * 5 + [1] * 6 + [0]])
    expected = backbone(inputs_embeds=embedded, token_type_ids=segments).last_hidden_state  # positions 0, 1, 2 …
    states = model.read_jointly(**make_batch(model, BATCH[:1], length=9))
    torch.testing.assert_close(states.labels, expected[:, 5:11], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states.document[:, :6], expected[:, [0, 1, 2, 3, 4, 11]], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_labels_share_one_position_behind_the_longest_text():
    model = build()
    inputs = model._joint_inputs(model.read_jointly(**make_batch(model, BATCH)).words)
    assert model.max_input_tokens == 38
    assert inputs["position_ids"][0, -7:].tolist() == [38] * 6 + [39]


# ---- lengths ------------------------------------------------------------------------------------------------------------------


def test_labels_that_do_not_fit_are_refused_with_both_lengths():  # AC-06
    with pytest.raises(
        ValueError, match="need 63 positions with label_positions='sequential' and num_labels=60, but the backbone has 40"
    ):
        build(num_labels=60, label_positions="sequential")
    model = build(num_labels=60)  # at one position they fit
    assert model(**make_batch(model, BATCH)).logits.shape == (2, 60)


@torch.no_grad()
def test_a_long_text_is_cut_and_no_label_is():  # AC-06
    texts = ["one two three four five six seven eight nine ten " * 50]
    tokenizer = train_word_tokenizer(texts, num_cls_tokens=1, max_length=500)
    config = LACOConfig.for_tokenizer(
        tokenizer,
        num_labels=10,
        label_positions="sequential",
        backbone_config={**BACKBONE, "max_position_embeddings": 32, "vocab_size": len(tokenizer)},
    )
    model = LACOForXMTC(config).eval()
    model.check_tokenizer(tokenizer)
    assert model.max_input_tokens == 22
    encoded = tokenizer(texts, return_tensors="pt", truncation=True, max_length=model.max_input_tokens)
    states = model.read_jointly(encoded["input_ids"], encoded["attention_mask"])
    assert states.words.ids.shape[1] == 22 and states.labels.shape[1] == 10
    assert model(**encoded).logits.shape == (1, 10)
    with pytest.raises(
        ValueError, match="has 500 tokens but the model takes 22 beside the 10 of its labels and their separator"
    ):
        model(tokenizer(texts, return_tensors="pt", truncation=True)["input_ids"])


@torch.no_grad()
def test_labels_have_the_second_segment_where_there_is_one():  # AC-05
    model = build()
    inputs = model._joint_inputs(model.read_jointly(**make_batch(model, BATCH)).words)
    assert inputs["token_type_ids"][0].tolist() == [0] * len(BATCH[1]) + [1] * 6 + [0]
    before = model(**make_batch(model, BATCH)).logits
    model.backbone.embeddings.token_type_embeddings.weight[1].normal_()
    assert (model(**make_batch(model, BATCH)).logits - before).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("model_type", "sizes"),
    [
        ("roberta", {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 42}),
        ("distilbert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}),
        ("electra", {"embedding_size": 8}),
        ("albert", {"embedding_size": 8}),
    ],
)
def test_backbones_with_one_segment_or_none_take_forward_and_backward(model_type, sizes):  # AC-05
    settings = {
        name: value
        for name, value in BACKBONE.items()
        if model_type != "distilbert" or "size" not in name or name == "vocab_size"
    }
    backbone = AutoConfig.for_model(model_type, **{**settings, **sizes})
    model = build(backbone_config=backbone).train()
    output = model(**make_batch(model, BATCH), labels=LABELS)
    output.loss.backward()
    assert output.logits.shape == (2, 6) and output.loss.isfinite()
    assert model.label_embedding.weight.grad.abs().sum() > 0


def test_a_backbone_that_cannot_be_told_where_labels_stand_is_refused():
    backbone = AutoConfig.for_model("mpnet", **BACKBONE)
    with pytest.raises(ValueError, match="'mpnet', which cannot be told where labels stand"):
        build(backbone_config=backbone)
    assert build(backbone_config=backbone, joint_embedding=False).label_embedding is not None


# ---- ablations and options ---------------------------------------------------------------------------------------------------


def test_ablations_leave_out_what_they_name():
    alone = build(joint_embedding=False, cross_attention=False)
    assert alone.label_embedding is None and alone.cross_attention is None
    assert build(cross_attention=False).cross_attention is None
    without_joint = build(joint_embedding=False)
    states = without_joint.read_jointly(**make_batch(without_joint, BATCH))
    assert states.labels is None and states.document.shape[1] == len(BATCH[1])  # the document knows nothing of labels
    before = without_joint(**make_batch(without_joint, BATCH)).logits
    with torch.no_grad():
        without_joint.label_embedding.weight.normal_()
    assert not torch.equal(without_joint(**make_batch(without_joint, BATCH)).logits, before)


@torch.no_grad()
def test_without_both_it_is_bert_with_its_pooler(tmp_path):
    bert = BertModel(BertConfig(**BACKBONE)).eval()
    bert.save_pretrained(tmp_path)
    tokenizer = train_word_tokenizer(["a b c d e f"], num_cls_tokens=1, max_length=20)
    model = LACOForXMTC.from_backbone(
        str(tmp_path), tokenizer=tokenizer, num_labels=6, joint_embedding=False, cross_attention=False
    ).eval()
    ids = torch.tensor(BATCH[1:])
    expected = model.label_head(bert(ids).pooler_output)
    torch.testing.assert_close(model(ids).logits, expected)


@torch.no_grad()
def test_the_mean_is_that_of_the_texts_tokens():
    model = build(joint_embedding=False, cross_attention=False, classifier_token="mean")
    states = model.backbone(torch.tensor(BATCH[:1])).last_hidden_state
    torch.testing.assert_close(features_of(model)[:1], states.mean(dim=1))


@torch.no_grad()
def test_first_layers_of_an_encoder_are_its_first_layers(tmp_path):
    bert = BertModel(BertConfig(**BACKBONE)).eval()
    bert.save_pretrained(tmp_path)
    tokenizer = train_word_tokenizer(["a b c d e f"], num_cls_tokens=1, max_length=20)
    settings = {
        "tokenizer": tokenizer,
        "num_labels": 6,
        "joint_embedding": False,
        "cross_attention": False,
        "classifier_token": "cls",
    }
    model = LACOForXMTC.from_backbone(str(tmp_path), num_layers=1, **settings).eval()
    assert model.config.backbone_config.num_hidden_layers == 1
    ids = torch.tensor(BATCH[1:])
    first = bert(ids, output_hidden_states=True).hidden_states[1][:, 0]
    torch.testing.assert_close(model(ids).logits, model.label_head(first))
    with pytest.raises(ValueError, match="3 layers of .* were asked for, but it has 2"):
        LACOForXMTC.from_backbone(str(tmp_path), num_layers=3, **settings)


@torch.no_grad()
def test_states_of_a_document_are_the_same_whatever_the_labels_when_it_does_not_see_them():
    model = build(joint_attention="one_way")
    before = model.read_jointly(**make_batch(model, BATCH))
    model.label_embedding.weight.normal_()
    after = model.read_jointly(**make_batch(model, BATCH))
    text = before.words.read
    assert torch.equal(before.document[:, : text.shape[1]][text], after.document[:, : text.shape[1]][text])
    assert not torch.equal(before.labels, after.labels)
    full = build()
    before = full.read_jointly(**make_batch(full, BATCH)).document
    full.label_embedding.weight.normal_()
    assert not torch.equal(full.read_jointly(**make_batch(full, BATCH)).document, before)


# ---- auxiliary tasks ----------------------------------------------------------------------------------------------------------


def test_without_a_task_the_loss_is_that_of_the_labels():
    model = build(auxiliary_task="none").train()
    output = model(**make_batch(model, BATCH), labels=LABELS)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        output.logits, torch.tensor([[1.0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0]]), reduction="none"
    )
    torch.testing.assert_close(output.loss, expected.sum(dim=1).mean())
    assert model.pair_head is None and model.conditional_head is None


@pytest.mark.parametrize("task", ["none", "plcp", "clcp", "both"])
def test_every_parameter_of_the_task_gets_a_gradient_and_moves(task):
    model = build(auxiliary_task=task).train()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**make_batch(model, BATCH), labels=LABELS).loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    optimizer.step()
    # What no gradient can reach: rows of unused words and positions are parts of matrices, a key's bias has none by symmetry.
    unmoved = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
    assert all(name.endswith("key.bias") for name in unmoved), unmoved


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({"auxiliary_task": "plcp"}, (2.0, 10.0)),
        ({"auxiliary_task": "both"}, (1.0, 5.0)),
        ({"auxiliary_task": "clcp", "clcp_weight": 5.0}, (2.0, 5.0)),
    ],
)
def test_weights_of_the_auxiliary_losses(settings, weights):
    assert build(**settings).config.auxiliary_weights == pytest.approx(weights)


def test_equation_7_adds_the_parts_with_their_weights(monkeypatch):
    from hf_xmtc.models import modeling_laco

    monkeypatch.setattr(modeling_laco, "plcp_loss", lambda logits, pairs: torch.tensor(0.8))
    monkeypatch.setattr(modeling_laco, "clcp_loss", lambda logits, positive, given, is_label: torch.tensor(0.4))
    for settings, expected in (
        ({"auxiliary_task": "both"}, 4.3),
        ({"auxiliary_task": "plcp", "plcp_weight": 1.0}, 2.3),
        ({"auxiliary_task": "clcp", "clcp_weight": 5.0}, 3.5),
    ):
        model = build(**settings).train()
        monkeypatch.setattr(model, "compute_output", lambda *args, **extra: modeling_laco.XMTCOutput(loss=torch.tensor(1.5)))
        assert model(**make_batch(model, BATCH), labels=LABELS).loss.item() == pytest.approx(expected)


def test_heads_are_saved_with_the_model_and_not_run_in_evaluation(tmp_path):
    model = build(auxiliary_task="both")
    overwrite_parameters(model)
    model.save_pretrained(tmp_path)
    loaded = LACOForXMTC.from_pretrained(tmp_path)
    assert torch.equal(loaded.pair_head.output.weight, model.pair_head.output.weight)
    assert torch.equal(loaded.conditional_head.remaining[0].weight, model.conditional_head.remaining[0].weight)
    batch = make_batch(model, BATCH)
    plain = build()
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model(**batch, labels=LABELS).loss, plain(**batch, labels=LABELS).loss)


def test_a_model_says_how_likely_labels_are_together():
    model = build(auxiliary_task="both")
    batch = make_batch(model, BATCH)
    pairs = torch.tensor([[[0, 1], [1, 0]], [[2, 3], [4, 5]]])
    found = model.pair_probabilities(batch["input_ids"], batch["attention_mask"], pairs)
    assert found.shape == (2, 2) and ((found > 0) & (found < 1)).all()
    conditional = model.conditional_probabilities(batch["input_ids"], batch["attention_mask"], torch.tensor([[0], [3]]))
    assert conditional.shape == (2, 6) and ((conditional > 0) & (conditional < 1)).all()
    with pytest.raises(ValueError, match="auxiliary_task='plcp' and has not learnt clcp"):
        build(auxiliary_task="plcp").conditional_probabilities(batch["input_ids"], None, torch.tensor([[0], [3]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"auxiliary_task": "plcb"}, "auxiliary_task='plcb' is not one of none, plcp, clcp, both"),
        ({"joint_embedding": False, "auxiliary_task": "clcp"}, "with joint_embedding=False the encoder reads no labels"),
        ({"cross_attention_kernel": (3,)}, "takes two sizes of at least 1"),
        ({"label_positions": "none"}, "label_positions='none' is not one of shared, sequential"),
        ({"pad_token_id": 7}, "pad_token_id=7, but that of the backbone's config is 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_new_labels_start_anew_and_known_ones_keep_their_embedding():
    model = build(num_labels=None, label_names=list("abcdef"), reproduction=True)
    before = model.label_embedding.weight.detach().clone()
    logits = model(**make_batch(model, BATCH)).logits
    model.resize_labels(["c", "new", "a"])
    assert torch.equal(model.label_embedding.weight[[0, 2]], before[[2, 0]]) and logits.shape == (2, 6)
    assert model(**make_batch(model, BATCH)).logits.shape == (2, 3)

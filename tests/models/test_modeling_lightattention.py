"""LightAttention: generator and discriminator, dynamic negatives, pretrained encoders."""

import json

import pytest
import torch
from transformers import BertConfig, BertModel

from hf_xmtc import LightAttentionConfig, LightAttentionForXMTC
from hf_xmtc.models.label_tree_search import tree_loss
from models.families import LONG, SHORT, make_batch

SIZES = {
    "vocab_size": 40,
    "embedding_size": 6,
    "hidden_size": 5,
    "linear_sizes": [7],
    "embedding_initializer_range": 3.0,
    "embedding_dropout": 0.0,
    "hidden_dropout_prob": 0.0,
}
TINY_BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 40}
LABELS = torch.tensor([[0, 11], [6, -100]])


def build(num_labels: int = 12, **settings) -> LightAttentionForXMTC:
    torch.manual_seed(0)
    model = LightAttentionForXMTC(LightAttentionConfig(num_labels=num_labels, **{**SIZES, **settings})).eval()
    with torch.no_grad():
        for level in model.upper_levels:
            for parameter in level.head.parameters():
                parameter.mul_(4)
    return model


KINDS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cluster_scoring": "pooled", "label_scoring": "dot", "dot_size": 4},
        {"variant": "levelwise", "cluster_scoring": "pooled"},
    ],
    ids=["attention", "pooled-dot", "levelwise"],
)


def seen_candidates(model: LightAttentionForXMTC) -> list[torch.Tensor]:
    """Fills with the ids that the discriminator scores from now on."""
    seen, score = [], model.label_head.raw_logits_of
    model.label_head.raw_logits_of = lambda hidden, ids: seen.append(ids) or score(hidden, ids)
    return seen


@KINDS
@torch.no_grad()
def test_with_all_clusters_every_label_has_its_exhaustive_score(settings):  # W13
    model = build(tree_level_sizes=[4], beam_width=4, **settings)
    batch = make_batch(model, [SHORT, LONG])
    logits, best = model(**batch).logits, model(**batch, top_k=12)
    torch.testing.assert_close(best.top_scores, logits.gather(1, best.top_labels).sigmoid())
    assert torch.equal(best.top_labels, logits.argsort(dim=1, descending=True))


@torch.no_grad()
def test_with_one_label_in_a_cluster_the_score_is_a_product_of_two():  # W13
    model = build(tree_level_sizes=[12], beam_width=5)
    batch = make_batch(model, [SHORT, LONG])
    documents, words = model.encode(**batch)
    generator, discriminator = model._levels(words, documents)
    of_clusters, of_labels = generator.logits().sigmoid(), discriminator.logits().sigmoid()
    best = model(**batch, top_k=12)
    assert best.top_labels.shape == (2, 5)
    clusters = of_clusters.topk(5).indices
    assert [set(row) for row in best.top_labels.tolist()] == [set(row) for row in clusters.tolist()]
    torch.testing.assert_close(best.top_scores, (of_clusters * of_labels).gather(1, best.top_labels))


@torch.no_grad()
def test_the_labels_of_a_document_change_no_prediction():  # W11
    model = build(tree_level_sizes=[4], beam_width=1)
    batch = make_batch(model, [SHORT, LONG])
    expected = model(**batch, top_k=3)
    for labels in (LABELS, LABELS.flip(0)):
        found = model(**batch, labels=labels, top_k=3)
        assert torch.equal(found.top_labels, expected.top_labels) and torch.equal(found.top_scores, expected.top_scores)


def negatives_of_generators(model: LightAttentionForXMTC) -> list[list[set[int]]]:
    """The ids that the discriminator scores for each document, for generators with other weights."""
    batch, seen = make_batch(model, [SHORT, LONG]), seen_candidates(model)
    for seed in range(6):
        with torch.no_grad():
            for parameter in model.upper_levels.parameters():
                parameter.normal_(std=2.0, generator=torch.Generator().manual_seed(seed))
        model(**batch, labels=LABELS, top_k=0).loss.backward()
    return [[set(row.tolist()) for row in ids] for ids in seen]


@KINDS
def test_negatives_follow_the_generator(settings):  # W14
    negatives = negatives_of_generators(build(tree_level_sizes=[4], beam_width=2, **settings).train())
    assert len({frozenset(sets[1]) for sets in negatives}) > 1
    assert all(set(range(3)) | set(range(9, 12)) <= sets[0] for sets in negatives)  # the clusters of labels 0 and 11


@KINDS
def test_static_negatives_do_not_follow_the_generator(settings):  # W14
    settings = {"tree_level_sizes": [4], "beam_width": 2, **settings}
    model = build(negatives="static", **settings).train()
    # Of the second document, with label 6, its cluster and the one beside it in the tree.
    assert negatives_of_generators(model) == [[{0, 1, 2, 9, 10, 11}, {6, 7, 8, 9, 10, 11}]] * 6
    batch, dynamic = make_batch(model, [SHORT, LONG]), build(**settings)
    dynamic.load_state_dict(model.state_dict())
    assert torch.equal(dynamic(**batch, top_k=5).top_scores, model.eval()(**batch, top_k=5).top_scores)


def test_beyond_max_candidates_random_negatives_are_dropped_in_training():
    model = build(tree_level_sizes=[4], beam_width=4, max_candidates=5).train()
    batch, seen = make_batch(model, [SHORT, LONG]), seen_candidates(model)
    for _ in range(4):
        model(**batch, labels=LABELS, top_k=0)
    assert all(ids.shape == (2, 5) and {0, 11} <= set(ids[0].tolist()) and 6 in ids[1] for ids in seen)
    assert len({frozenset(ids[1].tolist()) for ids in seen}) > 1
    model.eval()(**batch, labels=LABELS, top_k=0)
    assert seen[-1].shape == (2, 12)
    model.max_candidates = 1
    with pytest.raises(ValueError, match="A document has 2 positive labels .* but max_candidates=1"):
        model.train()(**batch, labels=LABELS, top_k=0)


def test_files_of_models_with_dynamic_negatives_do_not_name_them(tmp_path):
    LightAttentionConfig(num_labels=12).save_pretrained(tmp_path)
    assert not {"negatives", "max_candidates"} & json.loads((tmp_path / "config.json").read_text()).keys()


@KINDS
def test_what_the_labels_learn_does_not_reach_the_generator(settings):  # W12
    model = build(tree_level_sizes=[4], beam_width=2, **settings)
    batch = make_batch(model, [SHORT, LONG])
    documents, words = model.encode(**batch)
    levels = model._levels(words, documents)
    loss = tree_loss(model.label_tree, levels, LABELS, 2, "mean", first=1).loss
    loss.backward()
    assert all(parameter.grad is None for level in model.upper_levels for parameter in level.parameters())
    assert model.bilstm.initial_state.grad is not None


def test_no_positive_label_at_all_gives_a_finite_loss():  # W15
    model = build(tree_level_sizes=[4], beam_width=2)
    output = model(**make_batch(model, [SHORT, LONG]), labels=torch.full((2, 1), -100))
    output.loss.backward()
    assert output.loss.isfinite() and output.loss > 0
    assert model.pop_candidate_recall(training=False) == {}


def test_the_loss_is_the_sum_of_both_and_both_learn():
    model = build(tree_level_sizes=[4], beam_width=2).train()
    batch, optimizer = make_batch(model, [SHORT, LONG]), torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss = model(**batch, labels=LABELS, top_k=0).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    best = model.eval()(**batch, top_k=3)
    assert set(best.top_labels[0, :2].tolist()) == {0, 11} and best.top_labels[1, 0] == 6
    assert best.top_scores[0, 1] > 0.5 > best.top_scores[0, 2]


@torch.no_grad()
def test_a_pretrained_encoder_is_taken_with_its_weights(tmp_path):
    torch.manual_seed(3)
    bert = BertModel(BertConfig(max_position_embeddings=20, **TINY_BERT)).eval()
    bert.save_pretrained(tmp_path)
    model = LightAttentionForXMTC.from_backbone(str(tmp_path), num_labels=12, tree_level_sizes=[4]).eval()
    batch = make_batch(model, [LONG])
    documents, _ = model.encode(**batch)
    torch.testing.assert_close(documents.states, bert(**batch).last_hidden_state)
    with pytest.raises(ValueError, match="The input has 21 tokens but the model takes 20"):
        model(torch.ones(1, 21, dtype=torch.long))
    with pytest.raises(ValueError, match=r"token_type_ids go up to 2 but the encoder has 2 segment"):
        model(**batch, token_type_ids=torch.full_like(batch["input_ids"], 2))
    model.save_pretrained(tmp_path / "model")
    loaded = LightAttentionForXMTC.from_pretrained(tmp_path / "model")
    torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "static"}, "variant='static' is not one of joint, levelwise"),
        ({"label_scoring": "cosine"}, "label_scoring='cosine' is not one of attention, dot"),
        ({"negatives": "random"}, "negatives='random' is not one of dynamic, static"),
        ({"max_candidates": 0}, "max_candidates=0"),
        ({"cluster_scoring": "dot"}, "cluster_scoring='dot' is not one of attention, pooled"),
        ({"backbone_config": {"model_type": "bert", **TINY_BERT}, "embedding_size": 8}, "embedding_size=8 is a setting of"),
        (
            {"backbone_config": {"model_type": "bert", **TINY_BERT}, "variant": "levelwise"},
            "variant='levelwise' with a bert",
        ),
        ({"label_loss": "asymmetric"}, "label_loss='asymmetric' looks at all labels"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LightAttentionConfig(num_labels=12, **settings)


@pytest.mark.parametrize(("num_labels", "clusters"), [(1, 1), (3, 2), (3956, 256), (13_330, 512), (30_938, 512)])
def test_by_default_there_are_about_four_times_the_root_of_the_labels_clusters(num_labels, clusters):
    config = LightAttentionConfig(num_labels=num_labels)
    assert config.tree_level_sizes == [clusters] and config.cornet_num_blocks == 0


def test_only_labels_with_an_attention_have_weights_of_tokens():
    assert build(tree_level_sizes=[4]).token_weight_kind == "attention"
    model = build(tree_level_sizes=[4], label_scoring="dot")
    assert model.token_weight_kind is None

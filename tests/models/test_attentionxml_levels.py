"""AttentionXML over a label tree: levels taken over, kept as they were trained, and stored with their tree."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC, LightAttentionConfig, LightAttentionForXMTC
from hf_xmtc.models.label_tree_search import path_logits
from models.families import LONG, SHORT, make_batch
from models.label_clusters import labels_together

SIZES = {
    "vocab_size": 40,
    "embedding_size": 6,
    "hidden_size": 5,
    "linear_sizes": [7],
    "cornet_num_blocks": 0,
    "embedding_initializer_range": 2.0,
}
LABELS = torch.tensor([[0, 7], [3, -100]])


def build(num_labels: int = 9, levels: list[int] | None = None, seed: int = 0, **settings) -> AttentionXMLForXMTC:
    torch.manual_seed(seed)
    return AttentionXMLForXMTC(AttentionXMLConfig(num_labels=num_labels, tree_level_sizes=levels, **{**SIZES, **settings}))


def test_a_level_starts_from_the_one_above_but_for_its_attention():
    above, model = build(4, [2], seed=1), build(9, [2, 4])
    model.build_on(above)
    taken, own = above.state_dict(), model.state_dict()
    for name, value in taken.items():
        if name.startswith(("words.", "bilstm.", "label_head.linears", "label_head.output")):
            assert torch.equal(own[name], value), name
    upper = model.upper_levels
    assert torch.equal(upper[1].head.attention.weight, above.label_head.attention.weight)
    assert torch.equal(upper[1].embedding.weight, above.words.embedding.weight)
    assert torch.equal(upper[0].head.attention.weight, above.upper_levels[0].head.attention.weight)
    # The clusters score what they did as labels of the model above.
    batch = make_batch(model, [SHORT, LONG])
    with torch.no_grad():
        documents, words, _ = model.eval().encode(**batch)
        torch.testing.assert_close(
            path_logits(model.label_tree, model._levels(words, documents)[:2]), above.eval()(**batch).logits
        )
    with pytest.raises(ValueError, match=r"The model above has the levels \[4\], but tree_level_sizes=\[2, 4\]"):
        model.build_on(build(4))


def test_training_moves_the_labels_level_alone_so_its_negatives_stay():  # W14
    model = build(9, [2, 4], beam_width=1, embedding_dropout=0.5, hidden_dropout_prob=0.5).train()
    assert not any(module.training for module in model.upper_levels.modules())
    batch, before = make_batch(model, [SHORT, LONG]), copy.deepcopy(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    seen = []
    model.label_head.raw_logits_of = lambda hidden, ids, score=model.label_head.raw_logits_of: (
        seen.append(ids) or score(hidden, ids)
    )
    for _ in range(3):
        model(**batch, labels=LABELS, top_k=0).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(torch.equal(ids, seen[0]) for ids in seen)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and not any(name.startswith(("upper_levels.", "label_tree.")) for name in changed)
    assert {"words.embedding.weight", "label_head.attention.weight", "bilstm.initial_state"} <= changed


def test_frozen_word_embeddings_are_stored_once(tmp_path):
    model = build(9, [4], freeze_embeddings=True)
    assert not any(name.startswith("upper_levels.0.embedding") for name in model.state_dict())
    above = build(4, freeze_embeddings=True, seed=1)
    model.build_on(above)
    batch = make_batch(model, [SHORT, LONG])
    documents, words, _ = model.eval().encode(**batch)
    states = above.eval().encode(**batch)[0]
    torch.testing.assert_close(model._levels(words, documents)[0].hidden.states, states.states)


@torch.no_grad()
def test_levels_and_tree_travel_with_the_checkpoint(tmp_path):  # AC-31
    model = build(9, [2, 4], beam_width=2, label_names=list("abcdefghi")).eval()
    model.label_tree.set_tree([model.label_tree.starts(1), model.label_tree.starts(2)], torch.randperm(9))
    batch = make_batch(model, [SHORT, LONG])
    expected = model(**batch, top_k=4)
    model.save_pretrained(tmp_path)
    loaded = AttentionXMLForXMTC.from_pretrained(tmp_path)
    found = loaded(**batch, top_k=4)
    assert torch.equal(found.top_labels, expected.top_labels) and torch.equal(found.top_scores, expected.top_scores)
    assert labels_together(loaded.label_tree, 0) == labels_together(model.label_tree, 0)
    assert not any(parameter.requires_grad for parameter in loaded.upper_levels.parameters())
    weights = load_file(tmp_path / "model.safetensors")
    for name, value in (("starts_2", torch.tensor([0, 9, 2, 3, 9])), ("label_order", torch.full((9,), 10**9))):
        save_file({**weights, f"label_tree.{name}": value}, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ValueError, match="Is the checkpoint damaged"):
            AttentionXMLForXMTC.from_pretrained(tmp_path)


@pytest.mark.parametrize(("arguments", "times"), [({}, 0), ({"labels": LABELS}, 1), ({"top_k": 2}, 1)])
def test_candidates_of_cornet_are_scored_where_their_scores_are_needed_alone(arguments, times):
    model = build(9, [4], beam_width=2, cornet_num_blocks=1, cornet_context_size=4).eval()
    seen = []
    model.label_head.raw_logits_of = lambda hidden, ids, score=model.label_head.raw_logits_of: (
        seen.append(ids) or score(hidden, ids)
    )
    model(**make_batch(model, [SHORT, LONG]), **arguments)
    assert len(seen) == times


@pytest.mark.parametrize("family", ["attentionxml", "lightattention"])
def test_a_checkpoint_without_its_tree_is_refused(family, tmp_path):
    model = build(9, [2, 4]) if family == "attentionxml" else light_attention(200)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for lost in ("label_tree.starts_1", "label_tree.label_order"):
        kept = {name: value for name, value in weights.items() if name != lost}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ValueError, match=rf"lacks {lost} .*label tree"):
            type(model).from_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path, ignore_mismatched_sizes=True).label_tree is not None
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loaded, found = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and type(loaded) is type(type(model).from_pretrained(tmp_path))


def test_a_model_without_a_tree_says_nothing_of_one(tmp_path):
    build(9).save_pretrained(tmp_path)
    assert not {"tree_level_sizes", "beam_width"} & set(json.loads((tmp_path / "config.json").read_text()))
    with pytest.raises(ValueError, match="beam_width=3, but without tree_level_sizes"):
        build(9, beam_width=3)
    with pytest.raises(ValueError, match=r"tree_level_sizes=\[\] and beam_width=None: a tree has at least one level"):
        build(9, [])
    with pytest.raises(ValueError, match="label_loss='asymmetric' looks at all labels"):
        build(9, [3], label_loss="asymmetric")


@pytest.mark.parametrize(
    ("num_labels", "sizes", "beam_width"),
    [(1_000_000, [15_625], 16), (131_072 * 8, [2**11, 2**14, 2**17], 125), (40, [4], 4)],
)
def test_about_a_thousand_labels_are_scored_by_default(num_labels, sizes, beam_width):
    assert AttentionXMLConfig(num_labels=num_labels, tree_level_sizes=sizes).beam_width == beam_width


def test_candidate_recall_is_that_of_the_beam_without_help():
    model = build(9, [3], beam_width=1).eval()
    batch = make_batch(model, [SHORT, LONG])
    documents, words, _ = model.encode(**batch)
    best = model._levels(words, documents)[0].logits().argmax(dim=1)
    labels = torch.stack([best * 3, torch.tensor([0, 8])], dim=1)  # the first below the best cluster of its document
    model(**batch, labels=labels, top_k=0)
    expected = (model.label_tree.ancestors(0, labels) == best[:, None]).double().mean(dim=1).mean().item()
    assert model.pop_candidate_recall(training=False) == {"candidate_recall": pytest.approx(expected)}
    assert model.pop_candidate_recall(training=False) == {} == model.pop_candidate_recall(training=True)


@pytest.mark.parametrize("family", ["joint", "levelwise", "attentionxml"])
@torch.no_grad()
def test_candidate_recall_over_two_levels_of_clusters_is_what_is_reached(family):
    settings = {**SIZES, "num_labels": 96, "tree_level_sizes": [8, 32], "beam_width": 2}
    torch.manual_seed(0)
    if family == "attentionxml":
        model = AttentionXMLForXMTC(AttentionXMLConfig(**settings)).eval()
    else:
        model = LightAttentionForXMTC(LightAttentionConfig(variant=family, **settings)).eval()
    batch = make_batch(model, [SHORT, LONG])
    labels = torch.arange(96).expand(2, -1)
    candidates = model(**batch, top_k=96).top_labels
    scored, score_first = [], model.upper_levels[0].head.logits
    model.upper_levels[0].head.logits = lambda *args: scored.append(1) or score_first(*args)
    model(**batch, labels=labels, top_k=96)
    assert len(scored) == 1  # for the loss and the candidates together
    assert model.pop_candidate_recall(training=False)["candidate_recall"] == pytest.approx(
        (candidates >= 0).sum().item() / labels.numel()
    )


def test_training_forms_nothing_of_documents_times_labels():  # AC-18
    num_labels, sizes = 3001, []

    class Shapes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            output = function(*args, **(kwargs or {}))
            outputs = output if isinstance(output, tuple | list) else [output]
            sizes.extend(tuple(tensor.shape) for tensor in outputs if isinstance(tensor, torch.Tensor))
            return output

    for model in (build(num_labels, [50], beam_width=2), light_attention(num_labels), light_attention(num_labels, "dot")):
        batch = make_batch(model, [SHORT, LONG])
        sizes.clear()
        with Shapes():
            model.train()(**batch, labels=torch.tensor([[5, 2000], [17, -100]]), top_k=0).loss.backward()
        weights = {tuple(parameter.shape) for parameter in model.parameters()} | {(num_labels,)}
        assert not [shape for shape in set(sizes) - weights if num_labels in shape]
        assert any(shape[0] == num_labels for shape in sizes if shape)  # the gradient of the label vectors


def light_attention(num_labels: int, label_scoring: str = "attention") -> LightAttentionForXMTC:
    settings = {"tree_level_sizes": [50], "beam_width": 2, "label_scoring": label_scoring, "dot_size": 4}
    return LightAttentionForXMTC(LightAttentionConfig(num_labels=num_labels, **{**SIZES, **settings}))

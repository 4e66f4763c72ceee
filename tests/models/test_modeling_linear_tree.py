"""`ParabelForXMTC`, `BonsaiForXMTC` and `DiSMECForXMTC`: scores by hand, the fast product, chunks, another label space, explanations."""

import json
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import pipeline

from hf_xmtc import BonsaiConfig, DiSMECConfig, DiSMECForXMTC, ParabelConfig, ParabelForXMTC, train_word_tokenizer
from hf_xmtc.models import linear_tree_head, score_head
from hf_xmtc.models.linear_tree_head import ABSENT, Trees
from hf_xmtc.models.score_head import LOWEST
from models.families import FAMILIES, LONG, NUM_LABELS, SHORT, VOCAB_SIZE, make_batch

LINEAR = [family for family in FAMILIES if family.name in ("parabel", "bonsai", "dismec")]


@pytest.fixture(params=LINEAR, ids=lambda family: family.name)
def tree(request):
    return request.param.build(label_names=list("abcde"))


@pytest.fixture(params=[family for family in LINEAR if family.name != "dismec"], ids=lambda family: family.name)
def tree_with_nodes(request):
    return request.param.build()


@torch.no_grad()
@pytest.mark.parametrize("node_loss", ["squared_hinge", "log"])
def test_a_score_is_the_product_along_the_path(node_loss):
    # One tree: the root has a node above labels 0 and 1, and one above label 2. Word 2 has idf 2, word 3 idf 1.
    model = ParabelForXMTC(ParabelConfig(vocab_size=4, num_labels=3, num_trees=1, node_loss=node_loss))
    trees = Trees(
        level_sizes=[[2]],
        parents=torch.tensor([0, 0]),
        label_parents=torch.tensor([[1, 1, 2]]),
        offsets=torch.tensor([0, 0, 0, 2, 4]),
        columns=torch.tensor([0, 2, 1, 3]),
        weights=torch.tensor([1.5, 0.5, -1.0, 2.0]),
        bias=torch.tensor([-0.5, 0.0, 0.1, 0.2, 0.3]),
    )
    model.grow(trees)
    model.words.idf.copy_(torch.tensor([0.0, 0.0, 2.0, 1.0]))
    scores = model(torch.tensor([[2, 3, 3, 0]])).logits.sigmoid()[0]
    first, second = 2.0, 1 + math.log(2)  # word 3 occurs twice
    first, second = first / math.hypot(first, second), second / math.hypot(first, second)
    margins = [1.5 * first - 0.5, -second, 0.5 * first + 0.1, 2 * second + 0.2, 0.3]
    probability = {
        "squared_hinge": [math.exp(-(max(0, 1 - margin) ** 2)) for margin in margins],
        "log": [1 / (1 + math.exp(-margin)) for margin in margins],
    }[node_loss]
    expected = [probability[0] * probability[2], probability[0] * probability[3], probability[1] * probability[4]]
    assert scores.tolist() == pytest.approx(expected, abs=1e-6)


@torch.no_grad()
@pytest.mark.parametrize(("node_loss", "slope"), [("squared_hinge", 4), ("log", 1)])
def test_one_vs_all_ranks_by_margin_however_high_or_low(node_loss, slope):
    model = DiSMECForXMTC(DiSMECConfig(vocab_size=3, num_labels=5, node_loss=node_loss))
    margins = torch.tensor([-9.0, 2.0, -8.5, 1.5, 0.0])
    trees = Trees(
        [], torch.zeros(0), torch.zeros(1, 5), torch.tensor([0, 0, 0, 1]), torch.tensor([1]), torch.tensor([0.5]), margins
    )
    model.grow(trees)
    model.words.idf.fill_(1.0)
    output, best = model(torch.tensor([[2]])), model(torch.tensor([[2]]), top_k=5)
    assert output.logits.tolist() == [[slope * margin for margin in (-9.0, 2.5, -8.5, 1.5, 0.0)]]
    assert best.top_labels.tolist() == [[1, 3, 4, 2, 0]] and len(best.top_scores.unique()) == 5
    torch.testing.assert_close(model.label_head.scores(model.words(torch.tensor([[2]]))), output.logits.sigmoid())


@torch.no_grad()
@pytest.mark.parametrize("node_loss", ["squared_hinge", "log"])
def test_one_vs_all_gives_absent_labels_the_lowest_score_of_a_tree(node_loss):
    trees = Trees(
        [], torch.zeros(0), torch.zeros(1, 2), torch.zeros(4), torch.zeros(0), torch.zeros(0), torch.tensor([ABSENT, -5.0])
    )
    for model_class, config_class in [(DiSMECForXMTC, DiSMECConfig), (ParabelForXMTC, ParabelConfig)]:
        model = model_class(config_class(vocab_size=3, num_labels=2, node_loss=node_loss))
        model.grow(trees)
        logits = model(torch.tensor([[2]])).logits[0]
        torch.testing.assert_close(logits[0].sigmoid(), torch.tensor(LOWEST), atol=0, rtol=1e-5)
        assert logits[0] < logits[1]


def test_the_product_of_mkl_is_that_of_the_index(tree, monkeypatch):
    batch = make_batch(tree, [SHORT, [], LONG, [0]])
    with torch.no_grad():
        fast = tree(**batch).logits
        monkeypatch.setattr("torch.backends.mkl.is_available", lambda: False)
        torch.testing.assert_close(tree(**batch).logits, fast)


@torch.no_grad()
def test_documents_are_scored_in_chunks_alike(tree, monkeypatch):
    batch, labels = make_batch(tree, [SHORT, LONG, [], SHORT[:1]]), torch.tensor([[0], [3], [1], [-100]])
    whole, best = tree(**batch, labels=labels), tree(**batch, labels=labels, top_k=2)
    monkeypatch.setattr(score_head, "suitable_block_size", lambda *sizes: 3)
    torch.testing.assert_close(tree(**batch, labels=labels).logits, whole.logits)
    found = tree(**batch, labels=labels, top_k=2)
    assert torch.equal(found.top_labels, best.top_labels)
    for name in ("loss", "top_scores"):
        torch.testing.assert_close(found[name], best[name])


@torch.no_grad()
def test_known_labels_keep_their_scores_wherever_they_move(tree, tmp_path):
    batch = make_batch(tree, [SHORT, LONG])
    before = tree(**batch).logits
    tree.resize_labels(["new", "e", "b", "a"])
    after = tree(**batch).logits
    torch.testing.assert_close(after[:, 1:], before[:, [4, 1, 0]])
    assert (after[:, 0] < -60).all()
    tree.save_pretrained(tmp_path)
    torch.testing.assert_close(type(tree).from_pretrained(tmp_path)(**batch).logits, after)


@torch.no_grad()
def test_words_add_up_to_the_margins_on_the_path(tree):
    tokenizer_batch = make_batch(tree, [SHORT, LONG], left=True)
    labels = torch.tensor([[3, 1, -100], [0, 2, 4]])
    weights = tree.token_weights(tokenizer_batch["input_ids"], tokenizer_batch["attention_mask"], labels)
    head = tree.label_head
    margins = head.margins(tree.words(**tokenizer_batch)) - head.bias
    for document, label, found in ((0, 3, weights[0, 0]), (1, 4, weights[1, 2])):
        expected = 0.0
        for number, parents in enumerate(head.label_parents.tolist()):
            path, node = [len(head.parents) + number * NUM_LABELS + label], parents[label]
            while node:
                path.append(node - 1)
                node = int(head.parents[node - 1])
            expected += float(margins[document, path].sum()) / len(head.label_parents)
        assert float(found.sum()) == pytest.approx(expected, abs=1e-5)
    assert (weights[0, 2] == 0).all() and (weights[0, :, : len(LONG) - len(SHORT)] == 0).all()


def test_a_repeated_word_has_its_share_at_each_place(tree):
    weights = tree.token_weights(torch.tensor([[7, 9, 7]]), None, torch.tensor([[2]]))[0, 0]
    assert weights[0] == weights[2] != weights[1]


def test_a_tree_answers_and_explains_in_the_pipeline(tmp_path, modules_cache):
    texts = ["play music", "edit text"]
    tokenizer = train_word_tokenizer(texts)
    model = ParabelForXMTC(ParabelConfig.for_tokenizer(tokenizer, label_names=["audio", "editing"], num_trees=1))
    ids = tokenizer.get_vocab()
    offsets = torch.zeros(len(tokenizer) + 1)
    offsets[ids["music"] + 1 :] += 1
    offsets[ids["edit"] + 1 :] += 1
    columns = [0, 1] if ids["music"] < ids["edit"] else [1, 0]
    trees = Trees([], torch.zeros(0), torch.zeros(1, 2), offsets, torch.tensor(columns), torch.ones(2), torch.zeros(2))
    model.grow(trees)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tagger = pipeline("text-classification", model=str(tmp_path), trust_remote_code=True)
    assert [answer[0]["label"] for answer in tagger(texts)] == ["audio", "editing"]
    explanation = tagger.explain("play music, play")
    assert (explanation.label, explanation.kind) == ("audio", "margin")
    assert [token.token for token in explanation.best_tokens(1)] == ["music"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"node_loss": "hinge"}, "node_loss='hinge' is not one of squared_hinge, log"),
        ({"min_branch_size": 50}, "num_clusters=100 with min_branch_size=50"),
        ({"beam_width": 0}, "beam_width=0; a beam holds at least 1 node"),
        ({"num_trees": 0}, "num_trees=0, but it must be at least 1"),
        ({"weight_threshold": -0.1}, "weight_threshold=-0.1"),
        ({"num_weights": -1}, "num_weights=-1, but it counts"),
        ({"level_sizes": [[2, 3]]}, r"level_sizes=\[\[2, 3\]\] with num_trees=3"),
        ({"level_sizes": [[2, -3, 1]]}, r"level_sizes=\[\[2, -3, 1\]\]"),
        ({"level_sizes": [[2, 3.0, 1]]}, r"level_sizes=\[\[2, 3.0, 1\]\]"),
        ({"level_sizes": [5]}, r"level_sizes=\[5\]"),
        ({"vocab_size": 0}, "vocab_size=0, but it must be at least 1"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BonsaiConfig(num_labels=2, **settings)


def test_settings_of_a_damaged_file_are_refused(tree_with_nodes, tmp_path):
    tree = tree_with_nodes
    tree.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    for settings in ({"num_weights": "many"}, {"num_weights": 1.5}, {"level_sizes": 5}, {"level_sizes": [[2, None]]}):
        (tmp_path / "config.json").write_text(json.dumps({**saved, **settings}))
        with pytest.raises(ValueError, match=next(iter(settings))):
            type(tree).from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [("columns", 3, 10_000), ("parents", 1, 1), ("parents", 0, -1), ("label_parents", (1, 0), 99)],
)
def test_damaged_trees_are_refused(tree_with_nodes, tmp_path, name, place, number):  # a parent is on an earlier level
    tree = tree_with_nodes
    getattr(tree.label_head, name)[place] = number
    tree.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"The trees of .* are damaged: {name} holds {number}, but "):
        type(tree).from_pretrained(tmp_path)


@pytest.mark.parametrize("wrong", [VOCAB_SIZE, -1, 3 * VOCAB_SIZE])
def test_word_ids_outside_of_the_vocabulary_are_refused(tree, wrong):
    batch = make_batch(tree, [SHORT, [*SHORT[:1], wrong], LONG])
    with pytest.raises(ValueError, match=f"input_ids holds word id {wrong}, but the ids are 0 … {VOCAB_SIZE - 1}"):
        tree(**batch)
    batch["attention_mask"][1, 1] = 0  # what is no word may have any id
    assert tree(**batch).logits.isfinite().all()


def test_of_equal_nodes_those_of_lower_ids_stay_in_the_beam():
    scores = torch.tensor([[0.0, 0, 0, -1], [-2, -1, -1, -1], [-3, -2, -1, 0], [float("-inf")] * 4])
    assert linear_tree_head._best(scores, 1).isfinite().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0] * 4]
    assert linear_tree_head._best(scores, 2).isfinite().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0] * 4]
    assert torch.equal(linear_tree_head._best(scores, 4), scores)


@torch.no_grad()
def test_labels_that_the_beam_does_not_reach_are_no_answers(monkeypatch):
    tree = next(family for family in LINEAR if family.name == "bonsai").build(beam_width=1, num_trees=1)
    batch = make_batch(tree, [SHORT, LONG])
    logits = tree(**batch).logits
    for chunk in (1_000, 3):
        monkeypatch.setattr(score_head, "suitable_block_size", lambda *sizes, chunk=chunk: chunk // 2)
        found = tree(**batch, top_k=NUM_LABELS)
        reached = found.top_labels >= 0
        assert reached.any(dim=1).all() and not reached.all(dim=1).any()
        assert (found.top_labels[~reached] == -100).all() and (found.top_scores[~reached] == 0).all()
        expected = logits.sigmoid().gather(1, found.top_labels.clamp(min=0))
        torch.testing.assert_close(found.top_scores[reached], expected[reached])
        for row, ids in zip(logits, found.top_labels, strict=True):
            assert sorted(ids[ids >= 0].tolist()) == (row > -60).nonzero()[:, 0].tolist()


def test_an_explanation_holds_nothing_of_the_size_of_the_trees():
    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, operation, types, arguments=(), settings=None):
            result = operation(*arguments, **(settings or {}))
            sizes = [part.numel() for part in tree_leaves(result) if isinstance(part, torch.Tensor)]
            self.largest = max([self.largest, *sizes])
            return result

    tree = LINEAR[0].build(num_labels=3_000)
    label_head, batch = tree.label_head, make_batch(tree, [SHORT])
    expected = tree.token_weights(**batch, label_ids=torch.tensor([[2_999]]))
    with torch.no_grad(), Sizes() as sizes:
        found = tree.token_weights(**batch, label_ids=torch.tensor([[2_999]]))
    read = sum(int(label_head.offsets[word + 1] - label_head.offsets[word]) for word in set(SHORT))
    assert torch.equal(found, expected) and sizes.largest <= read < len(label_head.weights) / 5

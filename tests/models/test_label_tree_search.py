"""Search and loss over a label tree: examples by hand, properties, and what AttentionXML's and LightXML's code computes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC
from hf_xmtc.models.label_candidates import best_candidates, is_among
from hf_xmtc.models.label_head import LabelHead
from hf_xmtc.models.label_losses import positive_ids
from hf_xmtc.models.label_tree_index import LabelTreeIndex
from hf_xmtc.models.label_tree_search import TreeLevel, best_nodes, path_logits, search, training_nodes, tree_loss
from models.golden import ATTENTIONXML_NAMES, GOLDEN, assert_close, load_golden, stored_parameters


def level_of(*probabilities: float) -> TreeLevel:
    """A level that gives one document these probabilities, by the biases of a head."""
    head = LabelHead(1, len(probabilities))
    with torch.no_grad():
        head.output.bias.copy_(torch.logit(torch.tensor(probabilities)))
    return TreeLevel(head, torch.zeros(1, 1))


def tree_of(*clusters: list[int]) -> LabelTreeIndex:
    """A tree with one level of clusters."""
    order = torch.tensor([label for cluster in clusters for label in cluster])
    tree = LabelTreeIndex([len(clusters)], len(order))
    tree.set_tree([torch.tensor([0, *np.cumsum([len(cluster) for cluster in clusters])])], order)
    return tree


def best_labels(tree: LabelTreeIndex, levels: list[TreeLevel], beam_width: int, k: int) -> dict[int, float]:
    scored = search(tree, levels, beam_width)[-1]
    scores, ids = best_candidates(scored.log_scores, scored.ids, k)
    return {label: round(score, 4) for label, score in zip(ids[0].tolist(), scores[0].tolist(), strict=True)}


# ---- examples by hand ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_score_of_a_label_is_the_product_along_its_path():  # P1
    tree, levels = tree_of([0, 1], [2, 3]), [level_of(0.9, 0.6), level_of(0.5, 0.8, 0.7, 0.1)]
    assert best_labels(tree, levels, beam_width=2, k=9) == {1: 0.72, 0: 0.45, 2: 0.42, 3: 0.06}
    assert best_labels(tree, levels, beam_width=1, k=2) == {1: 0.72, 0: 0.45}
    torch.testing.assert_close(path_logits(tree, levels).sigmoid(), torch.tensor([[0.45, 0.72, 0.42, 0.06]]))
    deep = LabelTreeIndex([1, 1], 1)
    assert best_labels(deep, [level_of(0.9), level_of(0.5), level_of(0.8)], 1, 1) == {0: 0.36}


def test_the_loss_is_the_mean_over_candidates():  # P3
    tree, levels = tree_of([0, 1]), [level_of(0.5), level_of(0.5, 0.75)]
    loss = tree_loss(tree, levels, torch.tensor([[0]]), 1, "mean", first=1).loss
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert tree_loss(tree, levels, torch.tensor([[0]]), 1, "mean").loss.item() == pytest.approx(loss.item() + math.log(2))


def test_gold_clusters_come_first_in_training_and_nothing_is_known_in_prediction():  # P4
    tree, levels = tree_of([0, 1], [2, 3], [4]), [level_of(0.2, 0.9, 0.6), level_of(0.5, 0.5, 0.7, 0.5, 0.5)]
    beam, _ = best_nodes(search(tree, levels[:1], 2)[-1], 2)
    assert beam.tolist() == [[1, 2]]
    chosen = training_nodes(beam, tree.positives(0, torch.tensor([[0]])))
    assert chosen.tolist() == [[0, 1]]
    assert sorted(tree.children_of(1, chosen)[0][0].tolist()) == [0, 1, 2, 3]
    assert best_labels(tree, levels, 2, 1) == {2: 0.63}
    found = tree_loss(tree, levels, torch.tensor([[0]]), 2, "mean")
    assert (found.reached.item(), found.num_documents.item()) == (0, 1)


def test_a_document_with_more_positive_nodes_than_the_beam_has_all_of_them():
    beam = torch.tensor([[7, 6, 1], [5, 0, 2], [2, 1, 4], [3, 4, 5]])
    positives = torch.tensor([[4, -100, -100, -100], [1, 2, 5, -100], [0, 3, 6, 7], [-100] * 4])
    assert training_nodes(beam, positives).tolist() == [[4, 7, 6, -100], [1, 2, 5, -100], [0, 3, 6, 7], [3, 4, 5, -100]]


def test_padding_of_candidates_gives_no_label_a_gradient():
    # The second document has one candidate more; label 0 is a candidate of none.
    tree, levels = tree_of([0, 1], [2], [3, 4]), [level_of(0.5, 0.5, 0.5), level_of(0.5, 0.5, 0.5, 0.5, 0.5)]
    levels = [TreeLevel(level.head, torch.ones(2, 1)) for level in levels]
    levels[1].head.sparse_rows = True
    nn.init.zeros_(levels[1].head.output.weight)
    tree_loss(tree, levels, torch.tensor([[2], [4]]), 1, "mean", first=1).loss.backward()
    gradient = levels[1].head.output.weight.grad.coalesce()
    assert gradient.indices()[0].tolist() == [2, 3, 4]
    assert gradient.values()[:, 0].tolist() == pytest.approx([-0.25, 0.125, -0.125])


# ---- properties ------------------------------------------------------------------------------------------------------------


def random_levels(tree: LabelTreeIndex, num_documents: int = 4) -> list[TreeLevel]:
    """Levels with linear heads over random features."""
    torch.manual_seed(1)
    features = torch.randn(num_documents, 6)
    levels = [TreeLevel(LabelHead(6, tree.num_nodes(level)), features) for level in range(tree.last_level + 1)]
    for level in levels:
        nn.init.normal_(level.head.output.weight)
    return levels


def random_tree() -> LabelTreeIndex:
    tree = LabelTreeIndex([3, 7], 40)
    tree.set_tree([tree.starts(1), tree.starts(2)], torch.randperm(40, generator=torch.Generator().manual_seed(0)))
    return tree


@torch.no_grad()
def test_a_beam_as_wide_as_the_levels_is_exhaustive_and_children_score_below_their_parents():  # W5
    tree = random_tree()
    levels = random_levels(tree)
    scored, logits = search(tree, levels, 7)[-1], path_logits(tree, levels)
    scores, ids = best_candidates(scored.log_scores, scored.ids, 40)
    torch.testing.assert_close(logits.gather(1, ids).sigmoid(), scores)
    assert torch.equal(ids, logits.argsort(dim=1, descending=True))
    above = path_logits(LabelTreeIndex([3], 7), levels[:2])
    assert (logits <= above[:, tree.parents(2)]).all()


@torch.no_grad()
def test_renumbering_labels_permutes_their_scores():  # W6
    tree, new_ids = random_tree(), torch.randperm(40, generator=torch.Generator().manual_seed(5))
    levels = random_levels(tree)
    before = path_logits(tree, levels)
    renumbered = LabelTreeIndex([3, 7], 40)
    renumbered.set_tree([tree.starts(1), tree.starts(2)], new_ids[tree.label_order])
    head = LabelHead(6, 40)
    head.output.weight[new_ids], head.output.bias[new_ids] = levels[-1].head.output.weight, levels[-1].head.output.bias
    after = path_logits(renumbered, [*levels[:-1], TreeLevel(head, levels[-1].hidden)])
    torch.testing.assert_close(after[:, new_ids], before)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_training_candidates_hold_all_positives_once(first, monkeypatch):  # W10
    tree, positives = random_tree(), torch.tensor([[3, -100, 9], [0, 39, 12], [-100, -100, -100], [7, 8, -100]])
    seen = []
    monkeypatch.setattr(
        "hf_xmtc.models.label_tree_search.candidate_loss", lambda logits, ids, *_: seen.append(ids) or logits.sum()
    )
    levels = random_levels(tree)
    tree_loss(tree, levels, positives, 2, "mean", first)
    assert len(seen) == 3 - first
    generated, _ = best_nodes(search(tree, levels[:-1], 2)[-1], 2)
    chosen = training_nodes(generated, tree.positives(1, positives))
    negatives = seen[-1].masked_fill(is_among(seen[-1], positives), -100)
    clusters = tree.ancestors(1, negatives)
    assert torch.equal(is_among(clusters, chosen), negatives >= 0)  # of the generated clusters and those of positives alone
    for row, of_document in zip(seen[-1].tolist(), positives.tolist(), strict=True):
        labels = [label for label in row if label >= 0]
        assert len(labels) == len(set(labels)) and set(of_document) - {-100} <= set(labels)


def test_padding_has_no_loss_and_no_gradient():  # W10
    tree, levels = tree_of([1, 2, 3], [0]), [level_of(0.1, 0.9), level_of(0.5, 0.5, 0.5, 0.5)]
    levels = [TreeLevel(level.head, torch.zeros(2, 1)) for level in levels]
    with torch.no_grad():  # the first document has three candidates, the second one and padding, which would read label 0
        levels[0].head.output.weight[:, 0] = torch.tensor([9.0, -9.0])
        levels[0].hidden[0] = 1.0
    found = tree_loss(tree, levels, torch.tensor([[1], [-100]]), 1, "mean", first=1)
    assert found.loss.item() == pytest.approx(math.log(2))
    found.loss.backward()
    torch.testing.assert_close(levels[1].head.output.bias.grad, torch.tensor([0.25, -0.5 / 6, 0.5 / 6, 0.5 / 6]))


def test_no_gradient_of_the_labels_reaches_the_generator():  # W12
    tree = random_tree()
    levels = random_levels(tree)
    positives = torch.tensor([[3], [0], [1], [7]])
    of_labels = tree_loss(tree, levels, positives, 3, "mean", first=2).loss
    of_labels.backward()
    assert levels[-1].head.output.weight.grad is not None
    assert all(parameter.grad is None for level in levels[:-1] for parameter in level.head.parameters())
    whole = tree_loss(tree, levels, positives, 3, "mean").loss
    of_all = torch.autograd.grad(whole, levels[0].head.output.weight, retain_graph=True)[0]
    alone = nn.functional.binary_cross_entropy_with_logits(
        levels[0].logits(), nn.functional.one_hot(tree.ancestors(0, positives)[:, 0], 3).float()
    )
    torch.testing.assert_close(of_all, torch.autograd.grad(alone, levels[0].head.output.weight)[0])


def test_other_scores_of_clusters_choose_other_negatives():  # W14
    tree, levels = tree_of([0], [1], [2], [3]), [level_of(0.1, 0.9, 0.5, 0.4), level_of(0.5, 0.5, 0.5, 0.5)]
    chosen = []
    for bias in (levels[0].head.output.bias.detach(), torch.tensor([0.0, -9.0, 0.0, 9.0])):
        levels[0].head.output.bias.data = bias
        beam, _ = best_nodes(search(tree, levels[:1], 2)[-1], 2)
        chosen.append(training_nodes(beam, torch.tensor([[0]])).tolist())
    assert chosen == [[[0, 1]], [[0, 3]]]


@torch.no_grad()
def test_what_is_reported_as_reached_is_what_prediction_reaches():
    tree = LabelTreeIndex([8, 32], 256)
    levels, positives = random_levels(tree, num_documents=200), positive_ids(torch.randint(256, (200, 3)), 256)
    searched = search(tree, levels, 2)
    reached = (is_among(positives, searched[-1].ids).sum(dim=1) / (positives >= 0).sum(dim=1)).sum().item()
    in_training, in_evaluation = (tree_loss(tree, levels, positives, 2, "mean", searched=known) for known in ((), searched))
    assert in_training.reached.item() == in_evaluation.reached.item() == pytest.approx(reached)
    assert torch.equal(in_training.loss, in_evaluation.loss) and in_training.num_documents == 200


@torch.no_grad()
def test_scores_near_one_keep_their_order():
    tree, head = tree_of([0, 1], [2]), LabelHead(1, 3)
    head.output.bias.copy_(torch.tensor([11.0, 12.0, 300.0]))
    first = LabelHead(1, 2)
    first.output.bias.fill_(300.0)
    logits = path_logits(tree, [TreeLevel(first, torch.zeros(1, 1)), TreeLevel(head, torch.zeros(1, 1))])
    assert logits.isfinite().all() and logits[0].argsort().tolist() == [0, 1, 2]


# ---- the authors' code -----------------------------------------------------------------------------------------------------


def authors_level(golden: dict, prefix: str, settings: dict, num_nodes: int, tree: list[int] | None, beam: int | None):
    """A model of one level with its stored weights; the row of the padding candidate is left out."""
    config = AttentionXMLConfig.reproduction(
        vocab_size=settings["vocab_size"],
        num_labels=num_nodes,
        embedding_size=settings["emb_size"],
        hidden_size=settings["hidden_size"],
        num_hidden_layers=settings["layers_num"],
        linear_sizes=settings["linear_size"],
        cornet_num_blocks=0,
        tree_level_sizes=tree,
        beam_width=beam,
    )
    model = AttentionXMLForXMTC(config).eval()
    stored = stored_parameters(
        {name: value for name, value in golden.items() if name.startswith(prefix)}, ATTENTIONXML_NAMES, prefix
    )
    stored["label_head.attention.weight"] = stored["label_head.attention.weight"][:num_nodes]
    result = model.load_state_dict({name: stored[name] for name in model.state_dict() if name in stored}, strict=False)
    assert all(name.startswith(("upper_levels.", "label_tree.")) for name in result.missing_keys)
    return model


@pytest.mark.parametrize("memory", [512.0, 0.0], ids=["kept", "blocks"])
@pytest.mark.parametrize("name", ["fast_attentionrnn_embedding", "fast_attentionrnn_sharded"])
def test_logits_and_gradients_of_candidates_equal_the_authors(name, memory):
    # The padding candidate has a row of its own with ``embedding``, the last one; with ``sharded`` a vector of zeros. Here padding is
    # scored and then masked, so one more row takes both parts.
    golden, settings = load_golden(name)
    num_rows = settings["labels_num"] + 1
    weight = golden["label_attention.weight"]
    golden["label_attention.weight"] = torch.cat([weight, weight.new_zeros(num_rows - len(weight), weight.shape[1])])
    model = authors_level(golden, "", settings, num_rows, None, None)
    model.label_head.memory_mib = memory
    documents, *_ = model.encode(golden["input_ids"])
    logits = model.label_head.raw_logits_of(documents, golden["candidates"])
    assert_close(logits, golden["candidate_logits"], 1e-5, "candidate_logits")
    loss = nn.functional.binary_cross_entropy_with_logits(logits, golden["candidate_targets"])
    assert_close(loss, golden["loss"], 1e-5, "loss")
    loss.backward()
    gradients = stored_parameters(golden, ATTENTIONXML_NAMES, "grad.")
    for parameter, gradient in gradients.items():
        found = model.get_parameter(parameter).grad
        assert_close(found[: len(gradient)], gradient, 3e-5, parameter)
    scores = (logits.sigmoid() * golden["group_scores"].clamp(min=0)).detach()
    assert_close(scores.topk(4).values, golden["predict_top4_scores"], 1e-5, "predict_top4_scores")


@pytest.fixture(scope="module")
def authors_tree() -> tuple[AttentionXMLForXMTC, dict, dict]:
    """The authors' three levels as one model, by building each on the one above."""
    golden, settings = load_golden("plt_predict")
    sizes, beam = [*settings["nodes"], settings["num_labels"]], settings["beam"]
    starts = [torch.arange(9) * 4, nn.functional.pad(golden["groups_level1.sizes"].cumsum(0), (1, 0))]
    order = golden["groups_level1.labels"]
    above = None
    for level, size in enumerate(sizes):
        model = authors_level(golden, f"level{level}.", settings, size, sizes[:level] or None, beam if level else None)
        own = {name: value.clone() for name, value in model.state_dict().items()}
        if level:
            # Before the last level the clusters of the tree are its labels, in tree order.
            model.label_tree.set_tree(starts[:level], order if level == 2 else torch.arange(size))
            model.build_on(above)
            upper = {name: value for name, value in own.items() if not name.startswith(("upper_levels.", "label_tree."))}
            model.load_state_dict(upper, strict=False)
        above = model
    return model, golden, settings


@torch.no_grad()
def test_the_search_equals_the_authors(authors_tree):
    model, golden, settings = authors_tree
    documents, words, _ = model.encode(golden["test_ids"])
    levels, beam = model._levels(words, documents), settings["beam"]
    for level in range(2):
        nodes, log_scores = best_nodes(search(model.label_tree, levels[: level + 1], beam)[-1], beam)
        assert torch.equal(nodes, golden[f"level{level}.pred_labels"])
        assert_close(log_scores.exp(), golden[f"level{level}.pred_scores"], 1e-5, f"level {level}")
        candidates, _ = model.label_tree.children_of(level + 1, nodes)
        theirs, there = golden[f"level{level + 1}.candidates"], golden[f"level{level + 1}.candidate_path_scores"] > 0
        assert torch.equal(candidates[candidates >= 0], theirs[there])
    output = model(golden["test_ids"], top_k=settings["top_k_out"])
    assert torch.equal(output.top_labels, golden["final_labels"])
    assert_close(output.top_scores, golden["final_scores"], 1e-5, "final_scores")


@torch.no_grad()
def test_training_candidates_equal_the_authors_where_they_keep_all_positives(authors_tree):
    model, _, settings = authors_tree
    golden = {name: torch.from_numpy(array) for name, array in np.load(GOLDEN / "plt_train_candidates.npz").items()}
    rows = [
        golden["y_indices"][start:stop] for start, stop in torch.stack([golden["y_indptr"][:-1], golden["y_indptr"][1:]], 1)
    ]
    positives = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    documents, words, _ = model.encode(golden["train_ids"])
    levels, tree, beam_width = model._levels(words, documents), model.label_tree, settings["beam"]
    num_compared = 0
    for level in range(2):
        beam, _ = best_nodes(search(tree, levels[: level + 1], beam_width)[-1], beam_width)
        assert torch.equal(beam, golden[f"level{level}_train_pred_nodes"])
        targets = golden[f"level{level}_node_targets"]
        ours = training_nodes(beam, tree.positives(level, positives))
        candidates, _ = tree.children_of(level + 1, ours)
        sizes = golden[f"level{level + 1}_train_candidates_sizes"].tolist()
        flat = golden[f"level{level + 1}_train_candidates_flat"].split(sizes)
        for row, theirs in enumerate(golden[f"level{level}_train_candidate_nodes_sorted"].tolist()):
            nodes, right = {node for node in ours[row].tolist() if node >= 0}, set(targets[row].nonzero()[:, 0].tolist())
            if len(right) <= beam_width:
                num_compared += 1
                assert nodes == set(theirs)
                assert set(candidates[row].tolist()) - {-100} == set(flat[row].tolist())
            else:  # theirs are an arbitrary part of the positives, ours are all
                assert set(theirs) <= right == nodes
    assert num_compared == 12


def lightxml() -> tuple[LabelTreeIndex, list[TreeLevel], dict, dict]:
    golden, settings = load_golden("lightxml")
    clusters = golden["groups.labels"].split(golden["groups.sizes"].tolist())
    feature = golden["feature"]
    generator, discriminator = LabelHead(50, 7), LabelHead(6, 26)
    bottleneck = nn.Linear(50, 6)
    with torch.no_grad():
        for layer, name in ((generator.output, "group_classifier"), (bottleneck, "bottleneck")):
            layer.weight.copy_(golden[f"{name}.weight"])
            layer.bias.copy_(golden[f"{name}.bias"])
        discriminator.output.weight.copy_(golden["label_embedding.weight"])
        discriminator.output.bias.zero_()  # LightXML's labels have none
    tree = tree_of(*(cluster.tolist() for cluster in clusters))
    return tree, [TreeLevel(generator, feature), TreeLevel(discriminator, bottleneck(feature))], golden, settings


@torch.no_grad()
def test_prediction_equals_lightxml():
    tree, levels, golden, settings = lightxml()
    assert_close(levels[0].logits(), golden["group_logits"], 1e-5, "group_logits")
    scored = search(tree, levels, settings["beam_groups"])[-1]
    for row in range(4):
        # LightXML fills rows by repeating the last candidate, here they are padded.
        theirs = dict(zip(golden["eval.candidates"][row].tolist(), golden["eval.final_scores"][row].tolist(), strict=True))
        ours = {i: s for i, s in zip(scored.ids[row].tolist(), scored.log_scores[row].exp().tolist(), strict=True) if i >= 0}
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_training_clusters_losses_and_gradients_equal_lightxml():
    tree, levels, golden, settings = lightxml()
    positives = positive_ids(golden["gold_label_matrix"], 26)
    beam, _ = best_nodes(search(tree, levels[:1], settings["beam_groups"])[-1], settings["beam_groups"])
    ours, right = training_nodes(beam, tree.positives(0, positives)), golden["group_targets"].bool()
    for row, theirs in enumerate(golden["train.selected_groups"].tolist()):
        nodes = {node for node in ours[row].tolist() if node >= 0}
        assert nodes == set(theirs) | set(right[row].nonzero()[:, 0].tolist())
    # Of their candidates, repeated ones counted, our heads have their loss and gradients.
    logits = levels[1].logits_of(golden["train.candidates"])
    assert_close(logits, golden["train.candidate_logits"], 1e-5, "train.candidate_logits")
    cross_entropy = nn.functional.binary_cross_entropy_with_logits
    loss = cross_entropy(logits, golden["train.candidate_targets"]) + cross_entropy(levels[0].logits(), right.float())
    assert_close(loss, golden["train.loss"], 1e-5, "train.loss")
    loss.backward()
    for head, name in ((levels[0].head, "group_classifier"), (levels[1].head, "label_embedding")):
        assert_close(head.output.weight.grad, golden[f"grad.{name}.weight"], 3e-5, name)

"""Label trees in training: given to a model, labels of documents as nodes, biases, and what cannot be trained over a tree."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from interrupted_runs import InterruptAt, Interrupted
from label_options import NOTHING_ELSE
from scipy.sparse import csr_array

from hf_xmtc import (
    AttentionXMLConfig,
    AttentionXMLForXMTC,
    LightAttentionConfig,
    LightAttentionForXMTC,
    XMTCTrainingArguments,
)
from hf_xmtc.label_tree import LabelTree, label_features
from hf_xmtc.training import (
    estimate_memory,
    initialize_label_bias,
    label_clusters,
    level_model,
    set_label_tree,
    train_levels,
    with_node_labels,
)
from hf_xmtc.training.label_trees import candidate_recall
from hf_xmtc.training.option_conflicts import check_model_options
from models.label_clusters import labels_together

SIZES = {"vocab_size": 20, "embedding_size": 4, "hidden_size": 3, "linear_sizes": [4], "cornet_num_blocks": 0}
# Labels 5, 0 | 1, 4 under the first node, 2, 3 under the second.
PARENTS = [np.array([0, 0]), np.array([0, 0, 1]), np.array([0, 1, 2, 2, 1, 0])]


def build(levels=(2, 3), **settings) -> AttentionXMLForXMTC:
    return AttentionXMLForXMTC(AttentionXMLConfig(num_labels=6, tree_level_sizes=list(levels), **{**SIZES, **settings}))


def with_tree(**settings) -> AttentionXMLForXMTC:
    model = build(**settings)
    set_label_tree(model, LabelTree(PARENTS))
    return model


def test_a_model_takes_the_tree_of_its_labels():
    tree, index = LabelTree(PARENTS), with_tree().label_tree
    for level in range(3):
        assert index.ancestors(level, torch.arange(6)).tolist() == tree.ancestors(level).tolist()
    assert index.label_order.tolist() == tree.label_order.tolist()
    assert [labels_together(index, label) for label in (5, 1, 2)] == [[0, 5], [1, 4], [2, 3]]


@pytest.mark.parametrize("num_labels", [1, 2, 3, 5, 7, 64])
@torch.no_grad()
def test_a_label_without_documents_is_scored_like_the_others(num_labels):  # AC-30
    without = num_labels // 2
    labels = [[i % num_labels] if i % num_labels != without else [] for i in range(2 * num_labels)]
    texts = csr_array(np.random.default_rng(0).random((2 * num_labels, 6)))
    tree = LabelTree.build(label_features(texts, labels, num_labels))
    sizes = list(tree.num_nodes[:-1])
    config = LightAttentionConfig(num_labels=num_labels, tree_level_sizes=sizes, beam_width=max(sizes), **SIZES)
    model = LightAttentionForXMTC(config).eval()
    set_label_tree(model, tree)
    initialize_label_bias(model, np.array([2 * (label != without) for label in range(num_labels)]), 2 * num_labels)
    best = model(torch.tensor([[3, 4, 5]]), top_k=num_labels)
    assert sorted(best.top_labels[0].tolist()) == list(range(num_labels))
    assert best.top_scores.isfinite().all() and (best.top_scores > 0).all()


def test_the_labels_of_each_cluster_are_listed_by_name():  # AC-31
    model = build(label_names=list("abcdef"))
    set_label_tree(model, LabelTree(PARENTS))
    assert label_clusters(model) == [["a", "f"], ["b", "e"], ["c", "d"]]
    flat = AttentionXMLForXMTC(AttentionXMLConfig(num_labels=6, **SIZES))
    with pytest.raises(ValueError, match="This AttentionXMLForXMTC has no clusters to list: only"):
        label_clusters(flat)


def test_a_tree_of_other_labels_or_sizes_is_refused():  # AC-31
    named = build(label_names=list("abcdef"))
    with pytest.raises(ValueError, match=r"covers 6 labels \(labels_digest other\), but there are 6"):
        set_label_tree(named, LabelTree(PARENTS, labels_digest="other"))
    own = LabelTree(PARENTS, labels_digest=named.config.labels_digest)
    set_label_tree(named, own)
    with pytest.raises(ValueError, match="are the labels in another order"):
        set_label_tree(build(label_names=list("bacdef")), own)
    with pytest.raises(ValueError, match="The label tree covers 7 labels"):
        set_label_tree(named, LabelTree([*PARENTS[:2], np.array([0, 1, 2, 2, 1, 0, 0])]))
    with pytest.raises(ValueError, match=r"levels of \[2, 3\] clusters, but the model's config has tree_level_sizes=\[3\]"):
        set_label_tree(build([3]), LabelTree(PARENTS))


def test_labels_of_documents_become_nodes_and_unknown_ones_are_left_out():
    data = Dataset.from_dict({"labels": [[0, 5], [1, 4, 2], [], [6, 3]]})
    assert with_node_labels(data, with_tree(), 1)["labels"] == [[0], [1, 2], [], [2]]
    assert with_node_labels(data, with_tree(), 0)["labels"] == [[0], [0, 1], [], [1]]


def test_levels_are_trained_from_the_root_down_and_taken_over():
    model, seen = with_tree(), []
    torch.manual_seed(1)
    model.words.embedding.weight.data.normal_()

    def train_level(level, of_level):
        seen.append((level, of_level.config.num_labels, of_level.config.tree_level_sizes))
        assert torch.equal(of_level.words.embedding.weight, model.words.embedding.weight) or level
        if level:
            assert of_level.label_tree.parents(1).tolist() == [0, 0, 1]
            assert torch.equal(of_level.words.embedding.weight, of_level.upper_levels[0].embedding.weight)
        with torch.no_grad():
            of_level.words.embedding.weight.add_(1.0)
        return of_level

    start = model.words.embedding.weight.clone()
    train_levels(model, train_level)
    assert seen == [(0, 2, None), (1, 3, [2])]
    torch.testing.assert_close(model.upper_levels[0].embedding.weight, start + 1)
    torch.testing.assert_close(model.words.embedding.weight, start + 2)
    same = [level_model(model, 1, seed=4).label_head.attention.weight for _ in range(2)]
    assert torch.equal(*same)


def test_biases_start_at_the_odds_of_a_candidate():
    model = LightAttentionForXMTC(LightAttentionConfig(num_labels=6, tree_level_sizes=[3], beam_width=1, **SIZES))
    set_label_tree(model, LabelTree([np.zeros(3, int), PARENTS[2]]))
    counts = np.array([10, 20, 1, 1, 5, 40])
    initialize_label_bias(model, counts, 90)
    # Clusters: 50, 25 and 2 of 90 documents; a cluster is shown to those that have it, and to a third of all at least.
    expected = [(77 + 0.5) / (270 + 1), (77 + 0.5) / (2 * (50 + 30 + 30) + 1)]
    found = [model.upper_levels[0].head.label_bias.item(), model.label_head.label_bias.item()]
    assert found == pytest.approx([math.log(p / (1 - p)) for p in expected], rel=1e-5)
    model = with_tree(label_bias=True, beam_width=1)
    before = model.upper_levels[0].head.label_bias.clone()
    initialize_label_bias(model, counts, 90)
    assert torch.equal(model.upper_levels[0].head.label_bias, before)  # trained before
    assert model.label_head.label_bias[5].item() == pytest.approx(math.log(40.5 / (51 - 40.5)))


def test_candidate_recall_stays_when_thresholds_are_tuned(make_trainer, corpus, words_alone):
    config = LightAttentionConfig(
        num_labels=6, tree_level_sizes=[3], beam_width=1, **{**SIZES, "vocab_size": len(words_alone)}
    )
    trainer = make_trainer(
        model=LightAttentionForXMTC(config), trainer={"processing_class": words_alone}, tune_threshold="global"
    )
    output = trainer.predict(corpus["validation"], metric_key_prefix="validation")
    recall = output.metrics["validation_candidate_recall"]
    assert 0 < recall < 1
    trainer.tune_thresholds(output)
    assert trainer.measure(output).metrics["candidate_recall"] == recall


def test_candidate_recall_is_that_of_all_processes_even_of_one_without_documents():
    model, with_nothing = (build([3], beam_width=1).eval() for _ in range(2))
    ids, labels = torch.tensor([[3, 4], [5, 6], [7, 8]]), torch.tensor([[0, 1], [2, 5], [3, 4]])
    model(ids, labels=labels, top_k=0)
    alone = model.pop_candidate_recall(training=False)["candidate_recall"]
    model(ids, labels=labels, top_k=0)
    # The other process has seen one document, and all of its labels.
    assert candidate_recall(joined(model, [1.0, 1.0]), training=False) == {
        "candidate_recall": pytest.approx((3 * alone + 1) / 4)
    }
    assert candidate_recall(joined(with_nothing, [1.0, 2.0]), training=False) == {"candidate_recall": 0.5}
    assert candidate_recall(joined(with_nothing, [0.0, 0.0]), training=False) == {}


def joined(model, others: list[float]) -> SimpleNamespace:
    """A trainer of this model whose sums over processes hold the counts of another one."""
    accelerator = SimpleNamespace(
        reduce=lambda counts, reduction: counts + torch.tensor(others) if reduction == "sum" else None
    )
    return SimpleNamespace(model=model, accelerator=accelerator)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"label_optimizer": "sgd_in_backward", "max_grad_norm": 0.0},
            "label_optimizer='sgd_in_backward' with tree_level_sizes=\\[2, 3\\]: the gradients are those of the candidates",
        ),
        ({"shard_labels": True}, "shard_labels=True with tree_level_sizes=\\[2, 3\\]"),
    ],
)
def test_what_looks_at_all_labels_is_refused(settings, message, tmp_path):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    for name, value in settings.items():
        setattr(args, name, value)
    with pytest.raises(ValueError, match=message):
        check_model_options(args, with_tree())


# ---- sparse gradients of label vectors -------------------------------------------------------------------------------------


@pytest.fixture
def train_joint(make_trainer, words_alone):
    """Trains clusters and labels together; gives the trainer and the label vectors before and after."""

    def train(scoring="attention", resume=False, **settings):
        torch.manual_seed(0)
        sizes = {**SIZES, "vocab_size": len(words_alone), "embedding_dropout": 0.0, "hidden_dropout_prob": 0.0}
        config = LightAttentionConfig(
            num_labels=6, tree_level_sizes=[3], beam_width=1, label_scoring=scoring, dot_size=4, **sizes
        )
        model = LightAttentionForXMTC(config)
        set_label_tree(model, LabelTree([np.zeros(3, int), PARENTS[2]]))
        before = label_vectors(model).detach().clone()
        trainer = make_trainer(
            model=model,
            adam_epsilon_uncorrected=True,
            warmup_steps=0,
            **{"trainer": {"processing_class": words_alone}, "weight_decay": 0.0, **NOTHING_ELSE, **settings},
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer, before, label_vectors(model).detach()

    return train


def label_vectors(model) -> torch.nn.Parameter:
    (matrix,) = model.label_head.matrices().values()
    return matrix.parameters[0]


@pytest.mark.parametrize("scoring", ["attention", "dot"])
def test_a_step_with_sparse_gradients_is_that_with_dense_ones(train_joint, corpus, scoring):
    same = {"max_steps": 1, "train_dataset": corpus["train"].select([0]), "label_learning_rate": 0.03, "scoring": scoring}
    (_, before, dense), (trainer, _, sparse) = (train_joint(sparse_embeddings=chosen, **same) for chosen in (False, True))
    torch.testing.assert_close(sparse, dense)
    assert 0 < (sparse != before).any(dim=1).sum() < 6
    assert not trainer.model.label_head.sparse_rows  # an ordinary model again
    assert label_vectors(trainer.model) in trainer.optimizer.optimizer.parts["embeddings"].state


def test_labels_that_are_no_candidates_rest(train_joint, corpus):
    # One document for three steps, with decay: in Adam, all labels would move.
    document = corpus["train"].select([0])
    settings = {"max_steps": 3, "train_dataset": document, "weight_decay": 0.1, "sparse_embeddings": True}
    trainer, before, after = train_joint(**settings)
    labels = set(document["labels"][0])
    assert {label for label in range(6) if not torch.equal(before[label], after[label])} == {
        other for label in labels for other in labels_together(trainer.model.label_tree, label)
    }
    assert len(labels) < 3


def test_a_loss_of_all_logits_trains_all_label_vectors(train_joint, words_alone):
    def loss_of_all(outputs, labels, num_items_in_batch=None):
        return outputs.logits.square().mean()

    used = {"processing_class": words_alone, "compute_loss_func": loss_of_all}
    settings = {"max_steps": 1, "trainer": used}
    (_, before, dense), (_, _, sparse) = (train_joint(sparse_embeddings=chosen, **settings) for chosen in (False, True))
    torch.testing.assert_close(sparse, dense)
    assert (sparse != before).any(dim=1).all()


def test_a_resumed_run_with_sparse_label_vectors_equals_an_uninterrupted_one(train_joint, words_alone):
    settings = {"sparse_embeddings": True, "gradient_accumulation_steps": 2, "num_train_epochs": 2, "save_strategy": "epoch"}
    _, _, whole = train_joint(output="whole", **settings)
    interrupt = {"processing_class": words_alone, "callbacks": [InterruptAt(4)]}
    with pytest.raises(Interrupted):
        train_joint(output="parts", trainer=interrupt, **settings)
    _, _, resumed = train_joint(output="parts", resume=True, **settings)
    torch.testing.assert_close(resumed, whole)


def test_the_memory_estimate_counts_the_rows_of_candidates(tmp_path):
    def estimate(**settings):
        config = LightAttentionConfig(num_labels=100_000, tree_level_sizes=[1000], beam_width=2, **SIZES)
        args = XMTCTrainingArguments(
            output_dir=str(tmp_path), use_cpu=True, per_device_train_batch_size=4, max_grad_norm=0, **settings
        )
        with torch.device("meta"):
            return estimate_memory(LightAttentionForXMTC(config), args, num_tokens=2)

    dense, sparse = estimate(), estimate(sparse_embeddings=True)
    # Vectors of 6 numbers: 4 documents' 200 labels instead of all; 8 words of 4 numbers instead of 20.
    saved = 4 * (6 * (100_000 - 800) + 4 * (20 - 8))
    assert (dense.gradients - sparse.gradients) * 2**20 == pytest.approx(saved)
    assert dense.optimizer == pytest.approx(sparse.optimizer)


@pytest.mark.parametrize("scoring", ["attention", "dot"])
def test_the_memory_estimate_counts_candidates_and_not_all_labels(scoring, tmp_path):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, per_device_train_batch_size=32)

    def estimate(num_labels: int, levels: list[int]):
        config = LightAttentionConfig(num_labels=num_labels, tree_level_sizes=levels, label_scoring=scoring, **SIZES)
        with torch.device("meta"):
            return estimate_memory(LightAttentionForXMTC(config), args, num_tokens=64)

    many, few = estimate(1_000_000, [1000, 10_000]), estimate(1000, [1000])
    assert many.activations < 3 * few.activations and many.evaluation < 3 * few.evaluation

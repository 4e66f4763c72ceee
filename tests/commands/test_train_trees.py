"""Models over label trees by the command line: built from the training texts, level after level, stopped and started again."""

import json
import shutil
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array

import hf_xmtc.commands.train as command
from hf_xmtc import AttentionXMLForXMTC, LightAttentionConfig, LightAttentionForXMTC
from hf_xmtc.cli import main
from hf_xmtc.commands import export_check
from hf_xmtc.commands.level_training import shape_for_sizes
from hf_xmtc.label_tree import LabelTree
from hf_xmtc.training import XMTCTrainer, set_label_tree
from models.label_clusters import labels_together

SIZES = {"embedding_size": 8, "hidden_size": 8, "linear_sizes": [8]}
WORDS_ONLY = {"num_cls_tokens": None, "cornet_context_size": None, "cornet_num_blocks": 0}


def tree_settings(family: str, **config) -> dict:
    return {"model_family": family, "config_overrides": json.dumps({**SIZES, **config}), **WORDS_ONLY}


@pytest.fixture
def not_reopened(monkeypatch):
    monkeypatch.setattr(export_check, "check_reopens", lambda *args, **settings: 0.0)


def test_lightattention_is_trained_and_opens_again_with_its_tree(train, tmp_path):  # AC-31
    folder = tmp_path / "run"
    told = train(folder, **tree_settings("lightattention", tree_level_sizes=[2, 4], beam_width=3))
    assert "A label tree of 3 levels" in told and "Reopened" in told
    metrics = json.loads((folder / "metrics.json").read_text())
    assert 0 < metrics["test"]["candidate_recall"] <= 1
    log = json.loads((folder / "training_log.json").read_text())
    assert all(0 < entry["candidate_recall"] <= 1 for entry in log if "loss" in entry)
    model = LightAttentionForXMTC.from_pretrained(folder)
    assert model.config.tree_level_sizes == [2, 4]
    clusters = [set(labels_together(model.label_tree, label)) for label in range(6)]
    assert all(1 <= len(cluster) <= 2 and label in cluster for label, cluster in enumerate(clusters))
    # Not the even split of a model without a tree, whose clusters are neighbours in the alphabet.
    assert not torch.equal(model.label_tree.label_order, torch.arange(6))
    weights = load_file(folder / "model.safetensors")
    weights["label_tree.label_order"] = torch.zeros(6, dtype=torch.long)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="do not name each of the 6 labels once"):
        LightAttentionForXMTC.from_pretrained(folder)


def test_a_tree_of_hf_xmtc_tree_is_taken_and_travels_with_the_model(
    train, corpus_folder, tmp_path, not_reopened, capsys
):  # AC-31
    tree = tmp_path / "tree"
    assert main(["tree", "--dataset", str(corpus_folder), "--output_dir", str(tree), "--max_leaf", "2"]) in (0, None)
    with patch.object(LabelTree, "load", wraps=LabelTree.load) as load:
        train(tmp_path / "run", **tree_settings("attentionxml"), label_tree=tree)
    assert load.call_count == 1
    model = AttentionXMLForXMTC.from_pretrained(tmp_path / "run")
    assert model.config.tree_level_sizes == [4]
    with pytest.raises(SystemExit, match="label_tree=.* with model_family='bertxml': it scores all labels"):
        train(tmp_path / "other", label_tree=tree)
    clusters = [[model.config.id2label[i] for i in cluster] for cluster in LabelTree.load(tree).clusters()]
    with pytest.raises(SystemExit, match=r"tree_level_sizes=\[2, 4\] .* but the tree .*tree has levels of \[4\] clusters"):
        train(tmp_path / "other", **tree_settings("attentionxml", tree_level_sizes=[2, 4]), label_tree=tree)
    shutil.rmtree(tree)
    capsys.readouterr()
    assert main(["tree", "--model", str(tmp_path / "run")]) in (0, None)  # which labels share a leaf
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == clusters


def test_a_run_does_not_go_on_with_another_tree(train, corpus_folder, tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    main(["tree", "--dataset", str(corpus_folder), "--output_dir", str(tree), "--max_leaf", "2"])
    settings = {**tree_settings("attentionxml"), "label_tree": tree}

    class StopsAtLabels(XMTCTrainer):
        def train(self, *args, **kwargs):
            if self.num_labels == 6:
                raise KeyboardInterrupt
            return super().train(*args, **kwargs)

    monkeypatch.setattr(command, "XMTCTrainer", StopsAtLabels)
    with pytest.raises(SystemExit):
        train(tmp_path / "run", **settings)
    first = LabelTree.load(tree)
    LabelTree([first.parents[0], first.parents[1][::-1].copy()], first.labels_digest).save(tree)
    with pytest.raises(
        SystemExit, match="holds an unfinished run with other settings: model_digest was '[0-9a-f]+' and is now"
    ):
        train(tmp_path / "run", **settings)


def test_levels_that_had_ended_are_not_trained_again(train, tmp_path, monkeypatch, not_reopened):
    settings = tree_settings("attentionxml", tree_level_sizes=[2, 4], beam_width=2)
    train(tmp_path / "whole", **settings)
    trained = []

    class Counting(XMTCTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.prior = self.model.label_head.label_bias.detach().clone()

        def train(self, *args, **kwargs):
            assert torch.equal(self.model.label_head.label_bias, self.prior)  # that of frequencies, not of the level above
            trained.append(self.num_labels)
            if len(trained) == self.stop_at:
                raise KeyboardInterrupt
            return super().train(*args, **kwargs)

    monkeypatch.setattr(command, "XMTCTrainer", Counting)
    Counting.stop_at = 2
    with pytest.raises(SystemExit):
        train(tmp_path / "parts", **settings)
    with pytest.raises(SystemExit, match="holds an unfinished run with other settings"):
        train(tmp_path / "parts", **settings, seed=5)
    Counting.stop_at = None
    train(tmp_path / "parts", **settings)
    assert trained == [2, 4, 4, 6]
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not (tmp_path / "parts" / "checkpoints").exists()
    model = AttentionXMLForXMTC.from_pretrained(tmp_path / "parts")
    assert model.upper_levels[0].head.num_labels == 2 and not any(p.requires_grad for p in model.upper_levels.parameters())
    shutil.rmtree(tmp_path / "whole")


def test_sizes_that_no_tree_has_are_refused(train, tmp_path):
    with pytest.raises(SystemExit, match=r"tree_level_sizes=\[3\], but 2-means, .* gives levels of \[4\] clusters"):
        train(tmp_path / "run", **tree_settings("lightattention", tree_level_sizes=[3]))


def test_default_sizes_are_those_of_a_tree_for_any_number_of_labels():
    for num_labels in range(1, 101):
        model = LightAttentionForXMTC(LightAttentionConfig(num_labels=num_labels, vocab_size=9, **SIZES))
        features = csr_array(np.random.default_rng(num_labels).random((num_labels, 3)))
        set_label_tree(model, LabelTree.build(features, shape_for_sizes(model.config.tree_level_sizes, num_labels)))


@pytest.mark.parametrize(
    ("sizes", "num_labels", "message"),
    [
        (
            [16_384],
            22_625,
            r"\[16384\], but .* halves 22,625 labels .* gives levels of \[14433\] .* powers of two up to 8,192",
        ),
        ([2, 64], 90, r"\[2, 64\], but .* halves 90 labels .* gives levels of \[2, 58\] clusters.* powers of two up to 32"),
        ([8], 5, r"\[8\], but .* halves 5 labels .* gives levels of \[5\] .* up to 2"),
        ([256], 90, r"\[256\], but .* gives levels of \[90\]"),
        ([3, 8], 90, r"\[3, 8\], but .* gives levels of \[2, 8\]"),
        ([8, 4], 90, "depths ascend"),
    ],
)
def test_sizes_that_two_means_does_not_give_are_refused_with_those_it_gives(sizes, num_labels, message):
    with pytest.raises(ValueError, match=message):
        shape_for_sizes(sizes, num_labels)


def test_training_goes_on_with_the_tree_of_a_trained_model(train, tmp_path, not_reopened):
    train(tmp_path / "first", **tree_settings("lightattention", tree_level_sizes=[4], beam_width=2))
    arguments = {"model_family": None, "config_overrides": None, **dict.fromkeys(WORDS_ONLY)}
    train(tmp_path / "second", model=tmp_path / "first", min_document_frequency=None, **arguments)
    first, second = (LightAttentionForXMTC.from_pretrained(tmp_path / name) for name in ("first", "second"))
    assert torch.equal(first.label_tree.label_order, second.label_tree.label_order)

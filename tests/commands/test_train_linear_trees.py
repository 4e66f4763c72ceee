"""`hf-xmtc train --model_family parabel|bonsai|dismec`: the same command as for all families, with omikuji in the Trainer's place."""

import json

import pytest
from transformers import pipeline

import hf_xmtc.commands.training_run as run_module
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import WORDS, make_documents, write_corpus, write_split

# What the other tests of this folder train with, and has no part here.
BY_GRADIENT = ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "cornet_context_size", "num_cls_tokens")
ONE_LEAF = dict.fromkeys((*BY_GRADIENT, "config_overrides"))
SETTINGS = {**ONE_LEAF, "config_overrides": "min_branch_size=3,num_clusters=2"}


@pytest.mark.parametrize("family", ["parabel", "bonsai", "dismec"])
def test_trees_are_trained_evaluated_and_open_without_omikuji(train, family, tmp_path):
    folder, data = tmp_path / "run", write_corpus(tmp_path / "data")
    write_split(data, "train", [*make_documents(12, 0), *[("", ["music"])] * 3, ("cat dog", [])])
    write_split(data, "test", [("", ["music"]), *make_documents(7, 2)])
    settings = ONE_LEAF if family == "dismec" else SETTINGS
    told = train(folder, dataset=data, model_family=family, tune_threshold="global", max_length_tokens=None, **settings)
    assert "4 of 16 documents have no label or no word; the trees are trained without them." in told
    assert "Reopened" in told  # in a process of its own
    check_model_folder(folder).raise_for_problems()
    metrics, recipe = (json.loads((folder / f"{name}.json").read_text()) for name in ("metrics", "recipe"))
    assert metrics["test"]["P@1"] > 0.8 and set(metrics["train"]) >= {"seconds", "parameters", "peak_memory_mb"}
    assert recipe["max_length_tokens"] == 100_000 and "learning_rate" not in recipe and "cornet_num_blocks" not in recipe
    card = (folder / "README.md").read_text()
    assert {"parabel": "Prabhu", "bonsai": "Khandagale", "dismec": "Babbar"}[family] in card and "learning_rate" not in card
    assert not list(folder.glob("*.png"))
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    assert {answer["label"] for answer in tagger("cat", top_k=None)} == set(WORDS)
    assert tagger.explain("the cat").kind == "margin"


@pytest.mark.parametrize(("family", "own"), [("bonsai", SETTINGS), ("dismec", ONE_LEAF)])
def test_what_follows_training_is_repeated_without_training(train, unchecked, monkeypatch, tmp_path, family, own):
    def stop(*args):
        raise ValueError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(run_module.TrainingRun, "_evaluate", stop)
        with pytest.raises(SystemExit, match="stopped"):
            train(tmp_path / "run", model_family=family, **own)
    monkeypatch.setattr(run_module, "train_without_gradients", stop)
    assert "Training had ended before" in train(tmp_path / "run", model_family=family, **own)


def test_one_vs_all_takes_no_settings_of_trees(train, tmp_path):
    with pytest.raises(SystemExit, match="config_overrides names .min_branch_size., which DiSMECConfig does not have"):
        train(tmp_path / "run", model_family="dismec", **SETTINGS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"learning_rate": 0.1, "cornet_num_blocks": 2},
            r"cornet_num_blocks, learning_rate cannot be used with the family bonsai, which is trained without gradients\. Leave",
        ),
        (
            {"config_overrides": "cornet_num_blocks=1,label_loss=asymmetric"},
            r"cornet_num_blocks \(in config_overrides\), label_loss \(in config_overrides\) cannot be used",
        ),
        ({"backbone": "bert"}, "takes no pretrained encoder"),
    ],
)
def test_options_of_training_by_gradients_are_refused(train, settings, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        train(tmp_path / "run", model_family="bonsai", **{**SETTINGS, **settings})
    assert not (tmp_path / "run").exists()


def test_several_processes_are_refused(monkeypatch):
    from hf_xmtc.commands.gradient_options import check_gradient_options
    from hf_xmtc.commands.recipe_parsing import parse_recipe

    recipe = parse_recipe(["--model_family", "parabel", "--dataset", "demo", "--output_dir", "x"])
    monkeypatch.setattr(type(recipe.training), "world_size", 2)
    with pytest.raises(ValueError, match="There are 2 processes, but a model of the family parabel is trained in one"):
        check_gradient_options(recipe)

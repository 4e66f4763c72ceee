"""`hf-xmtc train --model`: going on from a trained model, with the labels of other data."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from small_runs import TINY_WORD_FAMILIES, Interrupted, power_cut
from transformers import AutoModel, pipeline

from hf_xmtc import BertXMLForXMTC
from hf_xmtc.commands import export_check
from hf_xmtc.commands.model_building import with_starting_model
from hf_xmtc.commands.recipe import DataArguments, ModelArguments, Recipe
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.starting_model import StartingModel
from hf_xmtc.training import XMTCTrainer, XMTCTrainingArguments
from small_corpus import WORDS, make_documents, write_split

TEXTS = ["cat and dog", "the red song", "soup of the town", "hammer", ""]
# No step that changes anything: what the model says before it goes on training.
NO_STEP = {"max_steps": 1, "learning_rate": 0, "tune_threshold": None}
OWN = {"cornet_context_size": None, "num_cls_tokens": None, "config_overrides": None, "min_document_frequency": None}
OWN["max_length_tokens"] = None
NEW_NAMES = {"tool": "zoo", "place": "law"}
KEPT = [label for label in sorted(WORDS) if label not in NEW_NAMES]


@pytest.fixture(scope="module")
def old(train, tmp_path_factory):
    """A trained model with thresholds of its own."""
    folder = tmp_path_factory.mktemp("runs") / "old"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_check, "check_reopens", lambda *args, **settings: 0.0)
        train(folder, max_steps=6, tune_threshold="per_label", cornet_num_blocks=0)
    return folder


@pytest.fixture(scope="module")
def new_data(tmp_path_factory):
    """A data folder with four labels of the old one and two others, and a display name."""
    folder = tmp_path_factory.mktemp("corpora") / "other"
    for seed, (split, count) in enumerate({"train": 24, "validation": 8, "test": 7}.items()):
        documents = [
            (text, sorted(NEW_NAMES.get(label, label) for label in labels))
            for text, labels in make_documents(count, seed + 5)
        ]
        write_split(folder, split, documents)
    labels = [
        {"label": label, "name": label.upper()} if label == "zoo" else label for label in ["zoo", *sorted(WORDS), "law"]
    ]
    (folder / "labels.json").write_text(json.dumps(labels))
    return folder


def scores_of(folder, labels, **settings) -> torch.Tensor:
    """Scores of some labels, one row per text."""
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, top_k=None, device="cpu")
    answers = [{entry["label"]: entry["score"] for entry in tagger(text, **settings)} for text in TEXTS]
    return torch.tensor([[answer[label] for label in labels] for answer in answers])


def json_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def gone_on(train, old, new_data, tmp_path_factory):
    """The folder of a run that goes on from the old model with the other data and changes nothing; and what it said."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, train(folder, model=old, dataset=new_data, **OWN, **NO_STEP)


def test_training_goes_on_with_other_labels_and_says_at_first_the_same_of_known_ones(gone_on, old):  # AC-47
    folder, told = gone_on
    assert f"Starting from {old}: 4 of its 6 labels are kept, 2 are new and 2 dropped." in told
    assert "which lack 2 labels of the model, such as 'place'. To keep them" in told
    assert "The thresholds that were tuned on the model's old data are not taken over" in told
    assert "Reopened" in told
    torch.testing.assert_close(scores_of(folder, KEPT), scores_of(old, KEPT), atol=1e-6, rtol=0)
    found = scores_of(folder, ["zoo", "law"])
    assert found.max() < 0.5 and torch.equal(found[0], found[1]), "of new labels only the frequency is known"
    model, before = AutoModel.from_pretrained(folder), AutoModel.from_pretrained(old)
    assert model.config.label_names.labels == ["zoo", *KEPT, "law"] and model.config.label_names.name_of(0) == "ZOO"
    assert model.label_thresholds is None and before.label_thresholds is not None
    assert (model.config.has_label_thresholds, model.config.decision_threshold) == (False, 0.5)


def test_the_folder_says_what_it_started_from_and_has_the_tokenizer_of_that_model(gone_on, old):
    folder, _ = gone_on
    recipe, card = json_of(folder / "recipe.json"), (folder / "README.md").read_text()
    wanted = {
        "model": "old",
        "model_family": "bertxml",
        "cornet_context_size": 4,
        "num_cls_tokens": 2,
        "max_length_tokens": 8,
    }
    assert wanted.items() <= recipe.items() and "vocab_size" not in recipe
    assert "fine-tuned from `old`" in card and str(old.parent) not in card
    assert (folder / "tokenizer.json").read_bytes() == (old / "tokenizer.json").read_bytes()
    assert json_of(old / "tokenizer_config.json").items() <= json_of(folder / "tokenizer_config.json").items()


def test_the_recipe_of_the_model_goes_with_it(gone_on, old):
    for folder in (old, gone_on[0]):
        again = parse_recipe(["--config", str(folder / "recipe.json"), "--model", str(folder), "--dataset", "demo"])
        with_starting_model(again).check()
    again = parse_recipe(["--config", str(old / "recipe.json"), "--model", str(folder), "--dataset", "demo"])
    with pytest.raises(ValueError, match="others were given: vocab_size=500000; min_document_frequency=1; word_splitting"):
        with_starting_model(again)


def test_new_labels_start_at_their_frequency_and_known_ones_keep_their_bias(
    train, unchecked, gone_on, old, new_data, tmp_path
):
    train(tmp_path / "silent", model=old, dataset=new_data, **OWN, **NO_STEP, label_bias_from_frequency=False)
    before, found, silent = (load_file(path / "model.safetensors") for path in (old, gone_on[0], tmp_path / "silent"))
    bias = "label_head.output.bias"
    for name in (
        before.keys() & found.keys()
    ):  # animal to music are the first four of the old labels, and follow zoo in the new ones
        is_same = torch.equal(found[name], before[name]) if "label_head" not in name else None
        assert torch.equal(found[name][1:5], before[name][:4]) if is_same is None else is_same, name
    assert (silent[bias][[0, 5]] <= -10).all() and (found[bias][[0, 5]] > -2).all()


def test_going_on_with_the_same_data_starts_with_the_metrics_of_the_old_model(train, unchecked, old, tmp_path):
    told = train(tmp_path / "run", model=old, **OWN, **NO_STEP)
    assert "6 of its 6 labels are kept, 0 are new and 0 dropped." in told
    before, found = (json_of(folder / "metrics.json") for folder in (old, tmp_path / "run"))
    for split in ("validation", "test"):
        assert "nDCG@5" in found[split]
        assert found[split] == pytest.approx({name: before[split][name] for name in found[split]})


def test_an_interrupted_run_goes_on_and_ends_like_an_uninterrupted_one(
    train, unchecked, monkeypatch, old, new_data, tmp_path
):
    settings = {"model": old, "dataset": new_data, **OWN}
    train(tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(XMTCTrainer, "_load_best_model", power_cut)
        train(tmp_path / "parts", **settings)
    with pytest.raises(SystemExit, match="unfinished run with other settings: .*model was 'old' and is now None"):
        train(tmp_path / "parts", dataset=new_data)
    assert "Resuming from checkpoint-12." in train(tmp_path / "parts", **settings)
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not torch.equal(
        whole["label_head.output.weight"][1:5], load_file(old / "model.safetensors")["label_head.output.weight"][:4]
    )


@pytest.mark.parametrize("shard_size", ["5GB", "2KB"])
def test_another_model_of_the_same_name_is_another_start(gone_on, old, tmp_path, shard_size):
    assert json_of(gone_on[0] / "recipe.json")["model_digest"] == StartingModel.from_pretrained(str(old)).digest()
    folders = [tmp_path / place / "old" for place in "ab"]
    model = BertXMLForXMTC.from_pretrained(old)
    for folder in folders:
        shutil.copytree(old, folder)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size=shard_size)
    weights = sorted(folders[0].glob("model*.safetensors"))
    assert (len(weights) > 1) == (shard_size == "2KB")
    same, before = (StartingModel.from_pretrained(str(folder)).digest() for folder in folders)
    assert same == before
    (folders[1] / weights[-1].name).write_bytes(weights[-1].read_bytes()[:-1] + b"\x01")
    assert StartingModel.from_pretrained(str(folders[1])).digest() != before


# ---- what is refused -----------------------------------------------------------------------------------------------------


def test_settings_that_the_model_does_not_have_are_refused_in_one_message(train, old, tmp_path):
    with pytest.raises(SystemExit) as refused:
        # The default of a new model is a contradiction here, if somebody gives it.
        train(
            tmp_path / "run",
            model=old,
            model_family="laco",
            cornet_num_blocks=1,
            cornet_context_size=1000,
            vocab_size=300,
            word_vectors="glove.txt",
            backbone="bert-base-uncased",
            config_overrides="hidden_dropout_prob=0.25,hidden_size=16,decision_threshold=0.2",
            num_cls_tokens=5,
        )
    told = str(refused.value)
    for said in (
        "backbone='bert-base-uncased'; vocab_size=300 (the model has 500000); word_vectors='glove.txt'; model_family='laco' (the model "
        "has 'bertxml'); num_cls_tokens=5 (the model has 2); cornet_num_blocks=1 (the model has 0); cornet_context_size=1000 (the model "
        "has 4); hidden_dropout_prob=0.25",
        "Leave them out, or leave --model out",
    ):
        assert said in told
    assert "hidden_size" not in told and "decision_threshold" not in told
    assert not (tmp_path / "run").exists()


def test_a_recipe_made_in_python_takes_what_is_no_default_for_given(old):
    training = XMTCTrainingArguments(output_dir="", use_cpu=True)
    recipe = Recipe(ModelArguments(model=str(old)), DataArguments(), training)
    recipe = with_starting_model(recipe)
    assert (recipe.model.cornet_context_size, recipe.data.max_length_tokens) == (4, 8)
    with_starting_model(recipe)  # now they are given, and the model's own
    with pytest.raises(ValueError, match=r"others were given: cornet_context_size=5 \(the model has 4\)\."):
        with_starting_model(Recipe(ModelArguments(model=str(old), cornet_context_size=5), DataArguments(), training))


def test_model_is_no_short_form_of_model_family():
    with pytest.raises(ValueError, match="'laco' names a family and no trained model. Did you mean --model_family laco"):
        with_starting_model(parse_recipe(["--model", "laco", "--dataset", "demo"]))
    with pytest.raises(ValueError, match="--model laco names no data set, and neither does the command line. Add --dataset"):
        parse_recipe(["--model", "laco"])
    with pytest.raises(ValueError, match="model_revision='main' with model=None: add --model"):
        parse_recipe(["--model_revision", "main"]).check()
    chosen = parse_recipe(["--model=old", "--dataset", "demo", "--model_family", "laco"])
    assert (chosen.model.model, chosen.model.model_family) == ("old", "laco") and "model_family" in chosen.choices


def test_a_trained_model_as_a_backbone_is_pointed_to_model(train, old, tmp_path):
    with pytest.raises(
        SystemExit, match="is a trained model of the type 'bertxml' and no bare encoder.* give it as --model"
    ):
        train(tmp_path / "run", backbone=old, config_overrides=None)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (None, None, "FileNotFoundError: There is no model folder"),
        ("model.safetensors", None, "FileNotFoundError: The model folder .* is not complete: model.safetensors missing"),
        ("model.safetensors", b"{", "ValueError: The weights of .* are damaged"),
        (
            "config.json",
            b'{"model_type": "bert"}',
            "is of the type 'bert', which is none of the families.* goes into one with --backbone",
        ),
        ("config.json", b"[1]", "ValueError: .*config.json must hold a JSON object, found a list"),
        ("labels.json", b'["a"]', "ValueError: labels.json beside the model names 1 labels but"),
        ("tokenizer.json", b"{}", "ValueError: .* cannot be opened .* Are tokenizer.json or tokenizer_config.json damaged"),
        ("recipe.json", b"[", "ValueError: .*recipe.json is not valid JSON"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_sentence(train, old, tmp_path, file, content, message):
    folder = tmp_path / "damaged"
    if file is not None:
        shutil.copytree(old, folder)
        (folder / file).unlink() if content is None else (folder / file).write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        train(tmp_path / "run", model=folder, **OWN)
    assert not (tmp_path / "run" / "config.json").exists()


# ---- other families ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["attentionxml", "xmlcnn"])
def test_families_of_words_go_on_with_cornet_and_a_weighted_loss(train, unchecked, new_data, family, tmp_path):
    overrides = {**TINY_WORD_FAMILIES[family], "label_loss": "propensity_bce"}
    first = {"model_family": family, "num_cls_tokens": None, "config_overrides": json.dumps(overrides)}
    train(tmp_path / "old", **first, max_steps=2)
    (tmp_path / "labels.json").write_text(json.dumps([*sorted(WORDS), "law", "zoo"]))
    settings = {"dataset": new_data, "label_space": "file", "label_file": tmp_path / "labels.json"}
    told = train(tmp_path / "run", model=tmp_path / "old", **settings, **OWN, **NO_STEP)
    assert "6 of its 6 labels are kept, 2 are new and 0 dropped." in told and "To keep them" not in told
    assert "no weight in the loss yet" not in told
    before, found = (scores_of(tmp_path / name, list(WORDS)) for name in ("old", "run"))
    torch.testing.assert_close(found, before, atol=1e-6, rtol=0)
    assert scores_of(tmp_path / "run", ["zoo", "law"]).max() < 0.5
    assert (AutoModel.from_pretrained(tmp_path / "run").label_head.positive_weight > 0).all()


def test_a_model_of_candidates_goes_on_with_a_generator_of_the_new_data(train, unchecked, new_data, tmp_path):
    overrides = {
        "backbone_config": {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1},
        "cross_attention_channels": 2,
        "num_candidates": 3,
    }
    first = {
        "model_family": "laco",
        "num_cls_tokens": None,
        "cornet_context_size": None,
        "config_overrides": json.dumps(overrides),
    }
    train(tmp_path / "old", **first, max_steps=2)
    told = train(tmp_path / "run", model=tmp_path / "old", dataset=new_data, **OWN, **NO_STEP)
    assert "4 of its 6 labels are kept" in told
    before, found = (scores_of(tmp_path / name, KEPT, candidates=KEPT) for name in ("old", "run"))
    torch.testing.assert_close(found, before, atol=1e-6, rtol=0)
    model = AutoModel.from_pretrained(tmp_path / "run")
    assert model.config.num_candidates == 3
    assert json_of(tmp_path / "run" / "candidates" / "candidates.json")["labels_digest"] == model.config.labels_digest

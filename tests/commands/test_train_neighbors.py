"""`hf-xmtc train --model_family neighbors`: the same command as for all families, with nothing to train."""

import json

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel, PreTrainedTokenizerFast, pipeline

import hf_xmtc.commands.training_run as run_module
from hf_xmtc import NeighborsForXMTC, cli
from hf_xmtc.commands.ensemble import main as ensemble
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import WORDS, make_documents, write_corpus, write_split

# What the other tests of this folder train with, and has no part here.
BY_GRADIENT = ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "cornet_context_size", "num_cls_tokens")
SETTINGS = {**dict.fromkeys(BY_GRADIENT), "config_overrides": "similarity_power=3"}


def test_documents_are_stored_evaluated_and_joined_with_others(train, tmp_path):
    folder, data = tmp_path / "run", write_corpus(tmp_path / "data")
    write_split(data, "train", [*make_documents(12, 0), ("", ["music"]), ("cat dog", [])])
    told = train(folder, dataset=data, model_family="neighbors", tune_threshold="global", max_length_tokens=None, **SETTINGS)
    assert "14 training documents are stored; they vote with num_neighbors" in told and "similarity_power 3" in told
    assert "Reopened" in told  # in a process of its own
    check_model_folder(folder).raise_for_problems()
    metrics, recipe, config = (json.loads((folder / f"{name}.json").read_text()) for name in ("metrics", "recipe", "config"))
    assert metrics["test"]["P@1"] > 0.8 and set(metrics["train"]) >= {"seconds", "num_neighbors", "label_text_weight"}
    assert config["similarity_power"] == 3 and config["label_text_weight"] == metrics["train"]["label_text_weight"]
    assert recipe["max_length_tokens"] == 100_000 and "learning_rate" not in recipe
    card = (folder / "README.md").read_text()
    assert "TReaderXML" in card and "holds its training documents" in card and "explain" in card
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    assert {answer["label"] for answer in tagger("cat", top_k=None)} == set(WORDS)
    assert tagger.explain("the cat").kind == "share" and tagger.explain("the cat").best_tokens(1)[0].token == "cat"

    train(
        tmp_path / "other",
        dataset=data,
        model_family="bonsai",
        max_length_tokens=None,
        **{**SETTINGS, "config_overrides": "min_branch_size=3,num_clusters=2"},
    )
    ensemble([str(folder), str(tmp_path / "other"), "--output_dir", str(tmp_path / "both")])
    tagger = pipeline("text-classification", model=str(tmp_path / "both"), trust_remote_code=True)
    assert tagger("cat")[0]["label"] == "animal"


@pytest.fixture
def encoder(tmp_path):
    """A BERT of whole words."""
    folder, words = tmp_path / "bert", ["[PAD]", "[UNK]", "the", "of", *(word for group in WORDS.values() for word in group)]
    backend = Tokenizer(WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=16, **sizes)).save_pretrained(folder)
    return folder


TUNING = {**SETTINGS, "model_family": "neighbors", "tune_encoder": True, "config_overrides": None, "learning_rate": 0.01}


def test_an_encoder_is_tuned_before_documents_are_stored(train, encoder, monkeypatch, tmp_path):
    folder = tmp_path / "run"
    settings = {**TUNING, "backbone": encoder, "num_train_epochs": 2, "per_device_train_batch_size": 6}

    def stop(*args, **kwargs):
        raise ValueError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "train_without_gradients", stop)
        with pytest.raises(SystemExit, match="stopped"):
            train(folder, **settings)
    told = train(folder, **settings)  # from the last checkpoint
    assert "24 training documents are stored" in told and "Reopened" in told  # in a process of its own
    check_model_folder(folder).raise_for_problems()
    metrics, recipe = (json.loads((folder / f"{name}.json").read_text()) for name in ("metrics", "recipe"))
    assert metrics["train"]["epochs"] == 2 and {"num_neighbors", "seconds"} <= set(metrics["train"])
    assert recipe["tune_encoder"] and recipe["learning_rate"] == 0.01 and "label_optimizer" not in recipe
    history = json.loads((folder / "training_log.json").read_text())
    assert sum("eval_nDCG@5" in entry for entry in history) == 2 and (folder / "training_curve.png").exists()
    assert "fine-tuned from `bert`" in (folder / "README.md").read_text()
    tuned = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True).backbone
    before = BertModel.from_pretrained(encoder)
    assert not torch.equal(tuned.embeddings.word_embeddings.weight, before.embeddings.word_embeddings.weight)

    (tmp_path / "more.csv").write_text("text,labels\ngreen hammer song,x1\n", encoding="utf-8")
    arguments = ("--model", folder, "--dataset", tmp_path / "more.csv", "--output_dir", tmp_path / "more")
    assert cli.main(["extend", *map(str, arguments)]) == 0
    extended = AutoModelForSequenceClassification.from_pretrained(tmp_path / "more", trust_remote_code=True)
    assert torch.equal(extended.backbone.embeddings.word_embeddings.weight, tuned.embeddings.word_embeddings.weight)
    assert extended.config.num_documents == 25 and "fine-tuned from `bert`" in (tmp_path / "more" / "README.md").read_text()
    tagger = pipeline("text-classification", model=str(tmp_path / "more"), trust_remote_code=True)
    assert tagger("green hammer song")[0]["label"] == "x1"


def test_a_frozen_encoder_stays_as_it_is_and_reads_in_the_chosen_precision(train, unchecked, encoder, monkeypatch, tmp_path):
    folder, seen, encode = tmp_path / "run", [], NeighborsForXMTC.encode_texts

    def watched(*args, **kwargs):
        seen.append(torch.is_autocast_enabled("cpu"))
        return encode(*args, **kwargs)

    monkeypatch.setattr(NeighborsForXMTC, "encode_texts", watched)
    told = train(folder, model_family="neighbors", backbone=encoder, bf16=True, **{**SETTINGS, "config_overrides": None})
    assert seen == [True] * 3 and "fine-tuned with 2e-5" not in told
    card = (folder / "README.md").read_text()
    assert "with the frozen encoder `bert`" in card and "fine-tuned" not in card
    stored, before = AutoModelForSequenceClassification.from_pretrained(folder).backbone, BertModel.from_pretrained(encoder)
    assert torch.equal(stored.embeddings.word_embeddings.weight, before.embeddings.word_embeddings.weight)


def test_what_follows_training_is_repeated_without_training(train, unchecked, monkeypatch, tmp_path):
    def stop(*args):
        raise ValueError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(run_module.TrainingRun, "_evaluate", stop)
        with pytest.raises(SystemExit, match="stopped"):
            train(tmp_path / "run", model_family="neighbors", **SETTINGS)
    monkeypatch.setattr(run_module, "train_without_gradients", stop)
    assert "Training had ended before" in train(tmp_path / "run", model_family="neighbors", **SETTINGS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"learning_rate": 0.1},
            "learning_rate cannot be used with the family neighbors, which is trained without gradients",
        ),
        ({"config_overrides": "num_documents=3"}, r"num_documents \(in config_overrides\) cannot be used"),
        ({"tune_encoder": True}, "tune_encoder=True with backbone=None: there is no encoder to tune"),
        ({"tune_encoder": True, "label_optimizer": "rowwise"}, "label_optimizer cannot be used with the family neighbors"),
        ({"tune_encoder": False, "max_steps": 3}, "max_steps cannot be used with the family neighbors"),
        (
            {"tune_encoder": True, "model_family": "xmlcnn", "config_overrides": None},
            "tune_encoder=True with model='XMLCNNForXMTC': it is an option of the family neighbors",
        ),
    ],
)
def test_options_without_effect_are_refused(train, settings, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        train(tmp_path / "run", **{"model_family": "neighbors", **SETTINGS, **settings})
    assert not (tmp_path / "run").exists()

"""`hf-xmtc train --candidates_from`: LACO whose candidates another model finds."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from transformers import pipeline

from hf_xmtc.commands.export_check import check_reopens
from hf_xmtc.commands.predict import PredictArguments, predict_file
from hf_xmtc.commands.recipe_parsing import read_recipe_file
from hf_xmtc.commands.training_run import TrainingRun
from hf_xmtc.hub import check_model_folder
from hf_xmtc.retrieval import ModelCandidates, open_generator
from small_corpus import WORDS, write_corpus
from small_ensemble import save_small_cnn, small_ensemble

BY_GRADIENT = ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "cornet_context_size", "num_cls_tokens")
BONSAI = {**dict.fromkeys(BY_GRADIENT), "model_family": "bonsai", "config_overrides": "min_branch_size=3,num_clusters=2"}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
LACO = {
    "model_family": "laco",
    "num_cls_tokens": None,
    "cornet_context_size": None,
    "config_overrides": json.dumps({"backbone_config": SIZES, "num_candidates": 4}),
}


@pytest.fixture(scope="module")
def bonsai(tmp_path_factory, train) -> Path:
    folder = tmp_path_factory.mktemp("generators") / "bonsai"
    train(folder, max_length_tokens=None, **BONSAI)
    return folder


@pytest.fixture(scope="module")
def from_bonsai(tmp_path_factory, train, bonsai) -> tuple[Path, str]:
    """A model of candidates that the linear trees have found, and the log of its training."""
    folder = tmp_path_factory.mktemp("models") / "laco"
    told = train(folder, candidates_from=bonsai, **LACO)
    return folder, told


def answers_of(folder: Path, texts: list[str], **options) -> list[list[dict]]:
    tagger = pipeline(
        "text-classification", model=str(folder), trust_remote_code=True, candidates=open_generator(folder), **options
    )
    return tagger(texts, top_k=4)


def check_answers(folder: Path, data: Path, answers: list[list[tuple[str, float]]]) -> None:
    """Compare labels and scores with those that training has stored of the test split."""
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pylist()
    assert len(rows) == len(answers) == len(pq.read_table(data / "test.parquet"))
    for row, answer in zip(rows, answers, strict=True):
        assert row["labels"] == [label for label, _ in answer]
        assert row["scores"] == pytest.approx([score for _, score in answer], abs=1e-6)


def test_the_reopened_folder_answers_as_in_training(from_bonsai, corpus_folder, tmp_path):
    folder, _ = from_bonsai
    check_model_folder(folder).raise_for_problems()
    texts = pq.read_table(corpus_folder / "test.parquet")["text"].to_pylist()
    for batch_size in (1, 3):
        found = answers_of(folder, texts, batch_size=batch_size)
        check_answers(folder, corpus_folder, [[(entry["label"], entry["score"]) for entry in row] for row in found])
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    settings = {"model": str(folder), "input": str(tmp_path / "texts.txt"), "output": str(tmp_path / "tags.jsonl")}
    predict_file(PredictArguments(**settings, top_k=4, device="cpu"))
    rows = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    check_answers(folder, corpus_folder, [list(zip(row["labels"], row["scores"], strict=True)) for row in rows])


def test_a_model_that_is_trained_on_keeps_its_generating_model(train, unchecked, from_bonsai, tmp_path):
    folder, _ = from_bonsai
    own = dict.fromkeys(("num_cls_tokens", "cornet_context_size", "config_overrides", "min_document_frequency"))
    train(tmp_path / "run", model=folder, max_steps=1, **own)
    generators = [open_generator(path) for path in (folder, tmp_path / "run")]
    assert isinstance(generators[1], ModelCandidates) and generators[1].digest() == generators[0].digest()
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert "candidates_from" not in recipe and recipe["candidates_digest"] == generators[0].digest()
    assert "candidates_from" not in read_recipe_file(tmp_path / "run" / "recipe.json", {*recipe} - {"candidates_digest"})
    assert "open_generator" in (tmp_path / "run" / "README.md").read_text()
    train(
        tmp_path / "other", model=folder, candidates_from=save_small_cnn(tmp_path / "cnn", sorted(WORDS)), max_steps=1, **own
    )
    assert open_generator(tmp_path / "other").model.config.model_type == "xmlcnn"


def test_the_candidates_are_the_best_labels_of_the_generating_model(from_bonsai, bonsai, corpus_folder):
    folder, told = from_bonsai
    metrics = json.loads((folder / "metrics.json").read_text())
    of_bonsai = json.loads((bonsai / "metrics.json").read_text())
    for split in ("validation", "test"):
        assert metrics[split]["generator_nDCG@3"] == pytest.approx(of_bonsai[split]["nDCG@3"])
        assert metrics[split]["num_candidates"] == 4
    recall = ", ".join(
        f"{split} {100 * metrics[split]['candidate_recall']:.2f} %" for split in ("train", "validation", "test")
    )
    assert f"{recall}. The generating model has learnt by heart what it was trained on" in told
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["candidates_from"] == "bonsai" and len(recipe["candidates_digest"]) == 32
    card = (folder / "README.md").read_text()
    assert "the best labels of the model in `candidates/`" in card and "hf_xmtc[retrieval]" not in card


def test_the_generating_model_is_a_model_folder_that_opens_without_the_package(from_bonsai, bonsai):
    folder, _ = from_bonsai
    report = check_model_folder(folder)
    assert report.left_out == []
    assert {"candidates/modeling_linear_tree.py", "candidates/model.safetensors", "candidates/labels.json"} <= set(
        report.files
    )
    answer = pipeline("text-classification", model=str(bonsai), trust_remote_code=True)("cat song", top_k=None)
    labels, scores = ([entry[key] for entry in answer] for key in ("label", "score"))
    assert check_reopens(folder / "candidates", ["cat song"], [labels], [scores]) < 1e-6


def test_a_change_of_the_generating_model_is_noticed(from_bonsai, tmp_path):
    folder = Path(shutil.copytree(from_bonsai[0], tmp_path / "copied"))
    (tmp_path / "texts.txt").write_text("cat\n", encoding="utf-8")
    settings = {"model": str(folder), "input": str(tmp_path / "texts.txt"), "output": str(tmp_path / "tags.jsonl")}
    predict_file(PredictArguments(**settings, device="cpu"))
    path = folder / "candidates" / "tokenizer_config.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(FileExistsError):
        predict_file(PredictArguments(**settings, device="cpu"))
    (folder / "candidates" / "tokenizer.json").unlink()
    assert "candidates: missing: tokenizer.json" in "\n".join(check_model_folder(folder).problems)
    with pytest.raises(FileNotFoundError, match=r"candidates is not complete: tokenizer.json missing"):
        predict_file(PredictArguments(**{**settings, "output": str(tmp_path / "others.jsonl")}, device="cpu"))


def test_an_ensemble_finds_candidates_of_labels_in_another_order(
    train, unchecked, bonsai, own_caches, corpus_folder, tmp_path
):
    assert json.loads((bonsai / "labels.json").read_text()) == sorted(WORDS)
    cnn = save_small_cnn(tmp_path / "cnn", sorted(WORDS))
    parts = {"method": "weighted", "weights": [0.9, 0.1]}
    small_ensemble({"bonsai": bonsai, "cnn": cnn}, **parts).save_pretrained(tmp_path / "both")
    data = shutil.copytree(corpus_folder, tmp_path / "data")
    (data / "labels.json").write_text(json.dumps(sorted(WORDS)[::-1]))
    labels = {"label_space": "file", "label_file": data / "labels.json", "dataset": data}
    train(tmp_path / "run", candidates_from=tmp_path / "both", **labels, **LACO)
    assert json.loads((tmp_path / "run" / "labels.json").read_text()) == sorted(WORDS)[::-1]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["generator_P@1"] > 0.6  # by wrong ids it would be chance
    check_model_folder(tmp_path / "run").raise_for_problems()
    assert (tmp_path / "run" / "candidates" / "parts" / "bonsai" / "model.safetensors").is_file()
    generator = open_generator(tmp_path / "run")
    assert isinstance(generator, ModelCandidates) and generator.model.config.model_type == "ensemble"
    texts = pq.read_table(corpus_folder / "test.parquet")["text"].to_pylist()
    found = answers_of(tmp_path / "run", texts)
    check_answers(tmp_path / "run", data, [[(entry["label"], entry["score"]) for entry in row] for row in found])


def test_what_does_not_belong_to_the_generating_model_stays_behind(from_bonsai, tmp_path):
    folder = Path(shutil.copytree(from_bonsai[0], tmp_path / "copied"))
    (folder / "candidates" / "secret.key").write_text("key")
    (folder / "candidates" / "cache").mkdir()
    report = check_model_folder(folder)
    assert report.problems == [] and report.left_out == ["candidates/cache/", "candidates/secret.key"]
    shutil.move(folder / "candidates", tmp_path / "elsewhere")
    (folder / "candidates").symlink_to(tmp_path / "elsewhere")
    assert not any(name.startswith("candidates/") for name in check_model_folder(folder).files)


def test_a_run_is_not_resumed_with_another_generating_model(train, unchecked, bonsai, own_caches, tmp_path, monkeypatch):
    def stop(*args):
        raise ValueError("stopped")

    monkeypatch.setattr(TrainingRun, "_evaluate", stop)
    with pytest.raises(SystemExit, match="stopped"):
        train(tmp_path / "run", candidates_from=bonsai, max_steps=1, **LACO)
    other = save_small_cnn(tmp_path / "other" / "bonsai", sorted(WORDS))
    with pytest.raises(SystemExit, match="holds an unfinished run with other settings: candidates_digest was"):
        train(tmp_path / "run", candidates_from=other, max_steps=1, **LACO)


def test_candidates_of_a_model_that_were_found_before_are_not_looked_for_again(
    train, unchecked, from_bonsai, bonsai, tmp_path, monkeypatch
):
    def refuse(*args, **kwargs):
        raise AssertionError("looked for again")

    monkeypatch.setattr(ModelCandidates, "candidates", refuse)
    moved = shutil.copytree(bonsai, tmp_path / "moved")
    train(tmp_path / "run", candidates_from=moved, max_steps=1, **LACO)
    with pytest.raises(AssertionError, match="looked for again"):
        train(tmp_path / "other", candidates_from=save_small_cnn(tmp_path / "cnn", sorted(WORDS), 8), max_steps=1, **LACO)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {**LACO, "model_family": "bertxml", "config_overrides": None},
            "candidates_from='.*' with model_family='bertxml': it finds",
        ),
        (
            {**LACO, "config_overrides": json.dumps({"backbone_config": SIZES})},
            "candidates_from='.*' with num_candidates=0: .* Add --config_overrides num_candidates=64",
        ),
    ],
)
def test_a_generating_model_is_refused_where_nothing_reads_candidates(train, bonsai, settings, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        train(tmp_path / "run", candidates_from=bonsai, **settings)
    assert not (tmp_path / "run").exists()


def test_generating_models_that_do_not_fit_are_refused(train, from_bonsai, own_caches, tmp_path):
    with pytest.raises(SystemExit, match="has 2 labels, such as 'other', and none is among the 6 labels"):
        train(tmp_path / "run", candidates_from=save_small_cnn(tmp_path / "cnn", ["other", "more"]), **LACO)
    with pytest.raises(SystemExit, match="A LACOForXMTC with num_candidates=4 reads candidates itself"):
        train(tmp_path / "run", candidates_from=from_bonsai[0], **LACO)
    with pytest.raises(SystemExit, match="There is no model folder /no/such/model"):
        train(tmp_path / "run", candidates_from="/no/such/model", **LACO)


def test_labels_that_the_generating_model_lacks_are_counted(train, unchecked, own_caches, tmp_path):
    data = write_corpus(tmp_path / "data")
    source = save_small_cnn(tmp_path / "cnn", [*sorted(WORDS)[:5], "other"])
    told = train(tmp_path / "run", dataset=data, candidates_from=source, max_steps=1, **LACO)
    assert "The generating model has 6 labels, of which 5 are among the 6 of the data. The other 1 labels" in told
    with torch.inference_mode():
        ids, _ = open_generator(tmp_path / "run").candidates(["cat", "song"], 6)
    missing = json.loads((tmp_path / "run" / "labels.json").read_text()).index(sorted(WORDS)[5])
    assert ids.shape == (2, 5) and missing not in ids

"""`hf-xmtc train` from a data folder to a model folder, and everything it refuses."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from small_runs import TEXT_FILES
from transformers import AutoModel, AutoTokenizer

from hf_xmtc import load_xmtc_dataset
from hf_xmtc.commands import data_loading
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import make_documents, write_corpus, write_split


@pytest.fixture(scope="module")
def finished(train, tmp_path_factory):
    """The folder of one whole run and what the run said."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    return folder, train(folder)


# ---- the folder ----------------------------------------------------------------------------------------------------------


def test_the_folder_is_complete_and_holds_no_pickle(finished):
    folder, _ = finished
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "labels.json",
        "README.md",
        "metrics.json",
        "recipe.json",
        "training_args.json",
        "training_curve.png",
        "predictions/test.parquet",
        "modeling_bertxml.py",
        "configuration_bertxml.py",
        "pipeline_xmtc.py",
    } <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl", ".pickle", ".tmp"))]
    assert not (folder / "checkpoints").exists()
    check_model_folder(folder).raise_for_problems()


def test_no_file_tells_where_it_was_made(finished, corpus_folder, own_caches):
    folder, _ = finished
    for path in folder.rglob("*"):
        if path.suffix in TEXT_FILES:
            text = path.read_text(encoding="utf-8")
            for secret in (folder.parent, corpus_folder.parent, own_caches):
                assert str(secret) not in text, path.name
    assert json.loads((folder / "recipe.json").read_text())["dataset"] == "small"


def test_metrics_json_has_fractions_counts_and_costs(finished):
    metrics = json.loads((finished[0] / "metrics.json").read_text())
    assert set(metrics) == {"train", "validation", "test", "by_frequency"}
    assert {"split", "groups", "torso"} <= set(metrics["by_frequency"])
    for split, documents in (("validation", 8), ("test", 7)):
        values = metrics[split]
        assert {f"{name}@{k}" for name in ("P", "nDCG", "PSP") for k in (1, 3, 5)} | {"R@5"} <= set(values)
        assert all(0 <= value <= 1 for name, value in values.items() if not name.startswith("num_"))
        assert (values["num_documents"], values["num_left_out"]) == (documents, 0)
        assert not {"loss", "runtime"} & set(values)
    assert {"seconds", "documents_per_second", "peak_memory_mb"} <= set(metrics["train"])
    assert (metrics["train"]["steps"], metrics["train"]["epochs"], metrics["train"]["processes"]) == (12, 2.0, 1)
    assert "resumed_at_epoch" not in metrics["train"]


def test_predictions_are_in_data_order_and_are_those_of_the_model(finished):
    folder, _ = finished
    table = pq.read_table(folder / "predictions" / "test.parquet").to_pylist()
    documents = make_documents(7, seed=2)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    assert [row["row"] for row in table] == list(range(7))
    for row, (text, labels) in zip(table, documents, strict=True):
        assert row["gold"] == labels
        with torch.no_grad():
            output = model(**tokenizer([text], truncation=True, return_tensors="pt"), top_k=10)
        assert row["label_ids"] == output.top_labels[0].tolist()
        np.testing.assert_allclose(row["scores"], output.top_scores[0].numpy(), atol=1e-6)
        assert row["labels"] == [model.config.id2label[label_id] for label_id in row["label_ids"]]
    hits = [row["labels"][0] in row["gold"] for row in table]
    assert json.loads((folder / "metrics.json").read_text())["test"]["P@1"] == pytest.approx(np.mean(hits))


def test_the_run_says_what_it_does(finished, corpus_folder):
    _, told = finished
    cut = sum(len(text.split()) > 6 for text, _ in make_documents(24, seed=0))  # 8 tokens, 2 of them CLS
    assert cut > 0
    assert f"train: {cut} of 24 documents are cut at 8 tokens." in told
    assert "small: 6 labels" in told and "MiB are free on cpu" in told
    assert "Reopened" in told and "the scores of 5 documents agree" in told
    assert "test: P@1" in told and "hf-xmtc predict --model" in told
    assert told.index("documents are cut") < told.index("Expected memory") < told.index("Reopened")


def test_a_finished_folder_is_left_alone(finished, train):
    folder, _ = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with pytest.raises(SystemExit, match="finished holds a finished model. Choose another --output_dir"):
        train(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_foreign_folder_is_left_alone(train, tmp_path):
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(SystemExit, match=r"is not empty \(thesis.txt\) and was not made by hf-xmtc train"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# ---- data ----------------------------------------------------------------------------------------------------------------


def test_data_without_labels_is_refused(train, tmp_path):  # AC-20
    folder = tmp_path / "data"
    shutil.copytree(write_corpus(tmp_path / "whole"), folder)
    for split in ("train", "validation", "test"):
        pq.write_table(pq.read_table(folder / f"{split}.parquet").drop_columns("labels"), folder / f"{split}.parquet")
    with pytest.raises(SystemExit, match="labels"):
        train(tmp_path / "run", dataset=folder)
    assert not (tmp_path / "run").exists()


def test_validation_is_carved_out_of_train_and_a_test_split_is_not_needed(train, unchecked, tmp_path):
    folder = write_corpus(tmp_path / "data", train=60, validation=0, test=0)
    told = train(tmp_path / "run", dataset=folder, max_steps=2)
    assert "6 labels, validation taken from train" in told
    assert "validation: P@1" in told
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics) == {"train", "validation", "by_frequency"} and metrics["by_frequency"]["split"] == "validation"
    assert metrics["validation"]["num_documents"] > 0
    card = (tmp_path / "run" / "README.md").read_text()
    assert "test" not in card.split("## Results")[1].split("## Data")[0]
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["validation_carved"] is True
    assert "a part of its training split (10 %), chosen by a hash of the text, was held out" in card


def test_a_validation_split_of_its_own_is_not_said_to_be_taken_from_train(finished):
    assert json.loads((finished[0] / "recipe.json").read_text())["validation_carved"] is False
    assert "held out" not in (finished[0] / "README.md").read_text()


def test_data_of_the_hub_is_linked_in_the_card(train, unchecked, monkeypatch, corpus_folder, finished, tmp_path):
    monkeypatch.setattr(
        data_loading, "load_xmtc_dataset", lambda name, **settings: load_xmtc_dataset(corpus_folder, **settings)
    )
    train(tmp_path / "run", dataset="me/reviews", max_steps=1)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["dataset_repo_id"] == "me/reviews"
    assert "https://huggingface.co/datasets/me/reviews" in (tmp_path / "run" / "README.md").read_text()
    assert "https://huggingface.co/datasets" not in (finished[0] / "README.md").read_text()


def test_without_validation_training_needs_to_be_told_so(train, unchecked, tmp_path):
    folder = write_corpus(tmp_path / "data", validation=0, test=0)
    with pytest.raises(SystemExit, match="has the splits train and none for validation"):
        train(tmp_path / "run", dataset=folder, validation_fraction=0)
    assert not (tmp_path / "run").exists()
    settings = {"eval_strategy": "no", "load_best_model_at_end": False, "max_steps": 2}
    told = train(tmp_path / "run", dataset=folder, validation_fraction=0, **settings)
    assert "There was no split to evaluate on." in told
    assert set(json.loads((tmp_path / "run" / "metrics.json").read_text())) == {"train"}


def test_a_split_in_which_nothing_is_labelled_is_refused_before_training(train, tmp_path):
    folder = write_corpus(tmp_path / "data")
    write_split(folder, "test", [("cat", []), ("song", [])])
    with pytest.raises(SystemExit, match="None of the 2 documents in the test split of data has a label"):
        train(tmp_path / "run", dataset=folder)
    assert not (tmp_path / "run").exists()


def test_labels_that_only_the_test_split_has_keep_their_names_in_the_predictions(train, unchecked, tmp_path):
    folder = write_corpus(tmp_path / "data")
    write_split(folder, "test", [("cat", ["zebra", "animal"]), ("song", ["music"])])
    with pytest.warns(UserWarning, match="1 label occurs only in evaluation data, for example 'zebra'"):
        train(tmp_path / "run", dataset=folder, max_steps=2)
    table = pq.read_table(tmp_path / "run" / "predictions" / "test.parquet").to_pylist()
    assert sorted(table[0]["gold"]) == ["animal", "zebra"]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["R@5"] <= 0.75
    assert json.loads((tmp_path / "run" / "config.json").read_text())["num_labels"] == 6


def test_limits_on_documents_take_a_sample_of_sorted_data(train, unchecked, tmp_path):
    """Its second half has words and labels that the first half lacks; predictions name the rows of the data, not of the sample."""
    folder = tmp_path / "data"
    halves = [
        [(f"{chr(97 + number)} {word}", [label]) for number in range(20)]
        for label, word in (("old", "bread"), ("new", "song"))
    ]
    for split in ("train", "validation", "test"):
        write_split(folder, split, halves[0] + halves[1])
    told = train(tmp_path / "run", dataset=folder, max_steps=1, max_train_documents=20, max_eval_documents=10, seed=3)
    assert "train: 20 of 40 documents, a sample by a hash of their texts." in told
    assert "validation: 10 of 40 documents, a sample" in told and "test: 10 of 40 documents, a sample" in told
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["num_documents"] == 10
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["document_sample"] == "text_hash"
    assert (
        "At most 20 of its training documents were used, a sample by a hash of their texts."
        in (tmp_path / "run" / "README.md").read_text()
    )
    rows = pq.read_table(tmp_path / "run" / "predictions" / "test.parquet").to_pylist()
    given = load_xmtc_dataset(folder)["test"].select([row["row"] for row in rows])["labels"][:]
    names = json.loads((tmp_path / "run" / "labels.json").read_text())
    assert [[names[label_id] for label_id in labels] for labels in given] == [row["gold"] for row in rows]
    assert {row["gold"][0] for row in rows} == {"old", "new"} and [row["row"] for row in rows] != list(range(10))

    told = train(tmp_path / "other", dataset=folder, max_steps=1, max_validation_documents=3)
    assert "validation: 3 of 40 documents" in told and "test: 40 documents" in told
    other = json.loads((tmp_path / "other" / "recipe.json").read_text())
    assert other["document_sample"] == "text_hash" and other["max_eval_documents"] is None

"""A model with hundreds of thousands of named labels: nothing that is stored, opened or printed grows with their number."""

import json
import os
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, TextClassificationPipeline, pipeline

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, LabelNames, train_word_tokenizer

NUM_LABELS = 100_000
TEXT = "edit a plain text file"
# The narrowest encoder, with CorNet: the labels are what is large.
NARROW = {
    "hidden_size": 2,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "intermediate_size": 2,
    "cornet_context_size": 1,
}


def many_labels() -> LabelNames:
    """Labels with a display name and a parent each, a hundred children to a parent."""
    labels = [f"concept/{label_id:06d}" for label_id in range(NUM_LABELS)]
    names = [f"Concept {label_id:06d}" for label_id in range(NUM_LABELS)]
    return LabelNames(labels, names=names, parents=[[labels[label_id // 100]] for label_id in range(NUM_LABELS)])


def save_narrow_model(folder: Path, **label_space) -> BertXMLForXMTC:
    tokenizer = train_word_tokenizer([TEXT, "play music"], max_length=16, num_cls_tokens=2)
    torch.manual_seed(0)
    model = BertXMLForXMTC(BertXMLConfig.for_tokenizer(tokenizer, **NARROW, **label_space)).eval()
    torch.nn.init.normal_(model.label_head.output.weight)  # scores of many labels that differ
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its tokenizer with a hundred thousand labels, each of them with a display name and a parent."""
    folder = tmp_path_factory.mktemp("many labels")
    save_narrow_model(folder, label_names=many_labels())
    return folder


@torch.no_grad()
def best_labels(folder: Path, k: int) -> list[tuple[str, float]]:
    """The best k labels and their scores, taken from the plain logits and ``labels.json``."""
    model = BertXMLForXMTC.from_pretrained(folder)
    logits = model(**AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")).logits[0]
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    scores, ids = logits.sigmoid().sort(descending=True)
    return [(labels[i]["label"], score) for i, score in zip(ids[:k].tolist(), scores[:k].tolist(), strict=True)]


# ---- what is stored --------------------------------------------------------------------------------------------------------


def test_config_json_of_a_saved_model_is_below_one_kilobyte(folder):  # AC-18
    assert os.path.getsize(folder / "config.json") < 850  # nothing of it grows but the digits


@pytest.mark.parametrize("make_config", [BertXMLConfig, BertXMLConfig.reproduction], ids=["defaults", "reproduction"])
def test_config_json_of_half_a_million_labels_is_below_one_kilobyte(folder, tmp_path, make_config):  # AC-18
    saved = BertXMLConfig.from_pretrained(folder)
    # What stands in it for a model with code and pipeline, and the sizes of a large model.
    written = {field: getattr(saved, field) for field in ("architectures", "auto_map", "custom_pipelines", "dtype")}
    sizes = {"vocab_size": 500_005, "hidden_size": 1024, "intermediate_size": 4096, "max_position_embeddings": 4096}
    config = make_config(label_names=[f"label {label_id}" for label_id in range(500_000)], **sizes, **written)
    start = time.process_time()
    config.save_pretrained(tmp_path)
    read = AutoConfig.from_pretrained(tmp_path)
    assert read.id2label[499_999] == "label 499999" and read.label2id["label 499999"] == 499_999
    assert time.process_time() - start < 10
    assert set(written) <= json.loads((tmp_path / "config.json").read_text(encoding="utf-8")).keys()
    assert os.path.getsize(tmp_path / "config.json") < 1_000


# ---- what is opened --------------------------------------------------------------------------------------------------------


def test_opening_and_printing_a_model_read_no_names_and_an_answer_reads_them_once(folder, monkeypatch):
    read, load = [], LabelNames.load
    monkeypatch.setattr(LabelNames, "load", lambda path: read.append(path) or load(path))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    repr(model), repr(model.config), model.config.to_dict(), model.config.num_labels
    assert read == []
    tagger = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
    tagger([TEXT, TEXT], top_k=3)
    assert len(read) == 1


def test_a_model_with_many_labels_is_opened_answers_and_is_saved_in_seconds(folder, modules_cache, tmp_path):  # AC-18
    start = time.process_time()
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    answer = tagger(TEXT)
    tagger.model.save_pretrained(tmp_path)
    assert time.process_time() - start < 10
    assert [entry["label"] for entry in answer] == [label for label, _ in best_labels(folder, 5)]
    assert answer[0]["name"] == answer[0]["label"].replace("concept/", "Concept ")
    assert (tmp_path / "labels.json").read_bytes() == (folder / "labels.json").read_bytes()


def test_the_stock_pipeline_names_the_right_labels_of_many(folder):  # AC-18
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    stock = TextClassificationPipeline(model=model, tokenizer=tokenizer)
    expected = best_labels(folder, 3)
    start = time.process_time()
    (best,), best_three = stock(TEXT), stock(TEXT, top_k=3)
    assert time.process_time() - start < 30
    assert [(entry["label"], entry["score"]) for entry in best_three] == [
        (label, pytest.approx(score, abs=1e-6)) for label, score in expected
    ]
    assert best == best_three[0]


def test_many_unnamed_labels_are_numbered_once_and_not_once_per_label(tmp_path):
    model = save_narrow_model(tmp_path, num_labels=20_000)
    stock = TextClassificationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(tmp_path))
    start = time.process_time()
    answers = stock(TEXT, top_k=None)
    assert time.process_time() - start < 10  # a minute where every label numbers all of them
    with torch.no_grad():
        logits = model(**stock.tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert len(answers) == 20_000 and answers[0]["label"] == f"LABEL_{logits.argmax()}"


# ---- what is printed -------------------------------------------------------------------------------------------------------


def test_what_is_printed_about_many_labels_is_short(folder):  # AC-18
    model = BertXMLForXMTC.from_pretrained(folder)
    names = model.config.label_names
    for shown, limit in ((names, 200), (model.config, 2_000), (model, 2_000)):
        assert len(repr(shown)) < limit and repr(shown).count("concept/") <= 3
    with pytest.raises(ValueError, match="names for 2 labels but num_labels=100000") as raised:
        model.config.label_names = ["a", "b"]
    assert len(str(raised.value)) < 500

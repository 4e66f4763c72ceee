"""`hf-xmtc train --model_family treaderxml`: training texts become the model's teacher, and every document gets its neighbours."""

import json

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, pipeline

from hf_xmtc import TReaderXMLForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.commands.predict import main as predict
from hf_xmtc.commands.teacher_building import check_teachers
from hf_xmtc.hub.verify import check_model_folder
from hf_xmtc.models.stored_documents import digests_of
from small_corpus import make_documents, write_corpus, write_split

SETTINGS = {
    "model_family": "treaderxml",
    "num_cls_tokens": None,
    "cornet_context_size": None,
    "config_overrides": "embedding_size=8,bottleneck_size=8,num_attention_heads=2,num_neighbors=3",
}
TEXTS = ["the cat and the dog", "a red song", ""]


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("treaderxml")
    data = write_corpus(folder / "data")
    write_split(data, "train", [*make_documents(24, 0), ("red cat", ["animal"]), ("red cat", ["colour"]), ("cat", [])])
    return folder / "run", train(folder / "run", dataset=data, **SETTINGS), data


def test_model_is_trained_with_its_teacher_and_opens_without_the_package(trained):
    folder, told, _ = trained
    assert "Teacher knowledge: 27 training texts; 6 of 6 labels have parents (tree), of which 1 are no labels." in told
    assert "Teachers of validation" in told and "Reopened" in told  # in a process of its own
    check_model_folder(folder).raise_for_problems()
    metrics, config = (json.loads((folder / f"{name}.json").read_text()) for name in ("metrics", "config"))
    for split in ("train", "validation", "test"):
        assert 0 < metrics[split]["teacher_recall"] <= 1 and {"teacher_size", "neighbors_nDCG@5"} <= set(metrics[split])
    assert config["num_documents"] == 27 and config["num_nodes"] == 7 and config["parents_from"] == "tree"
    assert "holds its training documents" in (folder / "README.md").read_text()


def test_pipeline_answers_plain_text_as_predict_does(trained, tmp_path):
    folder, _, _ = trained
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    predict(["--model", str(folder), "--input", str(tmp_path / "texts.jsonl"), "--output", str(tmp_path / "out.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    for answers, row in zip(tagger(TEXTS), rows, strict=True):
        assert [answer["label"] for answer in answers] == row["labels"]
        assert [answer["score"] for answer in answers] == pytest.approx(row["scores"], abs=1e-5)


def test_training_texts_of_another_model_are_refused(trained, tmp_path):
    folder, _, _ = trained
    model = TReaderXMLForXMTC.from_pretrained(folder)
    assert not any(parameter.requires_grad for parameter in model.teacher.parameters())
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["teacher.text_hashes"] = weights["teacher.text_hashes"].flip(0)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="corpus_digest"):
        TReaderXMLForXMTC.from_pretrained(tmp_path)


def test_training_without_neighbours_is_refused(trained, tmp_path):
    from datasets import Dataset

    folder, _, _ = trained
    data = Dataset.from_dict({"text": ["the cat"], "labels": [[0]]})
    model, tokenizer = TReaderXMLForXMTC.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    args = XMTCTrainingArguments(output_dir=tmp_path, eval_strategy="no", load_best_model_at_end=False)
    with pytest.raises(ValueError, match="no 'neighbor_ids'"):
        XMTCTrainer(model, args, train_dataset=data, processing_class=tokenizer)


@pytest.mark.parametrize("overrides", ["teacher_source=gold", "teacher_source=shuffled,parents=none", "retrieval=words"])
def test_other_teachers_train(train, unchecked, tmp_path, trained, overrides):
    data = trained[2]
    told = train(
        tmp_path / "run", dataset=data, **{**SETTINGS, "config_overrides": f"{SETTINGS['config_overrides']},{overrides}"}
    )
    recall = json.loads((tmp_path / "run" / "metrics.json").read_text())["train"]["teacher_recall"]
    assert (recall == 1) == ("gold" in overrides)
    assert "gold" not in overrides or "give labels away" in told  # so few documents may differ without a leak


@pytest.mark.parametrize(
    ("near_duplicates", "message"),
    [(0.4, "40.0 % and 0.5 % of the documents. Near duplicates among the training texts"), (0.02, "are not the reason")],
)
def test_warning_says_if_near_duplicates_can_be_why_teachers_of_training_know_more(caplog, near_duplicates, message):
    validation = {"teacher_recall": 0.4, "near_duplicates": 0.005}
    check_teachers({"teacher_recall": 0.419, "near_duplicates": near_duplicates}, validation)
    assert not caplog.text
    check_teachers({"teacher_recall": 0.5, "near_duplicates": near_duplicates}, validation)
    assert "10.0 percentage points more" in caplog.text and message in caplog.text


def test_model_without_a_teacher_is_trained_and_holds_no_texts(train, unchecked, tmp_path, trained):
    overrides = f"{SETTINGS['config_overrides']},use_teacher=false"
    told = train(tmp_path / "run", dataset=trained[2], **{**SETTINGS, "config_overrides": overrides})
    assert (
        "Teacher knowledge" not in told
        and "Teachers of" not in told
        and "teacher_recall" not in (tmp_path / "run" / "metrics.json").read_text()
    )
    model = TReaderXMLForXMTC.from_pretrained(tmp_path / "run")
    assert model.teacher is None and "holds its training documents" not in (tmp_path / "run" / "README.md").read_text()


def test_trained_model_goes_on_with_other_training_texts(train, unchecked, tmp_path, trained):
    other = write_corpus(tmp_path / "data", train=12)
    train(
        tmp_path / "run",
        dataset=other,
        model=trained[0],
        model_family=None,
        num_train_epochs=1,
        max_length_tokens=8,
        **dict.fromkeys(("num_cls_tokens", "cornet_context_size", "config_overrides", "min_document_frequency")),
    )
    model = TReaderXMLForXMTC.from_pretrained(tmp_path / "run")
    assert model.config.num_documents == 12 and len(model.teacher.node_offsets) == 13
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    texts, labels = zip(*make_documents(12, 0), strict=True)
    names, stored = model.config.label_names, model.stored_documents
    cut = tokenizer(list(texts), truncation=True, max_length=8)["input_ids"]
    assert stored.digests.tolist() == digests_of(cut).tolist()
    ends = stored.assignments.offsets.tolist()
    held = [stored.assignments.label_ids[start:stop].tolist() for start, stop in zip(ends, ends[1:], strict=False)]
    assert held == [sorted(names.ids[label] for label in row) for row in labels]

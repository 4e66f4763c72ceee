import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TextClassificationPipeline,
    pipeline,
)

from hf_xmtc import BertXMLForXMTC, LabelNames, XMTCPipeline, train_word_tokenizer

LABELS = ["interface::text", "role::library", "role::program", "use::editing", "works-with::audio"]
TEXTS = ["edit a plain text file", "play music", "a library of sound filters and sound files"]


@pytest.fixture
def tagger(tiny_model_folder: Path, modules_cache) -> XMTCPipeline:
    return pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True)


def assert_same(answer: list[dict], expected: list[dict]) -> None:
    """The same labels in the same order with the same scores."""
    assert [entry["label"] for entry in answer] == [entry["label"] for entry in expected]
    assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-5)


def logits_of(folder: Path, text: str) -> torch.Tensor:
    model = BertXMLForXMTC.from_pretrained(folder)
    with torch.no_grad():
        return model(**AutoTokenizer.from_pretrained(folder)(text, truncation=True, return_tensors="pt")).logits


def test_a_folder_opens_as_our_pipeline_without_complaint(tiny_model_folder, modules_cache, warnings_logged, capfd):  # AC-33
    tagger = pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True)
    assert type(tagger).__name__ == "XMTCPipeline"
    tagger(TEXTS)
    assert not [message for message in warnings_logged() if "not supported" in message]
    assert "not supported" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("top_k", [1, 2, None, 99])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_answer_has_one_shape(tagger, top_k, batch_size):  # AC-33
    expected = min(top_k or len(LABELS), len(LABELS))
    one = tagger(TEXTS[0], top_k=top_k, batch_size=batch_size)
    assert len(one) == expected and all(set(answer) == {"label", "score"} for answer in one)
    for texts in (TEXTS[:1], TEXTS):
        answers = tagger(texts, top_k=top_k, batch_size=batch_size)
        assert len(answers) == len(texts)
        for answer in answers:
            scores = [entry["score"] for entry in answer]
            assert len(answer) == expected and scores == sorted(scores, reverse=True)
            assert {entry["label"] for entry in answer} <= set(LABELS)
    assert_same(answers[0], one)


def test_top_k_is_five_unless_the_pipeline_or_the_call_says_otherwise(tagger, tiny_model_folder, modules_cache):  # AC-33
    assert len(tagger(TEXTS[0])) == 5
    two = pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True, top_k=2)
    assert len(two(TEXTS[0])) == 2
    assert len(two(TEXTS[0], top_k=None)) == 5
    assert len(two(TEXTS[0])) == 2  # a call changes nothing for the next
    assert [len(answer) for answer in two(text for text in TEXTS)] == [2, 2, 2]


def test_scores_are_sigmoids_of_the_logits_under_the_right_names(tagger, tiny_model_folder):  # AC-32, AC-14
    scores = {entry["label"]: entry["score"] for entry in tagger(TEXTS[0], top_k=None)}
    expected = logits_of(tiny_model_folder, TEXTS[0]).sigmoid()[0].tolist()
    assert scores == pytest.approx(dict(zip(LABELS, expected, strict=True)), abs=1e-6)
    assert sum(scores.values()) != pytest.approx(1)


def test_one_label_gets_its_own_probability(tiny_model_folder, tmp_path, modules_cache):  # AC-32
    model = BertXMLForXMTC.from_pretrained(tiny_model_folder)
    model.resize_labels(["role::program"])
    model.save_pretrained(tmp_path / "one")
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(tmp_path / "one")
    tagger = pipeline("text-classification", model=str(tmp_path / "one"), trust_remote_code=True)
    (answer,) = tagger(TEXTS[0])
    assert answer["label"] == "role::program"
    assert answer["score"] == pytest.approx(logits_of(tmp_path / "one", TEXTS[0]).sigmoid().item(), abs=1e-6)


def test_the_stock_pipeline_gives_the_same_scores(tagger, tiny_model_folder):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_folder)
    stock = TextClassificationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(tiny_model_folder))
    theirs, ours = stock(TEXTS[0], top_k=None), tagger(TEXTS[0], top_k=None)
    assert_same(theirs, ours)


def test_display_names_come_beside_the_labels(tiny_model_folder, tmp_path, modules_cache):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "named")
    LabelNames(LABELS, names=["interface: text", None, "role: program", "", None]).save(folder)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    names = {entry["label"]: entry.get("name") for entry in tagger(TEXTS[0])}
    assert names["interface::text"] == "interface: text" and names["role::library"] is None


def test_texts_without_a_token_and_an_empty_list(tagger):  # AC-28
    assert tagger([]) == []
    for empty in ("", "   ", "\n\t", "�␀"):
        answer = tagger(empty)
        assert len(answer) == 5 and all(0 < entry["score"] < 1 for entry in answer)
    normal = tagger(TEXTS[2])
    together = tagger(["", TEXTS[2], "  "], batch_size=3)
    assert [len(answer) for answer in together] == [5, 5, 5]
    assert_same(together[1], normal)
    assert_same(together[0], together[2])


def test_a_long_text_is_cut_even_where_the_tokenizer_states_no_limit(tiny_model_folder, tmp_path, modules_cache):  # AC-34
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    tokenizer.model_max_length = int(1e30)
    folder = tmp_path / "no limit"
    BertXMLForXMTC.from_pretrained(tiny_model_folder).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).model_max_length > 1e9

    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    long_text = "edit a plain text file " * 1000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = tagger([long_text, "play music"], batch_size=2)
    assert [len(answer) for answer in answers] == [5, 5] and len(caught) <= 1
    # 30 words after the 2 CLS tokens: six times five.
    assert_same(answers[0], tagger("edit a plain text file " * 6))
    tagger.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").model_max_length == tagger.model.max_input_tokens == 32


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"return_all_scores": True},
            TypeError,
            "Unknown argument return_all_scores: this pipeline takes top_k, threshold, candidates, max_length",
        ),
        ({"function_to_apply": "softmax", "truncation": True}, TypeError, "Unknown arguments function_to_apply, truncation"),
        ({"top_k": 0}, ValueError, "top_k=0, but it must be a whole number of at least 1"),
        ({"top_k": 1.5}, ValueError, "top_k=1.5"),
        ({"max_length": 2}, ValueError, "max_length=2 leaves no room for text beside the 2 special tokens"),
        ({"max_length": 33}, ValueError, "max_length=33, but the model takes 32 tokens"),
    ],
)
def test_arguments_that_do_not_exist_or_make_no_sense_are_refused(tagger, arguments, error, message):
    with pytest.raises(error, match=message):
        tagger(TEXTS[0], **arguments)


@pytest.mark.parametrize("text", [None, 5, {"text": "a"}, [["a"]], [None]])
def test_what_is_no_text_is_refused(tagger, text):
    with pytest.raises((TypeError, ValueError), match="must be a string"):
        tagger(text)


def test_texts_are_cut_at_max_length(tagger):
    assert_same(tagger("play music and sound files", max_length=4), tagger("play music"))


def test_a_tokenizer_without_the_models_cls_tokens_is_refused(tiny_model_folder):
    model = BertXMLForXMTC.from_pretrained(tiny_model_folder)
    with pytest.raises(ValueError, match="Give it a multi-CLS tokenizer"):
        XMTCPipeline(model=model, tokenizer=train_word_tokenizer(TEXTS, max_length=32))


# ---- predicted sets ----------------------------------------------------------------------------------------------------------


def labels_of(answers: list[dict]) -> set[str]:
    return {answer["label"] for answer in answers}


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_threshold_gives_the_labels_above_it_and_top_k_limits_them(tagger, batch_size):
    everything = tagger(TEXTS, top_k=None)
    scores = sorted(answer["score"] for answers in everything for answer in answers)
    middle = (scores[len(scores) // 2] + scores[len(scores) // 2 + 1]) / 2
    found = tagger(TEXTS, threshold=middle, batch_size=batch_size)
    expected = [[answer for answer in answers if answer["score"] > middle] for answers in everything]
    assert [labels_of(answers) for answers in found] == [labels_of(answers) for answers in expected]
    assert [len(answers) for answers in tagger(TEXTS, threshold=middle, top_k=1)] == [min(1, len(e)) for e in expected]
    assert tagger(TEXTS[0], threshold=1.0) == []
    assert labels_of(tagger(TEXTS[0], threshold=0)) == set(LABELS)
    assert len(tagger(TEXTS[0])) == 5  # a call changes nothing for the next


def test_the_models_thresholds_are_used_where_they_are_asked_for(tagger):
    everything = tagger(TEXTS[0], top_k=None)
    best = everything[0]
    tagger.model.set_thresholds(best["score"] - 1e-4)
    assert labels_of(tagger(TEXTS[0], threshold="model")) == {best["label"]}
    limits = torch.ones(len(LABELS))
    last = everything[-1]
    limits[LABELS.index(last["label"])] = last["score"] - 1e-4
    tagger.model.set_thresholds(limits)
    assert labels_of(tagger(TEXTS[0], threshold="model")) == {last["label"]}  # though others have higher scores


def test_numbers_of_numpy_are_numbers(tagger):
    assert_same(tagger(TEXTS[0], top_k=np.int64(3)), tagger(TEXTS[0], top_k=3))
    assert_same(tagger(TEXTS[0], threshold=np.float32(0.25)), tagger(TEXTS[0], threshold=0.25))
    with pytest.raises(ValueError, match="top_k=True, but it must be a whole number"):
        tagger(TEXTS[0], top_k=True)


def test_more_labels_above_the_threshold_than_looked_at_first_are_all_answered(tiny_model_folder):
    model = BertXMLForXMTC.from_pretrained(tiny_model_folder)
    model.resize_labels(300)
    tagger = XMTCPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(tiny_model_folder))
    assert len(tagger(TEXTS[0], threshold=0.0)) == 300
    assert len(tagger(TEXTS[0], threshold=0.0, top_k=100)) == 100
    scores = [answer["score"] for answer in tagger(TEXTS[0], top_k=None)]
    assert len(tagger(TEXTS[0], threshold=scores[150])) == sum(score > scores[150] for score in scores)


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "best", True])
def test_a_threshold_that_is_no_score_is_refused(tagger, threshold):
    with pytest.raises(ValueError, match="it must be a number from 0 to 1, or 'model'"):
        tagger(TEXTS[0], threshold=threshold)

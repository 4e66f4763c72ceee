"""An ensemble answers what its parts answer together, alone and in its folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_xmtc import EnsembleConfig, EnsembleForXMTC, XMTCPipeline
from hf_xmtc.commands.predict import PredictArguments, predict_file
from small_ensemble import save_small_cnn, small_ensemble
from small_laco import save_small_laco

TINY_LABELS = ["interface::text", "role::library", "role::program", "use::editing", "works-with::audio"]
TEXTS = ["edit a plain text file", "play music", "", "a library of sound filters and sound files " * 5]

ALONE = """
import sys
sys.path.insert(0, sys.argv[2])
from only_torch_and_transformers import hide_everything_else
hide_everything_else()
import json, torch
from transformers import AutoModel, pipeline
torch.set_num_threads(1)
tagger = pipeline("text-classification", model=sys.argv[1], trust_remote_code=True, device="cpu")
texts = json.load(sys.stdin)
model = AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True)
output = model(texts, top_k=5)
tagger.save_pretrained(sys.argv[3])
again = pipeline("text-classification", model=sys.argv[3], trust_remote_code=True, device="cpu")
print("ANSWER" + json.dumps([tagger(texts), output.top_labels.tolist(), again(texts), type(model).__module__]))
"""


@pytest.fixture(scope="module")
def cnn_folder(tmp_path_factory) -> Path:
    return save_small_cnn(tmp_path_factory.mktemp("models") / "cnn", TINY_LABELS)


@pytest.fixture
def folders(tiny_model_folder, cnn_folder) -> dict[str, Path]:
    return {"bert": tiny_model_folder, "cnn": cnn_folder}


@pytest.fixture
def saved(folders, tmp_path) -> Path:
    small_ensemble(folders).save_pretrained(tmp_path / "ensemble")
    return tmp_path / "ensemble"


def scores_of(folder: Path, texts: list[str]) -> np.ndarray:
    """Scores of all labels, (N, L)."""
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, device="cpu")
    answers = [{entry["label"]: entry["score"] for entry in row} for row in tagger(texts, top_k=None)]
    return np.array([[answer[label] for label in TINY_LABELS] for answer in answers])


def as_scores(answers: list[list[dict]]) -> np.ndarray:
    rows = [{entry["label"]: entry["score"] for entry in row} for row in answers]
    return np.array([[row[label] for label in TINY_LABELS] for row in rows])


def test_the_folder_answers_the_consensus_of_its_parts(saved, folders, modules_cache):
    tagger = pipeline("text-classification", model=str(saved), trust_remote_code=True, device="cpu")
    assert type(tagger).__name__ == "XMTCPipeline" and type(tagger.model).__name__ == "EnsembleForXMTC"
    expected = 1 - np.prod([1 - scores_of(folder, TEXTS) for folder in folders.values()], axis=0)
    np.testing.assert_allclose(as_scores(tagger(TEXTS)), expected, atol=1e-5)
    np.testing.assert_allclose(as_scores(tagger(TEXTS, batch_size=3)), expected, atol=1e-5)
    one = tagger(TEXTS[0], top_k=2)
    assert len(one) == 2 and one[0]["score"] == pytest.approx(expected[0].max(), abs=1e-5)
    assert all(entry["score"] > 0.6 for entry in tagger(TEXTS[0], threshold=0.6))
    assert tagger(TEXTS[3], max_length=5) == tagger(" ".join(TEXTS[3].split()[:20]), max_length=5)


def test_weights_and_exponents_are_saved(folders, tmp_path):
    made = small_ensemble(folders, method="weighted", weights=[0.25, 0.75], exponents=[2.0, 0.5], depth=3)
    made.save_pretrained(tmp_path)
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert opened.config.weights == [0.25, 0.75] and opened.config.exponents == [2.0, 0.5] and opened.config.depth == 3
    assert opened.config.parts["cnn"]["model_type"] == "xmlcnn"
    with torch.no_grad():
        torch.testing.assert_close(opened(TEXTS).top_scores, made(TEXTS).top_scores)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["method"] == "weighted" and "cornet_num_blocks" not in settings
    assert not (tmp_path / "model.safetensors").exists() and (tmp_path / "parts" / "bert" / "model.safetensors").exists()


@torch.no_grad()
def test_the_best_labels_of_each_part_are_combined_as_many_as_depth_says(folders, modules_cache):
    model = small_ensemble(folders, method="mean_score", depth=1)
    output, parts = model(TEXTS), [scores_of(folder, TEXTS) for folder in folders.values()]
    for row, (labels, scores) in enumerate(zip(output.top_labels.tolist(), output.top_scores.tolist(), strict=True)):
        expected = {}
        for part in parts:  # only the best label of each
            expected[int(part[row].argmax())] = expected.get(int(part[row].argmax()), 0.0) + part[row].max() / 2
        assert {label: score for label, score in zip(labels, scores, strict=True) if label >= 0} == pytest.approx(
            expected, abs=1e-5
        )


def narrowed(forward):
    """As of a label tree: up to three labels, and of short texts fewer."""

    def narrow(input_ids, attention_mask, top_k):
        output = forward(input_ids=input_ids, attention_mask=attention_mask, top_k=top_k)
        num_labels = (attention_mask.sum(dim=1) - 2).clamp(1, 3)
        width = int(num_labels.max())
        output.top_labels = output.top_labels[:, :width].masked_fill(torch.arange(width) >= num_labels[:, None], -100)
        output.top_scores = output.top_scores[:, :width].masked_fill(output.top_labels < 0, 0.0)
        return output

    return narrow


@torch.no_grad()
def test_a_text_has_the_same_scores_alone_and_in_a_batch_with_narrow_beams(folders):
    model = small_ensemble(folders, method="mean_rank", depth=5)
    for part in model.parts:
        part.forward = narrowed(part.forward)
    together, widths = model(TEXTS), set()
    for row, text in enumerate(TEXTS):
        alone = model([text])
        width = alone.top_labels.shape[1]
        widths.add(width)
        assert alone.top_labels[0].tolist() == together.top_labels[row, :width].tolist()
        torch.testing.assert_close(alone.top_scores[0], together.top_scores[row, :width])
    assert len(widths) > 1


def test_config_json_is_short(folders, tmp_path):
    three = {**folders, "other": folders["cnn"]}
    small_ensemble(three, method="weighted", weights=[0.2, 0.3, 0.5], exponents=[2.0, 0.5, 1.0]).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["parts"]["other"] == {"model_type": "xmlcnn", "weight": 0.5, "exponent": 1.0}
    assert (tmp_path / "config.json").stat().st_size < 1000 + 100 * len(three)


def test_no_text_has_an_empty_ranking(folders):
    output = small_ensemble(folders)([])
    assert output.top_labels.shape == output.top_scores.shape == (0, 0) and output.is_cut.shape == (0,)
    assert output.top_labels.dtype == torch.long and output.is_cut.dtype == torch.bool


def test_a_process_without_the_package_opens_and_saves_it(saved, tmp_path):
    here = Path(__file__).resolve().parents[1] / "hub"
    answer = subprocess.run(
        [sys.executable, "-c", ALONE, str(saved), str(here), str(tmp_path / "again")],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
        check=False,
    )
    lines = [line for line in answer.stdout.splitlines() if line.startswith("ANSWER")]
    assert lines, answer.stderr[-3000:]
    answers, labels, again, module = json.loads(lines[0].removeprefix("ANSWER"))
    assert module.startswith("transformers_modules.")
    opened = EnsembleForXMTC.from_pretrained(saved)
    with torch.no_grad():
        output = opened(TEXTS, top_k=5)
    assert labels == output.top_labels.tolist()
    for found in (answers, again):
        assert [[entry["label"] for entry in row] for row in found] == [[TINY_LABELS[i] for i in row] for row in labels]
        np.testing.assert_allclose([[e["score"] for e in row] for row in found], output.top_scores, atol=1e-5)


def test_predict_reads_the_folder_and_counts_what_was_cut(saved, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    output = tmp_path / "tags.jsonl"
    settings = PredictArguments(
        model=str(saved), input=str(tmp_path / "texts.txt"), output=str(output), device="cpu", batch_size=2
    )
    summary = predict_file(settings)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    with torch.no_grad():
        expected = EnsembleForXMTC.from_pretrained(saved)(TEXTS, top_k=5)
    assert [row["label_ids"] for row in rows] == expected.top_labels.tolist()
    assert summary.total.num_truncated == 1 == int(expected.is_cut.sum())


def test_a_missing_part_is_named(saved):
    shutil.rmtree(saved / "parts" / "cnn")
    with pytest.raises(OSError, match="cnn"):
        EnsembleForXMTC.from_pretrained(saved)


def test_parts_of_other_labels_are_refused(folders, tmp_path):
    other = save_small_cnn(tmp_path / "other", ["a", "b"])
    with pytest.raises(ValueError, match=r"The part cnn has 2 labels .* but the ensemble has 5 .* trained on the same data"):
        small_ensemble({**folders, "cnn": other})
    renamed = save_small_cnn(tmp_path / "renamed", [*TINY_LABELS[:4], "other"])
    with pytest.raises(ValueError, match=r"The part cnn has 5 labels \(digest \w+\), but the ensemble has 5 \(digest \w+\)"):
        small_ensemble({**folders, "cnn": renamed})


def test_parts_that_need_more_than_texts_are_refused(folders, tmp_path):
    save_small_laco(tmp_path / "laco", TEXTS, TINY_LABELS, num_candidates=3)
    with pytest.raises(
        ValueError, match="The part laco scores 3 candidates of each text, which hf_xmtc finds outside the model"
    ):
        small_ensemble({**folders, "laco": tmp_path / "laco"})
    inner = small_ensemble(folders)
    with pytest.raises(ValueError, match="The part inner is an ensemble itself"):
        EnsembleForXMTC.from_parts({"inner": (inner, inner.tokenizers[0])})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "best"}, "method='best' is none of"),
        ({"depth": 0}, "depth=0, but at least 1"),
        ({"parts": {"../other": {}}}, "named as a folder"),
        ({"parts": {"a/../../other": {}}}, "named as a folder"),
        ({"parts": {"*": {}}}, "named as a folder"),
        ({"parts": {"a": ["config.json"]}}, "named as a folder"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        EnsembleConfig(num_labels=3, **settings)


def test_what_an_ensemble_cannot_do_is_said(folders):
    model = small_ensemble(folders)
    with pytest.raises(ValueError, match="no labels of its own to resize"):
        model.resize_labels(3)
    with pytest.raises(ValueError, match="was given 0 models"):
        EnsembleForXMTC(model.config)
    tagger = XMTCPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(folders["bert"]))
    with pytest.raises(ValueError, match="finds the labels to score itself"):
        tagger("text", candidates=["role::library"])
    with pytest.raises(ValueError, match="no weight of its own for each token"):
        tagger.explain("text")

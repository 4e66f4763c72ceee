"""Names of any kind, and failures of picture or card, after a training that has succeeded."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import hf_xmtc.commands.reporting as module
from hf_xmtc import BertXMLForXMTC
from hf_xmtc.hub import card_from_folder
from hf_xmtc.training import plot_training_curve
from small_corpus import write_corpus
from strict_parser import parse_strictly

HOSTILE = {"animal": "a | b\n# c\n---\n<script> $_{$", "food": "f" * 10_000}


@pytest.fixture
def hostile_folder(tmp_path):
    """The small corpus under a name that is no mathematics, with hostile labels and a card whose licence is no text."""
    folder = write_corpus(tmp_path / "pay$_{$")
    for path in folder.glob("*.parquet"):
        rows = pq.read_table(path).to_pylist()
        labels = pa.array([[HOSTILE.get(label, label) for label in row["labels"]] for row in rows], pa.list_(pa.string()))
        pq.write_table(pa.table({"text": [row["text"] for row in rows], "labels": labels}), path)
    (folder / "README.md").write_text("---\nlicense: {a: 1}\nlanguage: [en, no]\n---\n")
    return folder


# AC-74, AC-68, AC-69
def test_every_file_is_written_and_read_whatever_the_names_are(train, unchecked, hostile_folder, tmp_path):
    run = tmp_path / "run"
    train(run, dataset=hostile_folder, max_steps=2)
    assert (run / "training_curve.png").read_bytes().startswith(b"\x89PNG")
    for path in run.rglob("*.json"):
        parse_strictly(path.read_text(encoding="utf-8"))
    card = (run / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["language"] == ["en", "no"] and header["model-index"][0]["results"][0]["dataset"]["name"] == "pay$_{$"
    assert "Licence of the data: a: 1." in card and r"on pay\$\_{\$" in card and r"“a \| b # c --- \<script>" in card
    assert "f" * 81 not in card


def test_the_language_that_is_given_reaches_the_card(train, unchecked, hostile_folder, tmp_path):  # AC-69
    train(tmp_path / "run", dataset=hostile_folder, max_steps=1, language="fi")
    assert card_from_folder(tmp_path / "run").data.language == "fi"


def test_a_failure_of_picture_and_card_leaves_a_finished_model(train, unchecked, monkeypatch, tmp_path):  # AC-74
    def fail(*args, **kwargs):
        raise RuntimeError("no font")

    with monkeypatch.context() as patch:
        patch.setattr(module, "plot_training_curve", fail)
        patch.setattr(module, "card_from_folder", fail)
        run = tmp_path / "run"
        told = train(run, max_steps=1)
    assert "Model, metrics and predictions are in" in told
    for name, remedy in (("training_curve.png", "plot_training_curve"), ("README.md", "hf_xmtc.hub.card_from_folder")):
        assert f"{name} could not be written (RuntimeError: no font). The model is complete without it; " in told
        assert remedy in told and not (run / name).exists()
    assert (
        BertXMLForXMTC.from_pretrained(run).config.num_labels == 6
        and "P@1" in json.loads((run / "metrics.json").read_text())["test"]
    )
    # As the messages say, both can be made later.
    plot_training_curve(json.loads((run / "training_log.json").read_text()), run / "training_curve.png")
    assert "![Training curve]" in str(card_from_folder(run))

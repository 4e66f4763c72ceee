"""`hf-xmtc extend`: from a model folder and new data to a new model folder."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import pipeline

from hf_xmtc import cli
from hf_xmtc.commands.stored_predictions import read_label_counts
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import WORDS, make_documents, write_corpus, write_split
from small_ensemble import small_ensemble

BY_GRADIENT = ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "cornet_context_size", "num_cls_tokens")
SETTINGS = dict.fromkeys((*BY_GRADIENT, "max_length_tokens"))


@pytest.fixture(scope="module")
def folder(train, tmp_path_factory):
    """24 documents with six labels, found by their names too."""
    path = tmp_path_factory.mktemp("models") / "tags"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_xmtc.commands.export_check.check_reopens", lambda *args, **settings: 0.0)
        train(
            path,
            model_family="neighbors",
            **{**SETTINGS, "config_overrides": "label_text_weight=0.2,similarity_power=8,num_neighbors=5"},
        )
    return path


def extend(*arguments) -> None:
    assert cli.main(["extend", *map(str, arguments)]) == 0


def test_documents_and_labels_are_added_in_a_new_folder(folder, tmp_path, capsys, monkeypatch):
    old, data, before = make_documents(24, 0), tmp_path / "new", sorted(folder.rglob("*"))
    write_split(data, "train", [*old[:4], (old[4][0], ["x9"]), ("song hammer coast", ["x9"])])
    pq.write_table(pa.table({"label": ["x9"], "name": ["Drill music"], "description": ["choir"]}), data / "labels.parquet")
    extend("--model", folder, "--dataset", data, "--output_dir", tmp_path / "more")
    said = capsys.readouterr().out
    assert "1 documents are new, 1 that were there have further labels; 4 were there already. 1 labels are new." in said
    assert "now has 25 documents and 7 labels" in said and f"hf-xmtc predict --model {tmp_path / 'more'}" in said
    assert sorted(folder.rglob("*")) == before and not list(tmp_path.glob(".*"))

    check_model_folder(tmp_path / "more").raise_for_problems()
    counts, num_documents = read_label_counts(tmp_path / "more")
    assert counts[6] == 2 and num_documents == 25
    card = (tmp_path / "more" / "README.md").read_text()
    assert "1 documents and 1 labels of new were added" in card and "This model has not been evaluated." in card
    recipe = json.loads((tmp_path / "more" / "recipe.json").read_text())
    addition = {"source": "new", "labels": 1, "documents": 1, "relabelled_documents": 1}
    assert recipe["extended_with"] == [addition] and recipe["model_family"] == "neighbors"
    tagger = pipeline("text-classification", model=str(tmp_path / "more"), trust_remote_code=True)
    best = tagger("song hammer coast")[0]
    assert best["label"] == "x9" and best["name"] == "Drill music"

    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", lambda *args, **settings: 0.0)
    extend("--model", tmp_path / "more", "--dataset", data)
    assert "0 documents are new; 6 were there already. 0 labels are new." in capsys.readouterr().out
    assert len(json.loads((tmp_path / "more-extended" / "recipe.json").read_text())["extended_with"]) == 2


def test_labels_are_added_by_their_names_alone(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", lambda *args, **settings: 0.0)
    (tmp_path / "labels.json").write_text(json.dumps(["tool", {"label": "x1", "name": "green bread"}]))
    extend("--model", folder, "--label_file", tmp_path / "labels.json", "--output_dir", tmp_path / "more")
    assert "0 documents are new. 1 labels are new. The model now has 24 documents and 7 labels" in capsys.readouterr().out
    tagger = pipeline("text-classification", model=str(tmp_path / "more"), trust_remote_code=True, top_k=None)
    scores = {answer["label"]: answer["score"] for answer in tagger("green bread")}
    assert scores["x1"] > 0.15 and len(scores) == len(WORDS) + 1
    with pytest.raises(SystemExit, match="more exists. Choose another --output_dir"):
        extend("--model", folder, "--label_file", tmp_path / "labels.json", "--output_dir", tmp_path / "more")


def test_an_interruption_leaves_no_folder(folder, tmp_path, monkeypatch):
    def fail(*arguments, **settings):
        raise OSError("the disk is full")

    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", fail)
    write_corpus(tmp_path / "new")
    with pytest.raises(SystemExit, match="the disk is full"):
        extend("--model", folder, "--dataset", tmp_path / "new", "--output_dir", tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_families_that_cannot_grow_are_refused(tiny_model_folder, tmp_path):
    with pytest.raises(
        SystemExit, match="family bertxml, which takes no documents or labels without training; neighbors does. Train"
    ):
        extend("--model", tiny_model_folder, "--dataset", "demo", "--output_dir", tmp_path / "more")
    small_ensemble({"a": tiny_model_folder, "b": tiny_model_folder}).save_pretrained(tmp_path / "both")
    with pytest.raises(SystemExit, match="family ensemble, which takes no .*Extend its parts, and combine them anew"):
        extend("--model", tmp_path / "both", "--dataset", "demo", "--output_dir", tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_nothing_to_add_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["extend", "--model", "x"])
    assert "give --dataset with documents, --label_file with labels, or both" in capsys.readouterr().err

"""The folder of a training run: guarded before, written after, reopened in the end."""

import json
import subprocess
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_xmtc import LabelNames
from hf_xmtc.commands.export_check import check_reopens
from hf_xmtc.commands.output_folder import OutputFolder

RECIPE = {"seed": 1, "dataset": "demo", "dataset_license": "mit", "data_digest": "12ab", "label_file": None}


def write_checkpoint(folder: OutputFolder, name: str) -> None:
    (folder.checkpoints / name).mkdir(parents=True)


@pytest.fixture
def folder(tmp_path):
    return OutputFolder(tmp_path / "run")


def test_a_new_and_an_empty_folder_are_free(folder):
    assert not folder.claim(RECIPE)
    folder.path.mkdir()
    assert not folder.claim(RECIPE)


@pytest.mark.parametrize("leftover", [".lock", "recipe.json.tmp"])
def test_what_a_kill_leaves_in_an_empty_folder_does_not_block_it(folder, leftover):
    folder.path.mkdir()
    (folder.path / leftover).write_text('{"se')
    folder.check_free()


def test_an_unfinished_run_is_gone_on_with_from_its_newest_checkpoint_or_from_the_end_of_training(folder):
    folder.begin(RECIPE)
    assert not folder.claim(RECIPE) and folder.last_checkpoint() is None
    for name in ("checkpoint-9", "checkpoint-10", "damaged-checkpoint-11", ".unfinished/checkpoint-12"):
        write_checkpoint(folder, name)
    assert folder.claim(RECIPE) and folder.last_checkpoint() == "checkpoint-10"
    write_checkpoint(folder, "trained")
    assert folder.claim(RECIPE) and folder.last_checkpoint() == "trained"


def test_name_and_licence_of_the_data_do_not_decide_whether_a_run_goes_on_but_their_content_does(folder):
    folder.begin(RECIPE)
    write_checkpoint(folder, "checkpoint-9")
    assert folder.claim({**RECIPE, "dataset": "moved", "dataset_license": "cc0-1.0", "dataset_fingerprint": "other"})
    with pytest.raises(
        FileExistsError, match=r"data_digest was '12ab' and is now '34cd'\. Repeat that run's settings \(and its"
    ):
        folder.claim({**RECIPE, "data_digest": "34cd"})


def test_a_recipe_that_cannot_be_read_is_named(folder):
    write_checkpoint(folder, "checkpoint-9")
    (folder.path / "recipe.json").write_text("{")
    with pytest.raises(ValueError, match=r"run/recipe.json, the settings of an unfinished run, cannot be read"):
        folder.claim(RECIPE)


def test_an_unfinished_run_with_other_settings_is_refused_naming_them(folder):
    folder.begin(RECIPE)
    write_checkpoint(folder, "checkpoint-9")
    with pytest.raises(
        FileExistsError, match=r"other settings: seed was 1 and is now 2; warmup was None and is now 3\. Repeat"
    ):
        folder.claim({**RECIPE, "seed": 2, "warmup": 3})
    assert json.loads((folder.path / "recipe.json").read_text()) == RECIPE


def test_an_unfinished_run_without_a_checkpoint_has_nothing_to_lose(folder):
    folder.begin(RECIPE)
    write_checkpoint(folder, ".unfinished/checkpoint-9")
    assert not folder.claim({**RECIPE, "seed": 2})


def test_a_level_of_a_tree_counts_once_it_has_a_checkpoint_or_has_ended(folder):
    folder.begin(RECIPE)
    write_checkpoint(folder, "level-0/.unfinished/checkpoint-9")
    write_checkpoint(folder, "level-1")
    assert folder.last_checkpoint() is None and not folder.claim({**RECIPE, "seed": 2})
    for name in ("checkpoint-9", "trained"):
        write_checkpoint(folder, f"level-1/{name}")
        assert folder.last_checkpoint() == "level-1" and folder.claim(RECIPE)
        (folder.checkpoints / "level-1" / name).rmdir()


def test_a_finished_folder_is_refused(folder):
    folder.begin(RECIPE)
    folder.finish({"test": {"P@1": 0.5}})
    assert json.loads((folder.path / "metrics.json").read_text()) == {"test": {"P@1": 0.5}}
    with pytest.raises(
        FileExistsError, match="run holds a finished model. Choose another --output_dir, or delete that folder"
    ):
        folder.claim(RECIPE)


def test_checkpoints_that_a_kill_left_in_a_finished_folder_are_removed(folder):
    folder.begin(RECIPE)
    (folder.path / "metrics.json").write_text("{}")
    write_checkpoint(folder, "checkpoint-9")
    write_checkpoint(folder, "level-0/trained")
    with pytest.raises(FileExistsError, match="finished"):
        folder.check_free()
    assert not folder.checkpoints.exists()
    write_checkpoint(folder, "checkpoint-9")
    (folder.checkpoints / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="finished"):
        folder.check_free()
    assert [path.name for path in folder.checkpoints.iterdir()] == ["notes.txt"]


def test_other_content_is_refused(folder):
    folder.path.mkdir()
    (folder.path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"is not empty \(thesis.tex\) and was not made by hf-xmtc train"):
        folder.check_free()
    with pytest.raises(FileExistsError, match="thesis.tex is a file"):
        OutputFolder(folder.path / "thesis.tex").check_free()


def test_predictions_hold_ids_labels_scores_and_gold_row_by_row(folder):
    folder.path.mkdir()
    path = folder.write_predictions(
        "test",
        rows=np.array([3, 5, 8]),
        top_labels=np.array([[2, 0], [1, 2], [0, 1]]),
        top_scores=np.array([[0.9, 0.5], [0.8, 0.1], [0.7, 0.2]], dtype=np.float32),
        gold=np.array([[0, 3], [-100, -100], [2, -100]]),
        names=LabelNames(["apple", "bread", "cheese"]),
        unseen=["dates"],
    )
    rows = pq.read_table(path).to_pylist()
    assert [row["row"] for row in rows] == [3, 5, 8]
    assert [row["label_ids"] for row in rows] == [[2, 0], [1, 2], [0, 1]]
    assert [row["labels"] for row in rows] == [["cheese", "apple"], ["bread", "cheese"], ["apple", "bread"]]
    assert [row["gold"] for row in rows] == [["apple", "dates"], [], ["cheese"]]
    assert rows[1]["scores"] == pytest.approx([0.8, 0.1])


def test_fillers_of_rankings_are_written_as_nothing(folder):  # AC-67
    folder.path.mkdir()
    path = folder.write_predictions(
        "test",
        rows=np.arange(3),
        top_labels=np.array([[2, -100], [-100, -100], [0, 1]]),
        top_scores=np.array([[0.9, 0.0], [0.0, 0.0], [0.7, 0.2]], dtype=np.float32),
        gold=np.array([[0], [1], [2]]),
        names=LabelNames(["apple", "bread", "cheese"]),
        unseen=[],
    )
    rows = pq.read_table(path).to_pylist()
    assert [row["label_ids"] for row in rows] == [[2], [], [0, 1]]
    assert [row["labels"] for row in rows] == [["cheese"], [], ["apple", "bread"]]
    assert [len(row["scores"]) for row in rows] == [1, 0, 2]


# ---- reopening -----------------------------------------------------------------------------------------------------------


def test_a_folder_reopens_in_a_fresh_process_with_the_same_scores(tiny_model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where files may have the names of libraries
    for library in ("json", "transformers"):
        (tmp_path / f"{library}.py").write_text("raise SystemExit('a stray file was run')")
    texts = ["edit a text", "", "sound " * 100]
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_model_folder), AutoModel.from_pretrained(tiny_model_folder).eval()
    labels, scores = [], []
    for text in texts:
        with torch.no_grad():
            output = model(**tokenizer([text], truncation=True, return_tensors="pt"), top_k=3)
        labels.append([model.config.id2label[label_id] for label_id in output.top_labels[0].tolist()])
        scores.append(output.top_scores[0].tolist())
    assert check_reopens(tiny_model_folder, texts, labels, scores) < 1e-5


@pytest.mark.parametrize(
    ("status", "scores", "message"),
    [
        (0, [[0.5, 0.4]], "After reopening model, the label 'b' has the score 0.4 instead of 0.3"),
        (0, [[0.5, float("nan")]], "the label 'b' has the score nan instead of 0.3"),
        (1, [[0.5, 0.3]], "The model folder model does not open in a fresh process:\nOSError: no cornet.py"),
    ],
)
def test_a_folder_that_does_not_open_or_scores_otherwise_is_an_error(monkeypatch, status, scores, message):
    answer = SimpleNamespace(returncode=status, stdout=f"SCORES{json.dumps(scores)}\n", stderr="OSError: no cornet.py")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: answer)
    with pytest.raises(RuntimeError, match=message):
        check_reopens("model", ["a text"], [["a", "b"]], [[0.5, 0.3]])

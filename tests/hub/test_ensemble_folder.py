"""An ensemble's folder is checked and published with its parts, and with nothing else."""

import json
import os
import shutil

import pytest

from hf_xmtc.hub import check_model_folder
from small_ensemble import save_small_cnn, small_ensemble

OPEN_AND_ANSWER = """
import sys, json
from transformers import pipeline
tagger = pipeline("text-classification", model=sys.argv[1], trust_remote_code=True, device="cpu")
print("ANSWER" + json.dumps([type(tagger.model).__module__, tagger("play music")]))
"""


@pytest.fixture
def ensemble_folder(model_folder, tiny_model_folder, tmp_path):
    labels = json.loads((tiny_model_folder / "labels.json").read_text())
    save_small_cnn(tmp_path / "cnn", labels)
    folder = tmp_path / "together"
    small_ensemble({"bert": tiny_model_folder, "cnn": tmp_path / "cnn"}).save_pretrained(folder)
    for name in ("README.md", "metrics.json", "recipe.json"):
        shutil.copy(model_folder / name, folder / name)
    return folder


def test_a_complete_folder_has_its_parts_files(ensemble_folder):
    report = check_model_folder(ensemble_folder)
    assert report.problems == [] and report.left_out == [] and report.model_type == "ensemble"
    assert {"config.json", "modeling_ensemble.py", "parts/bert/model.safetensors", "parts/cnn/modeling_xmlcnn.py"} <= set(
        report.files
    )


def test_what_does_not_belong_to_a_part_stays_behind(ensemble_folder):
    (ensemble_folder / "parts" / "bert" / "secret.key").write_text("key")
    (ensemble_folder / "parts" / "notes.txt").write_text("notes")
    (ensemble_folder / "parts" / "third").mkdir()
    shutil.copy(ensemble_folder / "parts" / "bert" / "config.json", ensemble_folder / "parts" / "third")
    report = check_model_folder(ensemble_folder)
    assert report.problems == []
    assert sorted(report.left_out) == ["parts/bert/secret.key", "parts/notes.txt", "parts/third/"]


def test_a_damaged_or_missing_part_is_a_problem(ensemble_folder, tmp_path):
    weights = ensemble_folder / "parts" / "cnn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    (ensemble_folder / "parts" / "bert" / "pipeline_xmtc.py").unlink()
    (ensemble_folder / "parts" / "bert" / "labels.json").unlink()
    os.symlink(tmp_path / "cnn" / "labels.json", ensemble_folder / "parts" / "bert" / "labels.json")
    (ensemble_folder / "parts" / "cnn" / "optimizer.pt").write_bytes(b"")
    problems = "\n".join(check_model_folder(ensemble_folder).problems)
    assert "parts/cnn: model.safetensors" in problems and "is not a sound safetensors file" in problems
    assert "parts/bert: missing: pipeline_xmtc.py" in problems
    assert "parts/bert: labels.json is a link that leads out of the folder" in problems
    assert "parts/cnn: pickled files" in problems
    shutil.rmtree(ensemble_folder / "parts" / "cnn")
    assert "parts/cnn is missing" in "\n".join(check_model_folder(ensemble_folder).problems)
    shutil.rmtree(ensemble_folder / "parts")
    assert "there is no folder parts" in "\n".join(check_model_folder(ensemble_folder).problems)


def test_a_linked_parts_folder_is_not_followed(ensemble_folder, tmp_path):
    shutil.move(ensemble_folder / "parts" / "cnn", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", ensemble_folder / "parts" / "cnn")
    report = check_model_folder(ensemble_folder)
    assert "parts/cnn is missing" in "\n".join(report.problems) and not any("cnn/" in name for name in report.files)


def test_it_opens_from_the_hub_as_from_the_folder(ensemble_folder, hub, push, run_client, tmp_path):
    listed = push(ensemble_folder, "me/together", "--dry_run")
    assert "parts/bert/model.safetensors" in listed
    push(ensemble_folder, "me/together")
    answer = run_client(OPEN_AND_ANSWER, "me/together").stdout
    local = run_client(OPEN_AND_ANSWER, ensemble_folder, cache="other").stdout
    offline = run_client(OPEN_AND_ANSWER, "me/together", HF_HUB_OFFLINE="1").stdout
    found, expected, kept = (json.loads(text[text.index("ANSWER") + 6 :]) for text in (answer, local, offline))
    assert found[1] == expected[1] == kept[1]
    (root,) = (tmp_path / "cache").glob("hub/models--me--together/snapshots/*")
    names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    assert "parts/cnn/labels.json" in names and "metrics.json" not in names


def test_a_snapshot_in_the_hubs_cache_is_complete(ensemble_folder, tmp_path):
    blobs, snapshot = (tmp_path / "models--me--together" / name for name in ("blobs", "snapshots/0123"))
    shutil.copytree(ensemble_folder, snapshot)
    blobs.mkdir()
    for number, path in enumerate(path for path in snapshot.rglob("*") if path.is_file()):
        shutil.move(path, blobs / str(number))
        os.symlink(blobs / str(number), path)
    report = check_model_folder(snapshot)
    assert report.problems == [] and report.left_out == []

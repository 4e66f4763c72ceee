"""A damaged or hostile model folder is refused in a sentence."""

import json
import shutil
from pathlib import Path

import pytest
from predicted import TEXTS
from safetensors.torch import load_file, save_file

from hf_xmtc.commands.predict import main as predict_main
from hf_xmtc.inference.model_opening import open_model
from small_ensemble import save_small_cnn
from small_laco import save_generator, save_small_laco


@pytest.fixture
def folder(tiny_model_folder, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_model_folder, tmp_path / "model"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "content",
    ["", "{", "[1]", '"x"', "null", "{}", "[" * 100_000],
    ids=["empty", "cut", "list", "text", "null", "object", "deep"],
)
def test_json_files_that_hold_something_else_are_refused_in_a_sentence(folder, name, content):
    (folder / name).write_text(content)
    if (name, content) == ("tokenizer_config.json", "{}"):
        open_model(str(folder))  # nothing of it is needed
        return
    with pytest.raises((ValueError, OSError)) as refused:
        open_model(str(folder))
    assert "model" in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("num_labels", 1e12, "num_labels=1000000000000.0, but BertXMLConfig takes a whole number from 1 to 2147483647"),
        ("num_labels", 10**12, "num_labels=1000000000000, but"),
        ("num_labels", [1], r"num_labels=\[1\], but"),
        ("num_labels", 2**31 - 1, "has num_labels=2147483647, but no weight in model.safetensors has so many rows"),
        ("num_labels", 16, "have other shapes than its config.json says"),
        ("cornet_num_blocks", "x", "cornet_num_blocks='x', but BertXMLConfig takes int for it"),
        ("cornet_num_blocks", True, "cornet_num_blocks=True, but"),
        ("decision_threshold", "x", "decision_threshold='x', but BertXMLConfig takes float for it"),
        ("decision_threshold", float("nan"), "decision_threshold=nan, but"),
        ("labels_digest", 5, "labels_digest=5, but"),
        ("hidden_size", 0, "cannot be opened"),
        ("dtype", "nothing", "cannot be opened"),
    ],
)
def test_settings_of_the_config_are_checked(folder, setting, value, message):  # AC-70
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, setting: value}))
    with pytest.raises(ValueError, match=message):
        open_model(str(folder))


def test_weights_that_are_missing_are_not_made_up(folder):
    weights = load_file(folder / "model.safetensors")
    weights.pop(next(name for name in weights if name.startswith("label_head")))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="lack 1 tensors, such as label_head.*, which would be random numbers"):
        open_model(str(folder))


def test_predict_refuses_a_generator_that_reaches_outside(tmp_path, texts):  # AC-70
    folder = tmp_path / "model"
    save_small_laco(folder, TEXTS, list("abcde"), num_candidates=3)
    save_generator(folder, TEXTS, [[row % 5] for row in range(len(TEXTS))], 5)
    arrays, settings = folder / "candidates" / "candidates.safetensors", folder / "candidates" / "candidates.json"
    changed = load_file(arrays)
    changed["labels.indices"][0] = 575
    save_file(changed, arrays)
    options = ["--model", str(folder), "--input", str(texts), "--output", str(tmp_path / "out.jsonl"), "--device", "cpu"]
    with pytest.raises(
        SystemExit, match=r"^ValueError: .*candidates\.safetensors: labels\.indices holds 575, but there are 5 columns"
    ):
        predict_main(options)
    settings.write_text("[1]")
    with pytest.raises(SystemExit, match=r"^ValueError: .*candidates\.json must hold a JSON object"):
        predict_main(options)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_folder_of_model_folders_is_refused_with_their_names(folder):
    with pytest.raises(FileNotFoundError, match=rf"{folder.parent} is no model folder, but holds some: {folder}\. Give one"):
        open_model(str(folder.parent))


def test_a_damaged_folder_with_a_generator_is_not_taken_for_a_folder_of_models(tmp_path):
    save_small_laco(tmp_path, ["music in C"], "abcd", num_candidates=3)
    save_small_cnn(tmp_path / "candidates", ["a"])
    (tmp_path / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"not complete: config\.json missing"):
        open_model(str(tmp_path))

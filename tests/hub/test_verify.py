"""What makes a model folder incomplete, and how it is said."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_xmtc.hub import check_model_folder


def test_complete_folder_has_no_problems(model_folder):
    report = check_model_folder(model_folder)
    assert not report.problems and report.missing == []
    assert (report.model_type, report.num_labels) == ("bertxml", 5)
    assert "model.safetensors" in report.files and report.num_bytes > 0
    report.raise_for_problems()


def test_all_problems_are_named_at_once(model_folder):
    (model_folder / "README.md").unlink()
    (model_folder / "labels.json").write_text('["a", "b", "c"]')
    (model_folder / "optimizer.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError) as refused:
        check_model_folder(model_folder).raise_for_problems()
    said = str(refused.value)
    assert "missing: README.md" in said
    assert "labels.json names 3 labels but config.json has num_labels=5" in said
    assert "pickled files" in said and "optimizer.pt" in said


@pytest.mark.parametrize("kept_bytes", [0, 7, 200, -1])
def test_cut_weights_are_recognised(model_folder, kept_bytes):
    weights = model_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept_bytes])
    (problem,) = check_model_folder(model_folder).problems
    assert problem.startswith(f"model.safetensors ({weights.stat().st_size:,} bytes) is not a sound safetensors file")
    assert "Delete the file and fetch or save it again" in problem


def test_missing_shard_is_named(model_folder):
    (model_folder / "model.safetensors").rename(model_folder / "model-00001-of-00002.safetensors")
    shards = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (model_folder / "model.safetensors.index.json").write_text(json.dumps(shards))
    assert check_model_folder(model_folder).missing == ["model-00002-of-00002.safetensors"]


@pytest.mark.parametrize("name", ["modeling_bertxml.py", "label_head.py", "pipeline_xmtc.py"])
def test_code_that_the_config_or_a_sibling_needs_is_missed(model_folder, name):
    (model_folder / name).unlink()
    assert check_model_folder(model_folder).missing == [name]


def test_code_of_another_repo_is_not_missed(model_folder):
    config = json.loads((model_folder / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "me/other--modeling_other.Other"}, "custom_pipelines": {}}
    (model_folder / "config.json").write_text(json.dumps(config))
    assert check_model_folder(model_folder).missing == []


def test_broken_config_is_one_problem(model_folder):
    (model_folder / "config.json").write_text('{"model_type": "bert", ')
    (problem,) = check_model_folder(model_folder).problems
    assert problem.startswith("config.json is not valid JSON")


@pytest.mark.parametrize("name", ["metrics.json", "recipe.json"])
def test_results_and_recipe_must_be_json_objects(model_folder, name):
    (model_folder / name).write_text("[1, 2]")
    assert check_model_folder(model_folder).problems == [f"{name} must hold a JSON object, found a list."]


def test_config_without_label_count_is_refused(model_folder):
    (model_folder / "config.json").write_text('{"model_type": "bert"}')
    assert check_model_folder(model_folder).problems == [
        "config.json has no num_labels. Write it with save_pretrained instead of by hand."
    ]


def test_duplicate_label_is_named(model_folder):
    (model_folder / "labels.json").write_text('["a", "b", "a", "c", "d"]')
    (problem,) = check_model_folder(model_folder).problems
    assert "'a' occurs twice, as label ids 0 and 2" in problem


def test_pickles_in_an_optimizer_checkpoint_do_not_count(model_folder):
    (model_folder / "checkpoint-20").mkdir()
    (model_folder / "checkpoint-20" / "optimizer.pt").write_bytes(b"\x80\x04.")
    report = check_model_folder(model_folder)
    assert not report.problems and report.left_out == ["checkpoint-20/"]


def test_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing is not there"):
        check_model_folder(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "setting", "value", "problem"),
    [
        ("config.json", "auto_map", ["a.B"], "config.json: auto_map must be an object, found a list"),
        ("config.json", "auto_map", "x", "config.json: auto_map must be an object, found a str"),
        ("config.json", "custom_pipelines", [1], "config.json: custom_pipelines must be an object, found a list"),
        ("config.json", "custom_pipelines", {"text-classification": "x"}, "custom_pipelines"),
        ("config.json", "num_labels", True, "config.json has no num_labels"),
        ("config.json", "model_type", ["bert"], "config.json has no model_type"),
        ("tokenizer_config.json", "auto_map", 5, "tokenizer_config.json: auto_map must be an object, found a int"),
    ],
)
def test_settings_of_another_kind_are_problems_and_no_traceback(model_folder, name, setting, value, problem):
    content = json.loads((model_folder / name).read_text())
    (model_folder / name).write_text(json.dumps({**content, setting: value}))
    assert any(problem in said for said in check_model_folder(model_folder).problems)


@pytest.mark.parametrize("weight_map", [["a"], "x", {"a": 5}, {"a": ["b"]}])
def test_an_index_of_weights_of_another_kind_is_a_problem(model_folder, weight_map):
    (model_folder / "model.safetensors").unlink()
    (model_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert any("model.safetensors.index.json: weight_map must" in said for said in check_model_folder(model_folder).problems)


@pytest.mark.parametrize("name", ["config.json", "metrics.json", "tokenizer_config.json", "tokenizer.json", "recipe.json"])
@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"5", b""], ids=["deep", "bytes", "number", "empty"])
def test_json_that_is_no_object_is_a_problem(model_folder, name, content):
    (model_folder / name).write_bytes(content)
    assert any(said.startswith(f"{name} ") for said in check_model_folder(model_folder).problems)


@pytest.mark.parametrize("name", ["README.md", "modeling_bertxml.py"])
def test_text_that_is_not_utf8_is_a_problem(model_folder, name):
    (model_folder / name).write_bytes(b"\xff\xfe\x00")
    assert any(said.startswith(f"{name} is not UTF-8 text") for said in check_model_folder(model_folder).problems)


@pytest.mark.parametrize("metadata", ["{a: [", "- 1", "tags: 5"])
def test_a_card_whose_metadata_cannot_be_read_is_a_problem(model_folder, metadata):
    (model_folder / "README.md").write_text(f"---\n{metadata}\n---\ntext")
    assert any(
        said.startswith("README.md: its metadata cannot be read") for said in check_model_folder(model_folder).problems
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_weights_that_are_not_finite_are_a_problem(model_folder, value, kind, monkeypatch):  # AC-75
    monkeypatch.setattr("hf_xmtc.hub.verify.BLOCK_NUMBERS", 7)  # so that a tensor has many blocks
    path = model_folder / "model.safetensors"
    weights = {name: tensor.to(kind) for name, tensor in load_file(path).items()}
    save_file(weights, path)
    assert not check_model_folder(model_folder).problems
    name = next(name for name, tensor in weights.items() if tensor.dim() == 2)
    weights[name][-1, -1] = value
    save_file(weights, path)
    (problem,) = check_model_folder(model_folder).problems
    assert (
        f"model.safetensors: the tensor {name} holds numbers that are not finite" in problem and "Train it again" in problem
    )


def test_a_scalar_and_whole_numbers_are_weights_too(model_folder):
    path = model_folder / "model.safetensors"
    save_file({**load_file(path), "steps": torch.tensor(5), "scale": torch.tensor(2.0), "none": torch.zeros(0, 3)}, path)
    assert not check_model_folder(model_folder).problems


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such files")
def test_a_pipe_is_not_waited_for(model_folder):
    (model_folder / "metrics.json").unlink()
    os.mkfifo(model_folder / "metrics.json")
    os.mkfifo(model_folder / "queue")
    report = check_model_folder(model_folder)
    assert (
        any(said.startswith("metrics.json is no ordinary file") for said in report.problems) and "queue" in report.left_out
    )

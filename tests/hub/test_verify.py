"""What makes a model folder incomplete, and how it is said."""

import json

import pytest

from hf_xmtc.hub import check_model_folder


def test_complete_folder_has_no_problems(model_folder):
    report = check_model_folder(model_folder)
    assert report.complete and report.missing == []
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
    assert report.complete and report.left_out == ["checkpoint-20/"]


def test_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing is not there"):
        check_model_folder(tmp_path / "nothing")

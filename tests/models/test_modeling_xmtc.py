import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification

from hf_xmtc import BertXMLForXMTC
from models.families import FAMILIES, LONG, SHORT, make_batch


def test_ac03_a_parameter_from_a_transposed_array_is_saved_after_a_training_step(family, tmp_path):
    model = family.build(cornet_num_blocks=2)
    table = model.get_input_embeddings()
    vectors = np.random.default_rng(0).normal(size=table.weight.shape[::-1]).astype(np.float32)
    table.weight.data = torch.from_numpy(vectors).T
    model.label_head.output.weight.data = model.label_head.output.weight.data.T.contiguous().T
    assert not table.weight.is_contiguous()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0], [1]])).loss.backward()
    optimizer.step()
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_ac03_no_tensor_is_stored_twice(family, tmp_path):
    model = family.build(cornet_num_blocks=2)
    model.save_pretrained(tmp_path)
    needed = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert set(load_file(tmp_path / "model.safetensors")) == {name for name, _ in model.named_parameters()}
    assert needed < (tmp_path / "model.safetensors").stat().st_size < needed + 20_000


def test_a_large_model_is_saved_in_several_files_and_opens_again(tmp_path):
    model = FAMILIES[0].build()
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    assert (tmp_path / "model.safetensors.index.json").exists() and len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = BertXMLForXMTC.from_pretrained(tmp_path)
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("opener", [BertXMLForXMTC, AutoModel, AutoModelForSequenceClassification])
@pytest.mark.parametrize("kept_bytes", [3, -50], ids=["header cut", "end cut"])
def test_damaged_weights_are_named_with_the_next_step(tmp_path, opener, kept_bytes):
    FAMILIES[0].build().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept_bytes])
    with pytest.raises(
        ValueError, match=r"weights of .* are damaged .*Was a download or a copy interrupted\? Fetch them again"
    ):
        opener.from_pretrained(tmp_path)


def test_missing_weights_are_an_os_error_that_names_the_folder(tmp_path):
    FAMILIES[0].build().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(OSError, match="no file named model.safetensors"):
        BertXMLForXMTC.from_pretrained(tmp_path)


@pytest.mark.parametrize("opener", [AutoModel, AutoModelForSequenceClassification])
def test_auto_classes_open_a_local_folder_with_the_installed_classes(tmp_path, opener):
    FAMILIES[0].build(label_names=list("abcde")).save_pretrained(tmp_path)
    model = opener.from_pretrained(tmp_path)
    assert type(model) is BertXMLForXMTC and model.config.id2label[4] == "e"


def test_config_json_maps_both_auto_classes_and_the_pipeline_to_the_code_beside_it(family, tmp_path):
    model = family.build()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    targets = [*config["auto_map"].values(), config["custom_pipelines"]["text-classification"]["impl"]]
    assert set(config["auto_map"]) == {"AutoConfig", "AutoModel", "AutoModelForSequenceClassification"}
    for target in targets:
        module, name = target.split(".")
        assert f"class {name}(" in (tmp_path / f"{module}.py").read_text(encoding="utf-8")


@torch.no_grad()
def test_ac24_with_top_k_nothing_of_the_width_of_the_label_space_is_returned_or_made(monkeypatch):
    model = FAMILIES[0].build(num_labels=1000, cornet_num_blocks=0)
    model.label_head.block_size = 64
    widths = []
    linear = torch.nn.functional.linear

    def watched(*arguments):
        output = linear(*arguments)
        widths.append(output.shape[-1])
        return output

    monkeypatch.setattr(torch.nn.functional, "linear", watched)
    output = model(**make_batch(model, [SHORT, LONG]), top_k=5, labels=torch.tensor([[999], [0]]))
    assert set(output) == {"loss", "top_scores", "top_labels"} and output.top_labels.shape == (2, 5)
    assert max(widths) <= 64
    assert {"attentions", "hidden_states"} <= set(model.config.keys_to_ignore_at_inference)

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification

from hf_xmtc import BertXMLForXMTC
from models.dense_scoring import ShapesMade
from models.families import FAMILIES, LONG, NUM_LABELS, SHORT, for_families, make_batch


@for_families(lambda family: family.has_label_matrices)  # a linear tree has no embeddings
def test_a_parameter_from_a_transposed_array_is_saved_after_a_training_step(family, tmp_path):  # AC-03
    model = family.build(cornet_num_blocks=family.most_blocks)
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


def test_no_tensor_is_stored_twice(family, tmp_path):  # AC-03
    model = family.build(cornet_num_blocks=family.most_blocks)
    model.save_pretrained(tmp_path)
    needed = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.state_dict())
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
@pytest.mark.parametrize("num_blocks", [0, 2])
def test_with_top_k_nothing_of_the_width_of_the_label_space_is_returned_or_made(num_blocks):  # AC-24
    num_labels, block_size = 1009, 64
    model = FAMILIES[0].build(
        num_labels=num_labels, cornet_num_blocks=num_blocks, label_block_size=block_size, label_memory_mib=0.0
    )
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[num_labels - 1], [0]])
    with ShapesMade() as made:
        output = model(**batch, top_k=5, labels=labels)
    assert set(output) == {"loss", "top_scores", "top_labels"} and output.top_labels.shape == (2, 5)
    # Views of the weights are as large as the weights; nothing else knows how many labels there are.
    parameters = {tuple(parameter.shape) for parameter in model.parameters()}
    parameters |= {shape[::-1] for shape in parameters}
    assert not [shape for shape in made.shapes - parameters if num_labels in shape]
    assert (block_size, 2) in made.shapes
    assert {"attentions", "hidden_states"} <= set(model.config.keys_to_ignore_at_inference)


# ---- label matrices --------------------------------------------------------------------------------------------------------


class Recording:
    """A `RowUpdate` that notes which rows it was given."""

    def __init__(self):
        self.rows: list[tuple[int, int]] = []

    def agree(self, finite):
        return finite

    def begin(self) -> None:
        self.rows.clear()

    def __call__(self, start, stop, left, right) -> None:
        self.rows.append((start, stop))


def test_label_matrices_have_a_row_per_label_and_are_the_parameters_themselves(model):
    matrices = model.label_matrices()
    num_blocks = model.config.cornet_num_blocks
    head = {"label_head.attention"} if hasattr(model.label_head, "attention") else {"label_head.output"}
    head = set() if model.config.model_type in ("seqtag", "parabel", "bonsai", "dismec", "neighbors") else head
    assert set(matrices) == head | {
        f"cornet.blocks.{index}.{name}" for index in range(num_blocks) for name in ("to_context", "to_labels")
    }
    for name, (rows, bias, parameters) in matrices.items():
        assert len(rows) == NUM_LABELS and (bias is None or bias.shape == (NUM_LABELS,))
        assert parameters[0] is model.get_parameter(f"{name}.weight")
        with torch.no_grad():
            rows[2].fill_(7.0)
        weight = parameters[0].t() if name.endswith("to_context") else parameters[0]
        assert (weight[2] == 7.0).all()


@pytest.mark.parametrize("top_k", [0, 2])
def test_updates_take_the_gradients_of_all_label_matrices_and_of_nothing_else(model, top_k):
    if getattr(model, "label_tree", None) is not None:
        return  # over a label tree they are refused, see below
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 1], [4, -100]])
    updates = {name: Recording() for name in model.label_matrices()}
    taken = {id(parameter) for matrix in model.label_matrices().values() for parameter in matrix.parameters}
    model(**batch, labels=labels, top_k=0).loss.backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    model.update_labels_in_backward(updates)
    model(**batch, labels=labels, top_k=top_k).loss.backward()
    for update in updates.values():
        starts, stops = zip(*update.rows, strict=True)
        assert (starts[0], *stops) == (*starts, NUM_LABELS)  # every row once
    for name, parameter in model.named_parameters():
        if id(parameter) in taken:
            assert parameter.grad is None, name
        else:
            torch.testing.assert_close(parameter.grad, expected[name], msg=name)
    model.update_labels_in_backward(None)
    model(**batch, labels=labels, top_k=0).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_with_updates_logits_with_a_gradient_are_refused_but_not_in_evaluation(model):
    batch, labels = make_batch(model, [SHORT]), torch.tensor([[0]])
    updates = {name: Recording() for name in model.label_matrices()}
    if getattr(model, "label_tree", None) is not None:
        with pytest.raises(ValueError, match="over a label tree only candidates have gradients"):
            model.update_labels_in_backward(updates)
        return
    model.update_labels_in_backward(updates)
    for arguments in ({"labels": labels}, {}):
        with pytest.raises(ValueError, match="updated in the backward pass.*the logits of all labels.*would never get"):
            model(**batch, **arguments)
    with torch.no_grad():
        model(**batch)
        losses = [model(**batch, labels=labels, top_k=top_k).loss for top_k in (None, 0, 3)]
    torch.testing.assert_close(losses[1:], losses[:1] * 2)
    assert not any(update.rows for update in updates.values())


def test_an_update_of_an_unknown_matrix_is_refused():
    model = FAMILIES[0].build(cornet_num_blocks=0)
    with pytest.raises(ValueError, match=r"\['cornet.blocks.0.to_labels'\] are no label matrices of this model"):
        model.update_labels_in_backward({"cornet.blocks.0.to_labels": Recording()})


# ---- losses that weigh labels ----------------------------------------------------------------------------------------------


def test_label_weights_are_saved_with_the_model(tmp_path):
    model = FAMILIES[0].build(label_loss="propensity_bce")
    model.label_head.positive_weight.copy_(torch.arange(NUM_LABELS) + 1.5)
    model.save_pretrained(tmp_path)
    loaded = BertXMLForXMTC.from_pretrained(tmp_path)
    assert torch.equal(loaded.label_head.positive_weight, torch.arange(NUM_LABELS) + 1.5)
    loaded.resize_labels(NUM_LABELS + 1)
    assert loaded.label_head.positive_weight.tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 0.0]
    loaded.save_pretrained(tmp_path)
    assert BertXMLForXMTC.from_pretrained(tmp_path).label_head.positive_weight.shape == (NUM_LABELS + 1,)


def test_a_checkpoint_opens_with_a_loss_that_weighs_labels_and_has_no_weights_yet(tmp_path):
    model = FAMILIES[0].build()
    model.save_pretrained(tmp_path)
    loaded = BertXMLForXMTC.from_pretrained(tmp_path, label_loss="propensity_bce")
    assert loaded.label_head.positive_weight.tolist() == [0.0] * NUM_LABELS
    assert torch.equal(loaded.label_head.output.weight, model.label_head.output.weight)
    with pytest.raises(ValueError, match="5 of the 5 weights are not set"):
        loaded(**make_batch(loaded, [SHORT]), labels=torch.tensor([[0]]))


def test_new_labels_in_place_of_old_ones_have_no_weights(tmp_path):
    model = FAMILIES[0].build(label_loss="propensity_bce")
    model.label_head.positive_weight.fill_(2.0)
    model.save_pretrained(tmp_path)
    loaded = BertXMLForXMTC.from_pretrained(tmp_path, num_labels=3, ignore_mismatched_sizes=True)
    assert loaded.label_head.positive_weight.tolist() == [0.0] * 3

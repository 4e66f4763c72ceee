"""How head and CorNet start, the same for every family, and how their layers follow a change of the labels."""

import pytest
import torch
from torch import Tensor, nn

from hf_xmtc.models.linear_layers import resized_linear
from models.families import for_families, overwrite_parameters

# Enough weights for their spread to be measured, and still room for labels in a row.
SIZES = {"num_labels": 20, "cornet_context_size": 60}


def assert_documented_start(model, names: list[str]) -> None:
    """Xavier-uniform weights and the biases of `torch.nn.Linear`; of LACO's output layer normal weights and no biases."""
    for name in names:
        module = model.get_submodule(name.rpartition(".")[0])
        outputs, inputs = module.weight.shape
        values: Tensor = model.get_parameter(name).detach()
        if model.config.model_type == "laco" and name.startswith("label_head."):
            spread, bound = (model.config.initializer_range, None) if name.endswith("weight") else (0.0, 0.0)
        elif name.endswith("weight"):
            spread, bound = (2 / (inputs + outputs)) ** 0.5, (6 / (inputs + outputs)) ** 0.5
        else:
            spread, bound = (3 * inputs) ** -0.5, inputs**-0.5
        # Of a bias there are few values.
        assert values.std().item() == pytest.approx(spread, rel=0.15 if name.endswith("weight") else 0.5), name
        assert bound is None or values.abs().max() <= bound, name


@for_families(lambda family: family.has_label_matrices)
def test_head_and_cornet_start_as_documented_also_where_a_checkpoint_lacks_them(family, tmp_path):  # AC-60
    settings = {**SIZES, "cornet_num_blocks": family.most_blocks}
    model = family.build(**settings)
    names = [name for name, _ in model.named_parameters() if name.startswith(("label_head.output.", "cornet."))]
    of_labels = [name for name in names if 20 in model.get_parameter(name).shape]
    if model.config.model_type == "seqtag" or hasattr(model.label_head, "attention"):  # one number for all labels
        names = [name for name in names if name not in ("label_head.output.weight", "label_head.output.bias")]
    assert_documented_start(model, names)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), family.build(**settings).parameters(), strict=True))

    overwrite_parameters(model)
    if not family.has_own_loss:
        model.set_thresholds(torch.full((20,), 0.3))
    model.save_pretrained(tmp_path)
    opened = type(model).from_pretrained(tmp_path, num_labels=24, ignore_mismatched_sizes=True)
    assert_documented_start(opened, of_labels)
    if opened.label_thresholds is not None:
        assert opened.label_thresholds.tolist() == [opened.config.decision_threshold] * 24


class OwnLinear(nn.Linear):
    """A kind of layer that must stay what it is."""


@pytest.mark.parametrize("dim", [0, 1])
def test_a_resized_layer_has_the_known_rows_where_they_move_to_and_a_new_start_elsewhere(dim):
    torch.manual_seed(0)
    old = OwnLinear(3, 3, dtype=torch.float64)
    new = resized_linear(old, torch.tensor([2, -1, -1, 0]), dim=dim)
    assert type(new) is OwnLinear and new.weight.dtype == torch.float64
    assert (new.out_features, new.in_features) == ((4, 3) if dim == 0 else (3, 4))
    rows, known = new.weight.movedim(dim, 0), old.weight.movedim(dim, 0)
    assert torch.equal(rows[[0, 3]], known[[2, 0]]) and rows[1:3].all()
    assert torch.equal(new.bias[[0, 3]], old.bias[[2, 0]]) if dim == 0 else torch.equal(new.bias, old.bias)

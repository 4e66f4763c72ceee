import pytest
import torch

from hf_xmtc.models.cornet import CorNet
from models.golden import assert_close, gradient_of, load_golden

FILES = ["cornet_blocks1", "cornet_blocks2", "cornet_blocks3"]
FILES += [f"cornet_blocks2_act_{activation}" for activation in ("relu", "tanh", "elu")]


@pytest.mark.parametrize("name", FILES)
def test_outputs_and_gradients_equal_the_authors(name):
    golden, settings = load_golden(name)
    cornet = CorNet(settings["num_labels"], settings["context_size"], settings["num_blocks"], settings["input_activation"])
    weights = {key.replace("cornet.", "blocks."): value for key, value in golden.items() if key.startswith("cornet.")}
    cornet.load_state_dict(weights)
    logits = golden["input"].requires_grad_()

    outputs = []
    for block in cornet.blocks:
        block.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    output = cornet(logits)
    assert_close(output, golden["output"], 1e-5, "output")
    for index, block_output in enumerate(outputs):
        assert_close(block_output, golden[f"block_output.{index}"], 1e-5, f"block {index}")

    (output * golden["R"]).sum().backward()
    assert_close(logits.grad, golden["grad.input"], 3e-5, "input")
    gradients = gradient_of(golden, "grad.cornet.")
    assert len(gradients) == len(weights)
    for key, gradient in gradients.items():
        assert_close(cornet.get_parameter(f"blocks.{key}").grad, gradient, 3e-5, key)


def test_a_block_adds_its_correction_to_the_logits_and_not_to_the_probabilities():
    cornet = CorNet(num_labels=2, context_size=1, num_blocks=1)
    block = cornet.blocks[0]
    with torch.no_grad():
        block.to_context.weight.fill_(1.0), block.to_context.bias.zero_()
        block.to_labels.weight.copy_(torch.tensor([[1.0], [0.0]])), block.to_labels.bias.copy_(torch.tensor([0.0, 0.5]))
    # Both probabilities are 1/2, so the context is ELU(1) = 1.
    assert cornet(torch.zeros(1, 2)).tolist() == [[1.0, 0.5]]


def test_a_stack_without_blocks_changes_nothing():
    logits = torch.randn(2, 3)
    assert torch.equal(CorNet(num_labels=3, context_size=4, num_blocks=0)(logits), logits)


def test_an_unknown_activation_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="activation='softmax' is not one of sigmoid, relu, tanh, elu"):
        CorNet(num_labels=3, context_size=2, activation="softmax")


def test_labels_that_stay_keep_their_column_of_the_context_and_their_row_of_the_correction():
    cornet = CorNet(num_labels=3, context_size=2, num_blocks=2)
    before = {name: parameter.clone() for name, parameter in cornet.named_parameters()}
    cornet.resize_labels(torch.tensor([2, -1, 0, -1]))
    for index, block in enumerate(cornet.blocks):
        to_context, to_labels = before[f"blocks.{index}.to_context.weight"], before[f"blocks.{index}.to_labels.weight"]
        assert torch.equal(block.to_context.weight[:, [0, 2]], to_context[:, [2, 0]])
        assert torch.equal(block.to_context.bias, before[f"blocks.{index}.to_context.bias"])
        assert torch.equal(block.to_labels.weight[[0, 2]], to_labels[[2, 0]])
        assert torch.equal(block.to_labels.bias[[0, 2]], before[f"blocks.{index}.to_labels.bias"][[2, 0]])
    assert cornet(torch.randn(1, 4)).shape == (1, 4)

import pytest
import torch

from hf_xmtc.models.cornet import ACTIVATIONS, CorNet
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
        assert not block.to_context.weight[:, [1, 3]].any() and not block.to_labels.weight[[1, 3]].any()
    assert cornet(torch.randn(1, 4)).shape == (1, 4)


@torch.no_grad()
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_new_labels_leave_the_logits_of_known_ones_and_their_own_as_they_are(activation):
    cornet, logits = CorNet(num_labels=3, context_size=2, num_blocks=3, activation=activation), torch.randn(4, 3)
    expected = torch.cat([cornet(logits), torch.full((4, 1), 2.5)], dim=1)
    cornet.resize_labels(torch.tensor([0, 1, 2, -1]))
    torch.testing.assert_close(cornet(torch.nn.functional.pad(logits, (0, 1), value=2.5)), expected)


def test_new_labels_learn_what_others_say_of_them_and_they_of_others():
    cornet = CorNet(num_labels=3, context_size=2, num_blocks=2)
    cornet.resize_labels(torch.tensor([0, 1, 2, -1]))
    cornet(torch.randn(5, 4)).square().sum().backward()
    for block in cornet.blocks:
        assert block.to_context.weight.grad[:, 3].all() and block.to_labels.weight.grad[3].all()


def test_without_a_label_that_stays_cornet_starts_anew():
    cornet = CorNet(num_labels=3, context_size=2)
    cornet.resize_labels(torch.tensor([-1, -1]))
    assert all(parameter.all() for parameter in cornet.parameters())


# ---- candidates ------------------------------------------------------------------------------------------------------------

# Where a function gives what "no candidate" means: probability 0.
OUTSIDE = {"sigmoid": float("-inf"), "relu": float("-inf"), "tanh": 0.0, "elu": 0.0}
CANDIDATES = torch.tensor([[3, 0, 8], [6, 1, 2]])


def only(logits: torch.Tensor, label_ids: torch.Tensor, outside: float) -> torch.Tensor:
    """Logits (B, L) with all labels but the candidates replaced."""
    return torch.full_like(logits, outside).scatter(1, label_ids, logits.gather(1, label_ids))


@pytest.mark.parametrize("num_blocks", [0, 1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_candidates_that_are_all_labels_are_refined_as_by_the_full_module(activation, num_blocks):
    torch.manual_seed(0)
    cornet = CorNet(9, 4, num_blocks, activation)
    logits, label_ids = torch.randn(2, 9), torch.stack([torch.randperm(9), torch.arange(9)])
    refined = cornet.refine_candidates(logits.gather(1, label_ids), label_ids)
    torch.testing.assert_close(refined, cornet(logits).gather(1, label_ids))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_labels_that_are_no_candidates_count_as_probability_zero(activation):
    torch.manual_seed(0)
    cornet = CorNet(9, 4, 1, activation)
    logits = torch.randn(2, 9)
    full = cornet(only(logits, CANDIDATES, OUTSIDE[activation])).gather(1, CANDIDATES)
    torch.testing.assert_close(cornet.refine_candidates(logits.gather(1, CANDIDATES), CANDIDATES), full)


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_labels_that_are_no_candidates_stay_at_minus_infinity_through_every_block(activation):
    torch.manual_seed(0)
    cornet = CorNet(9, 4, 3, activation)
    logits = torch.randn(2, 9)
    full = cornet(only(logits, CANDIDATES, float("-inf"))).gather(1, CANDIDATES)
    torch.testing.assert_close(cornet.refine_candidates(logits.gather(1, CANDIDATES), CANDIDATES), full)


def test_no_candidates_are_nothing_and_padding_changes_nothing():
    torch.manual_seed(0)
    cornet = CorNet(9, 4, 2)
    logits = torch.randn(2, 9)
    expected = cornet.refine_candidates(logits.gather(1, CANDIDATES), CANDIDATES)
    # Padding on both sides and in between; what stands at padded places is never read.
    padded = torch.full((2, 6), -100)
    padded[:, [1, 3, 4]] = CANDIDATES
    values = torch.full((2, 6), 77.0)
    values[:, [1, 3, 4]] = logits.gather(1, CANDIDATES)
    torch.testing.assert_close(cornet.refine_candidates(values, padded)[:, [1, 3, 4]], expected)
    assert cornet.refine_candidates(logits[:, :0], CANDIDATES[:, :0]).shape == (2, 0)


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_gradients_of_candidates_are_those_of_the_full_module_and_touch_no_other_label(activation):
    torch.manual_seed(0)
    cornet = CorNet(9, 4, 2, activation).double()
    chosen = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(2, 3, dtype=torch.float64)
    tensors = [chosen, *cornet.parameters()]
    ours = torch.autograd.grad((cornet.refine_candidates(chosen, CANDIDATES) * factors).sum(), tensors)
    # A number, where minus infinity would have a gradient of 0 · ∞.
    low = torch.full((2, 9), -1e4, dtype=torch.float64).scatter(1, CANDIDATES, chosen)
    full = torch.autograd.grad((cornet(low).gather(1, CANDIDATES) * factors).sum(), tensors)
    torch.testing.assert_close(ours, full)
    is_candidate = torch.zeros(9, dtype=torch.bool)
    is_candidate[CANDIDATES] = True
    to_context = ours[1]
    assert not to_context[:, ~is_candidate].any() and to_context[:, is_candidate].any()

"""Labels spread over two processes: everything equals the computation of one process that holds them all."""

import pytest
import torch

from training import label_shards
from training.label_shards import CANDIDATE_WIDTHS, CASES, DOCUMENTS, NUM_LABELS, LinearModel, documents, make_model

FIRST_LABELS = [slice(0, 5), slice(5, NUM_LABELS)]


@pytest.fixture(scope="module")
def folder(two_processes):
    """Where the two processes have left their results."""
    return two_processes / "shards"


@pytest.fixture(scope="module")
def found(folder):
    """Results of both processes."""
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def own_part(name: str, tensor: torch.Tensor, rank: int) -> torch.Tensor:
    """What of a whole model's tensor a process holds."""
    if name.endswith("to_context.weight"):
        return tensor[:, FIRST_LABELS[rank]]
    return tensor[FIRST_LABELS[rank]] if name.startswith("label_head.output") or "to_labels" in name else tensor


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss_and_gradients_are_those_of_one_process(found, case):
    model, (hidden, labels) = make_model(*case), documents(case[-1])
    hidden.requires_grad_()
    loss = model(hidden, labels, 0).loss
    loss.backward()
    tolerance = {"rtol": 0, "atol": 1e-10 if case[-1] == torch.float64 else 1e-5}
    for rank, result in enumerate(found):
        result = result[str(case)]
        torch.testing.assert_close(result["loss"], loss.detach(), **tolerance)
        # Twice, because the average over both processes halves it in the encoder.
        torch.testing.assert_close(result["hidden"], 2 * hidden.grad[DOCUMENTS[rank]], **tolerance)
        assert result["gradients"].keys() == dict(model.named_parameters()).keys()
        for name, parameter in model.named_parameters():
            expected = own_part(name, parameter.grad, rank)
            assert expected.abs().max() > 0, name
            torch.testing.assert_close(
                result["gradients"][name], expected, **tolerance, msg=lambda text, name=name: f"{name}: {text}"
            )


@pytest.mark.parametrize("blocks", [0, 2])
def test_every_process_gets_the_predictions_for_its_documents(found, blocks):
    hidden, labels = documents()
    expected = label_shards.predict(label_shards.with_ties(make_model(blocks)), hidden, labels, label_shards.candidates())
    if not blocks:
        assert expected["few_labels"].tolist() == [[2, 4, 6]] * 8  # of four that are equal those with the lowest ids
    for rank, result in enumerate(found):
        for name, value in result[f"predictions {blocks}"].items():
            wanted = expected[name] if "loss" in name else expected[name][DOCUMENTS[rank]]
            if name in ("candidates", "refined"):
                wanted = wanted[:, : CANDIDATE_WIDTHS[rank]]
            torch.testing.assert_close(value, wanted, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("blocks", [0, 2])
def test_updates_in_the_backward_pass_are_those_of_one_process(found, blocks):
    model = make_model(blocks, "propensity_bce")
    losses = label_shards.train_in_backward(model, model, *documents())
    for result in found:
        torch.testing.assert_close(result[f"losses {blocks}"], losses, rtol=0, atol=1e-10)
        torch.testing.assert_close(result[f"trained {blocks}"], dict(model.state_dict()), rtol=0, atol=1e-10)


def test_the_whole_model_can_be_gathered_in_one_process(found):
    assert found[0]["trained in one 2"] is None
    gathered = found[1]["trained in one 2"]
    assert all(torch.equal(tensor, gathered[name]) for name, tensor in found[1]["trained 2"].items())


def test_one_process_opens_what_two_have_saved(folder, found):
    model, (hidden, labels) = LinearModel.from_pretrained(folder / "model"), documents()
    torch.testing.assert_close(dict(model.state_dict()), dict(found[0]["trained 2"]), rtol=0, atol=0)
    assert model(hidden, labels, 3).top_labels.shape == (8, 3)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("again", "spread over 2 processes already"),
        ("too few labels", "1 labels cannot be spread over 2 processes"),
        ("resized", "spread over 2 processes. Save the model and open it in one process"),
        ("saved", "1 of 2 parts of the labels. Call full_state_dict"),
        ("logits", "are spread over processes, but the logits of all labels were asked for with their gradient"),
    ],
)
def test_what_a_part_of_the_labels_cannot_do_is_refused(found, what, message):
    for result in found:
        assert message in result["refused"][what]

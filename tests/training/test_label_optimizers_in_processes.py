"""Two processes with half a batch each train what one process trains with the whole batch, and stay equal to each other."""

import pytest
from safetensors.torch import load_file

from training import train_joined


@pytest.fixture(scope="module")
def folders(two_processes, tmp_path_factory):
    """What one process with batches of 4 has left, and what two with batches of 2 have."""
    alone = tmp_path_factory.mktemp("alone")
    train_joined.main(alone, batch_size=4)
    return alone, two_processes / "joined"


@pytest.mark.parametrize("name", ["sgd_in_backward", "rowwise_in_backward", "adam_in_backward", "rowwise"])
def test_two_processes_train_the_model_that_one_trains(folders, name):
    alone, joined = folders
    expected = load_file(alone / f"{name}.0.safetensors")
    first, second = (load_file(joined / f"{name}.{rank}.safetensors") for rank in (0, 1))
    assert all(bool((first[key] == second[key]).all()) for key in expected)
    assert max((first[key] - expected[key]).abs().max().item() for key in expected) < 1e-10


def test_unequal_batches_are_refused_in_every_process(folders):
    for rank in (0, 1):
        message = (folders[1] / f"unequal.{rank}.txt").read_text()
        assert "The processes have 2, 1 documents in this step" in message and "dataloader_drop_last=True" in message


def test_a_loss_that_is_not_finite_in_one_process_stops_both(folders):
    messages = [(folders[1] / f"not_finite.{rank}.txt").read_text() for rank in (0, 1)]
    assert all("Training stopped in step 1, before anything was changed by it" in message for message in messages)
    assert "The loss of another process" in messages[0] and "The loss, its gradient in CorNet" in messages[1]

"""The averaging of weights on a model of three numbers, by hand."""

import json

import pytest
import torch
from torch import nn

from hf_xmtc.training import WeightAveraging


def make_model(start: float = 0.0) -> nn.Module:
    model = nn.Linear(2, 1)
    model.register_buffer("seen", torch.zeros(1))
    set_weights(model, start)
    return model


def set_weights(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)


def averaged(averaging: WeightAveraging) -> float:
    with averaging.averaged_weights():
        return averaging.model.bias.item()


def test_is_the_mean_of_the_weights_at_the_start_and_at_every_update():
    generator = torch.Generator().manual_seed(0)
    model = make_model()
    averaging = WeightAveraging(model, start_epoch=0)
    history = []
    for step in range(6):
        with torch.no_grad():
            model.weight.copy_(torch.randn(1, 2, generator=generator))
        averaging.begin_epoch(0) if step == 0 else averaging.update()
        history.append(model.weight.detach().clone())
    assert averaging.count == 6
    with averaging.averaged_weights():
        torch.testing.assert_close(model.weight.detach(), torch.stack(history).mean(0))


def test_starts_at_the_beginning_of_the_start_epoch_with_the_weights_of_that_moment():
    model = make_model(1.0)
    averaging = WeightAveraging(model, start_epoch=2)
    for epoch in (0, 1):
        averaging.begin_epoch(epoch)
        averaging.update()
        assert averaging.count == 0
    assert averaged(averaging) == 1.0  # no average yet: the weights themselves
    set_weights(model, 3.0)
    averaging.begin_epoch(2)
    assert (averaging.count, averaged(averaging)) == (1, 3.0)
    set_weights(model, 5.0)
    averaging.begin_epoch(3)  # a later epoch adds nothing
    averaging.update()
    assert (averaging.count, averaged(averaging)) == (2, 4.0)


def test_live_weights_are_bit_equal_after_the_swap_and_keep_training():
    model = make_model(0.1)
    averaging = WeightAveraging(model, start_epoch=0)
    averaging.begin_epoch(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    live = model.weight.detach().clone()
    with averaging.averaged_weights():
        assert model.weight[0, 0].item() == pytest.approx(0.1)
    assert torch.equal(model.weight, live)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, live)  # the optimizer still moves the model's own weights
    assert averaged(averaging) == pytest.approx(0.1)  # and not the average


def test_live_weights_come_back_when_evaluation_fails():
    model = make_model(1.0)
    averaging = WeightAveraging(model, start_epoch=0)
    averaging.begin_epoch(0)
    set_weights(model, 2.0)
    with pytest.raises(RuntimeError), averaging.averaged_weights():
        raise RuntimeError("evaluation failed")
    assert model.bias.item() == 2.0


def test_buffers_follow_the_model():
    model = make_model()
    averaging = WeightAveraging(model, start_epoch=0)
    averaging.begin_epoch(0)
    model.seen.fill_(7.0)
    averaging.update()
    with averaging.averaged_weights():
        assert model.seen.item() == 7.0


def test_average_and_count_survive_a_checkpoint(tmp_path):
    model = make_model(1.0)
    averaging = WeightAveraging(model, start_epoch=0)
    averaging.begin_epoch(0)
    set_weights(model, 4.0)
    averaging.update()
    averaging.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["averaged_model.safetensors", "averaging.json"]
    assert json.loads((tmp_path / "averaging.json").read_text()) == {"count": 2, "start_epoch": 0}

    reopened = WeightAveraging(make_model(4.0), start_epoch=0)
    assert reopened.load(tmp_path)
    reopened.begin_epoch(1)  # the average has started already
    assert (reopened.count, averaged(reopened), reopened.model.bias.item()) == (2, 2.5, 4.0)
    set_weights(reopened.model, 1.0)
    reopened.update()
    assert averaged(reopened) == pytest.approx((1 + 4 + 1) / 3)


def test_before_the_start_a_checkpoint_holds_no_average(tmp_path):
    averaging = WeightAveraging(make_model(), start_epoch=3)
    averaging.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not averaging.load(tmp_path)
    assert not averaging.load_best(tmp_path)


def test_finish_leaves_the_average_in_the_model():
    model = make_model(1.0)
    averaging = WeightAveraging(model, start_epoch=0)
    averaging.finish()
    assert model.bias.item() == 1.0
    averaging.begin_epoch(0)
    set_weights(model, 2.0)
    averaging.update()
    averaging.finish()
    assert model.bias.item() == 1.5
    set_weights(model, 9.0)
    assert averaged(averaging) == 1.5  # a copy: the average does not follow the model


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"count": "2"}', '{"count": -1}', '{"count": 1e12}', "[" * 100_000])
def test_a_damaged_count_is_refused_with_its_file(tmp_path, content):
    averaging = WeightAveraging(make_model(), start_epoch=0)
    averaging.begin_epoch(0)
    averaging.save(tmp_path)
    (tmp_path / "averaging.json").write_text(content)
    with pytest.raises(ValueError, match=r"averaging\.json"):
        averaging.load(tmp_path)


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("size", [0, 50])
def test_damaged_averages_are_refused_with_their_file(tmp_path, best, size):
    averaging = WeightAveraging(make_model(), start_epoch=0)
    averaging.begin_epoch(0)
    averaging.save(tmp_path)
    path = tmp_path / "averaged_model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        ValueError, match=r"averaged_model\.safetensors cannot be read into the model .* Delete this checkpoint"
    ):
        (averaging.load_best if best else averaging.load)(tmp_path)

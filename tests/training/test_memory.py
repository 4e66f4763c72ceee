import pytest
import torch

from hf_xmtc import BertXMLConfig, BertXMLForXMTC
from hf_xmtc.training import MemoryEstimate, estimate_memory

CPU = torch.device("cpu")


def make_model(**settings) -> BertXMLForXMTC:
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    with torch.device("meta"):
        return BertXMLForXMTC(BertXMLConfig(**{**sizes, "num_cls_tokens": 2, "cornet_context_size": 4, **settings}))


def test_weights_and_optimizer_are_counted_exactly():
    model = make_model(num_labels=100_000, cornet_num_blocks=0)
    estimate = estimate_memory(model, batch_size=4, num_tokens=32, averaging=True, device=CPU)
    mib = 4 * sum(parameter.numel() for parameter in model.parameters()) / 2**20
    assert estimate.parameters == estimate.gradients == estimate.averaging == pytest.approx(mib)
    assert estimate.optimizer == pytest.approx(2 * mib)
    assert estimate.total == pytest.approx(5 * mib + estimate.activations)


def test_frozen_weights_need_no_gradient_and_no_optimizer_state():
    model = make_model(num_labels=5)
    model.encoder.requires_grad_(False)
    estimate = estimate_memory(model, 4, 32, averaging=False, device=CPU)
    assert estimate.gradients < estimate.parameters
    assert estimate.optimizer == 2 * estimate.gradients
    assert estimate.averaging == 0


def test_activations_grow_with_batch_tokens_and_labels():
    def activations(batch_size=4, num_tokens=32, **settings):
        model = make_model(**{"num_labels": 100, **settings})
        return estimate_memory(model, batch_size, num_tokens, averaging=False, device=CPU).activations

    assert activations(batch_size=8) == pytest.approx(2 * activations())
    assert activations(num_tokens=64) > 1.5 * activations()
    assert activations(num_labels=10_000) > activations()
    assert activations(cornet_num_blocks=3) > activations(cornet_num_blocks=0)


def test_what_cannot_fit_is_refused_with_the_options_that_help():
    sizes = {"parameters": 100.0, "gradients": 100.0, "optimizer": 200.0, "averaging": 0.0, "activations": 50.0}
    MemoryEstimate(**sizes, available=451.0, device="cpu").refuse_if_too_large()
    with pytest.raises(MemoryError, match=r"about 450 MiB .* 449 MiB are free on cpu. Lower per_device_train_batch_size"):
        MemoryEstimate(**sizes, available=449.0, device="cpu").refuse_if_too_large()

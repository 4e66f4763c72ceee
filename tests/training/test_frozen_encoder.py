"""Weights that are frozen by hand stay as they are through training."""

import torch


def test_a_frozen_encoder_stays_as_it_is_through_training(make_model, make_trainer):
    model = make_model()
    model.base_model.requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    make_trainer(model=model, max_steps=2).train()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != name.startswith(("label_head.", "cornet.")), name

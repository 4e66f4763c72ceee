"""A batch in parts, as when gradients are accumulated or processes share it, gives the loss and the gradients of the whole."""

import pytest
import torch

from hf_xmtc.models.laco_cooccurrence import RANDOM_NUMBERS
from models.families import FAMILIES, LONG, SHORT, make_batch, models_with_loss
from models.tiny_laco import build

DOCUMENTS = [SHORT, LONG, [9], LONG[3:], SHORT[::-1], LONG[:5], [30, 31], LONG[::-1]]
# Of different sizes, and none.
LABELS = torch.tensor([[0, 1, 2, 3], [2, 4, -100, -100], [-100] * 4, [3, *[-100] * 3]] * 2).roll(1, dims=0)
CANDIDATES = torch.tensor(
    [[5, 0, 1, 7, -100, -100], [2, 9, -100, -100, -100, -100], [3, 8, 6, 1, 0, 2], [4, *[-100] * 5]] * 2
)


def assert_parts_give_the_whole(model, **inputs) -> None:
    batch, labels = {**make_batch(model, DOCUMENTS), **inputs}, LABELS
    found = []
    for size in (8, 4, 2, 1):
        model.zero_grad()
        loss = 0.0
        for part in range(0, 8, size):
            rows = {name: tensor[part : part + size] for name, tensor in batch.items()}
            share = model(**rows, labels=labels[part : part + size], top_k=0).loss * size / 8
            share.backward()
            loss += share.item()
        found.append((loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    (whole, gradients), *others = found
    for loss, parts in others:
        assert loss == pytest.approx(whole, rel=1e-5)
        for name, gradient in gradients.items():
            torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"auxiliary_task": "plcp"},
        {"auxiliary_task": "clcp"},
        {"auxiliary_task": "both"},
        {"num_candidates": 6, "num_labels": 10, "loss_reduction": "mean"},
        {"num_candidates": 6, "num_labels": 10, "auxiliary_task": "both"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_laco_learns_the_same_in_parts(settings):  # AC-65
    model = build(**settings).train()
    inputs = {"candidate_ids": CANDIDATES} if "num_candidates" in settings else {}
    assert_parts_give_the_whole(model, random_numbers=torch.randint(2**62, (8, RANDOM_NUMBERS)), **inputs)


@pytest.mark.parametrize("label_loss", ["bce", "propensity_bce", "asymmetric"])
def test_every_label_loss_is_the_same_in_parts(label_loss):  # AC-65
    for model in models_with_loss(next(family for family in FAMILIES if family.name == "xmlrnn"), label_loss):
        assert_parts_give_the_whole(model)


def test_the_loss_of_sequences_is_the_same_in_parts():  # AC-65
    assert_parts_give_the_whole(next(family for family in FAMILIES if family.name == "seqtag-on-bert").build())

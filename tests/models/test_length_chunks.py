"""Random batches that are encoded in chunks of similar lengths: nothing but padding changes."""

import inspect
import itertools
import random

import pytest
import torch

from hf_xmtc.models.aligned_words import align_words
from hf_xmtc.models.length_chunks import chunk_borders, read_in_chunks
from models.families import LONG, SHORT, make_batch


def cost(lengths: list[int], borders: list[int], chunk_tokens: float) -> float:
    return sum(lengths[start] * (stop - start) + chunk_tokens for start, stop in itertools.pairwise(borders))


@pytest.mark.parametrize("chunk_tokens", [0, 3, 10, 1000])
def test_the_borders_are_the_cheapest_of_all(chunk_tokens):
    lengths = sorted(random.Random(0).choices(range(1, 20), k=9), reverse=True)
    borders = chunk_borders(lengths, chunk_tokens)
    ways = [[0, *inner, 9] for count in range(9) for inner in itertools.combinations(range(1, 9), count)]
    assert cost(lengths, borders, chunk_tokens) == min(cost(lengths, way, chunk_tokens) for way in ways)
    assert len(borders) - 1 == {0: len(set(lengths)), 1000: 1}.get(chunk_tokens, len(borders) - 1)


def test_equal_lengths_and_one_document_are_one_chunk():
    assert chunk_borders([7, 7, 7], 1) == [0, 3]
    assert chunk_borders([7], 1) == [0, 1]


def test_each_chunk_is_cut_at_its_longest_and_answers_come_back_in_order():
    ids = torch.tensor([[5, 0, 0, 0], [6, 7, 8, 9], [0, 0, 0, 0], [0, 4, 3, 0]])
    words, seen = align_words(ids, None, 0), []

    def read(words, rows):
        seen.append(tuple(words.ids.shape))
        return words.ids, words.ids.sum(1), rows, None

    states, sums, rows, nothing = read_in_chunks(words, read, torch.arange(4), chunk_tokens=0)
    assert seen == [(1, 4), (1, 2), (2, 1)]
    assert states.tolist() == [[5, 0, 0, 0], [6, 7, 8, 9], [0, 0, 0, 0], [4, 3, 0, 0]]
    assert sums.tolist() == [5, 30, 0, 7] and rows.tolist() == [0, 1, 2, 3] and nothing is None


def training_step(model, batch, labels, chunk_tokens):
    torch.manual_seed(1)  # what auxiliary tasks draw
    model.zero_grad()
    model.chunk_tokens = chunk_tokens
    output = model(**batch, labels=labels)
    output.loss.backward()
    return output.loss, {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_a_training_step_is_that_of_the_whole_batch(model, left, monkeypatch):
    model.train()
    # Two columns more than the longest document has, as with padding to a multiple or to a fixed length.
    longest = make_batch(model, [LONG])["input_ids"].shape[1]
    batch = make_batch(model, [SHORT, LONG, [], SHORT + LONG[:2]], length=longest + 2, left=left)
    if "token_type_ids" in inspect.signature(model.forward).parameters:
        batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    labels = torch.tensor([[0, 2], [1, -100], [-100, -100], [3, 4]])
    loss, gradients = training_step(model, batch, labels, float("inf"))
    in_chunks, of_chunks = training_step(model, batch, labels, 0)
    torch.testing.assert_close(in_chunks, loss, rtol=1e-5, atol=1e-6)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    assert of_chunks.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(of_chunks[name], gradient, rtol=1e-4, atol=1e-5 * largest, msg=name)


def test_families_whose_scores_ignore_padding_read_chunks_and_others_the_whole_batch(model, monkeypatch):
    chunks = []
    monkeypatch.setattr(
        "hf_xmtc.models.modeling_xmtc.read_in_chunks", lambda *args, **_: chunks.append(1) or args[1](args[0], *args[2:])
    )
    batch = make_batch(model, [SHORT, LONG])
    model(**batch)
    assert not chunks  # in evaluation the batches are sorted already
    model.train()(**batch)
    padded = (
        getattr(model.config, "pooling", "") == "padded" or getattr(model.config, "cross_attention_tokens", "") == "padded"
    )
    assert bool(chunks) != padded

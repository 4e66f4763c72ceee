"""Random batches that are encoded in chunks of similar lengths: nothing but padding changes."""

import inspect
import itertools
import random

import pytest
import torch

from hf_xmtc.models import length_chunks
from hf_xmtc.models.aligned_tokens import align_words
from hf_xmtc.models.length_chunks import chunk_borders, read_in_chunks
from hf_xmtc.models.word_encoders import BiLSTM
from models.families import FAMILIES, LONG, SHORT, for_families, make_batch
from models.tiny_laco import candidate_model


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


def test_words_are_looked_up_once_for_all_chunks():
    table, calls = torch.arange(40.0).reshape(10, 4), []
    words = align_words(torch.tensor([[5, 0, 0], [6, 7, 8], [0, 4, 3]]), None, 0)

    def embed(ids, mask):
        calls.append(len(ids))
        return table[ids] * mask[:, None]

    def read(words, embedded):
        assert torch.equal(embedded, table[words.ids] * words.mask[..., None])
        return (embedded.sum(1),)

    (sums,) = read_in_chunks(words, read, embed=embed, chunk_tokens=0)
    assert calls == [1 + 3 + 2]  # the positions of the chunks, and each lookup has a gradient as large as the table
    assert torch.equal(sums, torch.stack([table[5], table[6:9].sum(0), table[3:5].sum(0)]))


LABELS = torch.tensor([[0, 2], [1, -100], [-100, -100], [3, 4]])


def mixed_batch(model, **settings):
    """Documents of several lengths, one of a single word and one without."""
    return make_batch(model, [SHORT[:1], LONG, [], SHORT + LONG[:2]], **settings)


def training_step(model, batch, labels, chunk_tokens):
    torch.manual_seed(1)  # what auxiliary tasks draw
    model.zero_grad()
    model.chunk_tokens = chunk_tokens
    output = model(**batch, labels=labels)
    output.loss.backward()
    return output.loss, {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def assert_same_step(model, batch, labels=LABELS, tolerance=1e-5):
    """Loss and gradients of a batch in the smallest chunks are those of the batch in one."""
    loss, gradients = training_step(model, batch, labels, float("inf"))
    in_chunks, of_chunks = training_step(model, batch, labels, 0)
    torch.testing.assert_close(in_chunks, loss, rtol=tolerance, atol=tolerance / 10)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    assert of_chunks.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(of_chunks[name], gradient, rtol=10 * tolerance, atol=tolerance * largest, msg=name)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_a_training_step_is_that_of_the_whole_batch(model, left, monkeypatch):
    model.train()
    # Two columns more than the longest document has, as with padding to a multiple or to a fixed length.
    longest = make_batch(model, [LONG])["input_ids"].shape[1]
    batch = mixed_batch(model, length=longest + 2, left=left)
    if "token_type_ids" in inspect.signature(model.forward).parameters:
        batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    assert_same_step(model, batch)


def test_under_bfloat16_autocast_a_step_is_near_that_of_the_whole_batch(family):
    model = family.build().train()
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_step(model, mixed_batch(model), tolerance=0.03)


@for_families(lambda family: family.has_label_matrices)  # a linear tree has no layers
def test_layers_that_are_computed_again_for_their_gradients_see_the_same_chunks(family):
    model = family.build().train()
    expected = training_step(model, mixed_batch(model), LABELS, 0)
    # Older releases of transformers know the second name alone.
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    torch.testing.assert_close(training_step(model, mixed_batch(model), LABELS, 0), expected)
    assert_same_step(model, mixed_batch(model))


@pytest.mark.parametrize("joint_attention", ["full", "one_way"])
def test_every_chunk_has_the_candidates_of_its_documents(joint_attention):
    model = candidate_model(auxiliary_task="both", joint_attention=joint_attention).train()
    candidates = torch.tensor([[3, 40, 7, -100], [9, 1, 30, 44], [5, 6, -100, -100], [8, 40, 2, 3]])
    labels = torch.tensor([[3, 7], [9, 44], [-100, -100], [2, -100]])
    assert_same_step(model, mixed_batch(model) | {"candidate_ids": candidates}, labels)


@pytest.mark.parametrize("name", ["xmlrnn", "attentionxml", "meshprobenet"])
def test_a_packed_lstm_reads_the_same_chunks(name, monkeypatch):
    model = next(family for family in FAMILIES if family.name == name).build().train()
    expected = training_step(model, mixed_batch(model), LABELS, 0)
    monkeypatch.setattr(BiLSTM, "_run_one_way", BiLSTM._run_packed)  # as on a GPU
    torch.testing.assert_close(training_step(model, mixed_batch(model), LABELS, 0), expected)
    assert_same_step(model, mixed_batch(model, left=True))
    assert_same_step(model, make_batch(model, [[], SHORT[:1], []]), LABELS[:3])


@pytest.mark.parametrize("name", ["xmlrnn", "attentionxml", "meshprobenet"])
def test_embeddings_are_joined_for_hidden_states_alone(name, monkeypatch):
    model = next(family for family in FAMILIES if family.name == name).build()
    batch, joined = mixed_batch(model), []
    expected = model(**batch, output_hidden_states=True).hidden_states
    join = length_chunks._joined
    monkeypatch.setattr(length_chunks, "_joined", lambda parts: joined.append(parts[0].shape[-1]) or join(parts))
    model.train().chunk_tokens = 0
    model(**batch)
    assert joined == [16]  # the LSTM's states
    torch.testing.assert_close(model(**batch, output_hidden_states=True).hidden_states, expected)


def test_families_whose_scores_ignore_padding_read_chunks_and_others_the_whole_batch(model, monkeypatch):
    chunks = []
    read = length_chunks.read_in_chunks
    monkeypatch.setattr(
        "hf_xmtc.models.modeling_xmtc.read_in_chunks", lambda *args, **kwargs: chunks.append(1) or read(*args, **kwargs)
    )
    batch = make_batch(model, [SHORT, LONG])
    model(**batch)
    assert not chunks  # in evaluation the batches are sorted already
    model.train()(**batch)
    reads_at_once = getattr(model.config, "pooling", "") == "padded" or not model.is_trained_by_gradient
    assert bool(chunks) != reads_at_once

"""LACO's candidates: the generator's votes, loss and best labels, and texts that are read once."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from hf_xmtc import LACOForXMTC
from hf_xmtc.models.label_candidates import best_candidates, candidate_loss
from hf_xmtc.models.laco_candidates import LabelTerm, log_votes, places_among
from models.families import make_batch
from models.tiny_laco import BACKBONE, BATCH, build, candidate_model


def test_the_best_candidates_are_sorted_and_equal_ones_go_to_the_lower_id():
    ids = torch.tensor([[9, 4, -100, 7], [3, -100, -100, -100]])
    values = torch.tensor([[0.5, 0.8, 0.9, 0.5], [0.1, 0.9, 0.9, 0.9]])
    scores, found = best_candidates(values.log(), ids, 3)
    assert found.tolist() == [[4, 7, 9], [3, -100, -100]]
    torch.testing.assert_close(scores, torch.tensor([[0.8, 0.5, 0.5], [0.1, 0.0, 0.0]]))
    assert best_candidates(values.log(), ids, 9)[1].shape == (2, 4)
    with pytest.raises(ValueError, match="top_k=0, but it must be at least 1"):
        best_candidates(values.log(), ids, 0)


def test_the_loss_is_that_of_the_candidates_alone():
    ids, logits = torch.tensor([[9, 4, -100], [3, 8, 5]]), torch.tensor([[0.5, 2.0, 50.0], [-1.0, 0.0, 1.0]])
    positives = torch.tensor([[4, 11], [-100, -100]])  # 11 is no candidate
    target = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    every = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    first, second = every[0, :2], every[1]
    torch.testing.assert_close(candidate_loss(logits, ids, positives, "sum_labels"), (first.sum() + second.sum()) / 2)
    torch.testing.assert_close(candidate_loss(logits, ids, positives, "mean"), (first.mean() + second.mean()) / 2)
    assert candidate_loss(logits[:0], ids[:0], positives[:0], "mean") == 0
    assert places_among(ids, positives).tolist() == [[1, -100], [-100, -100]]


def test_the_label_term_is_its_formula():
    term = LabelTerm(3)
    features, states = torch.randn(2, 3), torch.randn(2, 4, 3)
    found = term(features, states)
    for document in range(2):
        for label in range(4):
            of_label, of_document = term.of_label(states[document, label]), term.of_document.weight @ features[document]
            inner = torch.cat([(of_label + of_document).tanh(), of_label * of_document])
            torch.testing.assert_close(found[document, label], (term.output.weight @ inner)[0])


# ---- the generator's votes --------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_an_untrained_model_ranks_as_its_generator_does():
    model = build(num_labels=50, num_candidates=6)
    ids = torch.tensor([[3, 40, 7, 12, 30, 9], [9, 1, 30, 44, 2, -100]])
    # Equal votes go to the lower id, as with the generator; the smallest are those of labels that no neighbour has.
    votes = torch.tensor([[1.0, 0.25, 0.25, 4e-6, 3e-7, 2e-7], [0.9, 0.2, 0.1, 1e-6, 0.0, 0.0]])
    output = model(**make_batch(model, BATCH), candidate_ids=ids.flip(1), candidate_votes=votes.flip(1))
    assert output.top_labels.tolist() == [[3, 7, 40, 12, 30, 9], [9, 1, 30, 44, 2, -100]]
    torch.testing.assert_close(output.top_scores[0, :2], (votes[0, :2] + 1e-4).log().sigmoid())
    half = model.to(torch.bfloat16)(**make_batch(model, BATCH), candidate_ids=ids, candidate_votes=votes)
    assert torch.equal(half.top_labels, output.top_labels)


@torch.no_grad()
def test_votes_count_in_the_loss_and_in_the_scores():
    model, batch = candidate_model(), make_batch(candidate_model(), BATCH)
    ids, votes = torch.tensor([[3, 40, 7], [9, 1, 30]]), torch.tensor([[0.5, 0.1, 0.0], [0.2, 0.0, 0.4]])
    labels = torch.tensor([[3], [30]])
    alone, both = (model(**batch, candidate_ids=ids, labels=labels, **more) for more in ({}, {"candidate_votes": votes}))
    by_id = [output.top_scores.logit().gather(1, output.top_labels.argsort(dim=1)) for output in (alone, both)]
    added = log_votes(votes.gather(1, ids.argsort(dim=1)))
    torch.testing.assert_close(by_id[1] - by_id[0], model.vote_scale * added, rtol=0, atol=1e-3)
    assert (both.loss - alone.loss).abs() > 1e-3


def test_a_model_of_candidates_from_before_the_votes_is_refused(tmp_path):
    model = candidate_model()
    model.save_pretrained(tmp_path)
    weights = {name: tensor for name, tensor in load_file(tmp_path / "model.safetensors").items() if name != "vote_scale"}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"scores candidates \(num_candidates=6\), but its weights have no vote_scale"):
        LACOForXMTC.from_pretrained(tmp_path)


# ---- the model --------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"reproduction": True}, {"joint_attention": "one_way"}])
def test_all_labels_as_candidates_are_the_plain_model(settings):
    model = build(**settings)
    batch = make_batch(model, BATCH)
    expected = model(**batch, top_k=6)
    output = model(**batch, candidate_ids=torch.arange(6).expand(2, -1))
    assert torch.equal(output.top_labels, expected.top_labels)
    torch.testing.assert_close(output.top_scores, expected.top_scores, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_the_order_of_candidates_and_padding_among_them_change_no_score():
    model = candidate_model()
    batch, ids = make_batch(model, BATCH), torch.tensor([[3, 40, 7, 12], [9, 1, 30, 44]])
    expected = model(**batch, candidate_ids=ids)
    shuffled = ids[:, torch.tensor([2, 0, 3, 1])]
    padded = torch.cat([shuffled, torch.full((2, 2), -100)], dim=1)
    for other in (shuffled, padded):
        output = model(**batch, candidate_ids=other, top_k=4)
        assert torch.equal(output.top_labels, expected.top_labels)
        torch.testing.assert_close(output.top_scores, expected.top_scores, rtol=0, atol=1e-5)


def test_training_on_candidates_reaches_every_part_of_the_model():
    model = candidate_model(auxiliary_task="both").train()
    batch, ids = make_batch(model, BATCH), torch.tensor([[3, 40, 7, 12, -100], [9, 1, 30, 44, 2]])
    votes = torch.tensor([[0.5, 0.3, 0.1, 0.0, 0.0], [0.9, 0.2, 0.2, 0.1, 0.0]])
    labels = torch.tensor([[3, 7, 12], [9, 44, -100]])
    output = model(**batch, candidate_ids=ids, candidate_votes=votes, labels=labels, top_k=0)
    assert set(output) == {"loss"}
    output.loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    rows = model.label_head.output.weight.grad.abs().sum(dim=1)
    assert (rows[[3, 40, 9]] > 0).all() and rows[20] == 0
    nothing = torch.full((2, 5), -100)
    loss = model(**batch, candidate_ids=ids, labels=nothing).loss
    assert loss.isfinite()


@torch.no_grad()
def test_a_document_without_candidates_gets_no_label():
    model = candidate_model()
    output = model(**make_batch(model, BATCH), candidate_ids=torch.tensor([[3, 40], [-100, -100]]))
    assert output.top_labels[1].tolist() == [-100, -100] and output.top_scores[1].tolist() == [0.0, 0.0]
    assert output.top_scores.isfinite().all()


def test_candidates_are_needed_where_the_model_reads_no_others_and_must_be_labels(tmp_path):
    model = candidate_model()
    with pytest.raises(ValueError, match=r"scores candidates \(num_candidates=6\), and none were given"):
        model(**make_batch(model, BATCH))
    with pytest.raises(ValueError, match="candidate_ids holds label id 50, but the ids are 0 … 49"):
        model(**make_batch(model, BATCH), candidate_ids=torch.tensor([[50], [1]]))
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    ids = torch.tensor([[3, 40], [1, 2]])
    with torch.no_grad():
        expected, found = (m(**make_batch(model, BATCH), candidate_ids=ids).top_scores for m in (model, loaded))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_candidates": 4, "label_term": True}, "label_term=True, but this setting was removed"),
        ({"num_candidates": 4, "retrieval_weight": 0.5}, "retrieval_weight=0.5, but this setting was removed"),
        ({"num_candidates": -1}, "num_candidates=-1"),
        (
            {"num_candidates": 4, "label_positions": "sequential"},
            "with label_positions='sequential', but it must be 'shared'",
        ),
        ({"num_candidates": 4, "cross_attention_kernel": (10, 10)}, "labels of cross_attention_kernel=10, but it must be 1"),
        ({"num_candidates": 4, "cornet_num_blocks": 1}, "with cornet_num_blocks=1, but it must be 0"),
    ],
)
def test_settings_that_do_not_go_with_candidates_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


@pytest.mark.parametrize("attn_implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_texts_read_once_are_scored_as_if_they_were_read_again(attn_implementation, model_type):
    sizes = {"roberta": {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 42}}.get(model_type, {})
    backbone = AutoConfig.for_model(model_type, **{**BACKBONE, **sizes})
    model = candidate_model(joint_attention="one_way", backbone_config=backbone)
    model.set_attn_implementation(attn_implementation)
    batch = make_batch(model, BATCH, left=True)
    cache = model.cache_documents(batch["input_ids"], batch["attention_mask"])
    for ids in (torch.tensor([[3, 40, 7, 12], [9, 1, 30, -100]]), torch.tensor([[8, 2], [5, 6]])):
        votes = torch.arange(ids.numel()).view(ids.shape) / ids.numel()
        with torch.no_grad():
            expected = model(**batch, candidate_ids=ids, candidate_votes=votes)
            assert not torch.allclose(model(**batch, candidate_ids=ids).top_scores, expected.top_scores)
        found = model.score_candidates(cache, ids, votes)
        assert torch.equal(found.top_labels, expected.top_labels)
        torch.testing.assert_close(found.top_scores, expected.top_scores, rtol=0, atol=1e-5)


def test_texts_that_see_labels_cannot_be_read_once():
    model = candidate_model()
    with pytest.raises(ValueError, match="joint_attention='full' .* Train with joint_attention='one_way'"):
        model.cache_documents(torch.tensor(BATCH[:1]))
    backbone = AutoConfig.for_model("distilbert", dim=16, n_layers=2, n_heads=2, hidden_dim=24, vocab_size=40)
    model = candidate_model(joint_attention="one_way", backbone_config=backbone)
    with pytest.raises(ValueError, match="DistilBertModel cannot keep what its layers know of a text"):
        model.cache_documents(torch.tensor(BATCH[:1]))

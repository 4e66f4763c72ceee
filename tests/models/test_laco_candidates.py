"""LACO's candidates: training sets, loss and best labels, and texts that are read once."""

import pytest
import torch
from transformers import AutoConfig

from hf_xmtc.models.label_candidates import best_candidates, candidate_loss
from hf_xmtc.models.laco_candidates import LabelTerm, log_scores, places_among, training_candidates
from models.families import make_batch
from models.tiny_laco import BACKBONE, BATCH, build, candidate_model

DRAWS = 4_000
NUMBERS = torch.randint(2**62, (DRAWS, 16), generator=torch.Generator().manual_seed(0))
COUNTS = torch.arange(1, 41)  # 40 labels, the last ones the most frequent
GENERATED = torch.tensor([[30, 12, 5, 7, 1, 20, 33, 8, 2, 17]])  # best first


def drawn(positives: list[int], rate: float, num_random: int = 3, generated: torch.Tensor = GENERATED) -> torch.Tensor:
    rows = torch.tensor([positives]).expand(DRAWS, -1)
    return training_candidates(generated.expand(DRAWS, -1), rows, NUMBERS, rate, num_random, COUNTS)


def contains(candidates: torch.Tensor, label: int) -> torch.Tensor:
    return (candidates == label).any(dim=1)


def test_training_sets_hold_every_positive_and_nothing_twice():
    found = drawn([12, 17, 25, 39], rate=1.0)
    assert found.shape == (DRAWS, 10) and (found >= 0).all()
    for label in (12, 17, 25, 39):  # the generator's second and last, and two that it has missed
        assert contains(found, label).all()
    ordered = found.sort(dim=1).values
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    # The generator's last negative makes room first, its best one stays.
    assert contains(found, 30).all() and contains(found, 2).float().mean() < 0.05
    assert torch.equal(found, ordered)  # where a label stands tells nothing of where it comes from


def test_missing_positives_are_put_in_as_often_as_they_are_to_be():
    found = drawn([12, 25], rate=0.3)
    assert contains(found, 25).float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert not contains(drawn([12, 25], rate=0.0), 25).any()


def test_random_labels_are_as_frequent_as_in_training_and_never_positives():
    found = drawn([25, 39], rate=0.0, num_random=1)
    others = torch.tensor([label for label in range(40) if label not in GENERATED[0].tolist()])
    counts = torch.stack([contains(found, int(label)).float().mean() for label in others])
    assert counts[(others == 25) | (others == 39)].sum() == 0
    kept = (others != 25) & (others != 39)
    # Labels that cannot be taken are drawn again.
    expected = COUNTS[others[kept]] / COUNTS[others[kept]].sum()
    assert (counts[kept] - expected).abs().max() < 0.012


def test_rare_labels_are_drawn_among_more_positives_than_a_float32_can_count():
    counts = torch.tensor([2**31, 1, 2**31, 1, 2**31])
    edges = torch.tensor([0, 2**31 - 1, 2**31, 2**31 + 1, int(counts.sum()) - 1])
    nothing, numbers = torch.full((5, 1), -100), edges[:, None].repeat(1, 5)
    found = training_candidates(nothing, nothing, numbers, 0.0, 1, counts)
    assert found.flatten().tolist() == [0, 0, 1, 2, 4]


def test_draws_do_not_depend_on_padding_or_neighbours_and_short_lists_are_padded():
    short = torch.tensor([[30, 12, -100, -100]])
    positives = torch.tensor([[25, -100]])
    alone = training_candidates(short, positives, NUMBERS[:1, :6], 1.0, 1, COUNTS)
    wider = torch.cat([positives, torch.full((1, 3), -100)], dim=1).flip(1)
    both = training_candidates(
        torch.cat([short, GENERATED[:, :4]]), torch.cat([wider, wider]), NUMBERS[:2, :9], 1.0, 1, COUNTS
    )
    assert torch.equal(both[0], alone[0])
    assert {30, 12, 25} <= set(alone[0].tolist())


def test_the_best_candidates_are_sorted_and_equal_ones_go_to_the_lower_id():
    ids = torch.tensor([[9, 4, -100, 7], [3, -100, -100, -100]])
    values = torch.tensor([[0.5, 0.8, 0.9, 0.5], [0.1, 0.9, 0.9, 0.9]])
    scores, found = best_candidates(values.log(), ids, 3)
    assert found.tolist() == [[4, 7, 9], [3, -100, -100]]
    torch.testing.assert_close(scores, torch.tensor([[0.8, 0.5, 0.5], [0.1, 0.0, 0.0]]))
    assert best_candidates(values.log(), ids, 9)[1].shape == (2, 4)
    with pytest.raises(ValueError, match="top_k=0, but it must be at least 1"):
        best_candidates(values.log(), ids, 0)


def test_votes_count_by_their_share_in_a_geometric_mean():
    logits, votes = torch.tensor([[-40.0, 0.0, 3.0], [1.0, 2.0, -1.0]]), torch.tensor([[1.0, 0.5, 0.0], [1e-6, 1e-7, 0.0]])
    torch.testing.assert_close(log_scores(logits).exp(), logits.sigmoid())
    assert torch.equal(log_scores(logits, votes, 0.0), log_scores(logits))
    assert torch.equal(log_scores(logits, None, 0.5), log_scores(logits))  # votes that are not known
    mixed = log_scores(logits, votes, 0.25).exp()
    expected = logits.sigmoid() ** 0.75 * torch.tensor([1.0, 0.5, 0.0]) ** 0.25
    torch.testing.assert_close(mixed[0, :2], expected[0, :2])
    assert mixed[0, 2] < 1e-9  # nobody voted for it
    assert mixed[1].max() < 0.05  # nobody voted at all: what the model alone believes is no match
    torch.testing.assert_close(log_scores(logits, votes, 1.0).exp()[0], torch.tensor([1.0, 0.5, 0.0]), atol=1e-9, rtol=0)
    half = log_scores(logits.half(), votes.half(), 1.0)
    assert (log_scores(torch.zeros(1, 3, dtype=torch.half), torch.tensor([[1e-6, 4e-7, 1e-7]]), 0.5).diff() < 0).all()
    assert half.dtype == torch.float32
    order = torch.tensor([[-80.0, -79.5, 20.0, 20.5]])
    assert (log_scores(order).diff() > 0).all()  # logits of nearly 0 and 1 keep their order


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
            inner = term.of_label(states[document, label]) + term.of_document.weight @ features[document]
            torch.testing.assert_close(found[document, label], (term.output.weight @ inner.tanh())[0])


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
    output = model(**batch, candidate_ids=ids, labels=torch.tensor([[3, 7, 12], [9, 44, -100]]), top_k=0)
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
        ({"label_term": True}, "label_term=True, but it scores candidates and num_candidates=0"),
        ({"retrieval_weight": 0.5}, "retrieval_weight=0.5, but it scores candidates and num_candidates=0"),
        ({"num_candidates": 4, "retrieval_weight": 1.5}, "retrieval_weight=1.5, but a weight is from 0 to 1"),
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
    model = candidate_model(joint_attention="one_way", backbone_config=backbone, retrieval_weight=0.3)
    model.set_attn_implementation(attn_implementation)
    batch = make_batch(model, BATCH, left=True)
    cache = model.cache_documents(batch["input_ids"], batch["attention_mask"])
    for ids in (torch.tensor([[3, 40, 7, 12], [9, 1, 30, -100]]), torch.tensor([[8, 2], [5, 6]])):
        votes = torch.arange(ids.numel()).view(ids.shape)
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

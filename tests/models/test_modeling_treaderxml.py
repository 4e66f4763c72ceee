"""TReaderXML: the attention layers, what sees what, the forms of the teacher, and the rows of Table 3."""

import pytest
import torch

from hf_xmtc import TReaderXMLConfig, TReaderXMLForXMTC
from hf_xmtc.models.reading_layers import Reading, Sequence, TanhSelfAttention, TeacherEmbedding
from hf_xmtc.models.stored_documents import Assignments
from hf_xmtc.models.teacher_knowledge import Teacher
from models.families import LONG, SHORT, VARIANTS, make_batch

TINY = {"vocab_size": 40, "embedding_size": 12, "bottleneck_size": 10, "num_labels": 5, "embedding_initializer_range": 1.0}
ROWS = {
    0: {"use_teacher": False, "reading": "none"},
    1: {"reading": "none"},
    2: {"reading": "mmhsa_r"},
    3: {"reading": "mhsa_r"},
    4: {"reading": "mhsa_r_mmhsa"},
    5: {"reading": "mmhsa_mhsa"},
    6: {"reading": "mmhsa_r_mhsa"},
}
TEACHER = Teacher(
    torch.tensor([[3, 0, 5], [1, -100, -100]]),
    torch.tensor([[1.5, 0.5, 0.5], [1.0, 0.0, 0.0]]),
    torch.tensor([[False, False, True], [False, False, False]]),
)
EMPTY = Teacher(torch.tensor([[-100]]), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool))


def build(**settings) -> TReaderXMLForXMTC:
    torch.manual_seed(0)
    model = TReaderXMLForXMTC(TReaderXMLConfig(**{**TINY, **settings})).eval()
    if model.teacher is not None:
        model.store_descriptions([[6, 7], [8], [9, 10, 11], [12, 13], [14], [15, 16]])
        model.teacher.node_names = torch.zeros(6, dtype=torch.int64)
        torch.nn.init.normal_(model.teacher_embedding.no_teacher)
        if settings.get("teacher_form") != "position_mean":
            torch.nn.init.normal_(model.teacher_embedding.level.weight)
            torch.nn.init.normal_(model.teacher_embedding.weight)
    return model


def one_by_one(**settings) -> TReaderXMLConfig:
    return TReaderXMLConfig(**{**TINY, "embedding_size": 1, "num_attention_heads": 1, **settings})


@torch.no_grad()
@pytest.mark.parametrize(
    ("reading", "expected"),
    [("mmhsa_r", [1.761594, 2.954563]), ("mhsa_r", [1 + 0.939181, 2 + 0.954563])],
)
def test_a_layer_of_width_one_gives_the_numbers_computed_by_hand(reading, expected):
    layer = Reading(one_by_one(reading=reading)).eval()
    for parameter in layer.parameters():
        parameter.fill_(1.0)
    states = layer(Sequence(torch.tensor([[[1.0], [2.0]]]), torch.ones(1, 2, dtype=torch.bool))).states
    assert states.flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_the_loss_is_that_of_the_papers_formula_over_raw_scores():
    head = build().label_head
    scores, labels = torch.tensor([[2.0, -1, 0, -50, -50]]), torch.tensor([[0, 2]])
    total = head.loss_from_logits(scores, labels, "sum_labels")
    assert total.item() == pytest.approx(1.133337, abs=1e-5)
    multi_hot = torch.tensor([[1.0, 0, 1, 0, 0]])
    expected = torch.nn.MultiLabelSoftMarginLoss()(scores, multi_hot)
    torch.testing.assert_close(head.loss_from_logits(scores, labels), expected)


@torch.no_grad()
def test_the_loss_is_not_that_of_scores_after_softmax():
    # The same scores, as the output layer's bias; after softmax the mean would be 0.569926.
    model, labels = build(num_labels=3), torch.tensor([[0, 2]])
    model.label_head.output.weight.zero_()
    model.label_head.output.bias.copy_(torch.tensor([2.0, -1, 0]))
    output = model(**make_batch(model, [SHORT]), labels=labels)
    assert output.loss.item() == pytest.approx(0.377779, abs=1e-5)
    after_softmax = model.label_head.loss_from_logits(output.logits.softmax(dim=1), labels)
    assert after_softmax.item() == pytest.approx(0.569926, abs=1e-5)


@torch.no_grad()
def test_the_text_sees_the_teacher_and_earlier_words_and_the_teacher_no_text():
    model = build(reading="mmhsa_r")
    text, other = torch.randn(1, 4, 12), torch.randn(1, 3, 12)

    def states(text, teacher):
        sequences = [
            Sequence(part, torch.ones(part.shape[:2], dtype=torch.bool), n) for part, n in ((teacher, 3), (text, 0))
        ]
        read = Sequence.joined(*sequences)
        return model.interaction(read.states, read.visible(masked=True))

    before, changed = states(text, other), text.clone()
    changed[0, 2] += 1
    after = states(changed, other)
    assert torch.equal(after[:, :5], before[:, :5]) and not torch.allclose(after[:, 5:], before[:, 5:])
    assert not torch.allclose(states(text, other + 1)[:, 3:], before[:, 3:])
    assert before.abs().max() < 1


@torch.no_grad()
def test_padding_between_teacher_and_text_changes_nothing():
    model, batch = build(), make_batch(build(), [SHORT, LONG])
    wider = Teacher(
        *(torch.nn.functional.pad(part, (0, 4), value=fill) for part, fill in zip(TEACHER, (-100, 0, 0), strict=True))
    )
    features, _ = model.encode(**batch, teacher=TEACHER)
    torch.testing.assert_close(model.encode(**batch, teacher=wider)[0], features, rtol=0, atol=1e-6)
    alone, _ = model.encode(**make_batch(model, [LONG]), teacher=Teacher(*(part[1:, :1] for part in TEACHER)))
    torch.testing.assert_close(alone[0], features[1], rtol=0, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("form", ["label_tokens", "position_mean"])
def test_the_order_of_a_teachers_nodes_does_not_matter(form):
    model, batch = build(teacher_form=form), make_batch(build(), [SHORT, LONG])
    features, _ = model.encode(**batch, teacher=TEACHER)
    turned = Teacher(*(part.flip(1) for part in TEACHER))
    torch.testing.assert_close(model.encode(**batch, teacher=turned)[0], features, rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_text_of_one_word_without_neighbours_is_read_with_the_learned_vector():
    model = build()
    sequence = model.teacher_embedding(EMPTY, model.embed)
    assert torch.equal(sequence.states[0, 0], model.teacher_embedding.no_teacher) and sequence.read.all()
    assert model.encode(**make_batch(model, [[7]]), teacher=EMPTY)[0].isfinite().all()


@torch.no_grad()
def test_vectors_of_a_teacher_are_means_of_words():
    words = (model := build()).get_input_embeddings().weight
    tokens = model.teacher_embedding
    expected = words[[12, 13]].mean(dim=0) + tokens.level.weight[0] + torch.tensor(2.5).log() * tokens.weight
    torch.testing.assert_close(tokens(TEACHER, model.embed).states[0, 0], expected)
    model = build(teacher_form="position_mean", description_length=2)
    words, found = model.get_input_embeddings().weight, model.teacher_embedding(TEACHER, model.embed)
    torch.testing.assert_close(found.states[0], torch.stack([words[[12, 6, 15]].mean(0), words[[13, 7, 16]].mean(0)]))
    assert found.read.tolist() == [[True, True], [True, False]]


@torch.no_grad()
def test_a_teacher_by_word_positions_has_the_numbers_computed_by_hand():
    words = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [2.0, 0.0], [2.0, 1.0], [1.0, 2.0]])
    sizes = {"embedding_size": 2, "num_attention_heads": 1, "num_labels": 4, "description_length": 2}
    tokens = TeacherEmbedding(TReaderXMLConfig(teacher_form="position_mean", **sizes), word_size=2)
    tokens.store([[0, 1], [2, 3], [], [4, 5]])  # descriptions of labels 0, 1 and 3
    teacher = Teacher(torch.tensor([[0, 1, 3]]), torch.ones(1, 3), torch.tensor([[True, False, False]]))
    states = tokens(teacher, lambda ids, mask: words[ids] * mask[..., None]).states
    assert states.tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


@pytest.mark.parametrize(("row", "layers"), [(0, 1), (1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5)])
def test_rows_of_table_3_have_their_number_of_attention_weights_none_of_them_shared(row, layers):
    attentions = [module for module in build(**ROWS[row]).modules() if isinstance(module, TanhSelfAttention)]
    weights = {weight.data_ptr(): weight.numel() for module in attentions for weight in module.parameters()}
    assert sum(weights.values()) == layers * 4 * 12**2


@torch.no_grad()
def test_flattened_positions_count_padding_as_zero():
    model = build(pooling="flatten", padded_length=20, teacher_form="position_mean")
    text = Sequence(torch.randn(1, 3, 12), torch.tensor([[True, True, False]]))
    pooled, of_text = model.read(text, model.teacher_embedding(Teacher(*(part[:1] for part in TEACHER)), model.embed))
    assert pooled.shape == (1, (4 + 20) * 12)
    assert torch.equal(pooled[0, 4 * 12 : 6 * 12], of_text[0, :2].flatten()) and not pooled[0, 6 * 12 :].any()
    with pytest.raises(ValueError, match="has 21 tokens but the model takes 20"):
        model(torch.full((1, 21), 7))


def test_attention_layers_have_a_rate_of_their_own():
    groups = build(attention_rate=0.1).parameter_groups(0.5)
    rates = {weight: group["lr"] for group in groups for weight in group["params"]}
    model = build(attention_rate=0.1)
    assert sum(len(group["params"]) for group in groups) == len([p for p in model.parameters() if p.requires_grad])
    assert sorted({*rates.values()}) == [0.05, 0.5] and list(rates.values()).count(0.05) == 5 * 4


@torch.no_grad()
def test_a_later_word_changes_no_earlier_one_in_the_first_layer_of_its_branch():
    model, read = build(), torch.ones(1, 5, dtype=torch.bool)
    text = torch.randn(1, 5, 12)
    changed = text.clone()
    changed[0, 3] += 1
    layer, visible = model.text_reading.layers[0], Sequence(text, read).visible(masked=True)
    before, after = layer(text, visible), layer(changed, visible)
    assert torch.equal(after[:, :3], before[:, :3]) and not torch.allclose(after[:, 3:], before[:, 3:])


@torch.no_grad()
@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_a_mean_of_what_is_visible(masked):
    # With the same value at every position a mean gives this value again, whatever the weights; with any sum other than 1 it would not.
    layer, read = build().interaction, torch.tensor([[True, True, False, True], [True, False, False, False]])
    states = torch.randn(2, 4, 12)
    layer.value.weight.zero_()
    layer.value.weight[:, 0] = 1.0  # each value is the first number of its state
    layer.merge.weight.copy_(torch.eye(12))
    states[:, :, 0] = torch.where(read, 0.3, 99.0)  # padding has another one, which must not be seen
    visible = Sequence(states, read).visible(masked)
    torch.testing.assert_close(layer(states, visible), torch.full((2, 4, 12), 0.3).tanh())


@torch.no_grad()
def test_right_padding_changes_no_score():
    model = VARIANTS["treaderxml-plain"][0].build()
    batch = make_batch(model, [SHORT])
    wider = {"input_ids": torch.nn.functional.pad(batch["input_ids"], (0, 5))}
    torch.testing.assert_close(model(**wider).logits, model(**batch).logits, rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_models_ranking_is_that_of_softmax_over_its_raw_scores():
    model = VARIANTS["treaderxml-plain"][0].build()
    batch = make_batch(model, [SHORT, LONG, [7, 8]])
    logits, best = model(**batch).logits, model(**batch, top_k=5)
    assert best.top_labels.tolist() == logits.softmax(dim=1).argsort(dim=1, descending=True).tolist()
    torch.testing.assert_close(best.top_scores, logits.gather(1, best.top_labels).sigmoid())
    assert (logits < 0).any() and len({*map(tuple, best.top_labels.tolist())}) > 1  # no probabilities, no fixed order


@torch.no_grad()
@pytest.mark.parametrize("retrieval", ["tf_idf", "words", "encoder"])
def test_texts_are_found_and_scored_alike_after_opening_again(retrieval, tmp_path):
    name = "treaderxml-on-bert-plain" if retrieval == "encoder" else "treaderxml-plain"
    model = VARIANTS[name][0].build(retrieval=retrieval)
    if retrieval == "words":
        model.teacher.take_word_vectors(model.get_input_embeddings().weight, [0])
    texts = torch.randint(5, 30, (8, 6))
    labels, parents = (Assignments.of(rows, 9) for rows in ([[row % 5] for row in range(8)], [[] for _ in range(5)]))
    model.teacher.store(model.teacher.vectors_of(texts), labels, parents, torch.arange(8))
    model.store_descriptions([[6, 7]] * 5)
    found = model.teacher.neighbors(model.teacher.vectors_of(texts))
    assert found.rows[:, 0].tolist() == list(range(8)) and torch.allclose(found.similarities[:, 0], torch.ones(8), atol=1e-5)
    model.save_pretrained(tmp_path)
    again = TReaderXMLForXMTC.from_pretrained(tmp_path).eval()
    best, expected = again(texts, top_k=5), model(texts, top_k=5)
    assert torch.equal(best.top_labels, expected.top_labels) and torch.equal(best.top_scores, expected.top_scores)
    assert torch.equal(again.teacher_of(texts).weights, model.teacher_of(texts).weights)
    assert (
        model(texts, neighbor_ids=found.rows[:, 1:], neighbor_similarities=found.similarities[:, 1:]).logits
        != model(texts).logits
    ).any()


@pytest.mark.parametrize("retrieval", ["tf_idf", "words", "encoder"])
def test_a_pretrained_encoder_becomes_the_text_branch(retrieval, tmp_path):
    backbone = VARIANTS["treaderxml-on-bert-plain"][0].build().backbone
    backbone.save_pretrained(tmp_path)
    model = TReaderXMLForXMTC.from_backbone(str(tmp_path), num_labels=5, num_attention_heads=2, retrieval=retrieval)
    first = next(iter(backbone.parameters()))
    assert torch.equal(next(iter(model.backbone.parameters())), first) and model.config.state_size == 16
    if retrieval == "words":
        model.teacher.take_word_vectors(model.get_input_embeddings().weight, [0])
    assert model(torch.tensor([[6, 7, 8]])).logits.isfinite().all()


def test_two_documents_are_learnt_almost_by_heart():
    model = build()
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 2], [1, -100]])
    optimizer = torch.optim.Adam(model.parameter_groups(0.01))
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_what_finds_neighbours_stays_frozen_in_an_opened_model(tmp_path):
    build().save_pretrained(tmp_path)
    teacher = TReaderXMLForXMTC.from_pretrained(tmp_path).teacher
    assert [name for name, parameter in teacher.named_parameters() if parameter.requires_grad] == []


# ---- the label space ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_labels_that_stay_keep_their_scores_when_others_go():
    model = VARIANTS["treaderxml-plain"][0].build(label_names=list("edcba"))
    batch = make_batch(model, [SHORT, LONG])
    before = model(**batch).logits
    model.resize_labels(["a", "e"])
    torch.testing.assert_close(model(**batch).logits, before[:, [4, 0]], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_model_opened_with_other_labels_knows_none_of_the_old_ones(tmp_path):
    VARIANTS["treaderxml-plain"][0].build(label_names=list("edcba")).save_pretrained(tmp_path)
    for num_labels in (3, 9):
        model = TReaderXMLForXMTC.from_pretrained(tmp_path, num_labels=num_labels, ignore_mismatched_sizes=True).eval()
        batch = make_batch(model, [SHORT, LONG])
        assert model.teacher.neighbors(model.teacher.vectors_of(batch["input_ids"])).rows.max() >= 0  # its texts
        assert (model.teacher_of(**batch).node_ids < 0).all() and model.config.num_nodes == num_labels
        assert model(**batch).logits.isfinite().all() and (model.teacher_embedding.descriptions < 0).all()
        model.save_pretrained(tmp_path / "again")
        TReaderXMLForXMTC.from_pretrained(tmp_path / "again")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"retrieval": "encoder"}, "retrieval='encoder' needs a pretrained encoder"),
        ({"reading": "r"}, "reading='r' is not one of none, mmhsa_r"),
        ({"num_attention_heads": 5}, "width 12 do not divide into num_attention_heads=5"),
        ({"pooling": "flatten"}, "pooling='flatten' and padded_length=None"),
        ({"description_length": 0}, "description_length=0, but a size is at least 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TReaderXMLConfig(**{**TINY, **settings})

"""LACO beside its properties: what is refused, what happens at the borders, and what labels of a text say of each other."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, BertConfig

from hf_xmtc import LabelNames, LACOConfig, LACOForXMTC, XMTCPipeline, train_word_tokenizer
from hf_xmtc.models.label_losses import mark_positives
from hf_xmtc.models.laco_cooccurrence import RANDOM_NUMBERS, ConditionalHead, PairHead, clcp_loss
from hf_xmtc.models.modeling_xmtc import XMTCOutput
from models.families import make_batch
from models.tiny_laco import BACKBONE, BATCH, build, candidate_model


def test_a_label_at_the_threshold_is_not_in_the_set():
    model = build()
    output = XMTCOutput(top_scores=torch.tensor([[0.5000001, 0.5, 0.4]]), top_labels=torch.tensor([[2, 0, 1]]))
    assert model.in_predicted_set(output).tolist() == [[True, False, False]]
    model.set_thresholds(torch.tensor([0.5, 0.3, 0.6, 0.5, 0.5, 0.5]))
    assert model.in_predicted_set(output).tolist() == [[False, False, True]]
    padded = XMTCOutput(top_scores=torch.tensor([[0.9, 0.0]]), top_labels=torch.tensor([[5, -100]]))
    assert model.in_predicted_set(padded).tolist() == [[True, False]]


def test_clcp_averages_the_given_labels_before_it_transforms_them():
    torch.manual_seed(0)
    head, labels = ConditionalHead(4), torch.randn(1, 5, 4)
    found = head(labels, torch.tensor([[False, True, False, True, False]]))
    for label in range(5):
        both = torch.cat([head.remaining(labels[0, label]), head.given((labels[0, 1] + labels[0, 3]) / 2)])
        torch.testing.assert_close(found[0, label], head.output(both)[0])


@pytest.mark.parametrize("part", ["features", "pairs"])
def test_dropout_acts_in_training_alone(part):
    if part == "pairs":
        module, inputs = PairHead(4, dropout=0.5).eval(), (torch.randn(1, 3, 4), torch.tensor([[[0, 1]]]))
    else:
        model = build(classifier_dropout=0.5)
        batch = make_batch(model, BATCH)
        module, inputs = model, (batch["input_ids"], batch["attention_mask"])
    results = [module(*inputs) for _ in range(2)]
    first, second = (result if part == "pairs" else result.logits for result in results)
    assert torch.equal(first, second)
    module.train()
    results = [module(*inputs) for _ in range(2)]
    first, second = (result if part == "pairs" else result.logits for result in results)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_thresholds_keep_their_digits_in_half_precision(tmp_path, dtype):
    model, thresholds = build(), torch.tensor([0.4567, 0.1234, 0.5, 0.9, 0.3333, 0.77])
    model.set_thresholds(thresholds)
    model.save_pretrained(tmp_path)
    opened = LACOForXMTC.from_pretrained(tmp_path, dtype=dtype)
    assert opened.label_head.output.weight.dtype == dtype and torch.equal(opened.label_thresholds, thresholds)


# ---- candidates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["plcp", "clcp"])
def test_nothing_is_asked_about_padding_among_candidates(task):
    model = build(num_labels=50, num_candidates=6, auxiliary_task=task).train()
    batch, numbers = make_batch(model, BATCH), torch.randint(2**62, (2, RANDOM_NUMBERS))
    ids, labels = torch.tensor([[3, 40, 7, 12], [9, 1, 30, 44]]), torch.tensor([[3, 7, 12], [9, 44, -100]])
    padding = torch.full((2, 2), -100)
    expected = model(**batch, candidate_ids=ids, labels=labels, random_numbers=numbers, top_k=0).loss
    for padded in (torch.cat([ids, padding], dim=1), torch.cat([padding, ids], dim=1)):
        found = model(**batch, candidate_ids=padded, labels=labels, random_numbers=numbers, top_k=0).loss
        torch.testing.assert_close(found, expected)
    logits, given = torch.randn(1, 3), torch.tensor([[True, False, False]])
    real = torch.tensor([[True, True, False]])
    with_padding = clcp_loss(logits, mark_positives(torch.tensor([[0, 1]]), 3), given, is_label=real)
    torch.testing.assert_close(with_padding, clcp_loss(logits[:, :2], torch.tensor([[True, True]]), given[:, :2]))


@torch.no_grad()
def test_candidates_of_a_model_without_joint_embedding_are_rows_of_its_table():
    model = build(joint_embedding=False)
    batch = make_batch(model, BATCH)
    expected = model(**batch, top_k=6)
    found = model(**batch, candidate_ids=torch.arange(6).expand(2, -1))
    assert torch.equal(found.top_labels, expected.top_labels)
    torch.testing.assert_close(found.top_scores, expected.top_scores)
    assert model(**batch, candidate_ids=torch.tensor([[3, 1], [5, 0]])).top_labels.shape == (2, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cornet_num_blocks": 1, "cornet_context_size": 4}, "with cornet_num_blocks=1, which looks at all labels"),
        ({"label_loss": "asymmetric"}, "with label_loss='asymmetric', which looks at all labels"),
    ],
)
def test_candidates_are_refused_where_all_labels_count(settings, message):
    model = build(**settings)
    with pytest.raises(ValueError, match=message):
        model(**make_batch(model, BATCH), candidate_ids=torch.tensor([[3, 1], [5, 0]]))


def test_the_pipeline_takes_no_part_of_labels_that_are_read_in_a_row():
    tokenizer = train_word_tokenizer(["a cat", "a dog"], min_document_frequency=1, max_length=16, num_cls_tokens=1)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    for settings in ({"label_positions": "sequential"}, {"cross_attention_kernel": (3, 2)}):
        model = LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, label_names=list("abc"), backbone_config=sizes, **settings))
        with pytest.raises(ValueError, match="trained with all labels in a row"):
            XMTCPipeline(model=model, tokenizer=tokenizer)("a cat", candidates=["a", "b"])


def test_a_label_by_its_name_for_readers_is_said_to_be_one():
    tokenizer = train_word_tokenizer(["a cat", "a dog"], min_document_frequency=1, max_length=16, num_cls_tokens=1)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    names = LabelNames(["1021591971", "4226127-2"], names=["Plug-in-Hybrid", "Neuronales Netz"])
    model = LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, label_names=names, backbone_config=sizes))
    with pytest.raises(ValueError, match="no label 'Plug-in-Hybrid' among its 2. It is the name of '1021591971'"):
        XMTCPipeline(model=model, tokenizer=tokenizer)("a cat", candidates=["Plug-in-Hybrid"])


def test_a_candidate_given_twice_is_refused():
    model = build()
    with pytest.raises(ValueError, match="hold label id 3 twice"):
        model(**make_batch(model, BATCH), candidate_ids=torch.tensor([[3, 1, 3], [5, 0, 2]]))


@torch.no_grad()
def test_what_a_model_of_candidates_says_about_labels_is_asked_with_candidates():
    model = candidate_model(auxiliary_task="both")
    batch = make_batch(model, BATCH)
    inputs, ids = (batch["input_ids"], batch["attention_mask"]), torch.tensor([[3, 40, 7, 12], [9, 1, 30, 44]])
    states = model.read_jointly(*inputs, candidate_ids=ids).labels
    pairs = model.pair_probabilities(*inputs, torch.tensor([[[40, 12]], [[9, 44]]]), ids)
    expected = model.pair_head(states, torch.tensor([[[1, 3]], [[0, 3]]]))
    torch.testing.assert_close(pairs, expected.sigmoid())
    known = model.conditional_probabilities(*inputs, torch.tensor([[7], [30]]), ids)
    given = torch.tensor([[False, False, True, False], [False, False, True, False]])
    torch.testing.assert_close(known, model.conditional_head(states, given).sigmoid())
    weights = model.token_weights(*inputs, torch.tensor([[7], [30]]), ids)
    assert weights.shape == (2, 1, batch["input_ids"].shape[1]) and (weights != 0).any()
    for ask in (
        lambda: model.pair_probabilities(*inputs, torch.tensor([[[40, 12]], [[9, 44]]])),
        lambda: model.conditional_probabilities(*inputs, torch.tensor([[7], [30]])),
        lambda: model.token_weights(*inputs, torch.tensor([[7], [30]])),
    ):
        with pytest.raises(ValueError, match="num_candidates=6.*and none were given"):
            ask()
    with pytest.raises(ValueError, match="Label id 5 is asked about and not among the candidates"):
        model.conditional_probabilities(*inputs, torch.tensor([[5], [30]]), ids)


@torch.no_grad()
def test_questions_take_what_a_tokenizer_gives_and_refuse_lists():
    model = build(num_labels=50, num_candidates=4, auxiliary_task="both", joint_attention="one_way")
    batch = make_batch(model, BATCH)
    given = {**batch, "token_type_ids": torch.zeros_like(batch["input_ids"])}
    ids, pairs = torch.tensor([[3, 40, 7, 12], [9, 1, 30, 44]]), torch.tensor([[[40, 12]], [[9, 44]]])
    for ask in (
        lambda inputs: model.pair_probabilities(**inputs, pairs=pairs, candidate_ids=ids),
        lambda inputs: model.conditional_probabilities(**inputs, given=ids[:, :1], candidate_ids=ids),
        lambda inputs: model.score_candidates(model.cache_documents(**inputs), ids).top_scores,
    ):
        assert torch.equal(ask(given), ask(batch))
        with pytest.raises(ValueError, match="token_type_ids go up to 1"):
            ask({**given, "token_type_ids": torch.ones_like(batch["input_ids"])})
    with pytest.raises(TypeError, match="candidate_ids is a list, but it must be a tensor of label ids"):
        model.score_candidates(model.cache_documents(**given), [[0, 1, 2]])
    with pytest.raises(TypeError, match="pairs is a list, but it must be a tensor"):
        model.pair_probabilities(**given, pairs=[["a", "b"]], candidate_ids=ids)
    with pytest.raises(TypeError, match="given is a list, but it must be a tensor"):
        model.conditional_probabilities(**given, given=[[3]], candidate_ids=ids)


def test_questions_about_no_label_or_none_that_there_is_are_refused():
    model = build(auxiliary_task="both")
    batch = make_batch(model, BATCH)
    inputs = (batch["input_ids"], batch["attention_mask"])
    with pytest.raises(ValueError, match="pairs holds label id -1"):
        model.pair_probabilities(*inputs, torch.tensor([[[0, -1]], [[0, 1]]]))
    with pytest.raises(ValueError, match="given holds label id 6"):
        model.conditional_probabilities(*inputs, torch.tensor([[6], [0]]))
    with pytest.raises(ValueError, match="A document has no known label"):
        model.conditional_probabilities(*inputs, torch.tensor([[-100], [0]]))


# ---- labels and encoders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["plcp", "clcp", "both"])
def test_a_model_of_one_label_trains_with_every_task(task):  # AC-32
    model = build(num_labels=1, auxiliary_task=task).train()
    loss = model(**make_batch(model, BATCH), labels=torch.tensor([[0], [-100]])).loss
    loss.backward()
    assert loss.isfinite() and all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("task", ["plcp", "clcp", "both"])
def test_documents_without_labels_add_nothing_to_the_tasks(task):  # AC-19
    model = build(auxiliary_task=task).train()
    batch = make_batch(model, BATCH)
    nothing = torch.full((2, 1), -100)
    plain = build(auxiliary_task="none").train()
    plain.load_state_dict(model.state_dict(), strict=False)
    found = model(**batch, labels=nothing).loss
    torch.testing.assert_close(found, plain(**batch, labels=nothing).loss)


def test_more_labels_than_positions_are_refused_when_labels_change():  # AC-06
    model = build(num_labels=None, label_names=list("abcdef"), label_positions="sequential")
    with pytest.raises(ValueError, match=r"need 63 positions .* num_labels=60, but the backbone has 40"):
        model.resize_labels(60)
    assert model.config.num_labels == 6 and model(**make_batch(model, BATCH)).logits.shape == (2, 6)
    build(num_labels=6).resize_labels(60)  # at one position there is room for any number


def test_new_labels_have_the_spread_of_a_new_model():
    model = build(backbone_config=BertConfig(**{**BACKBONE, "initializer_range": 0.02}))
    nn.init.ones_(model.label_head.output.bias)
    model.resize_labels(400)
    weight, bias = model.label_head.output.weight[6:], model.label_head.output.bias
    assert weight.std().item() == pytest.approx(0.02, rel=0.1) and (bias[6:] == -10).all() and (bias[:6] == 1).all()
    assert model.label_embedding.weight[6:].std().item() == pytest.approx(0.02, rel=0.1)


def test_the_bert_baseline_starts_from_the_pooler_of_albert_too(tmp_path):
    tokenizer = train_word_tokenizer(["a cat", "a dog"], min_document_frequency=1, max_length=16, num_cls_tokens=1)
    sizes = {"hidden_size": 8, "embedding_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    config = AutoConfig.for_model("albert", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)
    encoder = AutoModel.from_config(config)
    encoder.save_pretrained(tmp_path)
    model = LACOForXMTC.from_backbone(
        str(tmp_path), tokenizer=tokenizer, num_labels=3, joint_embedding=False, cross_attention=False
    )
    assert torch.equal(model.pooler.weight, encoder.pooler.weight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cross_attention_channels": 0}, "cross_attention_channels=0 at least 1"),
        ({"plcp_weight": -3.0}, "plcp_weight=-3.0 and clcp_weight=10.0 must be at least 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_a_whole_config_of_an_encoder_is_not_taken_for_a_few_fields():
    tokenizer = train_word_tokenizer(["a cat", "a dog"], min_document_frequency=1, max_length=16, num_cls_tokens=1)
    with pytest.raises(ValueError, match="backbone_config is a BertConfig. Give for_tokenizer a dict"):
        LACOConfig.for_tokenizer(tokenizer, num_labels=3, backbone_config=BertConfig(**BACKBONE))

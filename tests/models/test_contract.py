"""What every model family promises, checked for all of them."""

import inspect

import pytest
import torch

from hf_xmtc.models.mixed_precision import in_autocast_type
from models.families import (
    LONG,
    NUM_LABELS,
    SHORT,
    assert_same,
    for_families,
    make_batch,
    models_with_loss,
    overwrite_parameters,
)

EMPTY: list[int] = []


# ---- saving and opening ----------------------------------------------------------------------------------------------------


def test_save_then_load_gives_the_same_model(model, tmp_path, warnings_logged):  # AC-01
    overwrite_parameters(model)
    batch = make_batch(model, [SHORT, LONG])
    model.save_pretrained(tmp_path)
    loaded, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    saved = model.state_dict()
    assert saved.keys() == loaded.state_dict().keys()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in loaded.state_dict().items())
    assert not loaded.training
    assert_same(loaded(**batch).logits, model(**batch).logits)
    assert not [message for message in warnings_logged() if "newly initialized" in message or "LOAD REPORT" in message]


def test_a_half_precision_checkpoint_opens_in_its_own_precision(family, tmp_path):
    model = family.build().to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert type(model).from_pretrained(tmp_path, dtype=torch.float32).dtype == torch.float32


def test_a_step_under_bfloat16_autocast_is_near_one_in_float32(model):
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 2], [1, -100]])
    expected = model(**batch, labels=labels)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(**batch, labels=labels)
        scores = model(**batch, top_k=NUM_LABELS).top_scores
    assert scores.isfinite().all()
    torch.testing.assert_close(found.loss.float(), expected.loss, rtol=0.05, atol=0.01)
    found.loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_under_autocast_what_an_lstm_reads_is_cast_and_float64_stays():
    numbers = {dtype: torch.ones(2, dtype=dtype) for dtype in (torch.float32, torch.float64)}
    assert in_autocast_type(numbers[torch.float32]).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        found = [in_autocast_type(tensor).dtype for tensor in numbers.values()]
    assert found == [torch.bfloat16, torch.float64]


# ---- documents and batches -------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_scores_do_not_depend_on_padding_or_neighbours(model):  # AC-27
    alone = model(**make_batch(model, [SHORT])).logits
    limit = model.max_input_tokens or 32
    for batch in (
        make_batch(model, [SHORT, LONG]),
        make_batch(model, [SHORT], length=limit),
        make_batch(model, [SHORT, LONG], left=True),
        make_batch(model, [SHORT], length=limit, left=True),
    ):
        logits = model(**batch).logits[:1]
        torch.testing.assert_close(logits, alone, rtol=0, atol=1e-5)
        assert model(**batch, top_k=3).top_labels[0].tolist() == alone.topk(3).indices[0].tolist()


@torch.no_grad()
def test_the_mask_is_derived_from_the_padding_where_it_is_left_out(model):
    batch = make_batch(model, [SHORT, LONG])
    assert_same(model(batch["input_ids"]).logits, model(**batch).logits)


@torch.no_grad()
def test_a_document_without_tokens_is_scored_and_leaves_its_neighbours_alone(model):  # AC-28
    alone = model(**make_batch(model, [EMPTY])).logits
    assert alone.isfinite().all()
    together = model(**make_batch(model, [SHORT, EMPTY])).logits
    torch.testing.assert_close(together[1:], alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(together[:1], model(**make_batch(model, [SHORT])).logits, rtol=0, atol=1e-5)


def test_a_training_step_on_documents_without_tokens_or_labels_is_finite(model):  # AC-28
    output = model(**make_batch(model, [SHORT, EMPTY]), labels=torch.tensor([[-100, -100], [0, 2]]))
    output.loss.backward()
    assert output.loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["sdpa", "eager"])
def test_a_row_that_is_nothing_but_padding_gives_no_nan(family, attn_implementation):
    model = family.build()
    if attn_implementation == "eager":
        model.set_attn_implementation("eager")
    batch = make_batch(model, [SHORT, LONG])
    batch["attention_mask"][0] = 0
    assert model(**batch).logits.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_is_finite(model, dtype):  # AC-29
    batch = make_batch(model, [LONG, SHORT, EMPTY])
    labels = torch.tensor([[0, 3], [1, -100], [-100, -100]])
    best = model(**batch).logits[0].argmax()
    half = model.to(dtype)(**batch, labels=labels)
    assert half.logits.dtype == dtype and half.logits.isfinite().all() and half.loss.isfinite()
    assert half.logits[0].argmax() == best
    assert model(**batch, top_k=2).top_scores.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("label_loss", ["bce", "propensity_bce", "asymmetric"])
@for_families(lambda family: not family.has_own_loss and not family.has_tree)
def test_half_precision_is_finite_with_every_label_loss_by_blocks(family, label_loss, dtype):  # AC-29
    for model in models_with_loss(family, label_loss):
        batch = make_batch(model, [LONG, SHORT, EMPTY])
        labels = torch.tensor([[0, 3], [1, -100], [-100, -100]])
        best = model(**batch, top_k=1).top_labels[0]
        model.to(dtype)
        output = model(**batch, labels=labels, top_k=2)
        assert output.loss.isfinite() and output.top_scores.isfinite().all()
        assert torch.equal(output.top_labels[0, :1], best)
        with torch.enable_grad():
            loss = model(**batch, labels=labels, top_k=0).loss
        loss.backward()
        assert loss.isfinite()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


# ---- loss and labels -------------------------------------------------------------------------------------------------------


@for_families(lambda family: not family.has_own_loss)
@pytest.mark.parametrize("num_blocks", [0, 2], ids=["plain", "cornet"])
def test_loss_is_binary_cross_entropy_for_ids_and_for_multi_hot_labels(family, num_blocks):
    model = family.build(cornet_num_blocks=num_blocks)
    batch = make_batch(model, [SHORT, LONG])
    multi_hot = torch.tensor([[1.0, 0, 0, 1, 0], [0.0, 0, 0, 0, 1]])
    output = model(**batch, labels=multi_hot)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, multi_hot)
    if not family.has_tree:
        torch.testing.assert_close(output.loss, expected)
    padded = torch.tensor([[3, -100, 0], [-100, 4, -100]])
    repeated = torch.tensor([[3, 0, 3, 3], [4, 4, -100, 4]])
    for labels in (padded, repeated, padded.int(), multi_hot.bool(), multi_hot.half(), multi_hot.double()):
        assert_same(model(**batch, labels=labels).loss, output.loss)


@for_families(lambda family: not family.has_tree)  # whose loss is that of several levels
def test_loss_reduction_sum_labels_sums_over_labels_and_averages_over_documents(family):
    batch_of = [SHORT, LONG]
    labels = torch.tensor([[0], [1]])
    mean, summed = family.build(), family.build(loss_reduction="sum_labels")
    ratio = (
        summed(**make_batch(summed, batch_of), labels=labels).loss / mean(**make_batch(mean, batch_of), labels=labels).loss
    )
    assert ratio.item() == pytest.approx(NUM_LABELS)


WRONG_LABELS = [
    (torch.tensor([[NUM_LABELS]]), "Label id 5 is outside 0 … 4"),
    (torch.tensor([[-1]]), "Label id -1 is outside 0 … 4"),
    (torch.tensor([1]), r"labels must have two dimensions.*got \(1,\)"),
    (torch.tensor([[1.0, 0.0]]), "have 2 columns but the model has num_labels=5"),
    (torch.tensor([[0.0, 0.3, 0.0, 1.0, 0.0]]), "hold the value 0.3"),
    (torch.tensor([[0], [1]]), "labels has 2 rows but there are 1 documents"),
]


def test_wrong_labels_are_refused_with_and_without_top_k(family):
    model = family.build(cornet_num_blocks=0)
    batch = make_batch(model, [SHORT])
    for labels, message in WRONG_LABELS:
        for top_k in (None, 2):
            with pytest.raises(ValueError, match=message):
                model(**batch, labels=labels, top_k=top_k)


def test_a_row_of_labels_is_needed_for_every_document(family):
    model = family.build()
    with pytest.raises(ValueError, match="labels has 1 rows but there are 2 documents"):
        model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0]]))


def test_one_label_is_still_multi_label(family):  # AC-32
    model = family.build(num_labels=1)
    assert model.config.problem_type == "multi_label_classification"
    batch = make_batch(model, [SHORT, LONG])
    output = model(**batch, labels=torch.tensor([[0], [-100]]))
    assert output.logits.shape == (2, 1)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, torch.tensor([[1.0], [0.0]]))
    if not family.has_tree:
        torch.testing.assert_close(output.loss, expected)
    assert output.loss > 0
    top = model(**batch, top_k=5)
    assert top.top_labels.tolist() == [[0], [0]]
    torch.testing.assert_close(top.top_scores, output.logits.sigmoid())


def test_unknown_arguments_are_refused(family):
    model = family.build()
    with pytest.raises(TypeError, match="unexpected keyword argument 'label'"):
        model(**make_batch(model, [SHORT]), label=torch.tensor([[0]]))
    kinds = {parameter.kind for parameter in inspect.signature(model.forward).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


# ---- the encoder -----------------------------------------------------------------------------------------------------------


def test_the_head_alone_is_trained_when_the_encoder_is_frozen(model, tmp_path):  # AC-36
    model.save_pretrained(tmp_path)
    for trained in (model, type(model).from_pretrained(tmp_path)):
        encoder = trained.base_model
        assert encoder is not trained and list(map(id, trained.get_encoder().parameters())) == list(
            map(id, encoder.parameters())
        )
        for parameter in encoder.parameters():
            parameter.requires_grad = False
        before = {name: parameter.clone() for name, parameter in trained.named_parameters()}
        optimizer = torch.optim.SGD(trained.parameter_groups(0.5))
        for _ in range(2):
            trained(**make_batch(trained, [SHORT, LONG]), labels=torch.tensor([[0], [3]]), top_k=0).loss.backward()
            optimizer.step()
        changed = {name for name, parameter in trained.named_parameters() if not torch.equal(parameter, before[name])}
        heads = tuple(f"{name}." for name in trained.head_names)
        assert changed == {name for name in before if name.startswith(heads)}

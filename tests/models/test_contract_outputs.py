"""What every model family promises of its outputs and of training, checked for all of them."""

import pytest
import torch

from models.families import (
    LONG,
    NUM_LABELS,
    SHORT,
    assert_same,
    for_families,
    make_batch,
    models_with_loss,
    what_can_be_asked_for,
)

# ---- outputs ---------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_top_k_gives_the_best_scores_and_no_logits(model):
    batch = make_batch(model, [SHORT, LONG])
    logits = model(**batch).logits
    assert logits.shape == (2, NUM_LABELS)
    for top_k in (1, 3, NUM_LABELS, NUM_LABELS + 7):
        output = model(**batch, top_k=top_k)
        assert "logits" not in output
        expected = logits.sort(dim=1, descending=True)
        kept = min(top_k, NUM_LABELS)
        assert torch.equal(output.top_labels, expected.indices[:, :kept])
        torch.testing.assert_close(output.top_scores, expected.values[:, :kept].sigmoid(), rtol=0, atol=1e-6)


@torch.no_grad()
def test_equal_logits_go_to_the_lower_label_id(model):
    heads = [model.label_head, *(level.head for level in getattr(model, "upper_levels", []))]
    for module in [*heads, *([model.cornet] if model.cornet else [])]:
        for parameter in module.parameters():
            parameter.zero_()
    assert model(**make_batch(model, [SHORT, LONG]), top_k=3).top_labels.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_top_k_below_one_is_refused(model):
    for top_k in (0, -1):
        with pytest.raises(ValueError, match=f"top_k={top_k}, but it must be at least 1"):
            model(**make_batch(model, [SHORT]), top_k=top_k)


def test_top_k_with_labels_gives_the_same_loss_and_gradients(model):
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 1], [4, -100]])
    losses, gradients = [], []
    for top_k in (None, 2):
        model.zero_grad()
        loss = model(**batch, labels=labels, top_k=top_k).loss
        loss.backward()
        losses.append(loss)
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_top_k_zero_gives_the_loss_alone_and_its_gradients(model):
    batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 1], [4, -100]])
    losses, gradients = [], []
    for top_k in (None, 0):
        model.zero_grad()
        output = model(**batch, labels=labels, top_k=top_k)
        output.loss.backward()
        losses.append(output.loss)
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.requires_grad])
    assert set(output) == {"loss"}
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])
    with torch.no_grad():
        output = model(**batch, labels=labels, top_k=0)
    assert set(output) == {"loss"}
    torch.testing.assert_close(output.loss, losses[0].detach())


@pytest.mark.parametrize("label_loss", ["bce", "propensity_bce", "asymmetric"])
@for_families(lambda family: not family.has_own_loss and not family.has_tree)
def test_every_label_loss_is_the_same_with_and_without_logits(family, label_loss):
    for model in models_with_loss(family, label_loss):
        batch, labels = make_batch(model, [SHORT, LONG]), torch.tensor([[0, 1], [4, -100]])
        losses, gradients = [], []
        for top_k in (None, 0, 2):
            model.zero_grad()
            loss = model(**batch, labels=labels, top_k=top_k).loss
            loss.backward()
            losses.append(loss.detach())
            gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.requires_grad])
        with torch.no_grad():
            losses.append(model(**batch, labels=labels, top_k=2).loss)
        for loss in losses[1:]:
            torch.testing.assert_close(loss, losses[0])
        for found in gradients[1:]:
            torch.testing.assert_close(found, gradients[0], rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_so_many_labels_at_most_are_the_best_of_the_set(family, monkeypatch):
    monkeypatch.setattr("hf_xmtc.models.predicted_sets.FIRST_LOOK", 2)
    model = family.build()
    batch = make_batch(model, [SHORT, LONG])
    output = model(**batch, top_k=NUM_LABELS)
    if not family.has_own_loss:
        thresholds = torch.zeros(NUM_LABELS)
        thresholds[output.top_labels[0, :2]] = 1.0  # the two best of the first document are in no set
        model.set_thresholds(thresholds)
    whole = [row[chosen].tolist() for row, chosen in zip(output.top_labels, model.in_predicted_set(output), strict=True)]
    for top_k in (None, 1, 2, 3):
        found, wanted = model.predict_sets(top_k=top_k, **batch)
        rows = [row[chosen].tolist() for row, chosen in zip(found.top_labels, wanted, strict=True)]
        assert rows == [labels[:top_k] for labels in whole]
    assert family.has_own_loss or len(whole[0]) == NUM_LABELS - 2


@torch.no_grad()
def test_predicted_sets_are_the_labels_above_the_threshold_also_after_saving(family, tmp_path):
    model = family.build()
    batch = make_batch(model, [SHORT, LONG])
    output = model(**batch, top_k=NUM_LABELS)
    middle = output.top_scores.median().item()
    assert torch.equal(model.in_predicted_set(output, middle), output.top_scores > middle)
    assert not model.in_predicted_set(output, output.top_scores[0, 0].item())[0, 0]  # as much is not above
    if family.has_own_loss:
        assert torch.equal(model.in_predicted_set(output), output.label_sets.gather(1, output.top_labels))
        with pytest.raises(ValueError, match="no thresholds"):
            model.set_thresholds(0.4)
        return
    assert torch.equal(model.in_predicted_set(output), output.top_scores > 0.5)
    for thresholds in (middle, torch.linspace(0.3, 0.7, NUM_LABELS)):
        model.set_thresholds(thresholds)
        model.save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path)
        limits = torch.as_tensor(thresholds).expand(NUM_LABELS)[output.top_labels]
        assert torch.equal(loaded.in_predicted_set(output), output.top_scores > limits)
    model.resize_labels(NUM_LABELS + 1)
    assert model.label_thresholds[-1].item() == pytest.approx(middle) and len(model.label_thresholds) == NUM_LABELS + 1
    with pytest.raises(ValueError, match="one finite number, or one for each of the 6 labels"):
        model.set_thresholds([0.1, 0.2])


@torch.no_grad()
def test_a_tuple_holds_what_the_output_holds(model):
    batch = make_batch(model, [SHORT])
    (logits,) = model(**batch, return_dict=False)
    assert_same(logits, model(**batch).logits)
    loss, top_scores, top_labels, *_ = model(**batch, labels=torch.tensor([[0]]), top_k=2, return_dict=False)
    assert loss.dim() == 0 and top_scores.shape == top_labels.shape == (1, 2)


@torch.no_grad()
def test_attention_weights_and_hidden_states_come_on_request(model):
    batch = make_batch(model, [SHORT, LONG])
    plain = model(**batch)
    assert set(plain) == {"logits"}
    requests = what_can_be_asked_for(model, num_documents=2)
    output = model(**batch, **requests)
    torch.testing.assert_close(output.logits, plain.logits, rtol=0, atol=1e-5)
    num_tokens = batch["input_ids"].shape[1]
    assert set(output) == {"logits", *(name.removeprefix("output_") for name in requests if name.startswith("output_"))}
    behind = NUM_LABELS + 1 if getattr(model.config, "joint_embedding", False) else 0  # labels and separator
    for weights in output.attentions or ():
        assert weights.shape[0] == 2 and weights.dim() == 4 and weights.shape[3] == num_tokens + behind
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
        padding = torch.nn.functional.pad(batch["attention_mask"][0] == 0, (0, behind))
        assert weights[0, :, :3, padding].sum() == 0  # the CLS tokens, first among the queries, see no padding
    for state in output.hidden_states or ():
        assert state.shape[0] == 2 and state.shape[1] in (num_tokens + behind, 3) and state.dim() == 3
    # Asked for once, not from now on.
    assert set(model(**batch)) == {"logits"}


@torch.no_grad()
def test_attention_weights_stand_in_the_columns_of_the_input_when_padding_is_on_the_left(family):
    model = family.build()
    requests = what_can_be_asked_for(model, num_documents=1)
    right = model(**make_batch(model, [SHORT], length=10), **requests)
    left = model(**make_batch(model, [SHORT], length=10, left=True), **requests)
    num_tokens = len(SHORT) + len(getattr(model.config, "cls_token_ids", []))
    if "output_attentions" in requests:
        # The queries are the words, or what reads them, which padding does not move.
        weights, expected = left.attentions[0][..., 10 - num_tokens : 10], right.attentions[0][..., :num_tokens]
        if weights.shape[2] >= 10:
            weights, expected = weights[:, :, 10 - num_tokens : 10], expected[:, :, :num_tokens]
        torch.testing.assert_close(weights, expected)
    for state, expected in zip(left.hidden_states or (), right.hidden_states or (), strict=True):
        if state.shape[1] >= 10:
            torch.testing.assert_close(state[:, 10 - num_tokens : 10], expected[:, :num_tokens])


def test_weights_of_tokens_are_nothing_at_padding_and_refused_for_unknown_labels(family):
    model = family.build(cornet_num_blocks=0)
    ids = make_batch(model, [SHORT, LONG])
    labels = torch.tensor([[3, -100], [0, 1]])
    arguments = ids["input_ids"], ids["attention_mask"]
    if model.token_weight_kind is None:
        with pytest.raises(ValueError, match="has no weight of its own for each token"):
            model.token_weights(*arguments, labels)
        return
    weights = model.token_weights(*arguments, labels)
    assert weights.shape == (2, 2, ids["input_ids"].shape[1]) and weights.isfinite().all()
    assert weights[0, 0, : len(SHORT)].abs().sum() > 0
    assert (weights[0, 1] == 0).all() and (weights[0, :, len(SHORT) :] == 0).all()
    for wrong in (NUM_LABELS, -1):
        with pytest.raises(ValueError, match=f"label id {wrong}, but the ids are 0"):
            model.token_weights(*arguments, torch.tensor([[wrong], [0]]))


def contributions_are_parts_of_a_logit(family) -> bool:
    model = family.build(cornet_num_blocks=0)
    return model.token_weight_kind == "contribution" and not getattr(model.config, "bottleneck_size", None)


@torch.no_grad()
@for_families(contributions_are_parts_of_a_logit)
def test_contributions_of_tokens_add_up_to_the_raw_logit(family):
    model = family.build(cornet_num_blocks=0)
    if getattr(model.config, "joint_embedding", False):
        model = family.build(cornet_num_blocks=0, sep_token_id=None)  # a separator has a part and no column
    batch = make_batch(model, [SHORT, LONG], left=True)
    labels = torch.tensor([[3, 1], [0, 2]])
    found = model.token_weights(batch["input_ids"], batch["attention_mask"], labels).sum(dim=-1)
    expected = model(**batch).logits.gather(1, labels) - model.label_head.label_bias[labels]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---- training --------------------------------------------------------------------------------------------------------------


@for_families(lambda family: family.has_label_matrices)  # a linear tree has no layers
def test_activation_checkpointing_changes_no_gradient(family):
    gradients = []
    for checkpointing in (False, True):
        model = family.build(cornet_num_blocks=family.most_blocks, dropout=0.1).train()
        if checkpointing:
            model.activation_checkpointing_enable()
        torch.manual_seed(3)
        model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0], [1]])).loss.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_every_parameter_gets_a_gradient(model):
    model(**make_batch(model, [SHORT, LONG]), labels=torch.tensor([[0], [1]])).loss.backward()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert [name for name, parameter in trained.items() if parameter.grad is None] == []


def test_parameter_groups_hold_every_trainable_parameter_once(model):
    frozen = next(model.parameters()).requires_grad_(False)
    decayed, plain = model.parameter_groups(learning_rate=0.1, weight_decay=0.01)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.01, 0.0)
    assert decayed["lr"] == plain["lr"] == 0.1
    listed = [id(parameter) for group in (decayed, plain) for parameter in group["params"]]
    assert len(listed) == len(set(listed)) and id(frozen) not in listed
    assert set(listed) == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    without_decay = {id(parameter) for parameter in plain["params"]}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            expected = parameter.dim() < 2 or "embedding" in name or "norm" in name.lower()
            assert (id(parameter) in without_decay) == expected, name


@for_families(lambda family: "-on-" not in family.name)  # the library's encoders do not take an empty batch
def test_a_batch_without_documents_has_a_loss_of_nothing(family):
    model = family.build()
    batch = {name: value[:0] for name, value in make_batch(model, [SHORT]).items()}
    for top_k in (None, 0, 3):
        output = model(**batch, labels=torch.zeros(0, 2, dtype=torch.long), top_k=top_k)
        assert output.loss == 0
        output.loss.backward()
    assert output.top_labels.shape == (0, 3)

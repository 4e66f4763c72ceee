"""Another label space for a model: kept with `resize_labels`, refused or started anew when opening, for every family."""

import pytest
import torch

from hf_xmtc import LabelNames
from models.families import LONG, NUM_LABELS, SHORT, for_families, make_batch, overwrite_parameters


def label_parameters(model) -> list[str]:
    """Names of the parameters whose shape depends on the number of labels."""
    cornet = [f"cornet.blocks.{index}" for index in range(model.config.cornet_num_blocks)]
    if hasattr(model.label_head, "attention"):
        names = ["label_head.attention.weight", *(["label_head.bias"] if model.config.label_bias else [])]
    else:
        names = [] if model.config.model_type == "seqtag" else ["label_head.output.weight", "label_head.output.bias"]
    names = [name for name in names if name in dict(model.named_parameters())]
    names += ["label_embedding.weight"] if getattr(model, "label_embedding", None) is not None else []
    names += [f"{block}.{part}" for block in cornet for part in ("to_context.weight", "to_labels.weight", "to_labels.bias")]
    return names


@for_families(lambda family: family.has_label_matrices)
def test_labels_with_known_names_keep_their_weights_wherever_they_move(family, tmp_path):
    model = family.build(label_names=list("abcde"), cornet_num_blocks=family.most_blocks)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    model.resize_labels(["new", "e", "b", "a", "other", "more"])
    kept = {1: 4, 2: 1, 3: 0}
    changed = label_parameters(model)
    for name, parameter in model.named_parameters():
        if name not in changed:
            assert torch.equal(parameter, before[name]), name
            continue
        label_dim = 1 if name.endswith("to_context.weight") else 0
        assert parameter.shape[label_dim] == 6 and parameter.isfinite().all()
        for new, old in kept.items():
            assert torch.equal(parameter.select(label_dim, new), before[name].select(label_dim, old)), name

    assert model.config.num_labels == model.label_head.num_labels == 6
    assert model.config.id2label[1] == "e"
    batch = make_batch(model, [SHORT])
    assert model(**batch, labels=torch.tensor([[5]])).logits.shape == (1, 6)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.label_names == LabelNames(["new", "e", "b", "a", "other", "more"])
    torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits, rtol=2e-6, atol=2e-6)


@torch.no_grad()
def test_new_labels_move_no_known_logit_and_are_not_predicted(family):  # AC-47
    model = family.build(label_names=list("abcde"), cornet_num_blocks=family.most_blocks)
    for name, parameter in model.named_parameters():  # far from the start, as after training
        if name.startswith(("label_head.output", "cornet")):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    if not family.has_own_loss:
        model.set_thresholds(torch.full((5,), 0.3))
    batch = make_batch(model, [SHORT, LONG])
    before = model(**batch).logits
    model.resize_labels(["new", *"edcba", "other"])
    after, best = model(**batch).logits, model(**batch, top_k=7)
    if getattr(model, "label_embedding", None) is None:  # else labels are read, and each changes the states of all
        torch.testing.assert_close(after[:, 1:6].flip(1), before, rtol=0, atol=1e-5)
    if not family.has_own_loss:  # whose labels share a bias
        assert (after[:, [0, 6]] < -3).all()
        assert set(best.top_labels[model.in_predicted_set(best)].tolist()) <= {1, 2, 3, 4, 5}
    if not family.has_own_loss:
        assert model.label_thresholds.tolist() == pytest.approx([0.5, *[0.3] * 5, 0.5])


@pytest.mark.parametrize("num_labels", [3, 8])
def test_a_new_number_of_labels_keeps_the_first_ones(model, tmp_path, num_labels):
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    model.resize_labels(num_labels)
    kept = min(num_labels, NUM_LABELS)
    for name in label_parameters(model):
        parameter, label_dim = model.get_parameter(name), 1 if name.endswith("to_context.weight") else 0
        assert torch.equal(parameter.narrow(label_dim, 0, kept), before[name].narrow(label_dim, 0, kept)), name
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.num_labels == num_labels == len(loaded.config.id2label)
    assert loaded(**make_batch(loaded, [SHORT])).logits.shape == (1, num_labels)


CONTRADICTIONS = [
    ({"label_names": ["a", "b", "a"]}, "The label 'a' occurs twice, as label ids 0 and 2"),
    ({"id2label": {0: "a", 1: "b", 2: "a"}}, "The label 'a' occurs twice"),
    ({"label_names": ["a", "b"], "num_labels": 5}, "num_labels=5 but there are names for 2 labels"),
    ({"id2label": {0: "a", 1: "b"}, "num_labels": 5}, "num_labels=5 but there are names for 2 labels"),
    ({"id2label": {0: "a", 2: "b"}}, r"id2label has the ids \[0, 2\], so id 1 is missing"),
    ({"id2label": {-1: "a", 0: "b"}}, "id -1 is negative"),
    ({"label2id": {"a": 1, "b": 0}, "id2label": {0: "a", 1: "b"}}, "label2id gives 'a' the id 1, but .* it is 0"),
    ({"num_labels": 0}, "num_labels=0, but a model needs at least one label"),
    ({"label_names": ["a", 7]}, "Label id 1 is 7 of type int, but labels are strings"),
    ({"problem_type": "single_label_classification"}, "problem_type='single_label_classification'"),
]


def test_contradictory_label_settings_are_refused(family):  # AC-16
    for settings, message in CONTRADICTIONS:
        with pytest.raises(ValueError, match=message):
            family.build(**settings)


def test_another_number_of_labels_needs_permission(model, tmp_path, warnings_logged):  # AC-16
    overwrite_parameters(model)
    model.save_pretrained(tmp_path)
    for refused in ({"num_labels": 7}, {"config": model.config.__class__.from_pretrained(tmp_path, num_labels=7)}):
        with pytest.raises(ValueError, match="The checkpoint has 5 labels but num_labels=7 was asked for"):
            type(model).from_pretrained(tmp_path, **refused)
    assert not warnings_logged()
    if not model.is_trained_by_gradient:
        with pytest.raises(ValueError, match="the .* of .* hold its labels and cannot be opened with others"):
            type(model).from_pretrained(tmp_path, num_labels=7, ignore_mismatched_sizes=True)
        return

    opened = type(model).from_pretrained(tmp_path, num_labels=7, ignore_mismatched_sizes=True)
    assert opened.config.num_labels == 7
    new = label_parameters(model)
    for name, parameter in opened.named_parameters():
        if name in new:
            assert 7 in parameter.shape and parameter.isfinite().all()
            assert not ((parameter >= 0.4) & (parameter <= 0.6)).all(), name  # what the checkpoint had everywhere
        else:
            assert torch.equal(parameter, model.get_parameter(name)), name
    ours = [message for message in warnings_logged() if "5 labels were replaced by 7" in message]
    assert len(ours) == 1


@for_families(lambda family: family.has_label_matrices)  # the labels of others cannot be replaced
def test_names_given_with_the_permission_are_the_new_names(family, tmp_path):  # AC-16
    family.build(label_names=list("abcde")).save_pretrained(tmp_path)
    config = family.build(num_labels=2).config
    opened = type(family.build()).from_pretrained(
        tmp_path, num_labels=2, id2label={0: "x", 1: "y"}, ignore_mismatched_sizes=True
    )
    assert opened.config.id2label == {0: "x", 1: "y"}
    opened = type(family.build()).from_pretrained(tmp_path, num_labels=2, ignore_mismatched_sizes=True)
    assert opened.config.id2label == config.id2label == {0: "LABEL_0", 1: "LABEL_1"}


def test_labels_that_leave_no_label_are_refused(family):
    with pytest.raises(ValueError, match="0 labels were given, but a model needs at least one"):
        family.build().resize_labels([])


def test_an_unnamed_model_is_not_saved_over_the_names_of_another(family, tmp_path):
    family.build(label_names=list("abcde")).save_pretrained(tmp_path)
    unnamed = family.build(num_labels=3)
    with pytest.raises(FileExistsError, match="names labels that this model does not have"):
        unnamed.save_pretrained(tmp_path)
    assert type(unnamed).from_pretrained(tmp_path).config.label_names == LabelNames(list("abcde"))


def test_kept_labels_keep_their_display_names_and_parents(family, tmp_path):
    names = LabelNames(["a", "b", "c"], names=["A", None, "C"], parents=[["p"], [], ["q"]])
    model = family.build(label_names=names)
    model.resize_labels(["new", "c", "a"])
    model.save_pretrained(tmp_path)
    after = type(model).from_pretrained(tmp_path).config.label_names
    assert after == LabelNames(["new", "c", "a"], names=[None, "C", "A"], parents=[[], ["q"], ["p"]])
    model.resize_labels(2)
    assert model.config.label_names.labels == ["new", "c"]
    model.resize_labels(3)
    assert model.config.label_names.labels == ["new", "c", "LABEL_2"]

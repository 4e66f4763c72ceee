import copy
import json
from pathlib import Path

import pytest
from transformers import AutoConfig

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, LabelNames

TINY = {"vocab_size": 40, "num_cls_tokens": 2, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
TINY |= {"max_position_embeddings": 16, "cornet_context_size": 4}


def tiny_config(**settings) -> BertXMLConfig:
    return BertXMLConfig(**{**TINY, **settings})


@pytest.fixture
def named_folder(tmp_path: Path) -> Path:
    """A checkpoint with five named labels, in no alphabetical order."""
    folder = tmp_path / "named"
    BertXMLForXMTC(tiny_config(label_names=LabelNames(list("edcba"), names=["E!", None, None, None, None]))).save_pretrained(
        folder
    )
    return folder


# ---- config.json and labels.json -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_labels", [1, 2, 5])
def test_the_number_of_labels_is_one_integer_in_config_json(tmp_path, num_labels):
    tiny_config(num_labels=num_labels).save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert stored["num_labels"] == num_labels
    assert not {"id2label", "label2id", "label_names"} & stored.keys()
    assert not (tmp_path / "labels.json").exists()
    assert BertXMLConfig.from_pretrained(tmp_path).num_labels == num_labels


@pytest.mark.parametrize("opener", [BertXMLConfig, AutoConfig], ids=["own class", "AutoConfig"])
def test_names_come_back_from_labels_json_in_their_order(named_folder, tmp_path, opener):
    config = opener.from_pretrained(named_folder)
    assert not config.names_given and config.labels_digest
    assert config.id2label == dict(enumerate("edcba"))
    assert config.label2id["a"] == 4
    assert config.label_names.name_of(0) == "E!"
    config.save_pretrained(tmp_path / "again")
    assert LabelNames.load(tmp_path / "again") == LabelNames.load(named_folder)


def test_a_reopened_model_names_its_outputs_in_training_order(named_folder):  # AC-14
    model = BertXMLForXMTC.from_pretrained(named_folder)
    assert [model.config.id2label[label_id] for label_id in range(5)] == list("edcba")


def test_unread_names_survive_loading_and_saving(named_folder, tmp_path):
    BertXMLForXMTC.from_pretrained(named_folder).save_pretrained(tmp_path / "second")
    BertXMLForXMTC.from_pretrained(tmp_path / "second").save_pretrained(tmp_path / "second")
    assert LabelNames.load(tmp_path / "second") == LabelNames.load(named_folder)


def test_names_are_found_after_a_change_of_the_working_directory(named_folder, monkeypatch, tmp_path):
    monkeypatch.chdir(named_folder)
    model = BertXMLForXMTC.from_pretrained(".")
    monkeypatch.chdir(tmp_path)
    assert model.config.id2label == dict(enumerate("edcba"))


def test_labels_without_names_are_numbered():
    config = tiny_config(num_labels=3)
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert config.labels_digest is None
    assert tiny_config().num_labels == 2  # what transformers starts with


def test_id2label_label2id_and_names_say_the_same():
    for settings in (
        {"label_names": ["x", "y"]},
        {"id2label": {0: "x", 1: "y"}},
        {"id2label": {"1": "y", "0": "x"}},  # as JSON stores it
        {"label2id": {"x": 0, "y": 1}},
        {"label2id": {"x": 0, "y": 1}, "id2label": {0: "x", 1: "y"}, "num_labels": 2},
    ):
        config = tiny_config(**settings)
        assert config.num_labels == 2 and config.id2label == {0: "x", 1: "y"} and config.label2id == {"x": 0, "y": 1}


def test_labels_can_be_renamed_when_opening_in_any_order_of_arguments(named_folder):
    id2label, label2id = dict(enumerate("vwxyz")), {label: label_id for label_id, label in enumerate("vwxyz")}
    for renamed in (
        {"id2label": id2label, "label2id": label2id},
        {"label2id": label2id, "id2label": id2label},
        {"label_names": list("vwxyz")},
    ):
        assert BertXMLConfig.from_pretrained(named_folder, **renamed).id2label == id2label
        assert BertXMLForXMTC.from_pretrained(named_folder, **renamed).config.id2label == id2label


def test_names_of_another_number_are_refused_afterwards_too():
    config = tiny_config(num_labels=3)
    with pytest.raises(ValueError, match="names for 2 labels but num_labels=3.*resize_labels"):
        config.label_names = ["a", "b"]
    config.label_names = ["a", "b", "c"]
    with pytest.raises(ValueError, match="num_labels=4 but there are names for 3 labels"):
        config.num_labels = 4


@pytest.mark.parametrize("opener", [BertXMLConfig, AutoConfig], ids=["own class", "AutoConfig"])
def test_labels_json_of_another_length_is_refused_with_both_numbers(named_folder, opener):
    LabelNames(["a", "b"]).save(named_folder)
    config = opener.from_pretrained(named_folder)
    with pytest.raises(ValueError, match="names 2 labels but the config has num_labels=5"):
        _ = config.id2label


def test_copies_and_dictionaries_carry_no_names(named_folder):
    config = BertXMLConfig.from_pretrained(named_folder)
    assert copy.deepcopy(config).id2label == config.id2label
    assert "e" not in config.to_json_string().split('"')
    assert BertXMLConfig.from_dict(config.to_dict()).num_labels == 5
    assert config.id2label == dict(enumerate("edcba"))  # still there after the dictionary was made


def test_names_of_unnamed_labels_are_made_up_once_and_follow_their_number():
    config = tiny_config(num_labels=3)
    assert config.label_names is config.label_names and config.id2label is config.id2label
    config.num_labels = 4
    assert config.id2label[3] == "LABEL_3" and len(config.label2id) == 4
    config.label_names = list("abcd")
    assert config.id2label[3] == "d"
    config.forget_label_names()
    assert config.id2label[3] == "LABEL_3" and not config.names_given


# ---- what config.json leaves out -------------------------------------------------------------------------------------------

# What files of the past left out. An entry that changes here changes the meaning of every checkpoint that exists.
LEFT_OUT = {
    "problem_type": "multi_label_classification",
    "cornet_activation": "sigmoid",
    "loss_reduction": "mean",
    "hidden_act": "gelu",
    "layer_norm": "pre",
    "layer_norm_eps": 1e-6,
    "last_layer_cls_only": True,
    "pooler": False,
    "bottleneck_size": None,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "classifier_dropout": 0.3,
    "embedding_initializer_range": 0.1,
    "backbone_config": None,
}


class LaterBertXMLConfig(BertXMLConfig):
    """The class as a later version might have it: other defaults."""

    cornet_activation: str = "tanh"
    hidden_act: str = "relu"
    layer_norm: str = "post"
    classifier_dropout: float = 0.9
    bottleneck_size: int | None = 7


def test_config_json_holds_the_sizes_and_what_differs_from_the_values_it_leaves_out(tmp_path):
    tiny_config(label_names=["a", "b"], layer_norm="post").save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert {"num_labels", "labels_digest", "cornet_num_blocks", *TINY} <= stored.keys()
    assert stored["layer_norm"] == "post" and not (LEFT_OUT.keys() - {"layer_norm"}) & stored.keys()


def test_what_config_json_leaves_out_never_changes(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bertxml", "num_labels": 3}), encoding="utf-8")
    for config in (
        BertXMLConfig.from_pretrained(tmp_path),
        AutoConfig.from_pretrained(tmp_path),
        BertXMLConfig.from_json_file(tmp_path / "config.json"),
        LaterBertXMLConfig.from_pretrained(tmp_path),
        LaterBertXMLConfig.from_json_file(tmp_path / "config.json"),
    ):
        assert {field: getattr(config, field) for field in LEFT_OUT} == LEFT_OUT
    assert LEFT_OUT.items() <= BertXMLConfig.file_defaults().items()


WORDS = {"embedding_initializer_range": 0.1, "freeze_embeddings": False}
JOINT = {"loss_reduction": "mean", "joint_embedding": True, "label_positions": "shared", "joint_attention": "full"}
JOINT |= {"classifier_dropout": 0.1, "cls_token_id": None, "sep_token_id": None}
LACO = {"cross_attention": True, "classifier_token": "pooler", "num_candidates": 0}
LACO |= {"auxiliary_task": "none", "plcp_weight": 2.0, "clcp_weight": 10.0}
ATTENTIONXML = {"embedding_initializer_range": 0.577, "label_bias": False, "label_memory_mib": 512.0}
XMLCNN = {"embedding_dropout": 0.0, "classifier_dropout": 0.5, "pooling": "document", "padded_length": None}
RECURRENT = {"embedding_dropout": 0.2, "hidden_dropout_prob": 0.5}


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("attentionxml", WORDS | RECURRENT | ATTENTIONXML),
        ("xmlcnn", WORDS | XMLCNN | {"convolutions_as_images": False}),
        ("xmlrnn", WORDS | RECURRENT),
        ("meshprobenet", WORDS | RECURRENT | {"bottleneck_size": None}),
        ("laco", JOINT | LACO),
        ("seqtag", JOINT),
    ],
)
def test_what_files_of_other_families_leave_out_never_changes(family, values, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, "num_labels": 3}), encoding="utf-8")
    config = AutoConfig.from_pretrained(tmp_path)
    assert {field: getattr(config, field) for field in values} == values
    assert values.keys() <= config.file_defaults().keys()


@pytest.mark.parametrize("opened_as", [BertXMLConfig, LaterBertXMLConfig])
def test_every_setting_comes_back_whatever_the_defaults_are_by_then(tmp_path, opened_as):
    other = {"cornet_activation": "elu", "loss_reduction": "sum_labels", "hidden_act": "relu", "layer_norm": "none"}
    other |= {"layer_norm_eps": 1e-5, "last_layer_cls_only": False, "pooler": True, "bottleneck_size": 5}
    other |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "classifier_dropout": 0.0}
    other |= {"embedding_initializer_range": None}
    assert other.keys() == LEFT_OUT.keys() - {"problem_type", "backbone_config"}
    for settings in ({}, other, {"layer_norm": "post", "pooler": True}):
        written = tiny_config(num_labels=3, **settings)
        written.save_pretrained(tmp_path)
        read = opened_as.from_pretrained(tmp_path)
        assert {field: getattr(read, field) for field in LEFT_OUT} == {field: getattr(written, field) for field in LEFT_OUT}


def test_a_backbones_checkpoint_opens_when_defaults_of_the_own_encoder_have_changed(tmp_path):
    backbone = AutoConfig.for_model("bert", vocab_size=40, hidden_size=8, num_attention_heads=2, hidden_act="relu")
    BertXMLConfig(backbone_config=backbone, num_labels=3, num_cls_tokens=2, classifier_dropout=0.2).save_pretrained(tmp_path)
    read = LaterBertXMLConfig.from_pretrained(tmp_path)
    assert read.hidden_size == 8 and read.backbone_config.hidden_act == "relu" and read.classifier_dropout == 0.2
    assert LaterBertXMLConfig(backbone_config=backbone, num_cls_tokens=2).hidden_size == 8


def test_settings_that_are_left_out_of_the_file_are_shown():
    assert '"layer_norm": "pre"' in repr(tiny_config()) and tiny_config().to_dict()["classifier_dropout"] == 0.3


@pytest.mark.parametrize(("num_labels", "width"), [(3, 3), (4000, 1000)])
def test_the_context_of_cornet_is_as_wide_as_there_are_labels_and_at_most_1000(num_labels, width, tmp_path):
    config = BertXMLConfig(num_labels=num_labels)
    assert config.cornet_context_size == width
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["cornet_context_size"] == width
    assert BertXMLConfig.from_pretrained(tmp_path, num_labels=7).cornet_context_size == width


def test_a_file_of_before_keeps_its_wide_context(tmp_path):
    BertXMLConfig(num_labels=3, cornet_context_size=1000).save_pretrained(tmp_path)
    assert BertXMLConfig.from_pretrained(tmp_path).cornet_context_size == 1000


def test_the_trainers_use_cache_is_not_stored(tmp_path):
    config = tiny_config(num_labels=3)
    config.use_cache = False
    config.save_pretrained(tmp_path)
    assert "use_cache" not in (tmp_path / "config.json").read_text(encoding="utf-8")


# ---- other settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cornet_num_blocks": -1}, "cornet_num_blocks=-1 and cornet_context_size=4"),
        ({"cornet_context_size": 0}, "cornet_num_blocks=2 and cornet_context_size=0"),
        ({"cornet_activation": "gelu"}, "cornet_activation='gelu' is not one of sigmoid, relu, tanh, elu"),
        ({"loss_reduction": "max"}, "loss_reduction='max' is not one of mean, sum_labels"),
        ({"num_cls_tokens": 0}, "num_cls_tokens=0, but BertXML reads its features from at least one CLS token"),
        ({"num_attention_heads": 3}, "hidden_size=8 is not a multiple of num_attention_heads=3"),
        ({"layer_norm": "rms"}, "layer_norm='rms' is not one of pre, post, none"),
        ({"hidden_act": "silu"}, "hidden_act='silu' is not one of gelu, relu"),
        ({"max_position_embeddings": 2}, "takes 2 tokens but num_cls_tokens=2 of them are CLS tokens"),
        ({"backbone_config": {"hidden_size": 8}}, r"has the fields \['hidden_size'\] but no model_type"),
        ({"backbone_config": "bert-base-uncased"}, "backbone_config is 'bert-base-uncased', not the config"),
    ],
)
def test_impossible_settings_are_refused_with_their_values(settings, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**settings)


def test_a_backbone_config_states_sizes_once_and_nothing_of_this_machine(tmp_path):
    backbone = AutoConfig.for_model(
        "bert", vocab_size=40, hidden_size=8, num_attention_heads=2, name_or_path="/home/me/bert"
    )
    config = BertXMLConfig(backbone_config=backbone, num_labels=3, num_cls_tokens=2)
    assert config.hidden_size == 8 and config.vocab_size == 40 and config.cls_token_ids == [38, 39]
    config.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    assert "/home/me" not in text and "LABEL_0" not in text
    stored = json.loads(text)
    assert not {"hidden_size", "vocab_size", "pad_token_id", "num_hidden_layers"} & stored.keys()
    assert stored["backbone_config"]["hidden_size"] == 8 and "return_dict" not in stored["backbone_config"]
    loaded = BertXMLConfig.from_pretrained(tmp_path)
    assert type(loaded.backbone_config) is type(backbone) and loaded.num_labels == 3
    assert loaded.backbone_config.num_attention_heads == 2 and loaded.to_dict() == config.to_dict() | {
        "_name_or_path": loaded.to_dict()["_name_or_path"]
    }


# ---- the labels.json that belongs to a config ------------------------------------------------------------------------------


def test_labels_of_another_model_are_refused(named_folder):
    LabelNames(list("abcde")).save(named_folder)
    config = AutoConfig.from_pretrained(named_folder)
    with pytest.raises(ValueError, match=r"is not the file that was saved with this config \(labels_digest="):
        config.id2label  # noqa: B018


def test_display_names_may_be_mended_by_hand(named_folder):
    LabelNames(list("edcba"), names=list("EDCBA")).save(named_folder)
    assert AutoConfig.from_pretrained(named_folder).label_names.name_of(1) == "D"


@pytest.mark.parametrize(
    "open_it", [lambda folder: AutoConfig.from_pretrained(folder).id2label, BertXMLForXMTC.from_pretrained]
)
def test_missing_labels_are_not_replaced_by_made_up_ones(named_folder, open_it):
    (named_folder / "labels.json").unlink()
    with pytest.raises(ValueError, match=r"5 named labels but its labels.json was not found beside"):
        open_it(named_folder)


def test_a_misspelt_setting_is_said(warnings_logged):
    tiny_config(cornet_blocks=3)
    assert "has no setting 'cornet_blocks', so it does nothing. Was 'cornet_num_blocks' meant?" in warnings_logged()[0]

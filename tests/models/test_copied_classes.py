"""Classes from the code in model folders: each folder's are others, and do together what those of the package do."""

import pytest
import torch
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from hf_xmtc import BertXMLForXMTC
from models.families import FAMILIES, LONG, SHORT, make_batch


@pytest.fixture
def folders(tmp_path):
    """Two folders with the same model of five labels."""
    model = next(family for family in FAMILIES if family.name == "bertxml-pre-norm").build(label_names=list("abcde"))
    for name in ("first", "second"):
        model.save_pretrained(tmp_path / name)
    return str(tmp_path / "first"), str(tmp_path / "second")


@pytest.mark.parametrize("copied", [False, True], ids=["class of the package", "class of a folder"])
def test_a_config_of_one_folder_opens_the_model_of_another(folders, copied):
    first, second = folders
    config_class = get_class_from_dynamic_module("configuration_bertxml.BertXMLConfig", first)
    model_class = get_class_from_dynamic_module("modeling_bertxml.BertXMLForXMTC", second) if copied else BertXMLForXMTC
    assert config_class is not model_class.config_class

    expected = BertXMLForXMTC.from_pretrained(second)
    batch = make_batch(expected, [SHORT, LONG])
    same = model_class.from_pretrained(second, config=config_class.from_pretrained(first))
    torch.testing.assert_close(same(**batch).logits, expected(**batch).logits)
    assert same.config.label_names.labels == list("abcde")

    fewer = config_class.from_pretrained(first, num_labels=3)
    with pytest.raises(ValueError, match="checkpoint has 5 labels but num_labels=3 was asked for"):
        model_class.from_pretrained(second, config=fewer)
    anew = model_class.from_pretrained(second, config=fewer, ignore_mismatched_sizes=True)
    assert anew(**batch).logits.shape == (2, 3) and anew.config.label_names.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]


def test_label_names_of_a_folder_keep_their_display_names(folders):
    names_class = get_class_from_dynamic_module("label_names.LabelNames", folders[0])
    model = BertXMLForXMTC.from_pretrained(folders[1])
    model.resize_labels(names_class(["b", "f"], names=["Bee", None], parents=[["x"], []]))
    names = model.config.label_names
    assert names.labels == ["b", "f"] and names.name_of(0) == "Bee" and list(names.parents_of(0)) == ["x"]

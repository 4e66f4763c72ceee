"""What training says before it starts, and of thresholds that it has found."""

import re

import numpy as np
import pytest
import torch

from hf_xmtc import BertXMLConfig, BertXMLForXMTC
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.reporting import setting_hints, threshold_summary

LACO = ["--model_family", "laco"]
ON_BACKBONE = [*LACO, "--backbone", "bert"]


@pytest.mark.parametrize(
    ("arguments", "num_labels", "splits", "said"),
    [
        ([], 5_000, {"train", "test"}, []),
        ([], 5, {"train", "validation"}, ["There is no test split"]),
        (LACO, 100, {"test"}, []),
        (LACO, 572, {"test"}, ["All 572 labels are read beside every text; .* num_candidates=64 reads only the likeliest"]),
        ([*LACO, "--config_overrides", "num_candidates=9"], 572, {"test"}, []),
        ([*LACO, "--config_overrides", "joint_embedding=False"], 572, {"test"}, []),
        (["--model_family", "seqtag"], 572, {"test"}, [r"each costs as much as one more token\.$"]),
        (ON_BACKBONE, 5, {"test"}, ["learning_rate=0.001 suits models from scratch"]),
        ([*ON_BACKBONE, "--learning_rate", "5e-5"], 5, {"test"}, []),
    ],
)
def test_settings_that_are_rarely_meant_are_said(arguments, num_labels, splits, said):
    found = setting_hints(parse_recipe(arguments), num_labels, splits)
    assert len(found) == len(said)
    for sentence, pattern in zip(found, said, strict=True):
        assert re.search(pattern, sentence)


def test_thresholds_that_few_documents_decide_are_counted():
    model = BertXMLForXMTC(
        BertXMLConfig(num_labels=4, vocab_size=9, hidden_size=8, num_attention_heads=1, intermediate_size=8)
    )
    counts = np.array([0, 1, 4, 5])
    model.set_thresholds(0.25)
    assert threshold_summary(model, counts).endswith("above the score 0.25, which was best on validation.")
    model.set_thresholds(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    found = threshold_summary(model, counts)
    assert "0.1 to 0.4, which was best on validation. For 2 of the 4 labels it is little more than a guess" in found
    assert threshold_summary(model, counts * 5).endswith("best on validation.")

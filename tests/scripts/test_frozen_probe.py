"""The probe reads a frozen encoder as transformers does, and finds labels that show in its states."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizer

import frozen_probe
from frozen_probe import FrozenStates, Settings, main
from small_corpus import WORDS, write_corpus


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """A tiny BERT whose vocabulary is that of the small corpus."""
    folder = tmp_path_factory.mktemp("backbone")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "of", *(word for of in WORDS.values() for word in of)]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=20, **sizes)).save_pretrained(folder)
    return str(folder)


def test_states_are_those_of_the_first_layers_without_padding(backbone):
    states = FrozenStates(backbone, num_layers=1, max_length=6)
    texts = ["cat dog", "red", "song drum choir town river coast"]  # the last is cut to four words
    encoder = BertModel.from_pretrained(backbone, num_hidden_layers=1).eval()
    for row, text in enumerate(texts):
        words = states.tokenizer(text, truncation=True, max_length=6, return_tensors="pt")
        with torch.no_grad():
            expected = encoder(**words).last_hidden_state[0]
        np.testing.assert_allclose(states.of(texts, "mean")[row], expected.mean(0), atol=1e-6)
        np.testing.assert_allclose(states.of(texts, "cls")[row], expected[0], atol=1e-6)


def test_the_command_writes_metrics_of_rankings_and_sets(backbone, tmp_path, monkeypatch):
    monkeypatch.setattr(frozen_probe, "GRID", [Settings("cls", 0.01), Settings("mean", 10.0)])
    corpus = write_corpus(tmp_path / "corpus", train=60, validation=20, test=20)
    arguments = ["--dataset", str(corpus), "--backbone", backbone, "--backbone_num_layers", "1", "--set_metrics"]
    main([*arguments, "--output_dir", str(tmp_path / "probe")])
    metrics = json.loads((tmp_path / "probe" / "metrics.json").read_text())
    recipe = json.loads((tmp_path / "probe" / "recipe.json").read_text())
    assert metrics["test"]["nDCG@5"] > 0.8 and metrics["test"]["micro_f1"] > 0.7
    assert recipe["pooling"] == "mean" and recipe["backbone_num_layers"] == 1 and recipe["tune_threshold"] == "global"

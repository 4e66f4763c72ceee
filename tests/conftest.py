"""What tests of several folders use."""

import gc
import sys
from pathlib import Path

import pytest
import torch
from transformers import dynamic_module_utils

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, train_word_tokenizer

TINY_TEXTS = ["edit a plain text file", "play music and sound files", "a library of sound filters", "show a picture"]
TINY_LABELS = ["interface::text", "role::library", "role::program", "use::editing", "works-with::audio"]


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tiny models are faster on one thread, and sums come out the same on every machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def _old_objects_are_no_garbage():
    """Keep what has been imported out of the garbage collection that accelerate starts with every training: 0.8 s each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CorNetBertXML with random weights, its word tokenizer and its five label names; to be read, not changed.

    1 layer of width 16, 32 positions, 2 CLS tokens, CorNet of 2 blocks with context size 8.
    """
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = train_word_tokenizer(TINY_TEXTS, num_cls_tokens=2, max_length=32)
    torch.manual_seed(0)
    model = BertXMLForXMTC(
        BertXMLConfig(
            vocab_size=len(tokenizer),
            num_cls_tokens=2,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
            label_names=TINY_LABELS,
            cornet_num_blocks=2,
            cornet_context_size=8,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def unchecked(monkeypatch):
    """Training that leaves out opening the folder in a fresh process, which takes seconds."""
    monkeypatch.setattr("hf_xmtc.commands.export_check.check_reopens", lambda *args, **settings: 0.0)


@pytest.fixture
def modules_cache(tmp_path, monkeypatch):
    """Keep code that is loaded with a model out of the user's cache, and modules of other tests' models out of this one's way."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not Path(folder, "transformers_modules").is_dir()])
    for name in _loaded_with_models():
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in _loaded_with_models():  # they belong to the folder that is now left
        del sys.modules[name]


def _loaded_with_models() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "transformers_modules"]

"""A small corpus, its tokenizer, and makers of tiny models and trainers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.tokenization import train_word_tokenizer
from small_corpus import write_corpus
from two_processes import TORCHRUN

HERE = Path(__file__).resolve().parent

SIZES = {
    "num_cls_tokens": 2,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "cornet_context_size": 4,
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Straight from the loader: 24 documents for training, 8 for validation, 7 for test, six labels."""
    folder = tmp_path_factory.mktemp("corpus")
    return load_xmtc_dataset(write_corpus(folder / "small"), cache_dir=folder / "cache")


@pytest.fixture(scope="session")
def tokenizer(corpus):
    return train_word_tokenizer(corpus["train"]["text"], num_cls_tokens=2, max_length=16, min_document_frequency=1)


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory):
    """The folder of what `in_two_processes.py` has found; pytest's first worker that asks for it starts the processes."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, done = shared / "two_processes", shared / "two_processes_are_done"
    with FileLock(shared / "two_processes.lock"):
        if not done.exists():
            for part in ("sharded/data", "shards"):
                (folder / part).mkdir(parents=True)
            write_corpus(folder / "sharded" / "data")
            run_processes(folder)
            done.touch()
    return folder


def run_processes(folder: Path) -> None:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, sys.path)]),
    }
    command = [*TORCHRUN, str(HERE / "in_two_processes.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def make_model(corpus, tokenizer):
    """A tiny CorNetBertXML, the same for every call with the same settings."""

    def make(**settings):
        torch.manual_seed(0)
        if "num_labels" not in settings:
            settings.setdefault("label_names", label_info_of(corpus).names)
        return BertXMLForXMTC(BertXMLConfig(vocab_size=len(tokenizer), **{**SIZES, **settings}))

    return make


@pytest.fixture
def make_trainer(tmp_path, corpus, tokenizer, make_model):
    """A trainer on the corpus; keywords are training arguments, except those named here."""

    def make(
        output="run", model=None, train_dataset=corpus["train"], eval_dataset=corpus["validation"], trainer=None, **args
    ):
        settings = {
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 3,
            "num_train_epochs": 2,
            "learning_rate": 0.01,
            "use_cpu": True,
            "disable_tqdm": True,
            "save_total_limit": None,
            "dataloader_pin_memory": False,
        }
        return XMTCTrainer(
            model if model is not None else make_model(),
            XMTCTrainingArguments(output_dir=str(tmp_path / output), **{**settings, **args}),
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            **{"processing_class": tokenizer, **(trainer or {})},
        )

    return make


@pytest.fixture
def words_alone(corpus):
    """A tokenizer that adds nothing to a text."""
    return train_word_tokenizer(corpus["train"]["text"], max_length=16, min_document_frequency=1)

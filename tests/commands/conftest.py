"""Runs scripts/train.py in this process, at sizes that take a second."""

import logging
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
import torch
from predicted import TEXTS

from forked_python import run_python
from hf_xmtc.commands import export_check
from small_corpus import write_corpus

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train.py"
TINY_MODEL = {
    "cornet_context_size": 4,
    "num_cls_tokens": 2,
    "config_overrides": "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16",
}
TINY_TRAINING = {
    "max_length_tokens": 8,
    "min_document_frequency": 1,
    "per_device_train_batch_size": 4,
    "num_train_epochs": 2,
    "learning_rate": 0.01,
    "disable_tqdm": True,
    "use_cpu": True,
    "dataloader_pin_memory": False,
}


def as_arguments(**settings) -> list[str]:
    """Settings as a command line; None leaves one out."""
    return [text for key, value in settings.items() if value is not None for text in (f"--{key}", str(value))]


def fork(command: list[str], input: str, env: dict[str, str], **_) -> subprocess.CompletedProcess:
    """For `subprocess.run` with a script: saves the seconds that importing torch takes."""
    return run_python(Path(command[1]), *command[2:], environment=env, stdin=input)


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    """24 documents for training, 8 for validation, 7 for test; six labels."""
    return write_corpus(tmp_path_factory.mktemp("corpora") / "small")


@pytest.fixture(scope="module")
def own_caches(tmp_path_factory):
    """Keep the caches of data and of model code inside the tests' folder; one core, which is faster for tiny models."""
    caches = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", caches / "datasets")
        patch.setenv("HF_MODULES_CACHE", str(caches / "modules"))
        patch.setattr("os.sched_getaffinity", lambda process: {0}, raising=False)
        yield caches


@pytest.fixture(scope="module")
def train(own_caches, corpus_folder):
    """Run scripts/train.py and return what it told the user."""

    def run(output_dir, **settings) -> str:
        told = []
        handler = logging.Handler()
        handler.emit = lambda record: told.append(record.getMessage())
        log = logging.getLogger("hf_xmtc")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        chosen = {"dataset": corpus_folder, "output_dir": output_dir, **TINY_MODEL, **TINY_TRAINING, **settings}
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", [str(SCRIPT), *as_arguments(**chosen)])
                patch.setattr(export_check, "subprocess", SimpleNamespace(run=fork))
                runpy.run_path(str(SCRIPT), run_name="__main__")
        finally:
            log.removeHandler(handler)
            torch.set_num_threads(1)
        return "\n".join(told)

    return run


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def settings(tiny_model_folder: Path, texts: Path, tmp_path: Path) -> dict:
    """Settings for seven documents in batches of three and chunks of four."""
    return {
        "model": str(tiny_model_folder),
        "input": str(texts),
        "output": str(tmp_path / "tags.jsonl"),
        "top_k": 3,
        "batch_size": 3,
        "chunk_size": 4,
        "device": "cpu",
    }

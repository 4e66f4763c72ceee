"""A hub on loopback, a tiny model folder, and client code that meets the hub in a fresh process."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import pytest

from forked_python import run_python
from hf_xmtc.commands.push import main as push_main
from hf_xmtc.hub import card_from_folder
from local_hub import LocalHub

METRICS = {
    "test": {"P@1": 0.9714285714, "P@5": 0.74, "nDCG@5": 0.825, "PSP@5": 0.61, "num_documents": 858, "num_left_out": 2},
    "validation": {"P@1": 0.96, "nDCG@5": 0.82, "num_documents": 579, "num_left_out": 0},
    "train": {"seconds": 241.5, "documents_per_second": 56.7, "peak_memory_mb": 1310.0},
}
RECIPE = {
    "model_family": "bertxml",
    "dataset_name": "demo",
    "language": "en",
    "cornet_num_blocks": 2,
    "learning_rate": 5e-4,
    "max_length_tokens": 128,
}


@pytest.fixture
def facts() -> dict:
    """Arguments for `build_model_card`."""
    label_info = {"num_labels": 572, "examples": ["role: program"], "num_with_parents": 570}
    names = {"model_name": "tiny-tagger", "model_family": "bertxml", "dataset_name": "Debian tags", "language": "en"}
    return {**names, "label_info": label_info, "metrics": METRICS, "recipe": RECIPE}


@pytest.fixture
def model_folder(tiny_model_folder: Path, tmp_path: Path) -> Path:
    """A complete model folder of its own for each test, which may damage it."""
    folder = Path(shutil.copytree(tiny_model_folder, tmp_path / "tiny-tagger"))
    (folder / "metrics.json").write_text(json.dumps(METRICS), encoding="utf-8")
    (folder / "recipe.json").write_text(json.dumps(RECIPE), encoding="utf-8")
    card_from_folder(folder).save(folder / "README.md")
    return folder


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub() as hub:
        yield hub


@pytest.fixture
def run_client(hub: LocalHub, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Run ``python -c code *args`` (or a script file) against the hub, in a fresh process.

    ``cache`` names the cache folder, so that two calls share it or each starts from an empty one; ``fails=True`` expects a
    non-zero exit; further keywords are environment variables.
    """

    def run(code: str | Path, *args: object, cache: str = "cache", fails: bool = False, **variables: str):
        environment = dict.fromkeys(key for key in os.environ if key.startswith(("HF_", "HUGGING")))
        environment |= {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / cache),
            "HF_TOKEN": "hf_token_of_the_tests",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1",
            **variables,
        }
        # Nothing on standard input: a question would end in an error instead of waiting for an answer.
        done = run_python(code, *args, environment=environment)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def push(hub: LocalHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """Run the push command in this process against the hub, which is much faster than a fresh one, and return what it says.

    ``fails=True`` expects it to be refused.
    """
    # A fresh process would read these from HF_ENDPOINT and HF_HUB_DISABLE_XET.
    monkeypatch.setattr("hf_xmtc.hub.push.HfApi", functools.partial(huggingface_hub.HfApi, endpoint=hub.url))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_token_of_the_tests")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def run(folder: Path, repo_id: str, *options: str, fails: bool = False) -> str:
        status = push_main(["--model", str(folder), "--repo_id", repo_id, *options])
        said = capsys.readouterr()
        assert status == (1 if fails else 0), said.out + said.err
        return said.err if fails else said.out

    return run

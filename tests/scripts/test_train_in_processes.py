"""scripts/train.py under launchers: one process of accelerate, and two processes that must join."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file
from transformers import AutoTokenizer

from forked_python import run_python
from hf_xmtc import BertXMLForXMTC, XMTCTrainer, XMTCTrainingArguments, load_xmtc_dataset
from hf_xmtc.data import label_counts
from small_corpus import make_documents, write_corpus
from two_processes import TORCHRUN

SCRIPT = str(Path(__file__).resolve().parents[2] / "scripts" / "train.py")
ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch"]
NO_DROPOUT = "hidden_dropout_prob=0,attention_probs_dropout_prob=0,classifier_dropout=0"
# Two steps with plain gradient descent and without dropout, so that one process and two do the same arithmetic.
SETTINGS = {
    "cornet_context_size": 4,
    "num_cls_tokens": 2,
    "config_overrides": f"hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16,{NO_DROPOUT}",
    "max_length_tokens": 16,
    "min_document_frequency": 1,
    "per_device_eval_batch_size": 3,
    "max_steps": 2,
    "optim": "sgd",
    "learning_rate": 0.5,
    "disable_tqdm": True,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data folder `data`, and room for the runs."""
    folder = tmp_path_factory.mktemp("processes")
    write_corpus(folder / "data")
    return folder


@pytest.fixture(scope="module")
def run(place):
    """Start the script, with a launcher or without; the finished process."""

    def start(launcher: list[str], name: str, **settings) -> subprocess.CompletedProcess:
        chosen = {"dataset": place / "data", "output_dir": place / name, **SETTINGS, **settings}
        arguments = [text for key, value in chosen.items() for text in (f"--{key}", str(value))]
        environment = {**os.environ, "HF_DATASETS_CACHE": str(place / "cache"), "HF_MODULES_CACHE": str(place / "modules")}
        if not launcher:
            return run_python(Path(SCRIPT), *arguments, environment=environment)
        return subprocess.run(
            [*launcher, SCRIPT, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=place,
            env=environment,
            check=False,
        )

    return start


@pytest.fixture(scope="module")
def alone(run, place):
    """Folder of a run in one process, batches of 4, as the README starts it."""
    done = run(ACCELERATE, "alone", per_device_train_batch_size=4)
    assert done.returncode == 0, done.stderr
    assert "1 process(es)" in done.stderr
    return place / "alone"


@pytest.fixture(scope="module")
def joined(run, place):
    """Folder of a run in two processes, batches of 2 in each."""
    done = run(TORCHRUN, "joined", per_device_train_batch_size=2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 process(es)") == 1, done.stderr  # said by one of them
    assert done.stderr.count("Reopened") == 1
    return place / "joined"


def assert_same_model(first: Path, second: Path) -> None:
    ours, theirs = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    assert max((ours[name] - theirs[name]).abs().max().item() for name in ours) < 1e-5
    measured = [json.loads((folder / "metrics.json").read_text()) for folder in (first, second)]
    assert measured[0]["test"] == pytest.approx(measured[1]["test"], abs=1e-6)


def test_accelerate_launch_runs_the_script(alone):  # AC-35
    assert json.loads((alone / "metrics.json").read_text())["train"]["steps"] == 2


def test_two_processes_train_the_model_that_one_trains(alone, joined):
    assert_same_model(alone, joined)
    costs = [json.loads((folder / "metrics.json").read_text())["train"] for folder in (alone, joined)]
    assert [cost["processes"] for cost in costs] == [1, 2]
    assert [cost["steps"] for cost in costs] == [2, 2]


def test_two_processes_measure_what_one_measures(joined, place, tmp_path):  # AC-25
    # The folder was evaluated by two processes: 7 documents in batches of 3.
    rows = pq.read_table(joined / "predictions" / "test.parquet").to_pylist()
    assert [row["row"] for row in rows] == list(range(7))
    assert [row["gold"] for row in rows] == [labels for _, labels in make_documents(7, seed=2)]

    data = load_xmtc_dataset(place / "data", cache_dir=tmp_path / "cache")
    no_training = {"eval_strategy": "no", "load_best_model_at_end": False}
    trainer = XMTCTrainer(
        BertXMLForXMTC.from_pretrained(joined),
        XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, per_device_eval_batch_size=3, **no_training),
        processing_class=AutoTokenizer.from_pretrained(joined),
        label_counts=label_counts(data["train"], 6),
        num_train_documents=24,
    )
    output = trainer.predict(data["test"])
    assert output.predictions[1].tolist() == [row["label_ids"] for row in rows]
    np.testing.assert_allclose(output.predictions[0], [row["scores"] for row in rows], atol=1e-6)
    stored = json.loads((joined / "metrics.json").read_text())["test"]
    assert stored["num_documents"] == 7
    for name, value in stored.items():
        assert output.metrics[f"test_{name}"] == pytest.approx(value, abs=1e-6), name


def multi_gpu() -> list[str]:
    """The launcher with two processes at a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    two = ["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--main_process_port", str(port)]
    return [*ACCELERATE, *two, "--mixed_precision", "no", "--dynamo_backend", "no"]


def test_accelerate_joins_two_processes_on_cpus_that_share_the_labels_and_train_the_same_model(run, place, alone):
    done = run(multi_gpu(), "sharded", per_device_train_batch_size=2, shard_labels=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 process(es)") == done.stderr.count("Reopened") == 1, done.stderr
    assert_same_model(alone, place / "sharded")
    costs = [json.loads((place / name / "metrics.json").read_text())["train"] for name in ("alone", "sharded")]
    assert costs[0]["parameters"] == costs[1]["parameters"] and costs[1]["processes"] == 2


def test_sharding_the_labels_in_one_process_is_refused(run, place):
    done = run([], "in_one", shard_labels=True)
    assert done.returncode != 0
    assert "shard_labels=True with world_size=1" in done.stderr and "torchrun --nproc_per_node N" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / "in_one").exists()


def test_accelerate_starting_one_process_instead_of_two_is_refused(run, place):
    done = run([*ACCELERATE, "--cpu", "--num_processes", "2"], "refused")
    assert done.returncode != 0
    assert "was asked for 2 processes but has started one, as it does with --cpu. On CPUs start them with" in done.stderr
    assert not (place / "refused").exists()

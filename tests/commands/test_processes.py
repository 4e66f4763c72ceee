"""Processes that do not train together are refused. Those that do are in tests/scripts."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from weakref import ref

import psutil
import pytest
import torch
import yaml

from forked_python import run_python
from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.commands.processes import (
    UnjoinedProcessesError,
    check_processes_joined,
    leave_processes,
    peak_memory_mb,
    requested_processes,
    set_up_process,
    usable_cores,
)

LAUNCH = ["/env/bin/python", "/env/bin/accelerate", "launch"]


def test_what_holds_itself_is_freed_before_the_group_of_processes_ends(monkeypatch):
    model, left = torch.nn.Module(), []
    model.trainer, alive = SimpleNamespace(model=model), ref(model)
    del model
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: left.append(alive()))
    leave_processes()
    assert left == [None]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([*LAUNCH, "--cpu", "--num_processes", "2", "scripts/train.py", "--num_processes", "7"], 2),
        ([*LAUNCH, "--cpu", "--num-processes=3", "scripts/train.py"], 3),
        ([*LAUNCH, "--num_processes", "1", "scripts/train.py"], 1),
        (["/env/bin/accelerate-launch", "--num_processes", "2", "train.py"], 2),
        (["python", "-m", "accelerate.commands.launch", "--num_processes", "2", "train.py"], 2),
        (["python", "-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "2", "train.py"], 2),
        ([*LAUNCH, "--cpu", "scripts/train.py"], None),
        (["/env/bin/python", "/env/bin/accelerate", "test"], None),
        (["bash", "-c", "accelerate launch --num_processes 2 scripts/train.py"], None),
        (["/env/bin/torchrun", "--nproc_per_node", "2", "scripts/train.py"], None),
        ([], None),
    ],
)
def test_the_number_of_processes_is_read_from_the_launchers_command_line(command, expected):
    assert requested_processes(command) == expected


def test_the_number_of_processes_may_stand_in_the_launchers_config_file(tmp_path):
    settings = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_CPU", "use_cpu": True, "num_processes": 2}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(settings))
    assert requested_processes([*LAUNCH, "--config_file", str(tmp_path / "two.yaml"), "scripts/train.py"]) == 2


@pytest.fixture
def args(tmp_path):
    return XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True)


def launched_by(monkeypatch, command: list[str]) -> None:
    process = SimpleNamespace(parent=lambda: SimpleNamespace(cmdline=lambda: command))
    monkeypatch.setattr(psutil, "Process", lambda: process)


def test_one_process_where_two_were_asked_for_is_refused(args, monkeypatch):
    launched_by(monkeypatch, [*LAUNCH, "--cpu", "--num_processes", "2", "scripts/train.py"])
    with pytest.raises(UnjoinedProcessesError, match="was asked for 2 processes but has started one, as it does with --cpu"):
        check_processes_joined(args)
    launched_by(monkeypatch, [*LAUNCH, "scripts/train.py"])
    check_processes_joined(args)


def test_a_parent_that_cannot_be_asked_is_no_hindrance(args, monkeypatch):
    def cmdline():
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(parent=lambda: SimpleNamespace(cmdline=cmdline)))
    check_processes_joined(args)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(parent=lambda: None))
    check_processes_joined(args)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="with an accelerator such processes join")
def test_processes_that_did_not_join_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    args = XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=False)
    with pytest.raises(
        UnjoinedProcessesError, match=r"2 processes were started but did not join .*--use_cpu False .*torchrun"
    ):
        check_processes_joined(args)


# ---- cores and memory ----------------------------------------------------------------------------------------------------


def test_cores_are_those_the_process_may_use_and_all_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    assert usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_peak_memory_lies_between_what_is_held_and_what_the_machine_has():
    held = psutil.Process().memory_info().rss / 2**20
    assert held - 8 <= peak_memory_mb() == peak_memory_mb(torch.device("cpu")) < psutil.virtual_memory().total / 2**20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="other systems count otherwise")
def test_peak_memory_is_not_that_of_the_process_that_started_this_one():
    held = b"x" * 300 * 2**20
    code = "from hf_xmtc.commands.processes import peak_memory_mb; print(peak_memory_mb())"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(started.stdout) < peak_memory_mb() - len(held) / 2**20 / 2


def test_peak_memory_on_windows_comes_from_psutil(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "resource", None)
    memory = SimpleNamespace(peak_wset=300 * 2**20)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: memory))
    assert peak_memory_mb() == 300


def test_prediction_needs_nothing_of_the_training_extra():
    code = (
        "import sys, transformers\n"
        "sys.modules.update(dict.fromkeys(('datasets', 'psutil', 'pyarrow', 'matplotlib')))\n"
        "import hf_xmtc.commands.predict\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("supported", [True, False])
def test_bfloat16_on_a_cpu_without_it_is_warned_of(tmp_path, monkeypatch, caplog, supported):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    set_up_process(XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, bf16=True))
    assert ("this CPU has no instructions for bfloat16" in caplog.text) == (not supported)

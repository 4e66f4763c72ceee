"""Scripts of tests that run in two processes."""

import os
import subprocess
import sys
from pathlib import Path

from hf_xmtc.commands.processes import leave_processes

__all__ = ["TORCHRUN", "leave", "run_script"]

TESTS = Path(__file__).resolve().parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def leave() -> None:
    """NEW"""
    leave_processes()


def run_script(launcher: list[str], script: str, *arguments: str) -> None:
    """Start a script that can import what tests can, on one thread a process, and fail with its output if it fails."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [*launcher, script, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr

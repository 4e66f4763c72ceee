"""Needs of every benchmark: a description of the machine, a process of its own for a measurement of memory, and the files of the result."""

import multiprocessing
import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import torch

from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.processes import usable_cores

__all__ = ["in_new_process", "machine_description", "write_results"]

GIB = 2**30


def machine_description() -> dict[str, Any]:
    """Processor, cores, memory and GPU, for the record of a benchmark."""
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            named = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        processor = named[0] if named else processor
    machine = {
        "processor": processor,
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
    }
    if torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of a module's function in a process of its own, whose peak of memory is that of the function."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def write_results(output: Path, results: dict[str, Any], table: str) -> None:
    """Write ``<output>.json`` and ``<output>.md``."""
    write_json(output.with_suffix(".json"), results)
    output.with_suffix(".md").write_text(table, encoding="utf-8")

"""Processes of a command: are those of a training run joined, which cores and memory does each use, who talks."""

import gc
import logging
import os
import re
import sys
from pathlib import Path

import torch
from transformers import TrainingArguments
from transformers.training_args import ParallelMode

__all__ = [
    "UnjoinedProcessesError",
    "check_processes_joined",
    "leave_processes",
    "log_once",
    "peak_memory_mb",
    "requested_processes",
    "set_up_process",
    "usable_cores",
]

logger = logging.getLogger(__name__)

HOW_TO_JOIN = (
    "On CPUs start them with `torchrun --nproc_per_node N scripts/train.py` or `accelerate launch --multi_gpu --num_processes "
    "N --num_machines 1 scripts/train.py` (that flag joins processes on CPUs too)."
)


class UnjoinedProcessesError(RuntimeError):
    """Several processes were asked for, and they do not train together."""


def set_up_process(args: TrainingArguments) -> None:
    """Logging, threads and progress bars of this process.

    Raises:
        UnjoinedProcessesError: If several processes were asked for and they are not joined.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO if args.should_log else logging.WARNING)
    check_processes_joined(args)
    launched = "LOCAL_WORLD_SIZE" in os.environ or "ACCELERATE_MIXED_PRECISION" in os.environ
    if args.device.type == "cpu" and (launched or "OMP_NUM_THREADS" not in os.environ):
        # `accelerate launch` gives every process one thread, which leaves most of the machine idle; without it the number is the user's.
        torch.set_num_threads(max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    if not args.should_log:
        import datasets  # not at the top: prediction uses this file too, and does without

        datasets.disable_progress_bars()
    if args.device.type == "cpu" and args.bf16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        logger.warning(
            "bf16=True, but this CPU has no instructions for bfloat16: it will be several times slower than float32. Leave it out here."
        )
    log_once(args, f"{args.world_size} process(es), {torch.get_num_threads()} thread(s) each, on {args.device.type}.")


def leave_processes() -> None:
    """Take leave of the other processes at the end of a command; without it, an exiting interpreter sometimes aborts."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # A trainer and its callbacks hold each other, and with them the model's reducer, whose threads need the group to end.
        gc.collect()
        torch.distributed.destroy_process_group()


def log_once(args: TrainingArguments, text: str) -> None:
    """Tell the user something once, however many processes there are."""
    if args.should_log:
        logger.info(text)


def usable_cores() -> int:
    """CPU cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory_mb(device: torch.device | None = None) -> int:
    """Most memory that this process has held so far, in MiB: on a CUDA device that of its tensors, else the process's own."""
    if device is not None and device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    if sys.platform == "win32":
        import psutil

        return round(psutil.Process().memory_info().peak_wset / 2**20)
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)):
        # Of this program alone: the number below may be that of the process which started it.
        return round(int(match[1]) / 2**10)
    import resource  # is not there on Windows

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))


def check_processes_joined(args: TrainingArguments) -> None:
    """Refuse processes that would each train alone on all data, and launchers that silently started one instead of several.

    Raises:
        UnjoinedProcessesError: If the processes that were asked for are not joined.
    """
    import psutil  # as `datasets` above

    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > 1 and args.parallel_mode != ParallelMode.DISTRIBUTED:
        raise UnjoinedProcessesError(
            f"{started} processes were started but did not join (parallel mode {args.parallel_mode.value}), so each would "
            f"train alone and overwrite the others. Was --use_cpu False given without an accelerator? {HOW_TO_JOIN}"
        )
    parent = psutil.Process().parent()
    try:
        requested = requested_processes(parent.cmdline()) if parent is not None else None
    except psutil.Error:  # another user's process, or one that has ended: not our launcher
        return
    if requested is not None and requested > 1 and args.world_size == 1:
        raise UnjoinedProcessesError(
            f"`accelerate launch` was asked for {requested} processes but has started one, as it does with --cpu. "
            f"{HOW_TO_JOIN} For one process say --num_processes 1."
        )


def requested_processes(command: list[str]) -> int | None:
    """Processes that an ``accelerate launch`` command line, or its config file, asks for.

    Args:
        command: A process's command line, the interpreter included.

    Returns:
        Their number; None for other commands and where it is not said.
    """
    names = [os.path.basename(part) for part in command]
    arguments = None
    for position, name in enumerate(names[:4]):
        if name in ("accelerate-launch", "accelerate.commands.launch"):
            arguments = command[position + 1 :]
        elif name in ("accelerate", "accelerate.commands.accelerate_cli") and "launch" in names[position + 1 :]:
            arguments = command[names.index("launch", position + 1) + 1 :]
    if arguments is None:
        return None
    from accelerate.commands.config import default_config_file, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    settings, _ = launch_command_parser().parse_known_args(arguments)
    if settings.num_processes is not None:
        return settings.num_processes
    # As the launcher does: a config file given, else the user's own, which --cpu leaves aside.
    if settings.config_file is not None or (os.path.isfile(default_config_file) and not settings.cpu):
        return load_config_from_file(settings.config_file).num_processes
    return None

"""Measure the label head against the usual way: ``python scripts/benchmarks/label_head_speed.py``, half an hour on two idle cores.

Usual is `nn.Linear` with `BCEWithLogitsLoss` on dense targets and Adam, and `torch.topk` on all logits. Every case runs in a new
process, so that the peak of its memory is its own, and the methods that are compared take turns, so that they share what else goes
on. Results are written as they come: the same command goes on where it was interrupted. At the end ``<output>.json`` holds all
measurements, comparisons and targets, ``<output>.md`` the tables.
"""

import argparse
import dataclasses
import fnmatch
import json
import logging
import multiprocessing
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import torch

from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.processes import usable_cores
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from label_head_cases import METHODS, Case, Effort, measure, needed_gib
from label_head_comparison import checks, compare, number
from label_head_page import markdown
from label_head_plan import FULL, QUICK, Group, Plan, groups_of
from machine import machine_description

__all__ = ["main", "run_benchmark"]

logger = logging.getLogger(__name__)

TITLE = "The label head against the usual way"
GIB = 2**30
# Left to everything else on the machine.
RESERVE_GIB = 1.0
# What makes importing `label_head_cases` slow; the folder of that file is not where a fork server looks.
IMPORTED = ["hf_xmtc.models.modeling_bertxml", "hf_xmtc.tokenization.word_level", "hf_xmtc.training.trainer"]


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/benchmarks/label_head_speed.py``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="Tiny sizes, to see that everything works.")
    parser.add_argument(
        "--cases", nargs="+", metavar="PATTERN", help="Run only cases whose name matches, such as 'step/3956/*' or 'topk/*'."
    )
    parser.add_argument("--repeats", type=int, help="Processes per case; by default 1 to 5, fewer for large cases.")
    parser.add_argument("--threads", type=int, default=min(2, usable_cores()), help="Threads of torch.")
    parser.add_argument("--device", default="cpu", help="cpu or cuda.")
    parser.add_argument(
        "--memory_gib", type=float, help=f"Memory to use; by default what is free less {RESERVE_GIB:.0f} GiB."
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "results" / "benchmark_label_head",
        help="Results, without an ending: scripts/results/benchmark_label_head.",
    )
    parser.add_argument("--restart", action="store_true", help="Measure chosen cases anew that are in the results already.")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        failed = run_benchmark(
            QUICK if arguments.quick else FULL,
            arguments.output,
            patterns=arguments.cases,
            repeats=arguments.repeats,
            threads=arguments.threads,
            device=arguments.device,
            memory_gib=arguments.memory_gib,
            restart=arguments.restart,
        )
    except ValueError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    if failed:
        sys.exit(f"{len(failed)} case(s) failed: {', '.join(failed)}. The same command tries them again.")


def run_benchmark(
    plan: Plan,
    output: Path,
    patterns: Sequence[str] | None = None,
    repeats: int | None = None,
    threads: int = 2,
    device: str = "cpu",
    memory_gib: float | None = None,
    restart: bool = False,
) -> list[str]:
    """Measure what is missing in the results, and write the tables.

    Args:
        plan: What is measured.
        output: Results, without an ending.
        patterns: Names of the cases to run, with wildcards; all by default.
        repeats: Processes per case.
        threads: Threads of torch.
        device: ``cpu`` or ``cuda``.
        memory_gib: Memory that a case may take; by default what is free.
        restart: Measure chosen cases anew.

    Returns:
        Names of the cases that failed.

    Raises:
        ValueError: If no case is chosen, or the results are of another machine or other settings.
    """
    groups = groups_of(plan, repeats)
    chosen = [_chosen(group, patterns) for group in groups]
    if not any(group.cases for group in chosen):
        raise ValueError(
            f"No case has a name like {' or '.join(patterns or [])}. Names are {', '.join(_some_names(groups))} …"
        )
    run = _Run(plan, output.with_suffix(".json"), threads, device, memory_gib)
    if restart:
        started = [case for group in chosen if group.cases for case in (*group.cases, group.machine) if case is not None]
        run.forget(case.name for case in started)
    run.count(chosen)
    for group in chosen:
        run.measure_group(group)
    return run.finish([case for group in groups for case in group.cases])


def _chosen(group: Group, patterns: Sequence[str] | None) -> Group:
    cases = group.cases
    if patterns is not None:
        cases = tuple(case for case in cases if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns))
    return dataclasses.replace(group, cases=cases)


def _some_names(groups: Sequence[Group]) -> list[str]:
    first: dict[str, str] = {}
    for group in groups:
        first.setdefault(group.cases[0].name.split("/")[0], group.cases[0].name)
    return list(first.values())


class _Run:
    """The results so far, and how more are added to them."""

    def __init__(self, plan: Plan, path: Path, threads: int, device: str, memory_gib: float | None):
        self.plan, self.path, self.memory_gib = plan, path, memory_gib
        settings = {
            "threads": threads,
            "device": device,
            "torch": str(torch.__version__),
            "memory_mib": XMTCConfig().label_memory_mib,
        }
        self.content: dict[str, Any] = {
            "title": TITLE,
            "machine": machine_description(),
            "settings": settings,
            "data_sets": {str(count): name for count, name in plan.data_sets.items()},
            "cases": {},
        }
        if path.exists():
            self.content["cases"] = self._earlier_cases()
        # A new process without the imports, which would take longer than most cases.
        forked = "forkserver" in multiprocessing.get_all_start_methods()
        self.processes = multiprocessing.get_context("forkserver" if forked else "spawn")
        if forked:
            self.processes.set_forkserver_preload(IMPORTED)
        self.failed: list[str] = []
        self.number, self.total = 0, 0

    def _earlier_cases(self) -> dict[str, Any]:
        earlier = json.loads(self.path.read_text(encoding="utf-8"))
        for name in ("machine", "settings", "data_sets"):
            if earlier[name] != self.content[name]:
                raise ValueError(
                    f"{self.path.name} holds results with {name} {earlier[name]}, but this run has {self.content[name]}, and the two "
                    "cannot be compared. Give another --output, or delete the file."
                )
        return earlier["cases"]

    def forget(self, names: Any) -> None:
        for name in names:
            self.content["cases"].pop(name, None)

    def count(self, groups: Sequence[Group]) -> None:
        """Find out how many processes there will be."""
        missing = [self._missing(case, group.rounds) for group in groups for case in group.cases]
        with_machine = [
            group for group in groups if group.machine and any(self._missing(c, group.rounds) for c in group.cases)
        ]
        self.total = sum(missing) + 2 * len(with_machine)
        there = sum(count == 0 for count in missing)
        if there:
            logger.info(f"{there} of {len(missing)} cases are in {self.path} already; --restart measures them anew.")

    def _missing(self, case: Case, rounds: int) -> int:
        return max(0, rounds - len(self.content["cases"].get(case.name, {}).get("rounds", [])))

    def measure_group(self, group: Group) -> None:
        if not any(self._missing(case, group.rounds) for case in group.cases):
            return
        if group.machine is not None:
            self._measure(group.machine, Effort(0.15 * self.plan.seconds))
        for turn in range(group.rounds):
            # To and fro, so that a machine that grows slower favours nobody.
            for case in group.cases if turn % 2 == 0 else reversed(group.cases):
                if self._missing(case, group.rounds) >= group.rounds - turn:
                    self._measure(case, group.effort)
        if group.machine is not None:
            self._measure(group.machine, Effort(0.15 * self.plan.seconds))

    def _measure(self, case: Case, effort: Effort) -> None:
        """Measure a case once, in a new process, and keep what comes out."""
        self.number += 1
        found = self.content["cases"].setdefault(case.name, {"rounds": []})
        needed, free = needed_gib(case), self._free_gib()
        found.pop("failed", None), found.pop("does_not_fit", None)
        if needed > free:
            found["does_not_fit"] = {"needed_gib": needed, "free_gib": free}
            outcome = f"does not fit: needs about {needed:.1f} GiB, {free:.1f} GiB may be used"
        else:
            start = time.perf_counter()
            result = self._in_new_process(case, effort)
            if "failed" in result:
                found["failed"] = result["failed"]
                self.failed.append(case.name)
                outcome = f"failed: {result['failed']}"
            else:
                found["rounds"].append(result)
                outcome = f"{_headline(case, result)} ({time.perf_counter() - start:.1f} s)"
        logger.info(f"[{self.number}/{self.total}] {case.name}: {outcome}")
        write_json(self.path, self.content)

    def _free_gib(self) -> float:
        if self.memory_gib is not None:
            return self.memory_gib
        if self.content["settings"]["device"].startswith("cuda"):
            return torch.cuda.mem_get_info()[0] / GIB - RESERVE_GIB
        return psutil.virtual_memory().available / GIB - RESERVE_GIB

    def _in_new_process(self, case: Case, effort: Effort) -> dict[str, Any]:
        settings = self.content["settings"]
        here, there = self.processes.Pipe(duplex=False)
        process = self.processes.Process(target=_work, args=(there, case, effort, settings["threads"], settings["device"]))
        process.start()
        there.close()
        try:
            result = here.recv()
        except EOFError:
            result = None
        process.join()
        if result is None:
            return {"failed": f"the process ended with exit code {process.exitcode}; -9 is what comes of too little memory"}
        return result

    def finish(self, cases: Sequence[Case]) -> list[str]:
        """Compare, write JSON and tables, and give the names of failed cases."""
        comparisons = compare(self.content["cases"], cases, self.content["settings"]["memory_mib"])
        self.content["comparisons"] = comparisons
        self.content["checks"] = [dataclasses.asdict(check) for check in checks(comparisons)]
        write_json(self.path, self.content)
        text = markdown(self.content)
        self.path.with_suffix(".md").write_text(text, encoding="utf-8")
        logger.info(f"\n{text}")
        return sorted(set(self.failed))


def _work(answer: Connection, case: Case, effort: Effort, threads: int, device: str) -> None:
    """Measure in the new process, and answer through the pipe."""
    adjustment = Path("/proc/self/oom_score_adj")
    if adjustment.exists():
        adjustment.write_text("1000")  # should memory run out after all, this process goes and no other
    try:
        answer.send(measure(case, effort, threads, device))
    except Exception as error:
        traceback.print_exc()
        answer.send({"failed": f"{type(error).__name__}: {error}"})


def _headline(case: Case, result: Mapping[str, Any]) -> str:
    if case.kind == "step":
        times = sorted(result["ms"])
        extra = f"{result['extra_mib']:,.0f} MiB beyond {result['weights_mib']:,.0f} MiB of weights"
        return f"{METHODS[case.method]}, {number(times[len(times) // 2])} ms ({len(times)} steps), {extra}"
    if case.kind == "machine":
        return f"{result['gflops']['square']:.0f} GFLOP/s at 1024³, {result['gb_per_second']:.1f} GB/s"
    times = {name: value for name, value in result.items() if name.endswith("_ms")}
    return ", ".join(f"{name[:-3]} {number(min(v) if isinstance(v, list) else v)} ms" for name, v in times.items())


if __name__ == "__main__":
    main()

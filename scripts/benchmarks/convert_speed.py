"""Speed and memory of converting a file of text documents to parquet, and of loading one of very long texts.

    python scripts/benchmarks/convert_speed.py --output scripts/results/benchmark_convert.json
    python scripts/benchmarks/convert_speed.py --num_proc 2 --formats csv jsonl --output scripts/results/benchmark_convert_processes.json

Each case has a process of its own on one core. Memory is the peak of that process above what it holds after its imports. With `--num_proc`
the command `hf-xmtc convert` reads the same files in one process and in several, one after the other.
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import psutil

from hf_xmtc.data import load_xmtc_dataset
from hf_xmtc.data.formats.conversion import write_corpus
from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import CorpusFiles, find_format
from machine import in_new_process, machine_description, write_results

ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "libmultilabel": "txt", "fasttext": "txt", "annif": "tsv"}
# Different texts that are written in turn, and words of a text of a megabyte.
VARIETY, LONG = 2_000, 150_000


def write_file(path: Path, kind: str, num_documents: int, num_words: int) -> None:
    """Documents of words drawn by their rank, with five labels each."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(50_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    variety = min(VARIETY, num_documents, max(1, VARIETY * 200 // num_words))
    texts = [" ".join(chance.choices(words, cum_weights=weights, k=num_words)) for _ in range(variety)]
    with open(path, "w", encoding="utf-8") as file:
        if kind in ("csv", "tsv"):
            file.write("text,labels\n" if kind == "csv" else "text\tlabels\n")
        for number in range(num_documents):
            labels = [f"label{(number * 7 + i * i * 31) % 10_000}" for i in range(5)]
            file.write(_line(kind, number, texts[number % len(texts)], labels) + "\n")


def _line(kind: str, number: int, text: str, labels: list[str]) -> str:
    listed = json.dumps(labels)
    if kind == "jsonl":
        return json.dumps({"text": text, "labels": labels})
    if kind == "libmultilabel":
        return f"{number}\t{' '.join(labels)}\t{text}"
    if kind == "fasttext":
        return " ".join(f"__label__{label}" for label in labels) + f" {text}"
    if kind == "annif":
        return f"{text}\t{' '.join(f'<http://example.org/{label}>' for label in labels)}"
    quoted = listed.replace('"', '""')
    return f'{text},"{quoted}"' if kind == "csv" else f"{text}\t{listed}"


def convert(path: Path, kind: str, folder: Path) -> dict[str, float]:
    """Convert a file: seconds and peak memory."""

    def act() -> None:
        source = CorpusFiles(kind, find_format(path, kind)[1], ReadSettings())
        write_corpus(source.read(), folder, source, kind)

    return _costs(act)


def load(path: Path, kind: str, folder: Path) -> dict[str, float]:
    """Load a file as training does, through parquet into the cache: seconds and peak memory."""
    warnings.simplefilter("ignore")  # texts repeat
    return _costs(lambda: load_xmtc_dataset(path, format=kind, cache_dir=folder))


def _costs(act: Callable[[], object]) -> dict[str, float]:
    before, processor, clock = _peak_mib(), time.process_time(), time.monotonic()
    act()
    return {
        "processor_seconds": round(time.process_time() - processor, 2),
        "seconds": round(time.monotonic() - clock, 2),
        "peak_mib": round(_peak_mib() - before),
        "imports_mib": round(before),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(act: Callable, kind: str, num_documents: int, num_words: int, work: Path) -> dict:
    """One case, with the size of its file."""
    with tempfile.TemporaryDirectory(dir=work) as name:
        path, folder = Path(name, f"documents.{ENDINGS[kind]}"), Path(name, "result")
        folder.mkdir()
        write_file(path, kind, num_documents, num_words)
        costs = in_new_process(act, path, kind, folder)
        megabytes = path.stat().st_size / 1e6
    return {
        "act": act.__name__,
        "format": kind,
        "documents": num_documents,
        "words": num_words,
        "megabytes": round(megabytes),
        "megabytes_per_second": round(megabytes / costs["processor_seconds"], 1),
        **costs,
    }


def compare(kind: str, num_documents: int, num_words: int, num_proc: int, work: Path) -> list[dict]:
    """The command in one process and in several, on the same file."""
    with tempfile.TemporaryDirectory(dir=work) as name:
        path = Path(name, f"documents.{ENDINGS[kind]}")
        write_file(path, kind, num_documents, num_words)
        megabytes = path.stat().st_size / 1e6
        cases = []
        for number in (1, num_proc):
            options = [
                "--dataset",
                path,
                "--format",
                kind,
                "--output_dir",
                Path(name, str(number)),
                "--num_proc",
                str(number),
            ]
            main = "from hf_xmtc import cli; raise SystemExit(cli.main())"
            costs = _costs_of_command([sys.executable, "-c", main, "convert", *map(str, options)])
            case = {"format": kind, "documents": num_documents, "megabytes": round(megabytes), "num_proc": number}
            cases.append({**case, "megabytes_per_second": round(megabytes / costs["chain_seconds"], 1), **costs})
            print(json.dumps(cases[-1]), flush=True)
    return cases


def _costs_of_command(command: list[str]) -> dict[str, float]:
    """Seconds from start to end, processor seconds and peak memory of a command with all its processes.

    ``chain_seconds`` are the processor seconds of what happens one after the other: the first process, the server that starts the others, and
    the busiest of these.
    """
    load, clock, peak = os.getloadavg()[0], time.monotonic(), 0
    seconds: dict[int, float] = {}  # of each process
    generations: dict[int, int] = {}
    process = psutil.Popen(command)
    while process.poll() is None:
        memory = 0
        for generation, one in _family(process):
            try:
                memory += one.memory_full_info().uss
                seconds[one.pid] = sum(one.cpu_times()[:2])
                generations[one.pid] = generation
            except psutil.Error:  # has just ended
                continue
        peak = max(peak, memory)
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}.")
    return {
        "seconds": round(time.monotonic() - clock, 1),
        "processor_seconds": round(sum(seconds.values()), 1),
        "chain_seconds": round(
            sum(max(of for pid, of in seconds.items() if generations[pid] == i) for i in set(generations.values())), 1
        ),
        "peak_mib": round(peak / 2**20),
        "load_before": round(load, 1),
    }


def _family(process: psutil.Process, generation: int = 0) -> Iterator[tuple[int, psutil.Process]]:
    """A process and those that it and they have started, with their generation."""
    yield generation, process
    try:
        children = process.children()
    except psutil.NoSuchProcess:
        return
    for child in children:
        yield from _family(child, generation + 1)


def processes_table(results: dict) -> str:
    """The comparison of one process with several as a table."""
    machine = results["machine"]
    lines = [
        "# Converting files of documents in several processes",
        "",
        f"`hf-xmtc convert --num_proc N` on the same file, from start to end with all imports. Shared machine of {machine['cores']} cores "
        f"({machine['processor']}), both busy with other work (*load*: processes that wanted a core before the start), so the clock's seconds say "
        "little. *Chain*: processor seconds of what cannot happen at once, about the seconds on free cores: the first process, the server that "
        "imports for the others, and the busiest of these; MB/s are of these. *All*: processor seconds of all processes; MiB: peak of the memory "
        "that they do not share.",
        "",
        "| format | documents | MB | processes | MB/s | chain | all | clock | MiB | load |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {case['format']} | {case['documents']:,} | {case['megabytes']:,} | {case['num_proc']} | {case['megabytes_per_second']:.0f} "
        f"| {case['chain_seconds']:.0f} | {case['processor_seconds']:.0f} | {case['seconds']:.0f} | {case['peak_mib']:,} | {case['load_before']} |"
        for case in results["cases"]
    ]
    return "\n".join(lines) + "\n"


def markdown(results: dict) -> str:
    """The measurements as a table."""
    machine = results["machine"]
    lines = [
        "# Converting files of documents",
        "",
        "*convert*: from a file to parquet, as `hf-xmtc convert`; *load*: from a file through parquet into the cache, as `load_xmtc_dataset`. MB/s of "
        "processor time on one core; memory above that of the imports, the peak of a process of its own. Converting takes about the same for ten times as many "
        f"documents. Shared machine of {machine['cores']} cores ({machine['processor']}).",
        "",
        "| | format | documents | words of one | MB | MB/s | seconds | MiB |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {case['act']} | {case['format']} | {case['documents']:,} | {case['words']:,} | {case['megabytes']:,} | {case['megabytes_per_second']:.0f} "
        f"| {case['seconds']:.0f} | {case['peak_mib']:,} |"
        for case in results["cases"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="JSON file of the results; a .md of the table goes beside it")
    parser.add_argument(
        "--documents", type=int, default=1_000_000, help="documents of the largest files (default: %(default)s)"
    )
    parser.add_argument("--words", type=int, default=200, help="words of a document (default: %(default)s)")
    parser.add_argument(
        "--loaded", type=int, default=200_000, help="documents of the largest file that is loaded (default: %(default)s)"
    )
    parser.add_argument("--long", type=int, default=1_000, help="documents of a megabyte (default: %(default)s)")
    parser.add_argument("--formats", nargs="+", default=list(ENDINGS), choices=ENDINGS, help="formats (default: all)")
    parser.add_argument("--num_proc", type=int, metavar="N", help="compare one process with N instead, on the largest files")
    parser.add_argument("--work", type=Path, help="folder for the files (default: that of the system)")
    options = parser.parse_args()
    results = {"machine": machine_description(), "cases": []}
    if options.num_proc is not None:
        for kind in options.formats:
            results["cases"] += compare(kind, options.documents, options.words, options.num_proc, options.work)
        if options.output is not None:
            write_results(options.output, results, processes_table(results))
        return
    plan = [
        (convert, kind, count, options.words)
        for kind in options.formats
        for count in (options.documents // 10, options.documents)
    ]
    plan += [(load, "jsonl", count, options.words) for count in (options.loaded // 10, options.loaded)]
    plan += [
        (act, kind, count, LONG)
        for act, kind in ((convert, "jsonl"), (load, "jsonl"))
        for count in (options.long // 10, options.long)
    ]
    for act, kind, count, words in plan:
        results["cases"].append(measure(act, kind, count, words, options.work))
        print(json.dumps(results["cases"][-1]), flush=True)
    if options.output is not None:
        write_results(options.output, results, markdown(results))


if __name__ == "__main__":
    main()

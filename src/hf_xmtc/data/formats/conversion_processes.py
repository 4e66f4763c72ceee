"""Conversion in several processes: each writes parquet files of whole files, or of spans of large ones.

The documents, their order and the errors are those of one process. A job that fails is read again in this process, which raises the error
with the line's number in the file; what parts must agree in is checked in their order (`Agreement`).
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .corpus import Corpus, Documents, FileRows
from .file_spans import cut_file
from .parquet_files import WrittenFiles, record_batches, write_rows
from .registry import CorpusFiles
from .text_lines import Span

__all__ = ["Job", "plan_jobs", "write_in_processes"]

logger = logging.getLogger(__name__)

# Processes take some seconds to start, in which one alone reads about this much.
_PROCESS_BYTES = 256 << 20
# More jobs than processes, so that all end at about the same time.
_JOBS_PER_PROCESS = 4


@dataclass(frozen=True)
class Job:
    """Input of a process at a time: files or spans of a split, or a split as a whole (None)."""

    split: str
    files: tuple[Path | Span, ...] | None


def plan_jobs(corpus: Corpus, source: CorpusFiles, num_proc: int) -> list[Job]:
    """The jobs of a data set in order; none, with a warning, where one process does as well.

    Args:
        corpus: The data set.
        source: Its files.
        num_proc: Number of processes, at least 2.
    """
    sizes = {path: path.stat().st_size for paths in source.files.values() for path in paths}
    num_bytes = sum(sizes.values())
    num_proc = _useful_processes(num_bytes, num_proc)
    if num_proc < 2:
        logger.warning(
            f"One process reads the {num_bytes / 1e6:,.0f} MB, before others would have started; num_proc (--num_proc) is for files "
            f"of {2 * _PROCESS_BYTES / 1e6:,.0f} MB and more."
        )
        return []
    job_bytes = num_bytes // (num_proc * _JOBS_PER_PROCESS)
    jobs: list[Job] = []
    whole: list[str] = []  # large files that are not cut
    for split, documents in corpus.splits.items():
        paths = source.files[split]
        by_file = isinstance(documents.rows, FileRows)
        spans = {}
        for path in paths:
            if sizes[path] >= 2 * job_bytes:
                cut = documents.rows.cut if by_file else None
                spans[path] = cut_file(path, source.settings.encoding, cut, sizes[path] // job_bytes)
                whole += [path.name] if len(spans[path]) < 2 else []
        jobs += _jobs_of_files(split, paths, spans, sizes, job_bytes) if by_file else [Job(split, None)]
    if whole:
        logger.warning(
            f"Not read in parts: {', '.join(whole)}. Processes share a large file of csv, tsv, jsonl, libmultilabel, fasttext or annif that is "
            "neither compressed nor UTF-16."
        )
    return jobs if len(jobs) > 1 else []


def _useful_processes(num_bytes: int, num_proc: int) -> int:
    return min(num_proc, num_bytes // _PROCESS_BYTES)


def _jobs_of_files(
    split: str, paths: list[Path], spans: dict[Path, list[Span]], sizes: dict[Path, int], job_bytes: int
) -> list[Job]:
    """Spans of large files, and small files together."""
    jobs, small, size = [], [], 0
    for path in paths:
        of_path = spans.get(path, [])
        if small and (len(of_path) > 1 or size >= job_bytes):
            jobs.append(Job(split, tuple(small)))
            small, size = [], 0
        if len(of_path) > 1:
            jobs += [Job(split, (span,)) for span in of_path]
        else:
            small.append(path)
            size += sizes[path]
    return jobs + ([Job(split, tuple(small))] if small else [])


def write_in_processes(
    corpus: Corpus, source: CorpusFiles, jobs: list[Job], folder: Path, num_proc: int, bar: tqdm
) -> dict[str, list[WrittenFiles]] | None:
    """Write the documents of each split under provisional names.

    Args:
        corpus: The data set.
        source: Its files.
        jobs: From `plan_jobs`.
        folder: An empty folder.
        num_proc: Number of processes at most.
        bar: Counts documents.

    Returns:
        The files of each split, in order; None, and nothing in the folder, where one process must read the files.

    Raises:
        ChildProcessError: If a process was killed.
        ValueError: If a file cannot be read.
    """
    written: dict[str, list[WrittenFiles]] = {split: [] for split in corpus.splits}
    failed = None
    num_bytes = sum(path.stat().st_size for paths in source.files.values() for path in paths)
    with _workers(min(_useful_processes(num_bytes, num_proc), len(jobs)), source, folder) as workers:
        for job, outcome in zip(jobs, _outcomes(workers, jobs, source.format, bar), strict=True):
            if isinstance(outcome, Exception):
                failed = job, outcome
                break
            files, seen = outcome
            written[job.split].append(files)
            if corpus.agreement is not None:
                corpus.agreement.check(_rows(corpus.splits[job.split], job), seen)
    if failed is None:
        return written
    job, error = failed
    documents = corpus.splits[job.split]
    if isinstance(error, ValueError):
        _read_again(documents, job)
    if not (isinstance(error, ValueError) and isinstance(documents.rows, FileRows) and documents.rows.cut == "quoted"):
        raise error
    # A table was cut within a row, since a quote stands in a cell without quotes.
    logger.warning(
        f"{job.files[0]}: quotes within cells hide where rows end, so one process reads the files from the beginning."
    )
    for path in folder.iterdir():
        path.unlink()
    bar.reset()
    return None


def _context() -> Any:
    """How processes start: from a server that has imported this module once, where the system has that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@contextlib.contextmanager
def _workers(num_proc: int, source: CorpusFiles, folder: Path) -> Iterator[list[Connection]]:
    """Connections to processes, which end with the block."""
    context, processes, connections = _context(), [], []
    try:
        for _ in range(num_proc):
            ours, theirs = context.Pipe()
            connections.append(ours)
            process = context.Process(target=_work, args=(theirs, source, folder), daemon=True)
            process.start()
            processes.append(process)
            theirs.close()  # so that a process that was killed is noticed
        yield connections
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()


def _outcomes(workers: list[Connection], jobs: list[Job], kind: str, bar: tqdm) -> Iterator[Any]:
    """The result or error of each job, in order."""
    tasks = deque(enumerate(jobs))
    outcomes: dict[int, Any] = {}
    try:
        for worker in workers:
            worker.send(tasks.popleft())
        for number in range(len(jobs)):
            while number not in outcomes:
                for worker in wait(workers):
                    message = worker.recv()
                    if isinstance(message, int):
                        bar.update(message)
                        continue
                    outcomes.update([message])
                    if tasks:
                        worker.send(tasks.popleft())
            yield outcomes.pop(number)
    except (EOFError, ConnectionError) as error:
        raise ChildProcessError(
            f"A process that read {kind} files was killed, or could not start. Is there too little memory? Try a lower num_proc (--num_proc). "
            "A script that gives num_proc needs `if __name__ == '__main__':` around its calls."
        ) from error


def _rows(documents: Documents, job: Job) -> Any:
    return documents.rows if job.files is None else replace(documents.rows, files=job.files)


def _read_again(documents: Documents, job: Job) -> None:
    """Raise the error of a job with the line's number in the file. A span is read to the end of its file: its own end may be wrong."""
    rows = _rows(documents, job)
    if job.files is not None:
        files = (replace(file, stop=None) if isinstance(file, Span) else file for file in job.files)
        rows = replace(rows, files=tuple(files)).numbered()
    for _ in record_batches(rows(), documents.schema):
        pass


# ---- in the other processes ----------------------------------------------------------------------------------------------


def _work(connection: Connection, source: CorpusFiles, folder: Path) -> None:
    """Do jobs and send the number of documents of each batch, then the job's number with its outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, with which this one ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    corpus = None
    with contextlib.suppress(EOFError):  # the first process no longer listens
        while True:
            number, job = connection.recv()
            try:
                corpus = corpus or source.read()
                outcome = _write_job(corpus, job, folder / f"{job.split}.{number}", connection.send, source.drop_unlabeled)
            except Exception as error:
                outcome = error
            connection.send((number, outcome))


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _write_job(
    corpus: Corpus, job: Job, stem: Path, advance: Callable[[int], object], drop_unlabeled: bool
) -> tuple[WrittenFiles, set[Any]]:
    """Write the files of a job; with them what was seen that other parts must agree with."""
    seen = corpus.agreement.seen if corpus.agreement else set()
    seen.clear()
    documents = corpus.splits[job.split]
    files = write_rows(_rows(documents, job)(), documents.schema, stem, advance, drop_unlabeled)
    return files, set(seen)

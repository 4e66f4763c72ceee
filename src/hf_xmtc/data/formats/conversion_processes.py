"""Conversion in several processes: each writes parquet files of whole files, or of spans of large ones.

The result is that of one process. Documents keep their order; a job that fails is read again in this process, which raises the error with
the line's number in the file; and what parts must agree in is checked in order (`Agreement`).
"""

import logging
import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
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

# A process takes some seconds to start, in which another reads this much.
_JOB_BYTES = 128 << 20
# More jobs than processes, so that all end at about the same time.
_JOBS_PER_PROCESS = 4
_SECONDS = 0.2  # between two looks at the progress


@dataclass(frozen=True)
class Job:
    """What a process reads at once: files or spans of a split, or a split as a whole (None)."""

    split: str
    files: tuple[Path | Span, ...] | None


_shared: tuple[CorpusFiles, Path, Any]  # in the other processes


class _Stopped(Exception):
    """Another job has failed."""


def plan_jobs(corpus: Corpus, source: CorpusFiles, num_proc: int) -> list[Job]:
    """The jobs of a data set in order; none where one process is as good.

    Args:
        corpus: The data set.
        source: Its files.
        num_proc: Number of processes.
    """
    sizes = {path: path.stat().st_size for paths in source.files.values() for path in paths}
    num_proc = min(num_proc, sum(sizes.values()) // _JOB_BYTES)
    if num_proc < 2:
        return []
    job_bytes = max(_JOB_BYTES, sum(sizes.values()) // (num_proc * _JOBS_PER_PROCESS))
    jobs: list[Job] = []
    for split, documents in corpus.splits.items():
        if isinstance(documents.rows, FileRows):
            jobs += _jobs_of_files(split, documents.rows, source.settings.encoding, sizes, job_bytes)
        else:
            jobs.append(Job(split, None))
    whole = [path for job in jobs for path in job.files or source.files[job.split] if isinstance(path, Path)]
    if names := [path.name for path in whole if sizes[path] >= 2 * _JOB_BYTES]:
        logger.warning(
            f"{', '.join(names)}: read by one process each. Several read a file that is not compressed or UTF-16 and holds texts with their "
            "labels line by line."
        )
    return jobs if len(jobs) > 1 else []


def _jobs_of_files(split: str, rows: FileRows, encoding: str | None, sizes: dict[Path, int], job_bytes: int) -> list[Job]:
    """Spans of large files, and small files together."""
    jobs, small, size = [], [], 0
    for path in rows.files:
        spans = cut_file(path, encoding, rows.cut, sizes[path] // job_bytes) if sizes[path] >= 2 * job_bytes else []
        if small and (len(spans) > 1 or size >= job_bytes):
            jobs.append(Job(split, tuple(small)))
            small, size = [], 0
        if len(spans) > 1:
            jobs += [Job(split, (span,)) for span in spans]
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
        num_proc: Number of processes.
        bar: Counts documents.

    Returns:
        What was written of each split, in order; None, and nothing in the folder, where one process must read the files.

    Raises:
        ChildProcessError: If a process was killed.
        ValueError: If a file cannot be read.
    """
    written: dict[str, list[WrittenFiles]] = {split: [] for split in corpus.splits}
    parts: list[tuple[Any, set[Any]]] = []
    context = _context()
    counts = context.RawArray("q", len(jobs) + 1)  # documents of each job; the last says that all are to stop
    failed = None
    with ProcessPoolExecutor(min(num_proc, len(jobs)), context, _begin, (source, folder, counts)) as pool:
        try:
            futures = [pool.submit(_write_job, number, job) for number, job in enumerate(jobs)]
            for job, future in zip(jobs, futures, strict=True):
                try:
                    files, seen = _result(future, counts, bar)
                except ValueError as error:
                    failed = job, error
                    break
                written[job.split].append(files)
                parts.append((_rows(corpus.splits[job.split], job), seen))
                if corpus.agreement is not None:
                    corpus.agreement.check(parts)
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"A process that read {source.format} files was killed, or could not start. Is there too little memory? Try a lower num_proc "
                "(--num_proc). A script that gives num_proc needs `if __name__ == '__main__':` around its calls."
            ) from error
        finally:
            counts[-1] = True
            pool.shutdown(cancel_futures=True)
    if failed is None:
        return written
    job, error = failed
    _read_again(corpus.splits[job.split], job)
    # Only where a table was cut within a row.
    logger.warning(f"Quotes in the {source.format} files hide where rows end, so one process reads them ({error}).")
    for path in folder.iterdir():
        path.unlink()
    return None


def _context() -> Any:
    """How processes start: from a server that has imported this module once, where the system has that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _result(future: Future, counts: Any, bar: tqdm) -> tuple[WrittenFiles, set[Any]]:
    while wait([future], _SECONDS).not_done:
        bar.update(sum(counts[:-1]) - bar.n)
    bar.update(sum(counts[:-1]) - bar.n)
    return future.result()


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


def _begin(source: CorpusFiles, folder: Path, counts: Any) -> None:
    """Keep what all jobs of this process need. Ctrl-C is for the first process, and this one ends with it."""
    global _shared
    _shared = source, folder, counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


@lru_cache(1)
def _corpus() -> Corpus:
    return _shared[0].read()


def _write_job(number: int, job: Job) -> tuple[WrittenFiles, set[Any]]:
    """Write the files of a job, and what was seen that other parts must agree with."""
    _, folder, counts = _shared
    corpus = _corpus()
    seen = corpus.agreement.seen if corpus.agreement else set()
    seen.clear()

    def advance(num_documents: int) -> None:
        counts[number] += num_documents
        if counts[-1]:
            raise _Stopped

    documents = corpus.splits[job.split]
    files = write_rows(_rows(documents, job)(), documents.schema, folder / f"{job.split}.{number}", advance)
    return files, set(seen)

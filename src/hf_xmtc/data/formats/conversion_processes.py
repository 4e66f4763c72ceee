"""Conversion in several processes: each writes parquet files of whole files, or of spans of large ones.

The documents, their order and the errors are those of one process. A job that fails is read again in this process, which raises the error
with the line's number in the file; what parts must agree in is checked in their order (`Agreement`).
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

# Processes take some seconds to start, in which one alone reads about this much.
_PROCESS_BYTES = 256 << 20
# More jobs than processes, so that all end at about the same time.
_JOBS_PER_PROCESS = 4
_SECONDS = 0.2  # between two looks at the progress


@dataclass(frozen=True)
class Job:
    """Input of a process at a time: files or spans of a split, or a split as a whole (None)."""

    split: str
    files: tuple[Path | Span, ...] | None


_shared: tuple[CorpusFiles, Path, Any]  # in the other processes


class _Stopped(Exception):
    """Another job has failed."""


def plan_jobs(corpus: Corpus, source: CorpusFiles, num_proc: int) -> list[Job]:
    """The jobs of a data set in order; none, with a warning, where one process does as well.

    Args:
        corpus: The data set.
        source: Its files.
        num_proc: Number of processes, at least 2.
    """
    sizes = {path: path.stat().st_size for paths in source.files.values() for path in paths}
    num_bytes = sum(sizes.values())
    num_proc = min(num_proc, num_bytes // _PROCESS_BYTES)
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
        cuts = documents.rows.cut if isinstance(documents.rows, FileRows) else None
        spans = {}
        for path in paths:
            if sizes[path] >= 2 * job_bytes:
                spans[path] = cut_file(path, source.settings.encoding, cuts, sizes[path] // job_bytes)
                whole += [path.name] if len(spans[path]) < 2 else []
        jobs += (
            _jobs_of_files(split, paths, spans, sizes, job_bytes)
            if isinstance(documents.rows, FileRows)
            else [Job(split, None)]
        )
    if whole:
        logger.warning(
            f"{', '.join(whole)}: read by one process each. Several share a file of csv, tsv, jsonl, libmultilabel, fasttext or annif "
            "that is neither compressed nor UTF-16."
        )
    return jobs if len(jobs) > 1 else []


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
        num_proc: Number of processes.
        bar: Counts documents.

    Returns:
        The files of each split, in order; None, and nothing in the folder, where one process must read the files.

    Raises:
        ChildProcessError: If a process was killed.
        ValueError: If a file cannot be read.
    """
    written: dict[str, list[WrittenFiles]] = {split: [] for split in corpus.splits}
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
                if corpus.agreement is not None:
                    corpus.agreement.check(_rows(corpus.splits[job.split], job), seen)
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
    documents = corpus.splits[job.split]
    _read_again(documents, job)
    if not (isinstance(documents.rows, FileRows) and documents.rows.cut == "quoted"):
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
    """Write the files of a job; with them what was seen that other parts must agree with."""
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

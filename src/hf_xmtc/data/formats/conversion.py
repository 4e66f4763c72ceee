"""From any format to a folder of parquet files, document by document."""

import logging
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from ..label_file import LabelFile
from .conversion_processes import plan_jobs, write_in_processes
from .corpus import Corpus
from .parquet_files import WrittenFiles, write_rows
from .registry import CorpusFiles
from .unlabeled import nothing_left

__all__ = ["write_corpus", "write_labels"]

logger = logging.getLogger(__name__)


def write_corpus(
    corpus: Corpus, folder: Path, source: CorpusFiles, name: str, num_proc: int | None = None
) -> dict[str, WrittenFiles]:
    """Write each split as parquet files with the columns of its documents, and ``labels.parquet`` where labels are described.

    Args:
        corpus: The data set.
        folder: An empty folder.
        source: The files that it was read from, and whether documents without labels are left out.
        name: Of the data set, shown while it is read.
        num_proc: Processes that read large files; None for this one alone. The documents and errors are the same for any number.

    Returns:
        The files of each split.

    Raises:
        ChildProcessError: If a process was killed.
        ValueError: If the files are damaged, nothing would be left of a split, or ``num_proc`` is below 1.
    """
    if num_proc is not None and num_proc < 1:
        raise ValueError(f"num_proc is {num_proc} but must be at least 1. Leave it out for one process.")
    title = f"{name} ({source.format})"
    written = None
    if num_proc not in (None, 1) and (jobs := plan_jobs(corpus, source, num_proc)):
        with tqdm(desc=title, unit=" documents", disable=None) as bar:
            written = write_in_processes(corpus, source, jobs, folder, num_proc, bar)
    finished = {}
    for split, documents in corpus.splits.items():
        if written is None:
            with tqdm(desc=f"{title}: {split}", unit=" documents", disable=None) as bar:
                parts = [write_rows(documents.rows(), documents.schema, folder / split, bar.update, source.drop_unlabeled)]
        else:
            parts = written[split]
        finished[split] = _finish_split(folder, split, parts)
    if corpus.labels is not None:
        write_labels(corpus.labels, folder / "labels.parquet")
    return finished


def write_labels(labels: LabelFile, path: Path) -> None:
    """Write the labels as a label file in parquet."""
    names = labels.names
    columns = {"label": pa.array(names.labels, pa.string())}
    columns["name"] = pa.array([names.name_of(i) for i in range(len(names))], pa.string())
    if labels.descriptions:
        columns["description"] = pa.array(labels.descriptions, pa.string())
    columns["parents"] = pa.array([names.parents_of(i) for i in range(len(names))], pa.list_(pa.string()))
    pq.write_table(pa.table(columns), path)


def _finish_split(folder: Path, split: str, parts: list[WrittenFiles]) -> WrittenFiles:
    """Give the files of a split their names."""
    num_documents, num_invalid, num_dropped = (
        sum(numbers)
        for numbers in zip(*((part.num_documents, part.num_invalid, part.num_dropped) for part in parts), strict=True)
    )
    if num_dropped and not num_documents:
        raise nothing_left(split, num_dropped)
    paths = [path for part in parts for path in part.paths]
    named = [f"{split}-{i:05d}-of-{len(paths):05d}" for i in range(len(paths))] if len(paths) > 1 else [split]
    targets = [folder / f"{name}.parquet" for name in named]
    for path, target in zip(paths, targets, strict=True):
        os.rename(path, target)
    if num_invalid:
        logger.warning(f"{split}: {num_invalid:,} texts are not valid Unicode; each of their lone surrogates is now U+FFFD.")
    return WrittenFiles(targets, num_documents, num_invalid, num_dropped)

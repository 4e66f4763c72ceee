"""Statistics of a loaded data set: documents per label, labels and words per document."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .label_columns import list_lengths
from .label_info import label_info_of

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

__all__ = ["dataset_statistics", "label_counts", "labels_per_document", "summarize_statistics"]

_BATCH_ROWS = 8_192


def label_counts(dataset: "Dataset", num_labels: int) -> np.ndarray:
    """Documents of each label.

    Args:
        dataset: One split with label ids in ``labels``.
        num_labels: Labels counted; ids from here on (evaluation-only labels) are not.

    Returns:
        Counts, (num_labels,) int64.
    """
    counts = np.zeros(num_labels, dtype=np.int64)
    for labels in _batches(dataset, "labels"):
        ids = labels.flatten().to_numpy(zero_copy_only=False)
        counts += np.bincount(ids[ids < num_labels], minlength=num_labels)
    return counts


def labels_per_document(dataset: "Dataset") -> np.ndarray:
    """Number of labels of each document, (N,) int64."""
    lengths = [list_lengths(labels) for labels in _batches(dataset, "labels")]
    return np.concatenate(lengths or [np.empty(0)]).astype(np.int64)


def dataset_statistics(dataset: "DatasetDict", *, head_above: int = 100, tail_up_to: int = 5) -> dict[str, Any]:
    """Statistics of a data set from `load_xmtc_dataset`, for cards and logs.

    Head, torso and tail labels are told apart by their training documents. The two borders are this package's convention;
    papers draw them in different places or nowhere.

    Args:
        dataset: All splits.
        head_above: Labels with more training documents than this are head labels.
        tail_up_to: Labels with at most this many are tail labels.

    Returns:
        JSON-ready: ``source``, ``num_labels``, ``num_evaluation_only_labels``, ``validation_carved`` and ``test_carved``, ``duplicates``,
        ``num_spellings`` (labels in several spellings), ``num_filtered`` (labels taken from documents by ``filter_labels``), ``named`` (the benchmark), the ``splits`` (documents, documents without labels,
        with labels that only evaluation data has, labels and words per document, empty texts, and texts mostly of scripts without blanks
        between words),
        and ``documents_per_label``, ``label_groups`` and ``num_labels_without_documents`` of the training split.
    """
    info = label_info_of(dataset)
    statistics: dict[str, Any] = {
        "source": info.source,
        "num_labels": info.num_labels,
        "num_evaluation_only_labels": len(info.evaluation_only),
        "validation_carved": info.validation_carved,
        "test_carved": info.test_carved,
        "duplicates": info.duplicates,
        "num_spellings": len(info.spellings),
        "num_filtered": info.num_filtered,
        "named": info.named,
        "splits": {split: _split_statistics(rows, info.num_labels) for split, rows in dataset.items()},
    }
    if "train" in dataset and "labels" in dataset["train"].column_names:
        counts = label_counts(dataset["train"], info.num_labels)
        head, tail = int((counts > head_above).sum()), int((counts <= tail_up_to).sum())
        statistics["documents_per_label"] = _summary(counts)
        statistics["num_labels_without_documents"] = int((counts == 0).sum())
        statistics["label_groups"] = {
            f"head (> {head_above} documents)": head,
            f"torso ({tail_up_to + 1} to {head_above})": info.num_labels - head - tail,
            f"tail (<= {tail_up_to})": tail,
        }
    return statistics


def summarize_statistics(statistics: dict[str, Any]) -> str:
    """A few readable lines of what `dataset_statistics` returned."""
    carved = ", validation taken from train" if statistics["validation_carved"] else ""
    num_labels = f"{statistics['num_labels']:,}" if statistics["num_labels"] else "no"
    lines = [f"{statistics['source']}: {num_labels} labels{carved}"]
    for split, numbers in statistics["splits"].items():
        parts = [f"{numbers['num_documents']:,} documents"]
        for key, word in (("labels_per_document", "labels"), ("words_per_document", "words")):
            if key in numbers:
                parts.append(f"{numbers[key]['mean']:.1f} {word} each (median {numbers[key]['median']:g})")
        for key, words in (
            ("num_without_labels", "without labels"),
            ("num_with_unseen_labels", "with unseen labels"),
        ):
            if numbers.get(key):
                parts.append(f"{numbers[key]:,} {words}")
        if filtered := statistics["num_filtered"].get(split):
            parts.append(f"{filtered:,} labels left out by filter_labels")
        lines.append(f"  {split}: " + ", ".join(parts))
    if "label_groups" in statistics:
        spread = statistics["documents_per_label"]
        groups = ", ".join(f"{count:,} {group}" for group, count in statistics["label_groups"].items())
        if idle := statistics["num_labels_without_documents"]:
            groups += f", {idle:,} of them without any"
        lines.append(f"  documents per label: mean {spread['mean']:.1f}, median {spread['median']:g}; {groups}")
    return "\n".join(lines)


def _split_statistics(rows: "Dataset", num_labels: int) -> dict[str, Any]:
    statistics: dict[str, Any] = {"num_documents": len(rows)}
    if "labels" in rows.column_names:
        lengths = labels_per_document(rows)
        unseen = 0
        for labels in _batches(rows, "labels"):
            documents = pc.list_parent_indices(labels).to_numpy(zero_copy_only=False)
            ids = labels.flatten().to_numpy(zero_copy_only=False)
            unseen += len(np.unique(documents[ids >= num_labels]))
        statistics["num_without_labels"] = int((lengths == 0).sum())
        statistics["num_with_unseen_labels"] = unseen
        statistics["labels_per_document"] = _summary(lengths)
    if "text" in rows.column_names:
        words = [
            pc.count_substring_regex(texts, r"\S+").fill_null(0).to_numpy(zero_copy_only=False)
            for texts in _batches(rows, "text")
        ]
        statistics["words_per_document"] = _summary(np.concatenate(words or [np.empty(0)]))
        statistics["num_empty"] = int(sum((count == 0).sum() for count in words))
        statistics["num_without_blanks"] = sum(map(_without_blanks, _batches(rows, "text")))
    return statistics


def _without_blanks(texts: pa.Array) -> int:
    """Texts of which more than half the letters belong to scripts that put no blanks between words."""
    scripts = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
    theirs, all_letters = (pc.count_substring_regex(texts, pattern) for pattern in (scripts, r"\p{L}"))
    return pc.sum(pc.greater(pc.multiply(theirs, 2), all_letters)).as_py() or 0


def _summary(values: np.ndarray) -> dict[str, float]:
    if len(values) == 0:
        return {"mean": 0.0, "median": 0.0, "max": 0}
    return {"mean": float(values.mean()), "median": float(np.median(values)), "max": int(values.max())}


def _batches(dataset: "Dataset", column: str) -> Iterator[pa.Array]:
    """One column batch by batch in the data set's own row order, whatever was selected or shuffled."""
    for table in dataset.select_columns(column).with_format("arrow").iter(batch_size=_BATCH_ROWS):
        yield table.column(0).combine_chunks()

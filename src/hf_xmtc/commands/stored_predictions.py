"""Predictions read back from files: rankings with label ids, and which documents they are of."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

__all__ = [
    "LABEL_COUNTS",
    "StoredPredictions",
    "check_same_documents",
    "read_label_counts",
    "read_predictions",
    "write_label_counts",
]

LABEL_COUNTS = "predictions/label_counts.parquet"
_NUM_DOCUMENTS = b"num_documents"


@dataclass
class StoredPredictions:
    """The rankings of a prediction file.

    Attributes:
        path: The file.
        documents: Ids of the documents where the file has them, else their row numbers; N.
        has_ids: Whether these are ids.
        top_labels: Label ids, best first, padded with -100, (N, K).
        top_scores: Their scores, 0 at padding, (N, K).
        gold: True label ids, padded with -100, (N, P); None where the file has none.
    """

    path: Path
    documents: list
    has_ids: bool
    top_labels: np.ndarray
    top_scores: np.ndarray
    gold: np.ndarray | None

    @classmethod
    def read(cls, path: str | Path, ids: dict[str, int]) -> "StoredPredictions":
        """Read a parquet or JSON lines file.

        Args:
            path: The file.
            ids: Label → label id; labels that are not in it are added with the next id.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it cannot be read, lacks a column of lists, holds null or a score outside 0 … 1, or more labels than scores or
                fewer.
        """
        path = Path(path)
        try:
            table = pq.read_table(path) if path.suffix == ".parquet" else pa.json.read_json(path)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{path} is no readable parquet or JSON lines file ({error}). Was it written to its end?"
            ) from error
        has_ids = "id" in table.column_names
        missing = [name for name in ("id" if has_ids else "row", "labels", "scores") if name not in table.column_names]
        if missing:
            raise ValueError(
                f"{path} has the columns {', '.join(table.column_names)} and lacks {', '.join(missing)}. Give a file that hf-xmtc predict or "
                "hf-xmtc train wrote."
            )
        columns = {
            name: _lists(path, name, table[name]) for name in ("labels", "scores", "gold") if name in table.column_names
        }
        scores = _flat(columns["scores"]).astype(np.float64)
        if not np.all((scores >= 0) & (scores <= 1)):
            wrong = scores[~((scores >= 0) & (scores <= 1))][0]
            raise ValueError(
                f"{path} holds the score {wrong:g}, but scores lie between 0 and 1. Are these logits? Take their sigmoid."
            )
        documents = table["id" if has_ids else "row"].to_pylist()
        num_labels, num_scores = _sizes(columns["labels"]), _sizes(columns["scores"])
        if (num_labels != num_scores).any():
            place = int((num_labels != num_scores).argmax())
            raise ValueError(
                f"{path}: {'id' if has_ids else 'row'} {documents[place]} has {num_labels[place]} labels and {num_scores[place]} scores, but "
                "each label needs one score. Was the file changed by hand? Predict again."
            )
        return cls(
            path=path,
            documents=documents,
            has_ids=has_ids,
            top_labels=_padded(_label_ids(columns["labels"], ids), columns["labels"], -100),
            top_scores=_padded(_flat(columns["scores"]), columns["scores"], 0.0),
            gold=_padded(_label_ids(columns["gold"], ids), columns["gold"], -100) if "gold" in columns else None,
        )

    @property
    def ranking(self) -> tuple[np.ndarray, np.ndarray]:
        return self.top_labels, self.top_scores


def read_predictions(files: Sequence[str | Path], ids: dict[str, int]) -> list[StoredPredictions]:
    """Prediction files of the same documents; the first gets the true labels that any of them has."""
    parts = [StoredPredictions.read(file, ids) for file in files]
    check_same_documents(parts)
    parts[0].gold = next((part.gold for part in parts if part.gold is not None), None)
    return parts


def check_same_documents(parts: Sequence[StoredPredictions]) -> None:
    """Refuse predictions of different documents.

    Raises:
        ValueError: With what differs in both.
    """
    first = next((part for part in parts if part.gold is not None), parts[0])
    for other in parts:
        if len(first.documents) != len(other.documents):
            difference = f"{len(first.documents):,} and {len(other.documents):,} documents"
        elif first.documents != other.documents:
            place = next(
                i for i, pair in enumerate(zip(first.documents, other.documents, strict=True)) if pair[0] != pair[1]
            )
            difference = f"the documents {first.documents[place]!r} and {other.documents[place]!r} in place {place}"
        elif other.gold is not None and (place := _other_gold(first.gold, other.gold)) is not None:
            gold = (row[row >= 0].tolist() for row in (first.gold[place], other.gold[place]))
            difference = "the true label ids {} and {} in place {}".format(*gold, place)
        else:
            continue
        raise ValueError(
            f"{first.path} and {other.path} have {difference}, but only predictions of the same documents go together. Were the models "
            "trained on the same data, with the same limits on documents?"
        )


def _other_gold(first: np.ndarray, other: np.ndarray) -> int | None:
    """Place of the first document with other true labels; None where there is none."""
    width = max(first.shape[1], other.shape[1])
    pair = [
        np.sort(np.pad(gold, ((0, 0), (0, width - gold.shape[1])), constant_values=-100), axis=1) for gold in (first, other)
    ]
    places = np.flatnonzero((pair[0] != pair[1]).any(axis=1))
    return int(places[0]) if len(places) else None


def write_label_counts(folder: Path, labels: Sequence[str], counts: np.ndarray, num_documents: int) -> None:
    """Write how many training documents each label has, by which PSP weighs labels and frequency groups are made."""
    schema = pa.schema([("label", pa.string()), ("count", pa.int64())], metadata={_NUM_DOCUMENTS: str(num_documents)})
    path = folder / LABEL_COUNTS
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table([pa.array(labels, pa.string()), pa.array(counts, pa.int64())], schema=schema), path)


def read_label_counts(folder: Path) -> tuple[np.ndarray, int] | None:
    """Training documents of each label, (L,), and their number in all; None for a folder that does not say."""
    path = folder / LABEL_COUNTS
    if not path.is_file():
        return None
    table = pq.read_table(path)
    return table["count"].to_numpy(), int(table.schema.metadata[_NUM_DOCUMENTS])


def _lists(path: Path, name: str, column: pa.ChunkedArray) -> pa.Array:
    """A column of lists, none of which holds null."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise ValueError(
            f"{path}: {name} holds {column.type}, but needs a list for each document. Give a file that hf-xmtc predict or hf-xmtc train wrote."
        )
    lists = column.combine_chunks()
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    if lists.flatten().null_count:
        raise ValueError(f"{path}: {name} has null in a list. Leave out labels without a name or a score.")
    return lists


def _flat(lists: pa.Array) -> np.ndarray:
    return lists.flatten().to_numpy(zero_copy_only=False)


def _label_ids(lists: pa.Array, ids: dict[str, int]) -> np.ndarray:
    encoded = lists.flatten().cast(pa.string()).dictionary_encode()
    if len(encoded) == 0:
        return np.zeros(0, dtype=np.int64)
    known = np.array([ids.setdefault(label, len(ids)) for label in encoded.dictionary.to_pylist()], dtype=np.int64)
    return known[encoded.indices.to_numpy(zero_copy_only=False)]


def _sizes(lists: pa.Array) -> np.ndarray:
    return lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _padded(values: np.ndarray, lists: pa.Array, filler: float) -> np.ndarray:
    """Flat values as rows of equal length."""
    sizes = _sizes(lists)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    found = np.full((len(sizes), int(sizes.max(initial=0))), filler, dtype=np.int64 if filler == -100 else np.float32)
    found[rows, np.arange(len(rows)) - (sizes.cumsum() - sizes)[rows]] = values
    return found

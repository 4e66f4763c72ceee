"""Batches for training and evaluation: padded tokens, padded positive label ids."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.data.data_collator import pad_without_fast_tokenizer_warning

from hf_xmtc.models.filter_labels import padded_filters

from .filter_labels import FILTER_LABELS

__all__ = ["CANDIDATES", "NEIGHBORS", "SIMILARITIES", "VOTES", "XMTCDataCollator"]

_PADDING_LABEL = -100
# Columns of a data set and arguments of models that score candidates.
CANDIDATES, VOTES = "candidate_ids", "candidate_votes"
# The same of models that read what near training texts say: rows of these.
NEIGHBORS, SIMILARITIES = "neighbor_ids", "neighbor_similarities"


@dataclass
class XMTCDataCollator:
    """Makes a batch of tokenized documents: inputs padded to the longest text, labels as padded lists of ids.

    A batch holds ``input_ids`` and ``attention_mask`` (B, T), ``token_type_ids`` only where the features have them, and,
    where the features have labels, ``labels`` (B, P): the positive label ids of each document in int64, padded with -100,
    with P ≥ 1 even if no document has a label. Documents × labels are never stored densely. ``candidate_ids`` (B, C), padded with -100,
    and ``candidate_votes`` (B, C), padded with 0, are passed on, and so are ``neighbor_ids``, ``neighbor_similarities`` and ``filter_labels``. Models
    that draw something for each document get ``random_numbers``.

    Ids from ``num_labels`` on (labels that only evaluation data has) are left out of ``labels``, so no loss sees them;
    metrics need them, and get them with ``keep_unseen=True``.

    Args:
        tokenizer: Pads the inputs.
        num_labels: Labels of the model.
        label_format: Kind of a feature's ``labels``: ``"ids"``, a list of label ids, or ``"multi_hot"``, a row of
            ``num_labels`` zeros and ones.
        max_length: Pad every batch to this length instead of its longest text, where shapes must not change (compilation).
        keep_unseen: Keep label ids from ``num_labels`` on. Whoever sets this strips them before the model's forward.
        num_random_numbers: Numbers N to draw for each document, besides one per label: ``random_numbers``, (B, N + P) int64 from 0 to
            2^62; 0 for none. They depend on ``seed``, ``epoch`` and the document's tokens alone, so on no batch, worker or process.
        seed: Of these numbers.
        epoch: The epoch they are for, a tensor that `XMTCTrainer` updates.

    Raises:
        ValueError: If ``num_labels`` is not positive or ``label_format`` is unknown; when called, if documents are not
            tokenized, or labels are negative, no integers, or multi-hot rows of another length.
    """

    tokenizer: PreTrainedTokenizerBase
    num_labels: int
    label_format: str = "ids"
    max_length: int | None = None
    keep_unseen: bool = False
    num_random_numbers: int = 0
    seed: int = 0
    epoch: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.long), compare=False, repr=False)

    def __post_init__(self):
        if self.num_labels < 1:
            raise ValueError(f"num_labels is {self.num_labels} but must be at least 1. Does the training split have labels?")
        if self.label_format not in ("ids", "multi_hot"):
            raise ValueError(f"label_format is {self.label_format!r} but must be 'ids' or 'multi_hot'.")

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Make a batch of features with ``input_ids`` and, in all of them or none, ``labels``."""
        batch = self._pad_inputs(features)
        for name in {CANDIDATES, NEIGHBORS}.intersection(features[0]):
            batch[name] = _padded([_checked_ids(feature[name]) for feature in features])
        for name in {VOTES, SIMILARITIES}.intersection(features[0]):
            numbers = [np.asarray(feature[name], dtype=np.float32) for feature in features]
            batch[name] = _padded(numbers, 0.0, torch.float32)
        if FILTER_LABELS in features[0]:
            batch[FILTER_LABELS] = padded_filters([feature[FILTER_LABELS] for feature in features])
        with_labels = sum("labels" in feature for feature in features)
        if with_labels:
            if with_labels != len(features):
                raise ValueError(
                    f"{with_labels} of {len(features)} documents of a batch have labels. "
                    "A document without labels needs an empty list; for prediction leave the column out altogether."
                )
            batch["labels"] = self._pad_labels([feature["labels"] for feature in features])
            if self.num_random_numbers:
                count = self.num_random_numbers + batch["labels"].shape[1]
                numbers = [self._draw_numbers(feature["input_ids"], count) for feature in features]
                batch["random_numbers"] = torch.from_numpy(np.stack(numbers))
        return batch

    def _draw_numbers(self, input_ids: Sequence[int], count: int) -> np.ndarray:
        document = zlib.crc32(np.asarray(input_ids, dtype=np.int64).tobytes())
        return np.random.default_rng((self.seed, int(self.epoch), document)).integers(2**62, size=count)

    def _pad_inputs(self, features: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        columns = [c for c in ("input_ids", "attention_mask", "token_type_ids") if c in features[0]]
        if "input_ids" not in columns:
            raise ValueError(
                f"A document has the fields {sorted(features[0])} and no 'input_ids'. Tokenize the data first: tokenize_dataset "
                "for a Dataset, stream.map(lambda rows: tokenizer(rows['text'], truncation=True), batched=True) for a stream."
            )
        longest = max(len(feature["input_ids"]) for feature in features)
        if self.max_length is not None and longest > self.max_length:
            raise ValueError(
                f"A document of {longest} tokens is longer than max_length={self.max_length}. "
                f"Tokenize with max_length={self.max_length} too."
            )
        fixed_length = self.max_length
        if longest == 0 and fixed_length is None:
            fixed_length = 1  # a batch of empty documents still needs a column
        padded = pad_without_fast_tokenizer_warning(
            self.tokenizer,
            [{column: list(feature[column]) for column in columns} for feature in features],
            padding="longest" if fixed_length is None else "max_length",
            max_length=fixed_length,
            return_attention_mask=True,
            return_tensors="pt",
        )
        return dict(padded)

    def _pad_labels(self, rows: Sequence[Any]) -> Tensor:
        """Label ids of each document, (B, P) int64, padded with -100."""
        ids = [self._ids_of_multi_hot(row) if self.label_format == "multi_hot" else _checked_ids(row) for row in rows]
        if not self.keep_unseen:
            ids = [row[row < self.num_labels] for row in ids]
        return _padded(ids)

    def _ids_of_multi_hot(self, row: Any) -> np.ndarray:
        values = np.asarray(row)
        if values.shape != (self.num_labels,):
            raise ValueError(
                f"A multi-hot label row has the shape {values.shape} but num_labels={self.num_labels}. "
                "Are these label ids? Then use label_format='ids'."
            )
        if not np.isin(values, (0, 1)).all():
            wrong = values[~np.isin(values, (0, 1))][0]
            raise ValueError(
                f"A multi-hot label row holds the value {wrong}, expected 0 or 1. "
                "Are these label ids? Then use label_format='ids'."
            )
        return np.flatnonzero(values)


def _padded(rows: Sequence[np.ndarray], padding: float = _PADDING_LABEL, dtype: torch.dtype = torch.long) -> Tensor:
    """Numbers of each document, such as ids, (B, P), padded."""
    padded = torch.full((len(rows), max([1, *map(len, rows)])), padding, dtype=dtype)
    for document, row in enumerate(rows):
        padded[document, : len(row)] = torch.from_numpy(row)
    return padded


def _checked_ids(row: Any) -> np.ndarray:
    """Label ids of one document as int64; refuses padding and multi-hot floats."""
    ids = np.asarray(row)
    if ids.size == 0:
        return np.empty(0, dtype=np.int64)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"Labels must be a list of integer label ids, found {row!r:.80}. "
            "For rows of zeros and ones over all labels use label_format='multi_hot'; label strings become ids in "
            "load_xmtc_dataset."
        )
    if ids.min() < 0:
        raise ValueError(
            f"Found the negative label id {ids.min()}. Were the labels padded already? "
            "Give each document its own ids, an empty list where it has none; the collator pads."
        )
    return ids.astype(np.int64)

"""Tokenizing a loaded data set, with a count of the texts that were cut."""

import warnings
from typing import TypeVar

import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, Features, List, Value
from transformers import PreTrainedTokenizerBase

from hf_xmtc.models.document_tokens import split_special_tokens, tokenize_documents
from hf_xmtc.tokenization import check_max_length
from hf_xmtc.tokenization.tokenizer_content import tokenizer_content

from .cache_keys import cache_key
from .filter_labels import FILTER_LABELS

__all__ = ["tokenize_dataset"]

# Raised when the same text would be tokenized into something else, so that old caches are not reused.
_TOKENIZING_VERSION = 4
# Characters of texts that are held together, about; a batch of megabyte texts has fewer rows than the library's 1,000.
_BATCH_BYTES, _BATCH_ROWS = 1 << 24, 1_000

# Share of unknown tokens above which a split is warned about.
_UNKNOWN = 0.3

DatasetOrDict = TypeVar("DatasetOrDict", Dataset, DatasetDict)


def tokenize_dataset(
    dataset: DatasetOrDict, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> tuple[DatasetOrDict, dict[str, int]]:
    """Turn texts into token ids, without padding.

    A text without tokens keeps the special tokens; where the tokenizer adds none its document is empty, as it is to the
    pipeline. (The AttentionXML authors' code puts one unknown token there.)

    What looks like a special token in a text is read as text (`hf_xmtc.models.document_tokens`); the tokenizer is set to do so, which is
    saved with it. Of a split with more than 30 % unknown tokens a warning says so. The result is cached beside the data, keyed by the tokenizer's content and ``max_length``.

    Args:
        dataset: One split or all, with a column ``text``.
        tokenizer: A fast tokenizer.
        max_length: Longest sequence in tokens, special tokens included; longer texts are cut.

    Returns:
        The data set with ``input_ids`` and, where it had them, ``labels`` and ``filter_labels``; and for each split the number of texts that were
        cut. A single split without a name is called ``data``.

    Raises:
        TypeError: If the tokenizer is not a fast one.
        ValueError: If ``max_length`` leaves no room beside the special tokens or exceeds the tokenizer's own limit.
    """
    if not tokenizer.is_fast:
        raise TypeError(f"{type(tokenizer).__name__} is not a fast tokenizer. Load it with AutoTokenizer, which gives one.")
    check_max_length(tokenizer, max_length)
    split_special_tokens(tokenizer)
    if isinstance(dataset, DatasetDict):
        parts = {split: _tokenize_split(rows, tokenizer, max_length) for split, rows in dataset.items()}
        tokenized = DatasetDict({split: rows for split, (rows, _) in parts.items()})
        return tokenized, {split: num_cut for split, (_, num_cut) in parts.items()}
    tokenized, num_cut = _tokenize_split(dataset, tokenizer, max_length)
    return tokenized, {str(dataset.split or "data"): num_cut}


def _tokenize_split(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> tuple[Dataset, int]:
    counts = {"is_cut": Value("bool"), "num_unknown": Value("int64")}
    features = {"input_ids": List(Value("int32")), **counts}
    of_labels = {name: dataset.features[name] for name in ("labels", FILTER_LABELS) if name in dataset.column_names}
    features |= of_labels
    if not len(dataset):  # of nothing `map` makes no columns
        features = {name: value for name, value in features.items() if name not in counts}
        return Dataset.from_dict({name: [] for name in features}, Features(features), split=dataset.split), 0
    tokenized = dataset.map(
        _tokenize_batch,
        batched=True,
        batch_size=min(_BATCH_ROWS, max(1, _BATCH_BYTES * max(1, len(dataset.data)) // max(1, dataset.data.nbytes))),
        remove_columns=[column for column in dataset.column_names if column not in of_labels],
        fn_kwargs={"tokenizer": tokenizer, "max_length": max_length},
        features=Features(features),
        new_fingerprint=_fingerprint(dataset, tokenizer, max_length),
        desc="Tokenizing",
    )
    num_cut, num_unknown = (pc.sum(tokenized.data.column(name)).as_py() or 0 for name in counts)
    num_tokens = pc.sum(pc.list_value_length(tokenized.data.column("input_ids"))).as_py() or 0
    if num_unknown > _UNKNOWN * num_tokens:
        warnings.warn(
            f"{num_unknown / num_tokens:.0%} of the {num_tokens:,} tokens in {dataset.split or 'data'} are unknown to the tokenizer, so a "
            "model reads little of its texts. Are they in another language than those that the tokenizer was trained on? Are there too "
            "few (--min_document_frequency 1 keeps rare words)? Texts without blanks between words can be segmented before; a pretrained "
            "multilingual encoder (--backbone) reads them as they are.",
            stacklevel=4,
        )
    return tokenized.remove_columns(list(counts)), num_cut


def _tokenize_batch(batch: dict, tokenizer: PreTrainedTokenizerBase, max_length: int) -> dict:
    documents = tokenize_documents(tokenizer, [text or "" for text in batch["text"]], max_length)
    unknown = tokenizer.unk_token_id
    return {
        "input_ids": [document.ids for document in documents],
        "is_cut": [document.is_cut for document in documents],
        "num_unknown": [0 if unknown is None else list(document.ids).count(unknown) for document in documents],
    }


def _fingerprint(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> str:
    """Key of the cached result."""
    content, side, *special = tokenizer_content(tokenizer)
    return cache_key([_TOKENIZING_VERSION, dataset._fingerprint, content, side, max_length, *special])

"""Small data folders and tokenizers for the tests of hf_xmtc.data."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_xmtc.data import load_xmtc_dataset


@pytest.fixture
def write_folder(tmp_path):
    """Write splits given as ``[(text, labels), …]`` into a folder, and a label file given as columns."""

    def write(name="corpus", label_type=None, label_file=None, **splits):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for split, rows in splits.items():
            labels = pa.array([labels for _, labels in rows], type=label_type and pa.list_(label_type))
            texts = pa.array([text for text, _ in rows], type=pa.string())
            pq.write_table(pa.table({"text": texts, "labels": labels}), folder / f"{split.replace('_', '-')}.parquet")
        if label_file:
            pq.write_table(pa.table(label_file), folder / "labels.parquet")
        return folder

    return write


@pytest.fixture
def load(tmp_path):
    """`load_xmtc_dataset` with a cache of its own."""

    def load_with_own_cache(name_or_path, **settings):
        return load_xmtc_dataset(name_or_path, cache_dir=tmp_path / "cache", **settings)

    return load_with_own_cache


def _word_tokenizer(num_cls: int) -> PreTrainedTokenizerFast:
    cls_tokens = [f"[CLS_{i + 1}]" for i in range(num_cls)]
    vocabulary = ["[PAD]", "[UNK]", *"abcdefgh", *cls_tokens]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if cls_tokens:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{' '.join(cls_tokens)} $A", special_tokens=[(token, vocabulary.index(token)) for token in cls_tokens]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        extra_special_tokens=cls_tokens,
        model_max_length=32,
    )


@pytest.fixture
def tokenizer():
    """Words a … h are ids 2 … 9; two CLS tokens (10, 11) go before the text."""
    return _word_tokenizer(num_cls=2)


@pytest.fixture
def plain_tokenizer():
    """The same without special tokens."""
    return _word_tokenizer(num_cls=0)

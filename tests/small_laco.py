"""A LACO with random weights, small enough to be made in no time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_xmtc import LACOConfig, LACOForXMTC, train_word_tokenizer
from hf_xmtc.retrieval import CandidateGenerator

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}


def save_small_laco(folder: Path, texts: Sequence[str], label_names: Sequence[str], **settings: Any) -> None:
    """Save a model, and a tokenizer of the words of some texts, of 32 tokens at most.

    Args:
        folder: Where to.
        texts: The texts.
        label_names: Labels.
        settings: Of the config.
    """
    tokenizer = train_word_tokenizer(texts, num_cls_tokens=1, max_length=32, min_document_frequency=1)
    settings = {"backbone_config": SIZES, "cross_attention_channels": 2, **settings}
    for part in (tokenizer, LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, label_names=list(label_names), **settings))):
        part.save_pretrained(folder)


def save_generator(
    folder: Path, texts: Sequence[str], positives: Sequence[Sequence[int]], num_labels: int
) -> CandidateGenerator:
    """Save what finds candidates beside the model."""
    generator = CandidateGenerator.fit(texts, positives, num_labels, min_document_frequency=1)
    generator.save_pretrained(folder)
    return generator

"""Two tiny models of the same labels, with tokenizers of their own."""

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_xmtc import EnsembleForXMTC, XMLCNNConfig, XMLCNNForXMTC, train_word_tokenizer

OTHER_TEXTS = ["sound and music", "a file of text", "show me sound in a library", "picture"]


def save_small_cnn(folder: Path, label_names: list[str], max_length: int = 16) -> Path:
    """An XML-CNN with random weights and a tokenizer of few words."""
    tokenizer = train_word_tokenizer(OTHER_TEXTS, max_length=max_length, min_document_frequency=1)
    torch.manual_seed(1)
    config = XMLCNNConfig(
        vocab_size=len(tokenizer),
        label_names=label_names,
        embedding_size=4,
        num_filters=2,
        bottleneck_size=4,
        cornet_num_blocks=0,
    )
    model = XMLCNNForXMTC(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def small_ensemble(folders: dict[str, Path], **settings) -> EnsembleForXMTC:
    """An ensemble of model folders, in memory."""
    return EnsembleForXMTC.from_parts(
        {
            name: (AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
            for name, folder in folders.items()
        },
        **settings,
    )

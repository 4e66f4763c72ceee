"""Extreme multi-label text classification as ordinary Hugging Face models."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names that are not of `hf_xmtc.models`, their modules and the extra these need. All names are imported when they are first used.
_LAZY = {
    "load_xmtc_dataset": ("hf_xmtc.data", "train"),
    "label_info_of": ("hf_xmtc.data", "train"),
    "XMTCDataCollator": ("hf_xmtc.data", "train"),
    "tokenize_dataset": ("hf_xmtc.data", "train"),
    "XMTCTrainer": ("hf_xmtc.training", "train"),
    "XMTCTrainingArguments": ("hf_xmtc.training", "train"),
    "train_word_tokenizer": ("hf_xmtc.tokenization", None),
    "add_cls_tokens": ("hf_xmtc.tokenization", None),
}

__all__ = [
    "AttentionXMLConfig",
    "AttentionXMLForXMTC",
    "BertXMLConfig",
    "BertXMLForXMTC",
    "BonsaiConfig",
    "BonsaiForXMTC",
    "DiSMECConfig",
    "DiSMECForXMTC",
    "EnsembleConfig",
    "EnsembleForXMTC",
    "LACOConfig",
    "LACOForXMTC",
    "LabelNames",
    "LightAttentionConfig",
    "LightAttentionForXMTC",
    "MeSHProbeNetConfig",
    "MeSHProbeNetForXMTC",
    "NeighborsConfig",
    "NeighborsForXMTC",
    "ParabelConfig",
    "ParabelForXMTC",
    "SeqTagConfig",
    "SeqTagForXMTC",
    "TReaderXMLConfig",
    "TReaderXMLForXMTC",
    "XMLCNNConfig",
    "XMLCNNForXMTC",
    "XMLRNNConfig",
    "XMLRNNForXMTC",
    "XMTCDataCollator",
    "XMTCOutput",
    "XMTCPipeline",
    "XMTCPreTrainedModel",
    "XMTCTrainer",
    "XMTCTrainingArguments",
    "add_cls_tokens",
    "label_info_of",
    "load_xmtc_dataset",
    "multi_hot_targets",
    "tokenize_dataset",
    "train_word_tokenizer",
]

if TYPE_CHECKING:
    from .data import XMTCDataCollator, label_info_of, load_xmtc_dataset, tokenize_dataset
    from .models import (
        AttentionXMLConfig,
        AttentionXMLForXMTC,
        BertXMLConfig,
        BertXMLForXMTC,
        BonsaiConfig,
        BonsaiForXMTC,
        DiSMECConfig,
        DiSMECForXMTC,
        EnsembleConfig,
        EnsembleForXMTC,
        LabelNames,
        LACOConfig,
        LACOForXMTC,
        LightAttentionConfig,
        LightAttentionForXMTC,
        MeSHProbeNetConfig,
        MeSHProbeNetForXMTC,
        NeighborsConfig,
        NeighborsForXMTC,
        ParabelConfig,
        ParabelForXMTC,
        SeqTagConfig,
        SeqTagForXMTC,
        TReaderXMLConfig,
        TReaderXMLForXMTC,
        XMLCNNConfig,
        XMLCNNForXMTC,
        XMLRNNConfig,
        XMLRNNForXMTC,
        XMTCOutput,
        XMTCPipeline,
        XMTCPreTrainedModel,
        multi_hot_targets,
    )
    from .tokenization import add_cls_tokens, train_word_tokenizer
    from .training import XMTCTrainer, XMTCTrainingArguments

# The Auto classes know the models from here on, except in the program `hf-xmtc`, whose help must not wait for torch: there they do
# from the first import of a model's module on.
if "hf_xmtc_command" not in sys.modules:
    importlib.import_module("hf_xmtc.models")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hf_xmtc' has no attribute {name!r}")
    module, extra = _LAZY.get(name, ("hf_xmtc.models", None))
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("hf_xmtc"):
            raise
        raise ImportError(f"`{name}` needs `{error.name}`: pip install 'hf_xmtc[{extra}]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

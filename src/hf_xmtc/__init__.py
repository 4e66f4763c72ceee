"""Extreme multi-label text classification as ordinary Hugging Face models."""

import importlib
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from .models.configuration_attentionxml import AttentionXMLConfig
from .models.configuration_bertxml import BertXMLConfig
from .models.configuration_laco import LACOConfig
from .models.configuration_meshprobenet import MeSHProbeNetConfig
from .models.configuration_seqtag import SeqTagConfig
from .models.configuration_xmlcnn import XMLCNNConfig
from .models.configuration_xmlrnn import XMLRNNConfig
from .models.label_names import LabelNames
from .models.label_positives import multi_hot_targets
from .models.modeling_attentionxml import AttentionXMLForXMTC
from .models.modeling_bertxml import BertXMLForXMTC
from .models.modeling_laco import LACOForXMTC
from .models.modeling_meshprobenet import MeSHProbeNetForXMTC
from .models.modeling_seqtag import SeqTagForXMTC
from .models.modeling_xmlcnn import XMLCNNForXMTC
from .models.modeling_xmlrnn import XMLRNNForXMTC
from .models.modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .models.pipeline_xmtc import XMTCPipeline

__version__ = "0.1.0"

# Names that need an extra: imported when they are first used, so that `import hf_xmtc` stays cheap.
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
    "LACOConfig",
    "LACOForXMTC",
    "LabelNames",
    "MeSHProbeNetConfig",
    "MeSHProbeNetForXMTC",
    "SeqTagConfig",
    "SeqTagForXMTC",
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
    from .tokenization import add_cls_tokens, train_word_tokenizer
    from .training import XMTCTrainer, XMTCTrainingArguments

for _config, _model in [
    (AttentionXMLConfig, AttentionXMLForXMTC),
    (BertXMLConfig, BertXMLForXMTC),
    (LACOConfig, LACOForXMTC),
    (MeSHProbeNetConfig, MeSHProbeNetForXMTC),
    (SeqTagConfig, SeqTagForXMTC),
    (XMLCNNConfig, XMLCNNForXMTC),
    (XMLRNNConfig, XMLRNNForXMTC),
]:
    AutoConfig.register(_config.model_type, _config)
    AutoModel.register(_config, _model)
    AutoModelForSequenceClassification.register(_config, _model)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hf_xmtc' has no attribute {name!r}")
    module, extra = _LAZY[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("hf_xmtc"):
            raise
        raise ImportError(f"`{name}` needs `{error.name}`: pip install 'hf_xmtc[{extra}]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

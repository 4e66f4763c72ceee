"""The model families. Importing any module of this folder makes them known to transformers' Auto classes."""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from .configuration_attentionxml import AttentionXMLConfig
from .configuration_bertxml import BertXMLConfig
from .configuration_laco import LACOConfig
from .configuration_meshprobenet import MeSHProbeNetConfig
from .configuration_seqtag import SeqTagConfig
from .configuration_xmlcnn import XMLCNNConfig
from .configuration_xmlrnn import XMLRNNConfig
from .label_losses import multi_hot_targets
from .label_names import LabelNames
from .modeling_attentionxml import AttentionXMLForXMTC
from .modeling_bertxml import BertXMLForXMTC
from .modeling_laco import LACOForXMTC
from .modeling_meshprobenet import MeSHProbeNetForXMTC
from .modeling_seqtag import SeqTagForXMTC
from .modeling_xmlcnn import XMLCNNForXMTC
from .modeling_xmlrnn import XMLRNNForXMTC
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .pipeline_xmtc import XMTCPipeline

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
    "XMTCOutput",
    "XMTCPipeline",
    "XMTCPreTrainedModel",
    "multi_hot_targets",
]

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

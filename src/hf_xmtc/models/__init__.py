"""The model families. Importing any module of this folder makes them known to transformers' Auto classes."""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from .configuration_attentionxml import AttentionXMLConfig
from .configuration_bertxml import BertXMLConfig
from .configuration_ensemble import EnsembleConfig
from .configuration_laco import LACOConfig
from .configuration_lightattention import LightAttentionConfig
from .configuration_linear_tree import BonsaiConfig, DiSMECConfig, ParabelConfig
from .configuration_meshprobenet import MeSHProbeNetConfig
from .configuration_neighbors import NeighborsConfig
from .configuration_seqtag import SeqTagConfig
from .configuration_treaderxml import TReaderXMLConfig
from .configuration_xmlcnn import XMLCNNConfig
from .configuration_xmlrnn import XMLRNNConfig
from .label_losses import multi_hot_targets
from .label_names import LabelNames
from .modeling_attentionxml import AttentionXMLForXMTC
from .modeling_bertxml import BertXMLForXMTC
from .modeling_ensemble import EnsembleForXMTC
from .modeling_laco import LACOForXMTC
from .modeling_lightattention import LightAttentionForXMTC
from .modeling_linear_tree import BonsaiForXMTC, DiSMECForXMTC, ParabelForXMTC
from .modeling_meshprobenet import MeSHProbeNetForXMTC
from .modeling_neighbors import NeighborsForXMTC
from .modeling_seqtag import SeqTagForXMTC
from .modeling_treaderxml import TReaderXMLForXMTC
from .modeling_xmlcnn import XMLCNNForXMTC
from .modeling_xmlrnn import XMLRNNForXMTC
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .pipeline_xmtc import XMTCPipeline

__all__ = [
    "FAMILIES",
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
    "XMTCOutput",
    "XMTCPipeline",
    "XMTCPreTrainedModel",
    "multi_hot_targets",
]

# A family by the name that ``--model_family`` and config.json have for it.
FAMILIES: dict[str, type[XMTCPreTrainedModel]] = {
    model.config_class.model_type: model
    for model in (
        AttentionXMLForXMTC,
        BertXMLForXMTC,
        BonsaiForXMTC,
        DiSMECForXMTC,
        LACOForXMTC,
        LightAttentionForXMTC,
        MeSHProbeNetForXMTC,
        NeighborsForXMTC,
        ParabelForXMTC,
        SeqTagForXMTC,
        TReaderXMLForXMTC,
        XMLCNNForXMTC,
        XMLRNNForXMTC,
    )
}

# An ensemble is made of trained models, so it is no family to train.
for _name, _model in {**FAMILIES, "ensemble": EnsembleForXMTC}.items():
    AutoConfig.register(_name, _model.config_class)
    AutoModel.register(_model.config_class, _model)
    AutoModelForSequenceClassification.register(_model.config_class, _model)

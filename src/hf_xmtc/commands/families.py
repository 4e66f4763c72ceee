"""The model families by the name that ``--model_family`` takes."""

from hf_xmtc.models.configuration_attentionxml import AttentionXMLConfig
from hf_xmtc.models.configuration_bertxml import BertXMLConfig
from hf_xmtc.models.configuration_laco import LACOConfig
from hf_xmtc.models.configuration_meshprobenet import MeSHProbeNetConfig
from hf_xmtc.models.configuration_seqtag import SeqTagConfig
from hf_xmtc.models.configuration_xmlcnn import XMLCNNConfig
from hf_xmtc.models.configuration_xmlrnn import XMLRNNConfig
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.modeling_attentionxml import AttentionXMLForXMTC
from hf_xmtc.models.modeling_bertxml import BertXMLForXMTC
from hf_xmtc.models.modeling_laco import LACOForXMTC
from hf_xmtc.models.modeling_meshprobenet import MeSHProbeNetForXMTC
from hf_xmtc.models.modeling_seqtag import SeqTagForXMTC
from hf_xmtc.models.modeling_xmlcnn import XMLCNNForXMTC
from hf_xmtc.models.modeling_xmlrnn import XMLRNNForXMTC
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = ["FAMILIES", "family_named"]

FAMILIES: dict[str, tuple[type[XMTCConfig], type[XMTCPreTrainedModel]]] = {
    AttentionXMLConfig.model_type: (AttentionXMLConfig, AttentionXMLForXMTC),
    BertXMLConfig.model_type: (BertXMLConfig, BertXMLForXMTC),
    LACOConfig.model_type: (LACOConfig, LACOForXMTC),
    MeSHProbeNetConfig.model_type: (MeSHProbeNetConfig, MeSHProbeNetForXMTC),
    SeqTagConfig.model_type: (SeqTagConfig, SeqTagForXMTC),
    XMLCNNConfig.model_type: (XMLCNNConfig, XMLCNNForXMTC),
    XMLRNNConfig.model_type: (XMLRNNConfig, XMLRNNForXMTC),
}


def family_named(name: str) -> tuple[type[XMTCConfig], type[XMTCPreTrainedModel]]:
    """Config and model class of a family.

    Raises:
        ValueError: If there is no such family.
    """
    if name not in FAMILIES:
        raise ValueError(f"model_family={name!r} is unknown. The families are: {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]

"""Every model family at tiny size: the contract tests run over this one list, so a new family is one entry here."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from hf_xmtc import (
    AttentionXMLConfig,
    AttentionXMLForXMTC,
    BertXMLConfig,
    BertXMLForXMTC,
    BonsaiConfig,
    BonsaiForXMTC,
    DiSMECConfig,
    DiSMECForXMTC,
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
    XMTCPreTrainedModel,
)
from hf_xmtc.models.linear_tree_head import Trees
from hf_xmtc.models.neighbor_head import Assignments

__all__ = [
    "FAMILIES",
    "LONG",
    "NUM_LABELS",
    "SHORT",
    "VARIANTS",
    "Family",
    "assert_same",
    "for_families",
    "make_batch",
    "models_with_loss",
    "overwrite_parameters",
    "what_can_be_asked_for",
]

VOCAB_SIZE = 40
NUM_LABELS = 5
# Words of the tiny vocabulary, clear of padding, separators and CLS tokens of every family.
FIRST_WORD, LAST_WORD = 5, 35

SHORT = [7, 8, 9]
LONG = [20, 6, 31, 12, 9, 9, 15, 28, 33, 17, 5, 11]


@dataclass(frozen=True)
class Family:
    """One architecture: ``build(num_labels=…, cornet_num_blocks=…, dropout=0.0, …)`` makes a model in evaluation mode."""

    name: str
    build: Callable[..., XMTCPreTrainedModel]
    # SeqTag's scores are marginals of a CRF, which has a loss of its own and leaves CorNet no place.
    has_own_loss: bool = False
    # Linear trees and neighbours have an index instead of matrices with a row per label, and cannot start anew in part.
    has_label_matrices: bool = True
    # Scores are products along paths of a label tree, and the loss is that of all levels on their candidates.
    has_tree: bool = False

    @property
    def most_blocks(self) -> int:
        """Blocks of CorNet in a model that shall have all that its family can have."""
        return 0 if self.has_own_loss else 2


def _bertxml(**family_settings: Any) -> Callable[..., BertXMLForXMTC]:
    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> BertXMLForXMTC:
        sizes = {
            "vocab_size": VOCAB_SIZE,
            "num_cls_tokens": 3,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 32,
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
            "classifier_dropout": dropout,
            "cornet_context_size": 6,
        }
        torch.manual_seed(seed)
        return BertXMLForXMTC(BertXMLConfig(**{**sizes, **family_settings, **_label_space(settings)})).eval()

    return build


def _bertxml_on(model_type: str, **backbone_settings: Any) -> Callable[..., BertXMLForXMTC]:
    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> BertXMLForXMTC:
        backbone = AutoConfig.for_model(model_type, vocab_size=VOCAB_SIZE, **backbone_settings)
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
            if hasattr(backbone, field):
                setattr(backbone, field, dropout)
        fixed = {"backbone_config": backbone, "num_cls_tokens": 3, "classifier_dropout": dropout, "cornet_context_size": 6}
        torch.manual_seed(seed)
        return BertXMLForXMTC(BertXMLConfig(**{**fixed, **_label_space(settings)})).eval()

    return build


def _of_words(
    config_class: type, model_class: type[XMTCPreTrainedModel], dropouts: tuple[str, ...], **family_settings: Any
) -> Callable[..., XMTCPreTrainedModel]:
    """A family without CLS tokens; ``dropouts`` names the settings that ``dropout`` stands for."""

    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> XMTCPreTrainedModel:
        fixed = {
            "vocab_size": VOCAB_SIZE,
            "embedding_size": 12,
            "cornet_context_size": 6,
            **dict.fromkeys(dropouts, dropout),
        }
        torch.manual_seed(seed)
        return model_class(config_class(**{**fixed, **family_settings, **_label_space(settings)})).eval()

    return build


def _xmlcnn(**family_settings: Any) -> Callable[..., XMTCPreTrainedModel]:
    sizes = {"num_filters": 6, "filter_widths": [2, 4, 8], "pool_size": 4, "bottleneck_size": 10}
    dropouts = ("embedding_dropout", "classifier_dropout")
    return _of_words(XMLCNNConfig, XMLCNNForXMTC, dropouts, **{**sizes, **family_settings})


def _xmlrnn(**family_settings: Any) -> Callable[..., XMTCPreTrainedModel]:
    sizes = {"hidden_size": 8, "linear_sizes": [10]}
    dropouts = ("embedding_dropout", "hidden_dropout_prob")
    return _of_words(XMLRNNConfig, XMLRNNForXMTC, dropouts, **{**sizes, **family_settings})


def _meshprobenet(**family_settings: Any) -> Callable[..., XMTCPreTrainedModel]:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_probes": 3}
    dropouts = ("embedding_dropout", "hidden_dropout_prob")
    return _of_words(MeSHProbeNetConfig, MeSHProbeNetForXMTC, dropouts, **{**sizes, **family_settings})


def _attentionxml(**family_settings: Any) -> Callable[..., XMTCPreTrainedModel]:
    # Wide embeddings, or the attention of all labels is nearly the same and so are their logits.
    sizes = {"hidden_size": 8, "linear_sizes": [10, 6], "embedding_initializer_range": 3.0}
    dropouts = ("embedding_dropout", "hidden_dropout_prob")
    return _of_words(AttentionXMLConfig, AttentionXMLForXMTC, dropouts, **{**sizes, **family_settings})


def _lightattention(**family_settings: Any) -> Callable[..., XMTCPreTrainedModel]:
    sizes = {"hidden_size": 8, "linear_sizes": [10], "embedding_initializer_range": 3.0, "tree_level_sizes": [2]}
    dropouts = ("embedding_dropout", "hidden_dropout_prob")
    return _of_words(LightAttentionConfig, LightAttentionForXMTC, dropouts, **{**sizes, **family_settings})


def _lightattention_on_bert(dropout: float = 0.0, seed: int = 0, **settings: Any) -> LightAttentionForXMTC:
    backbone = AutoConfig.for_model("bert", vocab_size=VOCAB_SIZE, initializer_range=0.5, **_BACKBONE)
    backbone.hidden_dropout_prob = backbone.attention_probs_dropout_prob = dropout
    fixed = {
        "backbone_config": backbone,
        "hidden_dropout_prob": dropout,
        "cluster_scoring": "pooled",
        "label_scoring": "dot",
        "dot_size": 6,
        "tree_level_sizes": [3],
        "cornet_context_size": 6,
    }
    torch.manual_seed(seed)
    return LightAttentionForXMTC(LightAttentionConfig(**{**fixed, **_label_space(settings)})).eval()


def _treaderxml(on_bert: bool = False, **family_settings: Any) -> Callable[..., TReaderXMLForXMTC]:
    """Eight random documents of two labels each; two parents, one of which is no label; every node's description is two words."""

    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> TReaderXMLForXMTC:
        dropouts = ("embedding_dropout", "attention_probs_dropout_prob", "classifier_dropout")
        fixed = {"bottleneck_size": 10, "num_neighbors": 3, "cornet_context_size": 6, **dict.fromkeys(dropouts, dropout)}
        if on_bert:
            backbone = AutoConfig.for_model("bert", vocab_size=VOCAB_SIZE, initializer_range=0.5, **_BACKBONE)
            backbone.hidden_dropout_prob = backbone.attention_probs_dropout_prob = dropout
            fixed["backbone_config"] = backbone
        else:
            # Wide embeddings, or all documents have nearly the same logits.
            fixed |= {"vocab_size": VOCAB_SIZE, "embedding_size": 12, "embedding_initializer_range": 1.0}
        torch.manual_seed(seed)
        model = TReaderXMLForXMTC(TReaderXMLConfig(**{**fixed, **family_settings, **_label_space(settings)})).eval()
        num_labels = model.config.num_labels
        documents = torch.randint(FIRST_WORD, LAST_WORD, (8, 10))
        labels = [[row % num_labels, (2 * row + 1) % num_labels] for row in range(8)]
        parents = [[num_labels], *[[0] for _ in range(num_labels - 1)]]
        texts = model.teacher.vectors_of(documents)
        assignments = Assignments.of(labels, num_labels), Assignments.of(parents, num_labels + 1)
        model.teacher.store(texts, *assignments, documents[:, 0])
        model.store_descriptions(torch.randint(FIRST_WORD, LAST_WORD, (num_labels + 1, 2)).tolist())
        return model

    return build


def _laco(model_type: str = "bert", **family_settings: Any) -> Callable[..., LACOForXMTC]:
    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> LACOForXMTC:
        sizes = {"bert": _BACKBONE, "distilbert": _DISTILBERT, "roberta": _ROBERTA}[model_type]
        # Embeddings as wide as LayerNorm makes them, or hidden states say more of positions than of words.
        backbone = AutoConfig.for_model(model_type, vocab_size=VOCAB_SIZE, initializer_range=0.5, **sizes)
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
            if hasattr(backbone, field):
                setattr(backbone, field, dropout)
        fixed = {
            "backbone_config": backbone,
            "classifier_dropout": dropout,
            "cornet_context_size": 6,
            "sep_token_id": 3,
            "loss_reduction": "mean",
            "cross_attention_kernel": (3, 1),
            "cross_attention_channels": 16,
        }
        torch.manual_seed(seed)
        return LACOForXMTC(LACOConfig(**{**fixed, **family_settings, **_label_space(settings)})).eval()

    return build


def _seqtag(**settings: Any) -> SeqTagForXMTC:
    fixed = {
        "backbone_config": _laco()(**settings).config.backbone_config,
        "sep_token_id": 3,
        "lstm_hidden_size": 8,
        "loss_reduction": "mean",
    }
    dropout, seed = settings.pop("dropout", 0.0), settings.pop("seed", 0)
    torch.manual_seed(seed)
    return SeqTagForXMTC(SeqTagConfig(**{**fixed, "classifier_dropout": dropout, **_label_space(settings)})).eval()


def _linear_tree(
    config_class: type, model_class: type[XMTCPreTrainedModel], depth: int = 1
) -> Callable[..., XMTCPreTrainedModel]:
    """Trees with random weights of some words; the labels are spread over the nodes of the last level."""

    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> XMTCPreTrainedModel:
        fixed = {"vocab_size": VOCAB_SIZE, "num_trees": 2, "cornet_context_size": 6}
        torch.manual_seed(seed)
        model = model_class(config_class(**{**fixed, **_label_space(settings)})).eval()
        num_labels, sizes = model.config.num_labels, [[2, 3]] * depth
        num_nodes = sum(map(sum, sizes))
        width = num_nodes + 2 * num_labels
        has_weight = torch.rand(VOCAB_SIZE, width) < 0.6
        first = torch.tensor([1, 3])[:, None] + 5 * (depth - 1)  # of the last level in each tree
        parents = torch.tensor([0] * 5 + [1, 2, 3, 4, 5] * (depth - 1))
        model.grow(
            Trees(
                level_sizes=sizes,
                parents=parents,
                label_parents=first + torch.arange(num_labels) % torch.tensor([[2], [3]]),
                offsets=torch.nn.functional.pad(has_weight.sum(dim=1).cumsum(0), (1, 0)),
                columns=has_weight.nonzero()[:, 1],
                weights=torch.randn(int(has_weight.sum())),
                bias=torch.randn(width),
            )
        )
        return model

    return build


def _dismec(dropout: float = 0.0, seed: int = 0, **settings: Any) -> DiSMECForXMTC:
    """A classifier for each label with random weights of some words."""
    torch.manual_seed(seed)
    model = DiSMECForXMTC(
        DiSMECConfig(**{"vocab_size": VOCAB_SIZE, "cornet_context_size": 6, **_label_space(settings)})
    ).eval()
    num_labels = model.config.num_labels
    has_weight = torch.rand(VOCAB_SIZE, num_labels) < 0.9
    model.grow(
        Trees(
            level_sizes=[],
            parents=torch.zeros(0),
            label_parents=torch.zeros(1, num_labels),
            offsets=torch.nn.functional.pad(has_weight.sum(dim=1).cumsum(0), (1, 0)),
            columns=has_weight.nonzero()[:, 1],
            weights=torch.randn(int(has_weight.sum())),
            bias=torch.randn(num_labels),
        )
    )
    return model


def _neighbors(on_bert: bool = False) -> Callable[..., NeighborsForXMTC]:
    """Eight random documents of two labels each; every label's text is two words."""

    def build(dropout: float = 0.0, seed: int = 0, **settings: Any) -> NeighborsForXMTC:
        fixed = {"vocab_size": VOCAB_SIZE, "num_neighbors": 4, "label_text_weight": 0.2, "cornet_context_size": 6}
        if on_bert:
            del fixed["vocab_size"]
            backbone = AutoConfig.for_model("bert", vocab_size=VOCAB_SIZE, initializer_range=0.5, **_BACKBONE)
            backbone.hidden_dropout_prob = backbone.attention_probs_dropout_prob = dropout
            fixed |= {"backbone_config": backbone, "label_centroid_weight": 0.2}
        torch.manual_seed(seed)
        model = NeighborsForXMTC(NeighborsConfig(**{**fixed, **_label_space(settings)})).eval()
        num_labels = model.config.num_labels
        documents = torch.randint(FIRST_WORD, LAST_WORD, (8, 10))
        texts = torch.randint(FIRST_WORD, LAST_WORD, (num_labels, 2))
        labels = [[row % num_labels, (2 * row + 1) % num_labels] for row in range(8)]
        model.store(documents.tolist(), labels, texts.tolist())
        return model

    return build


def _label_space(settings: dict[str, Any]) -> dict[str, Any]:
    named = {"label_names", "id2label", "num_labels"} & settings.keys()
    return settings if named else {"num_labels": NUM_LABELS, **settings}


_BACKBONE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
_DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 32}
# Positions count from pad_token_id + 1, so two rows of the table are not positions.
_ROBERTA = {**_BACKBONE, "max_position_embeddings": 34, "pad_token_id": 1, "type_vocab_size": 1}
# The relative attention of the published DeBERTa-v3 checkpoints; no segments, no absolute positions, no SDPA.
_DEBERTA = {
    **_BACKBONE,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
# What `BertXMLConfig.reproduction` sets.
_AUTHORS = {"layer_norm": "none", "hidden_act": "relu", "pooler": True, "embedding_initializer_range": None}

FAMILIES = [
    Family("bertxml-pre-norm", _bertxml(layer_norm="pre")),
    Family("bertxml-post-norm", _bertxml(layer_norm="post", last_layer_cls_only=False, bottleneck_size=8)),
    Family("bertxml-no-norm", _bertxml(**_AUTHORS)),
    Family("bertxml-on-bert", _bertxml_on("bert", **_BACKBONE)),
    Family("bertxml-on-distilbert", _bertxml_on("distilbert", **_DISTILBERT)),
    Family("bertxml-on-roberta", _bertxml_on("roberta", **_ROBERTA)),
    Family("bertxml-on-deberta-v2", _bertxml_on("deberta-v2", **_DEBERTA)),
    Family("xmlcnn", _xmlcnn()),
    Family("xmlcnn-padded", _xmlcnn(pooling="padded", padded_length=32)),
    Family("xmlrnn", _xmlrnn()),
    Family("attentionxml", _attentionxml()),
    Family("attentionxml-blocks", _attentionxml(label_memory_mib=0, label_block_size=2, label_bias=True)),
    Family("attentionxml-levelwise", _attentionxml(tree_level_sizes=[2, 3]), has_tree=True),
    Family("lightattention", _lightattention(), has_tree=True),
    Family("lightattention-levelwise", _lightattention(variant="levelwise", tree_level_sizes=[2, 3]), has_tree=True),
    Family(
        "lightattention-flat",
        _lightattention(variant="flat", tree_level_sizes=None, cluster_scoring="pooled", label_scoring="dot", dot_size=6),
    ),
    Family("lightattention-on-bert", _lightattention_on_bert, has_tree=True),
    Family("treaderxml", _treaderxml()),
    Family("treaderxml-flat", _treaderxml(teacher_form="position_mean", pooling="flatten", padded_length=32)),
    Family("treaderxml-on-bert", _treaderxml(on_bert=True)),
    Family("laco-on-bert", _laco()),
    Family(
        "laco-on-bert-in-a-row",
        _laco(label_positions="sequential", cross_attention_kernel=(10, 10), cross_attention_channels=16),
    ),
    Family("laco-on-distilbert-one-way", _laco("distilbert", joint_attention="one_way")),
    Family("laco-on-roberta-without-cross-attention", _laco("roberta", cross_attention=False)),
    Family("laco-on-bert-without-joint-embedding", _laco(joint_embedding=False)),
    Family("laco-on-bert-alone", _laco(joint_embedding=False, cross_attention=False)),
    Family("seqtag-on-bert", _seqtag, has_own_loss=True),
    Family("parabel", _linear_tree(ParabelConfig, ParabelForXMTC, depth=2), has_label_matrices=False),
    Family("bonsai", _linear_tree(BonsaiConfig, BonsaiForXMTC), has_label_matrices=False),
    Family("dismec", _dismec, has_label_matrices=False),
    Family("neighbors", _neighbors(), has_label_matrices=False),
    Family("neighbors-on-bert", _neighbors(on_bert=True), has_label_matrices=False),
    Family("meshprobenet", _meshprobenet()),
    Family("meshprobenet-bottleneck", _meshprobenet(bottleneck_size=10)),
]
# Each family without CorNet, and with it where there is a place for it.
VARIANTS = {
    f"{family.name}-{'cornet' if num_blocks else 'plain'}": (family, num_blocks)
    for family in FAMILIES
    for num_blocks in sorted({0, family.most_blocks})
}


def for_families(condition: Callable[[Family], bool]) -> pytest.MarkDecorator:
    """Run a test for those families that its promise is about."""
    return pytest.mark.parametrize("family", [*filter(condition, FAMILIES)], ids=lambda family: family.name)


def make_batch(
    model: XMTCPreTrainedModel, documents: list[list[int]], length: int | None = None, left: bool = False
) -> dict:
    """Word ids as the model's tokenizer would give them: its CLS tokens in front, padded to ``length`` or the longest."""
    start = getattr(model.config, "cls_token_ids", [])
    rows = [[*start, *document] for document in documents]
    length = length or max(map(len, rows))
    ids = torch.full((len(rows), length), model.config.pad_token_id)
    mask = torch.zeros(len(rows), length, dtype=torch.long)
    for row, tokens in enumerate(rows):
        at = slice(length - len(tokens), length) if left else slice(0, len(tokens))
        ids[row, at], mask[row, at] = torch.tensor(tokens), 1
    return {"input_ids": ids, "attention_mask": mask}


def overwrite_parameters(model: XMTCPreTrainedModel, seed: int = 1) -> None:
    """Give every parameter values that no initialisation would: uniform in 0.4 … 0.6."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 0.2 + 0.4)


def assert_same(ours: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the last bits, which depend on where in memory a tensor lies."""
    torch.testing.assert_close(ours, expected, rtol=2e-6, atol=2e-6)


def what_can_be_asked_for(model, num_documents: int) -> dict[str, bool | torch.Tensor]:
    """Attention weights and hidden states, of the families that have them, and whose attention where that must be said."""
    asked = {
        "output_attentions": True,
        "output_hidden_states": True,
        "attention_labels": torch.tensor([[3, 0]] * num_documents),
    }
    return {name: value for name, value in asked.items() if name in inspect.signature(model.forward).parameters}


def models_with_loss(family: Family, label_loss: str) -> Iterator[XMTCPreTrainedModel]:
    """A model without and with CorNet that learns by a loss, its labels weighed differently where the loss weighs them."""
    for num_blocks in (0, 2):
        model = family.build(cornet_num_blocks=num_blocks, label_loss=label_loss, label_block_size=2)
        if model.label_head.positive_weight is not None:
            model.label_head.positive_weight.copy_(torch.arange(NUM_LABELS) + 1.0)
        yield model

"""`LightAttentionConfig`: settings of LightAttention."""

import math
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig

from .backbones import OptionalBackbone
from .configuration_attentionxml import AttentionXMLConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_lightattention import LightAttentionForXMTC  # noqa: F401

__all__ = ["LightAttentionConfig", "most_clusters"]

# Fields of the own encoder, which say nothing about a backbone.
OWN_ENCODER_FIELDS = (
    "embedding_size",
    "embedding_dropout",
    "embedding_initializer_range",
    "freeze_embeddings",
    "hidden_size",
    "num_hidden_layers",
)
# Fields that both have; the backbone's count.
BACKBONE_FIELDS = ("vocab_size", "pad_token_id")


def most_clusters(num_labels: int) -> int:
    """Largest power of two of clusters that halving gives: with fewer than 1.5 labels for each, some are halved and others not."""
    return 2 ** max(0, (2 * num_labels // 3).bit_length() - 1)


class LightAttentionConfig(OptionalBackbone, AttentionXMLConfig):
    """Settings of `LightAttentionForXMTC`; fields of `AttentionXMLConfig` apply too.

    Args:
        variant: ``joint``: generator and discriminator read the states of one encoder; ``levelwise``: each level has an encoder of
            its own. Both are trained at once. (For the levels of AttentionXML, trained one after another, use that family.)
            ``flat``: no generator and no tree, the discriminator scores all labels: the control of what the tree costs and saves.
        cluster_scoring: How the generator scores clusters: by their ``attention`` over the document, or linearly from its ``pooled``
            states.
        label_scoring: How the discriminator scores labels: by their ``attention``, or by the ``dot`` product of their vectors with the
            document's.
        dot_size: Width of these vectors (LightXML: 300).
        negatives: Which clusters' labels are a document's negatives beside those of its positive clusters: the best ones by the
            generator's scores, which change as it learns (``dynamic``), or those nearest in the label tree to the positive clusters,
            which stay the same (``static``). Static is the control of the report's claim for dynamic ones, with all else equal.
            AttentionXML's static negatives come from a level that was trained before, which models trained at once do not have; for
            those train AttentionXML over the tree.
        max_candidates: Most labels that a document is trained on; beyond that random negatives are dropped, positives never. It bounds
            the memory where clusters differ much in size or documents have many labels.
        tree_level_sizes: Clusters of each level, from the root down; by default one level of about 4 √L, with ``flat`` none.
        backbone_config: Config (or its dict) of a transformers encoder instead of word embedding and LSTM; see
            `LightAttentionForXMTC.from_backbone`.
    """

    model_type = "lightattention"
    own_encoder_fields, backbone_fields = OWN_ENCODER_FIELDS, BACKBONE_FIELDS
    left_out_of_files = (
        "variant",
        "cluster_scoring",
        "label_scoring",
        "dot_size",
        "negatives",
        "max_candidates",
        "backbone_config",
    )

    cornet_num_blocks: int = 0
    variant: str = "joint"
    cluster_scoring: str = "attention"
    label_scoring: str = "attention"
    dot_size: int = 300
    negatives: str = "dynamic"
    max_candidates: int | None = None
    backbone_config: dict | PreTrainedConfig | None = None

    def set_tree_defaults(self) -> None:
        if self.tree_level_sizes is None and self.num_labels > 0 and self.variant != "flat":
            fewest = 2 ** round(math.log2(4 * math.sqrt(self.num_labels)))
            self.tree_level_sizes = [min(fewest, most_clusters(self.num_labels))]
        super().set_tree_defaults()

    @classmethod
    def for_backbone(cls, backbone_config: PreTrainedConfig, tokenizer: Any, **settings: Any) -> "LightAttentionConfig":
        """Settings for a pretrained encoder; its tokenizer says nothing more."""
        return cls(backbone_config=backbone_config, **settings)

    def check(self) -> None:
        super().check()
        for field, allowed in (
            ("variant", ("joint", "levelwise", "flat")),
            ("cluster_scoring", ("attention", "pooled")),
            ("label_scoring", ("attention", "dot")),
            ("negatives", ("dynamic", "static")),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        self.check_sizes("dot_size", *(() if self.max_candidates is None else ("max_candidates",)))
        if self.variant == "flat" and self.tree_level_sizes is not None:
            raise ValueError(
                f"tree_level_sizes={self.tree_level_sizes}, but variant='flat' scores all labels without a tree. Leave one of them out."
            )
        if self.negatives == "static" and any(size & (size - 1) for size in self.tree_level_sizes or ()):
            raise ValueError(
                f"negatives='static' with tree_level_sizes={self.tree_level_sizes}: which clusters are near in the tree is known only of levels that "
                "were made by halving, whose sizes are powers of two. Choose such sizes, or leave negatives out."
            )
        if self.variant == "levelwise" and self.backbone_config is not None:
            raise ValueError(
                f"variant='levelwise' with a {self.backbone_config.model_type} model as backbone: every level would hold its own copy. Use "
                "variant='joint'."
            )

    @property
    def state_size(self) -> int:
        """Width D of the states that clusters and labels read."""
        return 2 * self.hidden_size if self.backbone_config is None else self.backbone_config.hidden_size

    @property
    def max_input_tokens(self) -> int | None:
        return None if self.backbone_config is None else self._positions.count

    @property
    def activation_elements_per_token(self) -> int | None:
        if self.backbone_config is not None:
            return None  # counted from the backbone's layers
        encoders = 1 + len(self.tree_level_sizes) if self.variant == "levelwise" else 1
        return encoders * super().activation_elements_per_token

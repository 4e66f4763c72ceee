"""`NeighborsConfig`: settings of the neighbour vote."""

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig

from .backbones import OptionalBackbone
from .configuration_word_level import WordTokenizerConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_neighbors import NeighborsForXMTC  # noqa: F401

__all__ = ["NeighborsConfig"]

# Fields that a backbone states itself.
BACKBONE_FIELDS = ("vocab_size", "pad_token_id")
VOTE_FIELDS = ("num_neighbors", "similarity_power", "label_text_weight", "label_centroid_weight")
SIZES = ("num_documents", "num_values", "num_label_values", "num_assignments")


class NeighborsConfig(OptionalBackbone, WordTokenizerConfig):
    """Settings of `NeighborsForXMTC`. ``hf-xmtc train`` chooses those of the vote on validation where they are not given.

    Args:
        vocab_size: Words of the tokenizer.
        pad_token_id: Id of the padding token.
        num_neighbors: Training documents that vote for the labels of a text.
        similarity_power: Power of a document's similarity that is the weight of its vote.
        label_text_weight: Weight w of the similarity of a label's own text in the score, beside 1 - w - c of the votes; 0 leaves it out.
        label_centroid_weight: Weight c of the similarity of a label's centroid, the mean vector of all its training documents, which also
            finds labels beyond those of the nearest documents. Only with a backbone: of words it would be larger than all documents.
        num_documents: Training documents N that are stored. Like the following ones the outcome of training.
        num_values: Words of these documents, each counted once a document.
        num_label_values: The same of the labels' texts.
        num_assignments: Labels of all documents together.
        backbone_config: Config (or its dict) of a transformers encoder, whose mean states take the place of TF-IDF; see
            `NeighborsForXMTC.from_backbone`.
    """

    model_type = "neighbors"
    backbone_fields = BACKBONE_FIELDS
    left_out_of_files = ("backbone_config",)

    cornet_num_blocks: int = 0
    vocab_size: int = 500_000
    pad_token_id: int | None = 0
    num_neighbors: int = 50
    similarity_power: float = 2.0
    label_text_weight: float = 0.1
    label_centroid_weight: float = 0.0
    num_documents: int = 0
    num_values: int = 0
    num_label_values: int = 0
    num_assignments: int = 0
    backbone_config: dict | PreTrainedConfig | None = None

    @classmethod
    def for_backbone(cls, backbone_config: PreTrainedConfig, tokenizer: Any, **settings: Any) -> "NeighborsConfig":
        """Settings for a pretrained encoder; its tokenizer says nothing more."""
        return cls(backbone_config=backbone_config, **settings)

    def check(self) -> None:
        super().check()
        for field in ("vocab_size", "num_neighbors"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}={getattr(self, field)}, but it must be at least 1.")
        if self.similarity_power <= 0:
            raise ValueError(
                f"similarity_power={self.similarity_power}, but nearer documents must weigh more: it is above 0."
            )
        weights = (self.label_text_weight, self.label_centroid_weight)
        if min(weights) < 0 or sum(weights) > 1:
            raise ValueError(
                f"label_text_weight={weights[0]} and label_centroid_weight={weights[1]}, but they are shares of the score, of which the votes "
                "have the rest: neither is below 0, and together they are at most 1."
            )
        if self.label_centroid_weight and self.backbone_config is None:
            raise ValueError(
                f"label_centroid_weight={self.label_centroid_weight}, but without a backbone labels have no centroids. Leave it out, or give "
                "a backbone."
            )
        for field in SIZES:
            if not 0 <= getattr(self, field) < 2**31:  # as many as int32 counts
                raise ValueError(
                    f"{field}={getattr(self, field)}, but it counts what is stored. Training sets it: was config.json changed by hand or "
                    "damaged? Copy it again from where the model came."
                )

    @property
    def max_input_tokens(self) -> int | None:
        return None if self.backbone_config is None else self._positions.count

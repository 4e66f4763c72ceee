"""`TReaderXMLConfig`: settings of TReaderXML."""

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig

from .backbones import OptionalBackbone
from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_treaderxml import TReaderXMLForXMTC  # noqa: F401

__all__ = ["TReaderXMLConfig"]

# What reads a branch, by the rows of Table 3: 0 and 1, 2, 3, 4, 5, 6. "r" adds the input of the layer before it.
READINGS = ("none", "mmhsa_r", "mhsa_r", "mhsa_r_mmhsa", "mmhsa_mhsa", "mmhsa_r_mhsa")


class TReaderXMLConfig(OptionalBackbone, WordLevelConfig):
    """Settings of `TReaderXMLForXMTC`; fields of `WordLevelConfig` apply too.

    Args:
        use_teacher: Read the labels of similar training texts with the text; False for row 0 of Table 3.
        reading: Layers that read each branch before they meet: ``none``, ``mmhsa_r``, ``mhsa_r``, ``mhsa_r_mmhsa``, ``mmhsa_mhsa`` or
            ``mmhsa_r_mhsa``, rows 1 to 6 of Table 3.
        teacher_form: ``label_tokens``, a vector for each label, or ``position_mean``, the paper's vector for each word position of all
            labels' descriptions.
        num_attention_heads: Attention heads h (4 in the paper).
        pooling: ``mean`` over all positions of teacher and text, or ``flatten``: all positions side by side, which is the likely reading of
            the paper and needs fixed lengths.
        padded_length: Tokens of a text with ``pooling="flatten"``, and most that it can have (300 to 500 in the paper).
        bottleneck_size: Width of the ReLU layer in front of the label head (equation 17).
        description_length: Words of a label's description that are read (4 in the paper, 16 for RCV1).
        embedding_dropout: Dropout on word embeddings, or on a backbone's last states. The paper has no word on dropout.
        attention_probs_dropout_prob: Dropout on attention weights.
        classifier_dropout: Dropout on the ReLU layer's output.
        attention_rate: Factor of the learning rate for the layers of Reading and Interaction, below 1 where word embeddings and label head start
            anew and need a high rate. Alone, 0.1 against 1 gave 1.3 and 0.8 points of nDCG@5 on the demo data's validation split (rates of 0.005
            and 0.01, two epochs, one seed).
        num_neighbors: Similar training texts whose labels teach.
        max_teacher_labels: Most labels and parents that a teacher has, those of the largest weight.
        retrieval: How similar training texts are found: by ``tf_idf``, by the mean of the ``words``' first vectors (the paper), or by the
            states of a frozen copy of the backbone (``encoder``); see `TeacherKnowledge`.
        parents: Where parents of labels come from: ``given`` in the data, labels that nearly always come with another one
            (``containment``), clusters of a label ``tree``, ``none``; or ``auto``, the first of these that there are.
        teacher_source: Whose labels teach: those of ``neighbors``; or for comparison those of a ``shuffled`` order, or in training the
            document's own (``gold``), which a model learns to copy. Only the columns of training and evaluation follow it.
        parents_from: Where they came from.
        num_nodes: Labels and parents that are no labels, M. Like the following ones the outcome of storing training texts.
        num_documents: Training texts N.
        num_values: Their words, each counted once a text, with ``retrieval="tf_idf"``.
        num_assignments: Labels and parents of all of them together.
        num_parents: Parents of all labels together.
        corpus_digest: Digest of what is stored.
        backbone_config: Config (or its dict) of a transformers encoder instead of the word embedding; see
            `TReaderXMLForXMTC.from_backbone`.
    """

    model_type = "treaderxml"
    own_encoder_fields = ("embedding_size", "embedding_initializer_range", "freeze_embeddings")
    backbone_fields = ("vocab_size", "pad_token_id")
    left_out_of_files = (
        "attention_rate",
        "embedding_dropout",
        "use_teacher",
        "reading",
        "teacher_form",
        "retrieval",
        "parents",
        "teacher_source",
        "parents_from",
        "pooling",
        "padded_length",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "backbone_config",
    )

    cornet_num_blocks: int = 0
    use_teacher: bool = True
    reading: str = "mmhsa_r_mhsa"
    teacher_form: str = "label_tokens"
    num_attention_heads: int = 4
    pooling: str = "mean"
    padded_length: int | None = None
    bottleneck_size: int = 512
    description_length: int = 4
    embedding_dropout: float = 0.2
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float = 0.5
    attention_rate: float = 1.0
    num_neighbors: int = 5
    max_teacher_labels: int = 64
    retrieval: str = "tf_idf"
    parents: str = "auto"
    teacher_source: str = "neighbors"
    parents_from: str | None = None
    num_nodes: int = 0
    num_documents: int = 0
    num_values: int = 0
    num_assignments: int = 0
    num_parents: int = 0
    corpus_digest: str | None = None
    backbone_config: dict | PreTrainedConfig | None = None

    def __post_init__(self, **kwargs: Any):
        super().__post_init__(**kwargs)
        self.num_nodes = max(self.num_nodes, self.num_labels)

    @classmethod
    def for_backbone(cls, backbone_config: PreTrainedConfig, tokenizer: Any, **settings: Any) -> "TReaderXMLConfig":
        """Settings for a pretrained encoder; its tokenizer says nothing more."""
        return cls(backbone_config=backbone_config, **settings)

    @classmethod
    def reproduction(cls, padded_length: int, **settings: Any) -> "TReaderXMLConfig":
        """The paper's model as far as it is told: a teacher of word positions, and all positions side by side before equation 17.

        Args:
            padded_length: Tokens of a text: 300 for AmazonCat-13K, 500 for EUR-Lex, 250 for RCV1.
            settings: Further fields; RCV1 has a ``description_length`` of 16 and an ``embedding_size`` of 400.
        """
        return cls(**{"teacher_form": "position_mean", "pooling": "flatten", "padded_length": padded_length, **settings})

    def check(self) -> None:
        super().check()
        for field, allowed in (
            ("reading", READINGS),
            ("teacher_form", ("label_tokens", "position_mean")),
            ("retrieval", ("tf_idf", "words", "encoder")),
            ("parents", ("auto", "given", "containment", "tree", "none")),
            ("teacher_source", ("neighbors", "shuffled", "gold")),
            ("pooling", ("mean", "flatten")),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        self.check_sizes(
            "num_attention_heads", "bottleneck_size", "description_length", "num_neighbors", "max_teacher_labels"
        )
        if self.state_size % self.num_attention_heads:
            raise ValueError(
                f"Vectors of width {self.state_size} do not divide into num_attention_heads={self.num_attention_heads}. Choose heads that "
                "divide it."
            )
        if self.retrieval == "encoder" and self.backbone_config is None:
            raise ValueError(
                "retrieval='encoder' needs a pretrained encoder, but there is no backbone_config. Give one with --backbone, or find texts by "
                "tf_idf or words."
            )
        if (self.pooling == "flatten") != (self.padded_length is not None):
            raise ValueError(
                f"pooling={self.pooling!r} and padded_length={self.padded_length}: pooling='flatten' needs the tokens that texts are "
                "padded to, such as 500, and pooling='mean' has none."
            )

    @property
    def state_size(self) -> int:
        """Width d of the vectors of words and nodes."""
        return self.embedding_size if self.backbone_config is None else self.backbone_config.hidden_size

    @property
    def word_size(self) -> int:
        """Width of the word vectors, which some backbones have narrower than their states."""
        if self.backbone_config is None:
            return self.embedding_size
        return getattr(self.backbone_config, "embedding_size", None) or self.backbone_config.hidden_size

    @property
    def teacher_length(self) -> int | None:
        """Vectors of a teacher; None for as many as there are nodes."""
        if self.teacher_form == "position_mean":
            return self.description_length
        return self.max_teacher_labels if self.pooling == "flatten" else None

    @property
    def max_input_tokens(self) -> int | None:
        limits = (self.padded_length, None if self.backbone_config is None else self._positions.count)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def activation_elements_per_token(self) -> int | None:
        if self.backbone_config is not None:
            return None  # counted from the backbone's layers
        # Each of three attention layers keeps its input, queries, keys, values, what they give, and tanh.
        return super().activation_elements_per_token + 3 * 7 * self.embedding_size

"""`JointConfig`: what the families that read a text and all labels together have in common."""

from typing import Any

from transformers import PreTrainedConfig

from .backbone_checks import positions_of
from .backbones import backbone_config_of, stored_backbone
from .configuration_xmtc import XMTCConfig

__all__ = ["JointConfig"]

# The encoder where none is given: small enough to be trained from scratch.
SMALL_BERT = {
    "model_type": "bert",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "max_position_embeddings": 512,
}
# Encoders that take embeddings instead of ids and look positions up where they are told: labels can stand anywhere.
JOINT_BACKBONES = (
    "albert",
    "bert",
    "camembert",
    "distilbert",
    "electra",
    "ernie",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
)


class JointConfig(XMTCConfig):
    """Settings of the joint embedding: ``[CLS] text [SEP] label_1 … label_L [SEP]`` in one encoder (LACO §3.2).

    Args:
        backbone_config: Config (or its dict) of the encoder of transformers; without it a small BERT for training from scratch.
        joint_embedding: Let the encoder read the labels beside the text; False is the ablation "w/o JE", in which it reads the
            text alone.
        label_positions: ``shared``: all labels stand at one position behind the longest text, so that their order says nothing
            and any number of them fits; ``sequential``: each at its own behind the text, as in the paper and the authors' code.
        joint_attention: ``full``: text and labels attend to each other; ``one_way``: the text does not see the labels, so its
            states are the same whatever the labels.
        classifier_dropout: Dropout on the features that the label head reads.
        cls_token_id: The token in front of every text, where there is one.
        sep_token_id: The token that closes text and labels; None for a sequence without, as `train_word_tokenizer` makes it.
    """

    left_out_of_files = (
        "joint_embedding",
        "label_positions",
        "joint_attention",
        "classifier_dropout",
        "cls_token_id",
        "sep_token_id",
    )

    cornet_num_blocks: int = 0
    loss_reduction: str = "sum_labels"
    backbone_config: dict | PreTrainedConfig | None = None
    joint_embedding: bool = True
    label_positions: str = "shared"
    joint_attention: str = "full"
    classifier_dropout: float = 0.1
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any):
        self.backbone_config = backbone_config_of(SMALL_BERT if self.backbone_config is None else self.backbone_config)
        self._positions = positions_of(self.backbone_config)
        padding = self.backbone_config.pad_token_id
        if self.pad_token_id not in (None, padding):
            raise ValueError(
                f"pad_token_id={self.pad_token_id}, but that of the backbone's config is {padding}. Set it there, or leave it out."
            )
        self.pad_token_id = padding
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, **settings: Any) -> "JointConfig":
        """Settings for training from scratch that fit a tokenizer: vocabulary, padding and special tokens.

        Args:
            tokenizer: Any tokenizer, such as that of `hf_xmtc.tokenization.train_word_tokenizer` with one CLS token.
            settings: Further fields; of ``backbone_config`` those that are named win over the small BERT's.
        """
        backbone = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **SMALL_BERT}
        given = settings.get("backbone_config") or {}
        if isinstance(given, PreTrainedConfig):
            raise ValueError(
                f"backbone_config is a {type(given).__name__}. Give for_tokenizer a dict with the fields that differ from the small BERT's, "
                "or the whole config to for_backbone."
            )
        settings["backbone_config"] = {**backbone, **given}
        return cls(**{**cls.special_tokens(tokenizer), **settings})

    @classmethod
    def for_backbone(cls, backbone_config: PreTrainedConfig, tokenizer: Any, **settings: Any) -> "JointConfig":
        """Settings for a pretrained encoder and its tokenizer; ``settings`` win over what the tokenizer says."""
        return cls(**{**cls.special_tokens(tokenizer), "backbone_config": backbone_config, **settings})

    @staticmethod
    def special_tokens(tokenizer: Any) -> dict[str, int | None]:
        """Ids of the tokens that a tokenizer puts around a text."""
        around = tokenizer("")["input_ids"]
        return {
            "cls_token_id": int(around[0]) if len(around) else None,
            "sep_token_id": int(around[-1]) if len(around) > 1 else None,
        }

    def check(self) -> None:
        super().check()
        for field, allowed in (("label_positions", ("shared", "sequential")), ("joint_attention", ("full", "one_way"))):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        if not self.joint_embedding:
            return
        if self.backbone_config.model_type not in JOINT_BACKBONES:
            raise ValueError(
                f"The backbone's model type is {self.backbone_config.model_type!r}, which cannot be told where labels stand. Choose "
                f"one of {', '.join(JOINT_BACKBONES)}, or joint_embedding=False."
            )
        self.check_num_labels(self.num_labels)

    def check_num_labels(self, num_labels: int) -> None:
        if not self.joint_embedding:
            return
        positions, closing = self._positions.count, int(self.sep_token_id is not None)
        # The labels and their separator, CLS and SEP of the text, and some text.
        needed = (1 if self.label_positions == "shared" else num_labels) + closing + 1 + closing
        if positions is not None and positions <= needed:
            raise ValueError(
                f"The labels and what is around the text need {needed} positions with label_positions={self.label_positions!r} and "
                f"num_labels={num_labels}, but the backbone has {positions}, which leaves no room for text. label_positions='shared' "
                "takes one position for all labels; else choose a backbone with more positions."
            )

    @property
    def initializer_range(self) -> float:
        """Spread with which new weights start."""
        return getattr(self.backbone_config, "initializer_range", 0.02)

    @property
    def has_label_embedding(self) -> bool:
        """True if there is a vector for each label."""
        return self.joint_embedding

    @property
    def num_read_labels(self) -> int:
        """Labels that are read beside a document."""
        return self.num_labels

    @property
    def num_label_tokens(self) -> int:
        """Tokens that the encoder reads behind every text: the labels, and the separator that closes them."""
        return self.num_read_labels + int(self.sep_token_id is not None) if self.joint_embedding else 0

    def activation_elements_beside_encoder(self, num_tokens: int) -> int:
        """Numbers that a training step keeps of a document behind the encoder, roughly; for the estimate of memory."""
        return 0

    @property
    def hidden_size(self) -> int:
        """Width H of the encoder."""
        return self.backbone_config.hidden_size

    @property
    def first_position(self) -> int:
        """Id of the encoder's first position."""
        return self._positions.first

    @property
    def max_input_tokens(self) -> int | None:
        positions = self._positions.count
        if not self.joint_embedding or positions is None:
            return positions
        labels = 1 if self.label_positions == "shared" else self.num_labels
        return positions - labels - int(self.sep_token_id is not None)

    def to_dict(self) -> dict[str, Any]:
        output = super().to_dict()
        if isinstance(output.get("backbone_config"), dict):
            output["backbone_config"] = stored_backbone(self.backbone_config)
        return output

    def to_diff_dict(self) -> dict[str, Any]:
        output = super().to_diff_dict()
        output["backbone_config"] = stored_backbone(self.backbone_config)
        output.pop("pad_token_id", None)
        return output

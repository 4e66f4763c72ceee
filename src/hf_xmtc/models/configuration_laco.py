"""`LACOConfig`: settings of LACO, its ablations and its auxiliary tasks."""

import math
from typing import TYPE_CHECKING, Any

from .configuration_joint import JointConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_laco import LACOForXMTC  # noqa: F401

__all__ = ["LACOConfig"]

# Settings of earlier versions: a config.json may still hold them, with the value that is the only behaviour now.
REMOVED = {
    "auxiliary_alpha": 0.5,
    "auxiliary_sampling": "visit",
    "auxiliary_units": 1,
    "clcp_given": "one",
    "clcp_given_probability": 0.5,
    "clcp_head": "transformed",
    "cross_attention_similarity": "cosine",
    "cross_attention_tokens": "all",
    "cross_attention_values": "normalized",
    "generator_share": 0.0,
    "label_term": False,
    "literal_equation_7": False,
    "plcp_pairs": "one_to_two",
    "plcp_single_label": "masked",
    "retrieval_weight": 0.0,
}


class LACOConfig(JointConfig):
    """Settings of `LACOForXMTC`.

    The defaults are independent of the order of the labels; `reproduction` sets what the authors' code does. The ablations of
    LACO §5.2 are ``joint_embedding=False`` ("w/o JE"), ``cross_attention=False`` ("w/o CA") and both (the BERT baseline); one switch
    is enough for an ablation, so settings of what it leaves out stay and are not read.

    Args:
        cross_attention: Sum the document's states by their nearness to the labels; False reads ``classifier_token``.
        cross_attention_kernel: Tokens and labels that a filter of the cross attention spans.
        cross_attention_channels: Its filters; None for one per label.
        classifier_token: What a model without cross attention reads: ``pooler``, a tanh layer on the CLS token that starts from
            the encoder's own; ``cls``, the state itself; or ``mean``, the mean of the document's states.
        num_candidates: Labels that the encoder reads beside a text, chosen for it by a generator (`hf_xmtc.retrieval`) or by whoever
            calls; 0 for all labels. For label sets of thousands and more. The model then corrects the ranking that it is given, see
            `LACOForXMTC`.
        auxiliary_task: ``none``, ``plcp``, ``clcp`` or ``both``; learnt beside the labels in training, never run in prediction.
        plcp_weight: Weight of the pairs' loss, a mean over each document's pairs and then over documents. 2 stands for the code's 1 on
            its two output units. Where both tasks are learnt, each counts by half of its weight (equation 7 with α = 1/2).
        clcp_weight: Weight of the conditional loss, a mean over each document's remaining labels and then over documents. 10 stands
            for the code's 5 on two units.
    """

    model_type = "laco"
    left_out_of_files = (
        "cross_attention",
        "classifier_token",
        "num_candidates",
        "auxiliary_task",
        "plcp_weight",
        "clcp_weight",
    )

    removed_fields = REMOVED

    cross_attention: bool = True
    cross_attention_kernel: list[int] | tuple[int, ...] = (11, 1)
    cross_attention_channels: int | None = 64
    classifier_token: str = "pooler"
    num_candidates: int = 0
    auxiliary_task: str = "none"
    plcp_weight: float = 2.0
    clcp_weight: float = 10.0

    def __post_init__(self, **kwargs: Any):
        self.cross_attention_kernel = list(self.cross_attention_kernel)
        super().__post_init__(**kwargs)
        if self.cross_attention_channels is None:
            # A number that stays when the labels change.
            self.cross_attention_channels = self.num_labels

    @classmethod
    def reproduction(cls, **settings: Any) -> "LACOConfig":
        """The architecture of the authors' code: label positions in a row, a 10 × 10 kernel with one filter per label.

        It does not repeat what makes their scores depend on the batch (padding takes part in the cross attention), nor what weakens
        the auxiliary tasks: two output units each, a ReLU on PLCP's logits, one pair and one given label per document, drawn once.

        Source: the code of LACO (EiraZhang/LACO).
        """
        authors = {
            "label_positions": "sequential",
            "cross_attention_kernel": (10, 10),
            "cross_attention_channels": None,
        }
        return cls(**{**authors, **settings})

    def check(self) -> None:
        super().check()
        for field, allowed in (
            ("classifier_token", ("pooler", "cls", "mean")),
            ("auxiliary_task", ("none", "plcp", "clcp", "both")),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        if not self.joint_embedding and self.auxiliary_task != "none":
            raise ValueError(
                f"auxiliary_task={self.auxiliary_task!r} asks about the states of labels, but with joint_embedding=False the encoder "
                "reads no labels. Use auxiliary_task='none', or joint_embedding=True."
            )
        self._check_candidates()
        channels = self.cross_attention_channels
        if min(self.plcp_weight, self.clcp_weight) < 0 or (channels is not None and channels < 1):
            raise ValueError(
                f"plcp_weight={self.plcp_weight} and clcp_weight={self.clcp_weight} must be at least 0, and cross_attention_channels="
                f"{channels} at least 1."
            )
        if len(self.cross_attention_kernel) != 2 or min(self.cross_attention_kernel) < 1:
            raise ValueError(
                f"cross_attention_kernel={self.cross_attention_kernel}, but it takes two sizes of at least 1: tokens and labels."
            )
        self._check_idle_weights()
        if self.cross_attention and self.classifier_token != "pooler":
            raise ValueError(
                f"classifier_token={self.classifier_token!r} with cross_attention=True, whose answers the classifier reads instead of "
                "CLS. Leave it out, or use cross_attention=False."
            )

    def _check_candidates(self) -> None:
        if not self.num_candidates:
            return
        if self.num_candidates < 1:
            raise ValueError(f"num_candidates={self.num_candidates}, but a model reads at least 1, or 0 for all labels.")
        required = {
            "joint_embedding": True,
            "cross_attention": True,
            "label_positions": "shared",
            "cornet_num_blocks": 0,
            "label_loss": "bce",
        }
        settings = {
            **{name: getattr(self, name) for name in required},
            "labels of cross_attention_kernel": self.cross_attention_kernel[-1],
        }
        for name, value in {**required, "labels of cross_attention_kernel": 1}.items():
            if settings[name] != value:
                raise ValueError(
                    f"num_candidates={self.num_candidates} with {name}={settings[name]!r}, but it must be {value!r}: candidates are "
                    "another set of labels for every document, in no order."
                )

    def _check_idle_weights(self) -> None:
        """Refuse the weight of a task that is not learnt: whoever gives one expects it to do something."""
        for task, is_learnt in (("plcp", self.learns_pairs), ("clcp", self.learns_conditions)):
            weight = getattr(self, f"{task}_weight")
            if weight != getattr(LACOConfig, f"{task}_weight") and not is_learnt:
                raise ValueError(
                    f"{task}_weight={weight!r} with auxiliary_task={self.auxiliary_task!r}, which does not read it: it goes with "
                    f"auxiliary_task={task!r} or 'both'. Leave it out."
                )

    def check_generator(self, generator: Any) -> None:
        """Refuse what finds candidates for other labels than the model's.

        Args:
            generator: With ``num_labels``, and ``labels_digest`` where it is known.

        Raises:
            ValueError: If it does.
        """
        known = getattr(generator, "labels_digest", None)
        if generator.num_labels != self.num_labels or known not in (None, self.labels_digest):
            raise ValueError(
                f"The {type(generator).__name__} finds {generator.num_labels} labels (digest {known}), but the model has {self.num_labels} "
                f"(labels_digest {self.labels_digest}), so their ids mean other labels. Open the one that lies beside the model."
            )

    @property
    def reads_labels_in_order(self) -> bool:
        """True if places of labels tell them apart, so that a part of them cannot be read alone."""
        return self.label_positions == "sequential" or (self.cross_attention and self.cross_attention_kernel[-1] > 1)

    def check_candidates_usable(self) -> None:
        """Refuse to score candidates where more than the labels themselves would have to be known.

        Raises:
            ValueError: If CorNet or another loss looks at all labels.
        """
        for name, required in (("cornet_num_blocks", 0), ("label_loss", "bce")):
            if getattr(self, name) != required:
                raise ValueError(
                    f"Candidates were given to a model with {name}={getattr(self, name)!r}, which looks at all labels. Leave candidate_ids "
                    "out, or train with num_candidates."
                )

    @property
    def num_read_labels(self) -> int:
        """All labels, or as many as a document has candidates."""
        return self.num_candidates or self.num_labels

    @property
    def has_label_embedding(self) -> bool:
        return self.joint_embedding or self.cross_attention

    def activation_elements_beside_encoder(self, num_tokens: int) -> int:
        if not self.cross_attention:
            return 0
        labels, filter_size = self.num_read_labels, math.prod(self.cross_attention_kernel)
        # States of unit length; similarities and their gradients; a window and a filter for each token.
        return 2 * self.hidden_size * (num_tokens + labels) + num_tokens * (3 * labels + 2 * filter_size)

    @property
    def learns_pairs(self) -> bool:
        return self.auxiliary_task in ("plcp", "both")

    @property
    def learns_conditions(self) -> bool:
        return self.auxiliary_task in ("clcp", "both")

    @property
    def auxiliary_weights(self) -> tuple[float, float]:
        """Weights of the losses of PLCP and CLCP (LACO, equation 7)."""
        share = 0.5 if self.auxiliary_task == "both" else 1.0
        return share * self.plcp_weight, share * self.clcp_weight

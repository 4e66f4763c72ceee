"""`LACOConfig`: settings of LACO, its ablations and its auxiliary tasks."""

import math
from typing import TYPE_CHECKING, Any

from .configuration_joint import JointConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_laco import LACOForXMTC  # noqa: F401

__all__ = ["LACOConfig"]


class LACOConfig(JointConfig):
    """Settings of `LACOForXMTC`.

    The defaults are independent of the order of the labels; `reproduction` sets what the authors' code does. The ablations of
    LACO §5.2 are ``joint_embedding=False`` ("w/o JE"), ``cross_attention=False`` ("w/o CA") and both (the BERT baseline); one switch
    is enough for an ablation, so settings of what it leaves out stay and are not read.

    Args:
        cross_attention: Sum the document's states by their nearness to the labels; False reads the CLS token.
        cross_attention_kernel: Tokens and labels that a filter of the cross attention spans.
        cross_attention_channels: Its filters; None for one per label.
        cross_attention_similarity: ``cosine`` (authors' code) or ``dot`` (equation 1).
        cross_attention_values: ``normalized`` states are summed (authors' code), or ``raw`` ones (equation 2).
        cross_attention_tokens: Tokens with a weight: ``all``; ``words``, without CLS and separators (the paper's H_D); or
            ``padded``, padding included (authors' code; scores then depend on the batch).
        classifier_token: What a model without cross attention reads: ``pooler``, a tanh layer on the CLS token that starts from
            the encoder's own, or ``cls``, the state itself.
        num_candidates: Labels that the encoder reads beside a text, chosen for it by a generator (`hf_xmtc.retrieval`) or by whoever
            calls; 0 for all labels. For label sets of thousands and more.
        label_term: Also score a label by its own state, l_j = w_j · c + b_j + u · tanh(W_y h_j + W_c c), by weights that all labels
            share, so that rare labels gain. For candidates.
        retrieval_weight: Share of the generator's votes in a candidate's score, where they are given, see `log_scores`; 0 for none.
            With a share scores are for ranking, and predicted sets need a threshold that was tuned on them.
        auxiliary_task: ``none``, ``plcp``, ``clcp`` or ``both``; learnt beside the labels in training, never run in prediction.
        plcp_weight: Weight of the pairs' loss, a mean over each document's pairs and then over documents. 2 stands for the code's 1 on
            its two units.
        clcp_weight: Weight of the conditional loss, a mean over each document's remaining labels and then over documents. 10 stands
            for the code's 5 on two units.
        auxiliary_alpha: α: share of PLCP where both tasks are learnt, the rest being CLCP's.
        literal_equation_7: L_mlc + α L_plcp + (1 - α) L_clcp with the sum of equation 6, in the place of the weights above.
        auxiliary_units: Output units of the auxiliary heads: 1, or the code's 2.
        auxiliary_sampling: ``visit`` draws pairs and given labels anew each time a document is seen; ``fixed`` once (the code).
        plcp_pairs: ``one_to_two``, a related and two unrelated pairs per document (γ = 0.5), or ``one`` (the code).
        plcp_single_label: Pairs of a document with one label: none (``masked``) or ``negatives_only``.
        clcp_given: How many labels are given: ``one`` (the code), ``uniform`` (the paper's random number) or ``bernoulli``.
        clcp_given_probability: Chance of each label to be given with ``bernoulli``.
        clcp_head: ``transformed`` (the code) or ``plain`` (the paper), see `ConditionalHead`.
    """

    model_type = "laco"
    left_out_of_files = {
        **JointConfig.left_out_of_files,
        "cross_attention": True,
        "cross_attention_similarity": "cosine",
        "cross_attention_values": "normalized",
        "cross_attention_tokens": "all",
        "classifier_token": "pooler",
        "num_candidates": 0,
        "label_term": False,
        "retrieval_weight": 0.0,
        "auxiliary_task": "none",
        "plcp_weight": 2.0,
        "clcp_weight": 10.0,
        "auxiliary_alpha": 0.5,
        "literal_equation_7": False,
        "auxiliary_units": 1,
        "auxiliary_sampling": "visit",
        "plcp_pairs": "one_to_two",
        "plcp_single_label": "masked",
        "clcp_given": "one",
        "clcp_given_probability": 0.5,
        "clcp_head": "transformed",
    }

    renamed_fields = {"generator_share": "retrieval_weight"}

    cross_attention: bool = True
    cross_attention_kernel: list[int] | tuple[int, ...] = (11, 1)
    cross_attention_channels: int | None = 64
    cross_attention_similarity: str = "cosine"
    cross_attention_values: str = "normalized"
    cross_attention_tokens: str = "all"
    classifier_token: str = "pooler"
    num_candidates: int = 0
    label_term: bool = False
    retrieval_weight: float = 0.0
    auxiliary_task: str = "none"
    plcp_weight: float = 2.0
    clcp_weight: float = 10.0
    auxiliary_alpha: float = 0.5
    literal_equation_7: bool = False
    auxiliary_units: int = 1
    auxiliary_sampling: str = "visit"
    plcp_pairs: str = "one_to_two"
    plcp_single_label: str = "masked"
    clcp_given: str = "one"
    clcp_given_probability: float = 0.5
    clcp_head: str = "transformed"

    def __post_init__(self, **kwargs: Any):
        self.cross_attention_kernel = list(self.cross_attention_kernel)
        super().__post_init__(**kwargs)
        if self.cross_attention_channels is None:
            # A number that stays when the labels change.
            self.cross_attention_channels = self.num_labels

    @classmethod
    def reproduction(cls, **settings: Any) -> "LACOConfig":
        """The architecture of the authors' code: label positions in a row, a 10 × 10 kernel with one filter per label.

        Other readings of the code are fields of their own: ``auxiliary_units=2`` (with half the weights: a loss of two units is about
        twice as large), ``auxiliary_sampling="fixed"``, ``plcp_pairs="one"``, ``cross_attention_tokens="padded"``.

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
            ("cross_attention_similarity", ("cosine", "dot")),
            ("cross_attention_values", ("normalized", "raw")),
            ("cross_attention_tokens", ("all", "words", "padded")),
            ("classifier_token", ("pooler", "cls")),
            ("auxiliary_task", ("none", "plcp", "clcp", "both")),
            ("auxiliary_units", (1, 2)),
            ("auxiliary_sampling", ("visit", "fixed")),
            ("plcp_pairs", ("one_to_two", "one")),
            ("plcp_single_label", ("masked", "negatives_only")),
            ("clcp_given", ("one", "uniform", "bernoulli")),
            ("clcp_head", ("transformed", "plain")),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(map(str, allowed))}.")
        if not self.joint_embedding and self.auxiliary_task != "none":
            raise ValueError(
                f"auxiliary_task={self.auxiliary_task!r} asks about the states of labels, but with joint_embedding=False the encoder "
                "reads no labels. Use auxiliary_task='none', or joint_embedding=True."
            )
        self._check_candidates()
        if self.cross_attention_tokens == "words" and self.cls_token_id is None:
            raise ValueError(
                "cross_attention_tokens='words' leaves CLS and separators out, but cls_token_id is None, so they are not known. Make the "
                "config with for_tokenizer or for_backbone."
            )
        if self.literal_equation_7 and (self.plcp_weight, self.clcp_weight) != (2.0, 10.0):
            raise ValueError(
                f"literal_equation_7=True weighs the tasks by auxiliary_alpha alone, but plcp_weight={self.plcp_weight} and clcp_weight="
                f"{self.clcp_weight} were given. Leave them out."
            )
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
        if not 0 <= self.auxiliary_alpha <= 1 or not 0 < self.clcp_given_probability < 1:
            raise ValueError(
                f"auxiliary_alpha={self.auxiliary_alpha} must be from 0 to 1 and clcp_given_probability="
                f"{self.clcp_given_probability} between 0 and 1."
            )
        self._check_task_settings()
        if self.cross_attention and self.classifier_token != "pooler":
            raise ValueError(
                f"classifier_token={self.classifier_token!r} with cross_attention=True, whose answers the classifier reads in the place of "
                "CLS. Leave it out, or use cross_attention=False."
            )

    def _check_candidates(self) -> None:
        for field in ("label_term", "retrieval_weight"):
            if getattr(self, field) and not self.num_candidates:
                raise ValueError(
                    f"{field}={getattr(self, field)}, but it scores candidates and num_candidates=0. Give num_candidates, or leave it out."
                )
        if not 0 <= self.retrieval_weight <= 1:
            raise ValueError(f"retrieval_weight={self.retrieval_weight}, but a share is from 0 to 1.")
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

    def _check_task_settings(self) -> None:
        """Refuse settings of a task that is not learnt: whoever gives one expects it to do something."""
        pairs, conditions = self.learns_pairs, self.learns_conditions
        weighs_by_alpha = pairs and conditions or self.literal_equation_7
        by_reader = (
            ("auxiliary_task='plcp' or 'both'", pairs, ("plcp_weight", "plcp_pairs", "plcp_single_label")),
            ("auxiliary_task='clcp' or 'both'", conditions, ("clcp_weight", "clcp_given", "clcp_head")),
            ("clcp_given='bernoulli'", conditions and self.clcp_given == "bernoulli", ("clcp_given_probability",)),
            ("auxiliary_task='both' or literal_equation_7=True", weighs_by_alpha, ("auxiliary_alpha",)),
            ("an auxiliary_task", pairs or conditions, ("auxiliary_units", "auxiliary_sampling", "literal_equation_7")),
        )
        for reader, is_there, fields in by_reader:
            for field in fields:
                if getattr(self, field) != self.left_out_of_files[field] and not is_there:
                    raise ValueError(
                        f"{field}={getattr(self, field)!r} with auxiliary_task={self.auxiliary_task!r}, which does not read it: it goes with "
                        f"{reader}. Leave it out."
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
    def reads_padding(self) -> bool:
        """True if scores depend on padding, as in the authors' code."""
        return self.cross_attention and self.cross_attention_tokens == "padded"

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
        alpha = self.auxiliary_alpha
        if self.literal_equation_7:
            return alpha, 1 - alpha
        if self.auxiliary_task == "both":
            return self.plcp_weight * alpha, self.clcp_weight * (1 - alpha)
        return self.plcp_weight, self.clcp_weight

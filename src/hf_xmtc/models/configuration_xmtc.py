"""`XMTCConfig`: the settings that every model family shares: label space, head and CorNet."""

import dataclasses
import difflib
import inspect
import json
import os
from typing import Any

from transformers import PreTrainedConfig, __version__
from transformers.utils import cached_file, logging

from .former_settings import with_current_fields
from .label_losses import LABEL_LOSSES
from .label_names import LABELS_FILE, LabelNames
from .setting_kinds import check_setting_kinds

__all__ = ["XMTCConfig"]

logger = logging.get_logger(__name__)

# Older releases set a config's fields in another way and would lose the label names.
OLDEST_TRANSFORMERS = (5, 13)
if tuple(int(part) for part in __version__.split(".")[:2]) < OLDEST_TRANSFORMERS:
    raise ImportError(
        f"This model needs transformers {'.'.join(map(str, OLDEST_TRANSFORMERS))} or newer, and {__version__} is installed: "
        "pip install -U transformers"
    )

# What describes the label space, stored as num_labels and labels.json, and what follows from a backbone's config.
_PRIVATE = (
    "_label_names",
    "_made_up_names",
    "_labels_file",
    "_num_labels",
    "_given_id2label",
    "_given_label2id",
    "_positions",
)


class XMTCConfig(PreTrainedConfig):
    """Settings shared by all families; each family adds its encoder's.

    The label space is one integer, `num_labels`, in ``config.json``. The names live in ``labels.json`` beside the weights and
    are read when they are first asked for, so a model with half a million labels opens as fast as one with ten;
    `labels_digest` tells whether it is the file that belongs to this config.
    `id2label` and `label2id` are served from there, which is what the stock ``text-classification`` pipeline reads.

    Args:
        num_labels: Number of labels L; may be left out when ``id2label`` or ``label_names`` is given.
        id2label: Label of each label id, the ids being 0 … L-1.
        label_names: The same as a `LabelNames` or list of strings.
        cornet_num_blocks: CorNet blocks behind the label head, 0 for none (CorNet §3; two blocks in all its tables).
        cornet_context_size: Width R of a CorNet block; None for 1000, or as many as there are labels where they are fewer. The paper has
            R much smaller than L and does not name it; the authors' code has 1000.
        cornet_activation: Function on the logits a block reads: ``sigmoid`` (equation 2), ``relu``, ``tanh`` or ``elu``.
        loss_reduction: ``mean`` over documents × labels (the authors of CorNet and AttentionXML) or ``sum_labels``, the sum
            over labels averaged over documents (LACO).
        label_loss: ``bce``, ``propensity_bce`` (positives weighed by their labels' inverse propensity) or ``asymmetric``.
        label_loss_settings: Arguments of the loss, such as ``{"gamma_negative": 2.0}`` for `AsymmetricLoss`.
        label_block_size: Labels scored at a time in loss and top-k; None for what suits the device.
        label_memory_mib: Logits of as many label blocks as fit into this are kept in a training step instead of being computed again.
        decision_threshold: What a label's score must exceed for the label to be in the predicted set.
        has_label_thresholds: Whether each label has a threshold of its own, stored with the weights; see
            `XMTCPreTrainedModel.set_thresholds`.
        labels_digest: Digest of the labels in ``labels.json``, kept by the config itself; None for a model without names.

    Raises:
        ValueError: If settings contradict each other; the message holds both values.
    """

    model_type = "xmtc"
    keys_to_ignore_at_inference = ("hidden_states", "attentions")
    # Settings that config.json leaves out where they have the default of the class that names them here, see `file_defaults`. Hence
    # neither that default nor the name may ever change, or files of the past would mean something else. A new field may join if its
    # default is what models did before; a family with another default names the field again, or its files always hold it. Sizes are
    # always written.
    left_out_of_files = (
        "problem_type",
        "cornet_activation",
        "loss_reduction",
        "label_loss",
        "label_loss_settings",
        "label_block_size",
        "label_memory_mib",
        "decision_threshold",
        "has_label_thresholds",
    )

    # Fields that are gone, with the value that files may have.
    removed_fields = {}

    problem_type: str | None = "multi_label_classification"
    cornet_num_blocks: int = 2
    cornet_context_size: int | None = None
    cornet_activation: str = "sigmoid"
    loss_reduction: str = "mean"
    label_loss: str = "bce"
    label_loss_settings: dict | None = None
    label_block_size: int | None = None
    label_memory_mib: float = 64.0
    decision_threshold: float = 0.5
    has_label_thresholds: bool = False
    labels_digest: str | None = None

    def __post_init__(self, **kwargs: Any):
        kwargs = with_current_fields(type(self), kwargs)
        self._warn_of_misspelt(kwargs)
        # Private state first: the base class reads id2label and num_labels while it initialises.
        names = kwargs.pop("label_names", None)
        given, inverse = self.__dict__.pop("_given_id2label", None), self.__dict__.pop("_given_label2id", None)
        self._label_names = self._made_up_names = None
        self._labels_file = None
        self._num_labels = None
        if names is None and given is not None:
            names = _names_from_id2label(given)
        if names is not None:
            self.label_names = names
        if inverse is not None:
            self.label2id = inverse
        num_labels = kwargs.pop("num_labels", None)
        self.num_labels = num_labels if num_labels is not None else len(self._label_names or ()) or 2
        # The base class would copy what id2label answers back into it, LABEL_0 … for a checkpoint whose names are unread.
        self._initialising = True
        super().__post_init__(**kwargs)
        del self._initialising
        if self.cornet_context_size is None:
            # A number that stays when the labels change.
            self.cornet_context_size = min(1000, self.num_labels)
        self.check()

    def _warn_of_misspelt(self, settings: dict[str, Any]) -> None:
        """Unknown settings are kept, as configs of newer versions need it; those that look like a known one are said."""
        known = [entry.name for entry in dataclasses.fields(self)] + ["num_labels", "label_names"]
        for name in settings:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            if name not in known and close:
                logger.warning(f"{type(self).__name__} has no setting {name!r}, so it does nothing. Was {close[0]!r} meant?")

    def check_num_labels(self, num_labels: int) -> None:
        """Refuse a number of labels that the model cannot read; most families take any.

        Raises:
            ValueError: If it is one.
        """

    def check(self) -> None:
        """Refuse contradictory settings; families extend it."""
        if self.problem_type != "multi_label_classification":
            raise ValueError(
                f"problem_type={self.problem_type!r}, but hf_xmtc models are 'multi_label_classification' only: every label has "
                "its own sigmoid. Leave problem_type out."
            )
        if self.num_labels < 1:
            raise ValueError(f"num_labels={self.num_labels}, but a model needs at least one label.")
        if self.cornet_num_blocks < 0 or (self.cornet_num_blocks and self.cornet_context_size < 1):
            raise ValueError(
                f"cornet_num_blocks={self.cornet_num_blocks} and cornet_context_size={self.cornet_context_size}: "
                "give 0 blocks for a model without CorNet, or at least 1 block of context size at least 1."
            )
        for field, allowed in (
            ("cornet_activation", ("sigmoid", "relu", "tanh", "elu")),
            ("loss_reduction", ("mean", "sum_labels")),
            ("label_loss", tuple(LABEL_LOSSES)),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        self._check_label_loss()

    def _check_label_loss(self) -> None:
        accepted = set(inspect.signature(LABEL_LOSSES[self.label_loss]).parameters)
        unknown = sorted(set(self.label_loss_settings or {}) - accepted)
        if unknown:
            raise ValueError(
                f"label_loss_settings names {', '.join(unknown)}, but label_loss={self.label_loss!r} takes "
                f"{', '.join(sorted(accepted)) or 'no settings'}."
            )
        LABEL_LOSSES[self.label_loss](**(self.label_loss_settings or {}))
        if self.label_block_size is not None and self.label_block_size < 1:
            raise ValueError(
                f"label_block_size={self.label_block_size}; a block holds at least 1 label. None chooses a size."
            )
        if self.label_memory_mib < 0:
            raise ValueError(f"label_memory_mib={self.label_memory_mib}, but memory cannot be negative; 0 keeps nothing.")

    @property
    def max_input_tokens(self) -> int | None:
        """Longest input the model takes, special tokens included; None where there is no limit."""
        return None

    # ---- label space -----------------------------------------------------------------------------------------------------

    @property
    def num_labels(self) -> int:
        return self._num_labels

    @num_labels.setter
    def num_labels(self, num_labels: int) -> None:
        if self._label_names is not None and len(self._label_names) != num_labels:
            raise ValueError(
                f"num_labels={num_labels} but there are names for {len(self._label_names)} labels. "
                "Give one name per label, or leave num_labels out."
            )
        self._num_labels = int(num_labels)

    @property
    def label_names(self) -> LabelNames:
        """Names of the labels, read from ``labels.json`` at the first call; LABEL_0, LABEL_1 … for a model without names.

        Raises:
            ValueError: If ``labels.json`` is missing or not the file that was saved with this config.
        """
        if self._label_names is None:
            if self.labels_digest is None:
                # Kept, because the stock pipeline asks for them once per label and text.
                if self._made_up_names is None or len(self._made_up_names) != self.num_labels:
                    self._made_up_names = LabelNames([f"LABEL_{label_id}" for label_id in range(self.num_labels)])
                return self._made_up_names
            names = LabelNames.load(self._find_labels_file())
            if len(names) != self.num_labels:
                raise ValueError(
                    f"{LABELS_FILE} beside the model names {len(names)} labels but the config has num_labels={self.num_labels}. "
                    "Was one of the two files replaced, or another num_labels asked for? Restore the pair that was saved together, "
                    "and use model.resize_labels to change the label space."
                )
            if names.digest() != self.labels_digest:
                raise ValueError(
                    f"{LABELS_FILE} (digest {names.digest()}) is not the file that was saved with this config (labels_digest="
                    f"{self.labels_digest}), so labels would get the scores of others. Was it changed, or is it of another "
                    "revision? Open the model itself with from_pretrained(…, revision=…), or restore the file."
                )
            self._label_names = names
        return self._label_names

    @label_names.setter
    def label_names(self, names: LabelNames | list[str]) -> None:
        names = LabelNames.of(names)
        if self._num_labels is not None and len(names) != self._num_labels:
            raise ValueError(
                f"There are names for {len(names)} labels but num_labels={self._num_labels}. Give one name per label; to change "
                "the label space of a trained model use model.resize_labels(names)."
            )
        self._label_names, self.labels_digest = names, names.digest()

    @property
    def names_given(self) -> bool:
        """True if names were given or read, as opposed to lying unread beside the checkpoint."""
        return self._label_names is not None

    @property
    def id2label(self) -> dict[int, str] | None:
        # The stock pipeline asks once per label and text; the base class's attribute access would take half of its time.
        state = object.__getattribute__(self, "__dict__")
        if "_initialising" in state:
            return None
        return (state.get("_label_names") or self.label_names).by_id

    @id2label.setter
    def id2label(self, value: dict | None) -> None:
        if value is None:
            return
        if "_num_labels" not in self.__dict__:  # the constructor is still setting fields
            self.__dict__["_given_id2label"] = value
            return
        self.label_names = _names_from_id2label(value)

    @property
    def label2id(self) -> dict[str, int] | None:
        return None if "_initialising" in self.__dict__ else self.label_names.ids

    @label2id.setter
    def label2id(self, value: dict | None) -> None:
        if value is None:
            return
        if "_num_labels" not in self.__dict__:  # the constructor is still setting fields
            self.__dict__["_given_label2id"] = value
            return
        if self.labels_digest is None:
            self.label_names = _names_from_id2label({label_id: label for label, label_id in value.items()})
        known = self.label_names.ids
        if value != known:
            label = next(label for label in {**value, **known} if value.get(label) != known.get(label))
            raise ValueError(
                f"label2id gives {label!r} the id {value.get(label)}, but by the label names it is {known.get(label)}. "
                "label2id is only their inverse: leave it out."
            )

    def locate_labels(self, name_or_path: str | os.PathLike, **hub_kwargs: Any) -> None:
        """Find ``labels.json`` of a checkpoint at the same revision as its weights; it is read later."""
        if self._label_names is None and self.labels_digest is not None:
            try:
                # Absolute, because it is read later, perhaps from another working directory.
                self._labels_file = os.path.abspath(cached_file(name_or_path, LABELS_FILE, **hub_kwargs))
            except OSError as error:
                raise ValueError(
                    f"The model has {self.num_labels} named labels but its {LABELS_FILE} was not found beside {name_or_path}: {error} "
                    "Copy it from where the model came, or fetch the model again."
                ) from error

    def forget_label_names(self) -> None:
        """Drop the names, for a label space that the checkpoint's ``labels.json`` does not describe."""
        self._label_names, self._labels_file, self.labels_digest = None, None, None

    def _find_labels_file(self) -> str:
        if self._labels_file is None:
            self.locate_labels(self._name_or_path or os.curdir)
        return self._labels_file

    # ---- reading and writing ---------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike, **kwargs: Any) -> "XMTCConfig":
        """Read ``config.json``; arguments as in `transformers.PreTrainedConfig.from_pretrained`."""
        # AutoConfig records where the config came from, and so where labels.json lies; this method does not by itself.
        kwargs.setdefault("name_or_path", os.fspath(pretrained_model_name_or_path))
        return super().from_pretrained(pretrained_model_name_or_path, **kwargs)

    @classmethod
    def file_defaults(cls) -> dict[str, Any]:
        """Values of the settings that a ``config.json`` leaves out."""
        named = [(owner, name) for owner in reversed(cls.__mro__) for name in vars(owner).get("left_out_of_files", ())]
        return {name: getattr(owner, name) for owner, name in named}

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> "XMTCConfig":
        # The base class would set these one by one, in the caller's order, each contradicting what the other still says.
        config_dict = {
            **cls.file_defaults(),
            **with_current_fields(cls, config_dict),
            **{key: kwargs[key] for key in ("id2label", "label2id", "label_names") if key in kwargs},
        }
        kinds = {}
        for owner in reversed(cls.__mro__[: cls.__mro__.index(XMTCConfig) + 1]):
            kinds |= vars(owner).get("__annotations__", {})
        check_setting_kinds(config_dict, kinds, cls.__name__)
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike) -> "XMTCConfig":
        return cls.from_dict(cls._dict_from_json_file(json_file))

    def to_dict(self) -> dict[str, Any]:
        num_labels = self.num_labels
        # The base class copies the whole __dict__; names can be half a million strings.
        private = {key: self.__dict__.pop(key) for key in _PRIVATE if key in self.__dict__}
        try:
            return {**super().to_dict(), "num_labels": num_labels}
        finally:
            self.__dict__.update(private)

    def to_json_file(self, json_file_path: str | os.PathLike, use_diff: bool = True) -> None:
        """Write ``config.json``, one setting a line, without what `left_out_of_files` says.

        `repr` and `to_dict` have all settings.
        """
        settings = json.loads(self.to_json_string(use_diff))
        settings.pop("use_cache", None)  # the Trainer's; these models have no cache
        for field, value in self.file_defaults().items():
            if field in settings and settings[field] == value:
                del settings[field]
        lines = [f"  {json.dumps(field)}: {json.dumps(settings[field], sort_keys=True)}" for field in sorted(settings)]
        with open(json_file_path, "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")

    def save_pretrained(self, save_directory: str | os.PathLike, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write ``config.json``, and ``labels.json`` where the labels have names."""
        os.makedirs(save_directory, exist_ok=True)
        target = os.path.join(save_directory, LABELS_FILE)
        if self.labels_digest is not None:
            self.label_names.save(target)
        elif os.path.exists(target):
            raise FileExistsError(
                f"{target} names labels that this model does not have (its {self.num_labels} labels are unnamed). "
                "Save into an empty folder, or set config.label_names first."
            )
        super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)


def _names_from_id2label(id2label: dict) -> LabelNames:
    by_id = {int(label_id): label for label_id, label in id2label.items()}
    missing = sorted(set(range(max(by_id, default=-1) + 1)) - set(by_id))
    if missing or min(by_id, default=0) < 0:
        raise ValueError(
            f"id2label has the ids {sorted(by_id)[:10]}, so id {missing[0] if missing else min(by_id)} is "
            f"{'missing' if missing else 'negative'}. Label ids run from 0 to num_labels - 1 without gaps."
        )
    return LabelNames([by_id[label_id] for label_id in range(len(by_id))])

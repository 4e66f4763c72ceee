"""``--model``: a trained model that training starts from, and which of the run's settings are therefore its own."""

import copy
import os
import zlib
from dataclasses import dataclass
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.inference.model_opening import GENERATOR_FOLDER, check_readable, open_model, readable_errors
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.retrieval.candidate_files import local_folder
from hf_xmtc.training.checkpoint_files import checksum

from .config_overrides import check_overrides, own_fields, read_overrides
from .families import FAMILIES

__all__ = ["TOKENIZER_OPTIONS", "StartingModel"]

# Options that build a word tokenizer and its embedding, and those that name an encoder: a trained model has them behind it.
TOKENIZER_OPTIONS = ("vocab_size", "min_document_frequency", "word_splitting", "word_vectors")
BACKBONE_OPTIONS = ("backbone", "backbone_revision", "backbone_num_layers")
# Fields of the config that were tuned on the data the model comes from. They start as in a new model, or as config_overrides says.
TUNED_FIELDS = ("decision_threshold", "has_label_thresholds")


@dataclass(frozen=True)
class StartingModel:
    """A trained model before its weights are read.

    Attributes:
        name: Its folder, or its id on the Hub.
        revision: Branch, tag or commit on the Hub.
        config: Its config.
        tokenizer: Its tokenizer.
        recipe: The content of its recipe.json; empty where there is none.
    """

    name: str
    revision: str | None
    config: XMTCConfig
    tokenizer: PreTrainedTokenizerFast
    recipe: dict[str, Any]

    @classmethod
    def from_pretrained(cls, name: str, revision: str | None = None) -> "StartingModel":
        """Read config, label names, tokenizer and recipe; the classes are those of this package.

        Raises:
            OSError: If the folder or the Hub's repo is not there or not complete.
            ValueError: If a file is damaged, or it is no model of this package.
        """
        if name in FAMILIES and not os.path.isdir(name):
            raise ValueError(f"model={name!r} names a family and no trained model. Did you mean --model_family {name}?")
        check_readable(name)
        with readable_errors(name, "config.json or labels.json"):
            family = XMTCConfig.get_config_dict(name, revision=revision)[0].get("model_type")
            if family not in FAMILIES:
                raise ValueError(
                    f"model={name!r} is of the type {family!r}, which is none of the families of hf_xmtc: {', '.join(sorted(FAMILIES))}. "
                    "A pretrained encoder goes into one with --backbone."
                )
            config = FAMILIES[family][0].from_pretrained(name, revision=revision)
            config.locate_labels(name, revision=revision)
            _ = config.label_names  # read now, because a damaged file is better known early
        with readable_errors(name, "tokenizer.json or tokenizer_config.json"):
            tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        recipe = cached_file(name, "recipe.json", revision=revision, _raise_exceptions_for_missing_entries=False)
        return cls(name, revision, config, tokenizer, read_json_object(recipe) if recipe else {})

    def digest(self) -> str:
        """A checksum of its weights, config and labels: a resumed run must have started from the same."""
        value = zlib.crc32(f"{self.config.to_json_string()}{self.config.label_names.digest()}".encode())
        for weights in self._weight_files():
            with open(weights, "rb") as file:
                value = checksum(file, value)
        return f"{value:08x}"

    def _weight_files(self) -> list[str]:
        """The file of the weights, or all those that their index names; downloaded where they are on the Hub."""
        whole, index = self._file(SAFE_WEIGHTS_NAME), self._file(SAFE_WEIGHTS_INDEX_NAME)
        if whole is not None or index is None:
            return [whole] if whole is not None else []
        with readable_errors(self.name, SAFE_WEIGHTS_INDEX_NAME):
            names = sorted(set(read_json_object(index)["weight_map"].values()))
        files = [self._file(name) for name in names]
        return [file for file in files if file is not None]  # opening the model says what is missing

    def _file(self, name: str) -> str | None:
        return cached_file(self.name, name, revision=self.revision, _raise_exceptions_for_missing_entries=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of its config that a model of other data keeps."""
        return {name: getattr(self.config, name) for name in own_fields(type(self.config)) if name not in TUNED_FIELDS}

    @property
    def generating_model(self) -> str | None:
        """Folder of the model that finds its candidates; None where near training texts do, or where it scores all labels."""
        if not getattr(self.config, "num_candidates", 0) or self._file(f"{GENERATOR_FOLDER}/config.json") is None:
            return None
        return str(local_folder(self.name, self.revision, None) / GENERATOR_FOLDER)

    @property
    def max_length_tokens(self) -> int | None:
        """Tokens of its documents; None where nothing says it."""
        limits = [self.tokenizer.model_max_length, self.config.max_input_tokens]
        limits = [limit for limit in limits if limit is not None and limit < LARGE_INTEGER]
        return min(limits, default=self.recipe.get("max_length_tokens"))

    def new_labels(self, labels: LabelNames) -> list[int]:
        """Ids of the labels that the model does not know."""
        known = self.config.label_names.ids
        return [label_id for label_id, label in enumerate(labels.labels) if label not in known]

    def dropped_labels(self, labels: LabelNames) -> list[str]:
        """Its labels that are not among others."""
        return [label for label in self.config.label_names.labels if label not in labels.ids]

    def config_for(self, labels: LabelNames, overrides: dict[str, Any]) -> XMTCConfig:
        """The config of the model with other labels.

        Raises:
            ValueError: If the model has no room for so many.
        """
        config, labels = copy.deepcopy(self.config), self._with_metadata(labels)
        config.check_num_labels(len(labels))
        config.forget_label_names()
        config.num_labels, config.label_names = len(labels), labels
        for name in TUNED_FIELDS:
            if hasattr(config, name):
                setattr(config, name, overrides.get(name, config.file_defaults()[name]))
        return config

    def open(self, labels: LabelNames, overrides: dict[str, Any]) -> XMTCPreTrainedModel:
        """The model with other labels, in float32; those it knows keep what it has learnt of them.

        Values tuned or counted on its old data do not stay: thresholds, and the weights of labels in the loss.
        """
        config = self.config_for(labels, overrides)
        model = open_model(self.name, self.revision)[0].float()
        model.resize_labels(config.label_names)
        if model.has_thresholds:
            model.set_thresholds(config.decision_threshold)
        if model.label_head.positive_weight is not None:
            model.label_head.positive_weight.zero_()  # the Trainer then counts them
        return model

    @property
    def has_tuned_fields(self) -> bool:
        """True if anything of it was tuned."""
        fields = {name: getattr(self.config, name) for name in TUNED_FIELDS if hasattr(self.config, name)}
        return any(value != self.config.file_defaults()[name] for name, value in fields.items())

    def _with_metadata(self, labels: LabelNames) -> LabelNames:
        """The labels with the display names and parents that the model has and the data do not."""
        known, names, parents = self.config.label_names, [], []
        for label_id, label in enumerate(labels.labels):
            name, above, old = labels.name_of(label_id), labels.parents_of(label_id), known.ids.get(label)
            names.append(known.name_of(old) if name == label and old is not None else name)
            parents.append(known.parents_of(old) if not above and old is not None else above)
        return LabelNames(labels.labels, names, parents)

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Refuse settings that the model does not have.

        Raises:
            ValueError: If there are any; the message holds all of them.
        """
        config = self.config
        own = {name: self.recipe.get(name) for name in (*BACKBONE_OPTIONS, *TOKENIZER_OPTIONS)}
        own |= {"model_family": config.model_type, "num_cls_tokens": getattr(config, "num_cls_tokens", 0)}
        own |= {name: getattr(config, name) for name in ("cornet_num_blocks", "cornet_context_size")}
        overrides = read_overrides(settings.get("config_overrides"))
        check_overrides(overrides, type(config))
        pairs = [(name, settings[name], own[name]) for name in own if settings.get(name) is not None]
        pairs += [(name, value, getattr(config, name)) for name, value in overrides.items() if name not in TUNED_FIELDS]
        other = [
            f"{name}={value!r}" + (f" (the model has {has!r:.80})" if has is not None else "")
            for name, value, has in pairs
            if not _is_same(value, has)
        ]
        if other:
            raise ValueError(
                f"The trained model {self.name} brings its own settings and tokenizer, but others were given: {'; '.join(other)}. Leave them "
                "out, or leave --model out to train a new model."
            )


def _is_same(value: Any, own: Any) -> bool:
    if isinstance(value, dict) and not isinstance(own, dict):  # some fields of an encoder's config
        return all(_is_same(entry, getattr(own, name, None)) for name, entry in value.items())
    if isinstance(value, list | tuple) and isinstance(own, list | tuple):
        return list(value) == list(own)
    if isinstance(value, str) and os.path.exists(value):
        value = os.path.basename(os.path.abspath(value))  # as recipe.json has it
    return value == own

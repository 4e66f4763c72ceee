"""``--config_overrides``: fields of a family's config on the command line."""

import dataclasses
import difflib
import inspect
import json
from collections.abc import Iterable
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

__all__ = ["SAID_BY_DATA", "USUAL_NAMES", "check_overrides", "field_names", "hint", "read_overrides"]


PYTHON_WORDS = {"True": True, "False": False, "None": None}
# What other programs call some options; nothing is written nearly so.
USUAL_NAMES = {
    "batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "lr": "learning_rate",
    "max_length": "max_length_tokens",
}
# What a config takes and nobody has to give.
SAID_BY_DATA = dict.fromkeys(
    ("num_labels", "label_names", "labels_digest", "id2label", "label2id"),
    "The labels are those of the training documents, or of --label_file with --label_space file.",
)


def field_names(settings_class: type) -> set[str]:
    """Names of the fields of a dataclass."""
    return {entry.name for entry in dataclasses.fields(settings_class)}


def own_fields(config_class: type[PreTrainedConfig]) -> set[str]:
    """Fields that a family's config has beside those of every config of transformers."""
    return field_names(config_class) - field_names(PreTrainedConfig)


def read_overrides(text: str | dict | None) -> dict[str, Any]:
    """Settings from ``field=value,field=value`` or a JSON object.

    Raises:
        ValueError: If the text is neither.
    """
    if not text:
        return {}
    if isinstance(text, dict):
        return text
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"config_overrides={text!r} is not valid JSON: {error}.") from error
    if "{" in text or "[" in text:
        name = text.partition("=")[0].strip() if "=" in text else "field"
        raise ValueError(
            f"config_overrides={text!r} has a bracket, as lists and objects do, whose commas would divide it. Write all of it as JSON: "
            f"--config_overrides '{{\"{name}\": …}}'."
        )
    overrides = {}
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if not separator:
            raise ValueError(f"config_overrides={text!r}: {part!r} has no '='. Write field=value, separated by commas.")
        try:
            overrides[key.strip()] = json.loads(value)
        except json.JSONDecodeError:  # a bare word such as layer_norm=none
            overrides[key.strip()] = PYTHON_WORDS.get(value.strip(), value.strip())
    return overrides


def check_overrides(overrides: dict[str, Any], config_class: type[PreTrainedConfig]) -> None:
    """Refuse fields that a family's config, or its encoder's, does not have or that the data say, and words where it has numbers.

    Raises:
        ValueError: If there are any.
    """
    types, own = {entry.name: entry.type for entry in dataclasses.fields(config_class)}, own_fields(config_class)
    for key, value in overrides.items():
        if key in SAID_BY_DATA:
            raise ValueError(f"config_overrides names {key!r}. {SAID_BY_DATA[key]} Leave it out.")
        if key not in types:
            close, of_encoder = hint(key, own), ""
            if "backbone_config" in own and not close:
                of_encoder = (
                    " Sizes of the encoder go into backbone_config, as JSON: --config_overrides "
                    '\'{"backbone_config": {"hidden_size": 128}}\'.'
                )
            raise ValueError(
                f"config_overrides names {key!r}, which {config_class.__name__} does not have.{close}{of_encoder} It has: "
                f"{', '.join(sorted(own))}."
            )
        default = getattr(config_class, key, None)
        if isinstance(value, str) and isinstance(default, int | float):
            kind = inspect.formatannotation(types[key])
            raise ValueError(f"config_overrides has {key}={value!r}, but {key} is of the type {kind}, such as {default!r}.")
    backbone = overrides.get("backbone_config")
    if isinstance(backbone, dict):
        _check_encoder_fields(backbone)


def _check_encoder_fields(settings: dict[str, Any]) -> None:
    model_type = settings.get("model_type", "bert")
    if model_type not in CONFIG_MAPPING:
        raise ValueError(
            f"backbone_config names the model_type {model_type!r}, which transformers does not have.{hint(model_type, CONFIG_MAPPING)}"
        )
    known = AutoConfig.for_model(model_type)
    for key in settings:
        if key not in known.to_dict() and not hasattr(known, key):
            raise ValueError(
                f"backbone_config names {key!r}, which the config of {model_type!r} does not have.{hint(key, known.to_dict())}"
            )


def hint(name: str, known: Iterable[str]) -> str:
    """A sentence with what is written nearly so; empty where nothing is."""
    lowered = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1)
    return f" Did you mean {lowered[close[0]]!r}?" if close else ""

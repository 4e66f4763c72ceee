"""Fields of configs that were renamed or removed since files with them were published."""

from typing import Any

from transformers.utils import logging

__all__ = ["with_current_fields"]

logger = logging.get_logger(__name__)


def with_current_fields(config_class: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names that a config's fields have today.

    Args:
        config_class: A config with ``renamed_fields``, former name → name, and ``removed_fields``, field → the value at which
            models are what they were.
        settings: Of a file, or arguments of the config.

    Raises:
        ValueError: If a field that was removed has another value.
    """
    for former, name in config_class.renamed_fields.items():
        if former in settings:
            logger.warning(f"{former} is now called {name}. It is read as that; saving the config writes the new name.")
    removed = config_class.removed_fields
    for field, value in removed.items():
        if settings.get(field, value) != value:
            raise ValueError(
                f"{field}={settings[field]!r}, but this setting was removed and may only be {value!r} in files of the past. Train the "
                "model anew without it, or use the version of hf_xmtc that trained it."
            )
    return {config_class.renamed_fields.get(name, name): value for name, value in settings.items() if name not in removed}

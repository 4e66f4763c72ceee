"""Fields of configs that were removed since files with them were published."""

from typing import Any

__all__ = ["with_current_fields"]


def with_current_fields(config_class: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the fields that a config has no more.

    Args:
        config_class: A config with ``removed_fields``, field → the value at which models are what they were.
        settings: Of a file, or arguments of the config.

    Raises:
        ValueError: If a field that was removed has another value.
    """
    removed = config_class.removed_fields
    for field, value in removed.items():
        if settings.get(field, value) != value:
            raise ValueError(
                f"{field}={settings[field]!r}, but this setting was removed and may only be {value!r} in files of the past. Train the "
                "model anew without it, or use the version of hf_xmtc that trained it."
            )
    return {name: value for name, value in settings.items() if name not in removed}

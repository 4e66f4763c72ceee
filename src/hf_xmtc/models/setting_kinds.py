"""Settings read from a config.json that a stranger may have written: each of the kind that the config's class declares."""

import math
import types
from typing import Any, Union, get_args, get_origin

__all__ = ["LARGEST_COUNT", "check_setting_kinds"]

# Ids are stored as int32, so nothing has more: no labels, no words.
LARGEST_COUNT = 2**31 - 1


def check_setting_kinds(settings: dict[str, Any], kinds: dict[str, Any], owner: str) -> None:
    """Refuse settings of another kind than declared, numbers that are not finite, and a count of labels that no model has.

    Args:
        settings: As read.
        kinds: The annotations of the fields; settings without one are not looked at.
        owner: Name of the config's class, for the message.

    Raises:
        ValueError: Naming the first such setting.
    """
    for name, value in settings.items():
        expected = getattr(kinds.get(name), "__name__", str(kinds.get(name)))
        if name == "num_labels" and value is not None:
            right, expected = type(value) is int and 1 <= value <= LARGEST_COUNT, f"a whole number from 1 to {LARGEST_COUNT}"
        else:
            right = name not in kinds or _is_of_kind(value, kinds[name])
        if not right:
            raise ValueError(
                f"{name}={value!r:.80}, but {owner} takes {expected} for it. Was config.json changed by hand or damaged? Copy it again from "
                "where the model came."
            )


def _is_of_kind(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_of_kind(value, part) for part in get_args(kind))
    kind = get_origin(kind) or kind
    if kind is Any:
        return True
    if kind in (int, float):
        classes = (int, float) if kind is float else int
        if not isinstance(value, classes) or isinstance(value, bool):
            return False
        return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
    return isinstance(value, kind)

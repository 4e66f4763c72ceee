"""Licence and languages in the card of a data set, for the card of a model."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK

__all__ = ["CardFacts", "read_data_card"]


@dataclass(frozen=True)
class CardFacts:
    """Facts of a data card, as text; None where the card names none."""

    license: str | None = None
    language: str | None = None  # codes as on the Hub, "fi" or "fi, sv"


def read_data_card(readme: Path) -> CardFacts:
    """Read the YAML header of a data card. A header that cannot be read is warned about and names nothing."""
    try:
        # Only the header has to be text: what follows may have been written in another encoding.
        block = REGEX_YAML_BLOCK.search(readme.read_bytes().decode("utf-8", "replace"))
        header = yaml.safe_load(block[2]) if block else None
        if not isinstance(header, dict | None):
            raise ValueError(f"it holds a {type(header).__name__} instead of settings")
        header = header or {}
    except Exception as error:  # the YAML reader fails in a dozen ways, and the data can be used all the same
        warnings.warn(
            f"The header of the data card {readme} cannot be read ({type(error).__name__}: {error!s:.500}), so licence and language "
            "of the data are taken as not named. Mend the lines between the two --- at its top.",
            stacklevel=5,
        )
        return CardFacts()
    # YAML reads the code of Norwegian, written without quotes, as a truth value.
    languages = ["no" if entry is False else entry for entry in _as_list(header.get("language"))]
    return CardFacts(_as_text(header.get("license_name") or header.get("license") or None), _as_text(languages))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _as_text(value: Any) -> str | None:
    """A value of the header in words; authors write numbers, dates and mappings where a name is meant."""
    if isinstance(value, dict):
        value = [f"{key}: {entry}" for key, entry in value.items()]
    return ", ".join(text for entry in _as_list(value) if entry is not None and (text := str(entry).strip())) or None

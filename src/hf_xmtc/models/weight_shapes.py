"""`check_label_count`: a file of weights must have as many labels as its config.json, checked before memory is taken for them."""

import json
import os
from typing import Any

from transformers.utils import SAFE_WEIGHTS_NAME, cached_file

__all__ = ["check_label_count"]

LARGEST_HEADER = 100_000_000  # that of safetensors


def check_label_count(name_or_path: str | os.PathLike, num_labels: int, **hub_kwargs: Any) -> None:
    """Refuse a number of labels that is no side of any weight; the loader would make random weights for them first.

    Weights in several files, or under another name, are left to the loader.

    Args:
        name_or_path: Model folder, or id on the Hub.
        num_labels: By its config.json.
        hub_kwargs: Revision, token and the like.

    Raises:
        ValueError: If no weight has so many rows or columns.
    """
    path = cached_file(name_or_path, SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False, **hub_kwargs)
    if path is None:
        return
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(size)) if size <= LARGEST_HEADER else {}
            shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
            sides = {side for shape in shapes if 0 not in shape for side in shape}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return  # the loader says that the file is damaged
    if sides and num_labels not in sides:
        raise ValueError(
            f"config.json of {name_or_path} has num_labels={num_labels}, but no weight in {SAFE_WEIGHTS_NAME} has so many rows. Do the two come "
            "from different models? Copy both from the same folder."
        )

"""The two files of a `LabelTree`, and what its arrays must hold before anything is computed from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.file_checks import ArrayFile, check_setting, read_json_object

__all__ = ["ARRAYS_FILE", "SETTINGS_FILE", "check_parents", "parents_name", "read_tree_files"]

ARRAYS_FILE, SETTINGS_FILE = "label_tree.safetensors", "label_tree.json"


def parents_name(level: int) -> str:
    """Name of the array with the parents of a level's nodes."""
    return f"parents.{level}"


def read_tree_files(folder: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Read the parents of each level, and the settings.

    Raises:
        FileNotFoundError: If one of the files is not there.
        ValueError: If a setting or array is missing, or of another kind or length; the message names the file.
    """
    arrays, path = folder / ARRAYS_FILE, folder / SETTINGS_FILE
    missing = [file.name for file in (arrays, path) if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {' and '.join(missing)}, so there is no label tree in it. Build one with scripts/build_label_tree.py."
        )
    settings = read_json_object(path)
    for name, kind in (("num_labels", int), ("num_levels", int), ("digest", str)):
        check_setting(settings, name, kind, path)
    if settings.setdefault("labels_digest") is not None:
        check_setting(settings, "labels_digest", str, path)
    file, last = ArrayFile(arrays), settings["num_levels"] - 1
    parents = [file.integers(parents_name(level)) for level in range(last)]
    return [*parents, file.integers(parents_name(last), settings["num_labels"])], settings


def check_parents(parents: Sequence[np.ndarray]) -> None:
    """Refuse arrays that are no tree.

    Args:
        parents: As for `LabelTree`.

    Raises:
        ValueError: If there are fewer than two levels, a parent is no node of the level above, a node there has no child, or more
            than twice as many as another, or nodes above the labels are not numbered from the left.
    """
    if len(parents) < 2:
        raise ValueError(
            f"A label tree has {len(parents)} levels, but needs one of clusters and that of the labels at least."
        )
    num_above = 1
    for level, nodes in enumerate(parents):
        extremes = (int(nodes.min(initial=0)), int(nodes.max(initial=-1)))
        if nodes.ndim != 1 or extremes[0] < 0 or extremes[1] >= num_above:
            raise ValueError(
                f"The parents at level {level} have the shape {nodes.shape} and go from {extremes[0]} to {extremes[1]}, but must be one list "
                f"of 0 to {num_above - 1}, the {num_above} nodes above. Are the levels of two trees mixed?"
            )
        counts = np.bincount(nodes, minlength=num_above)
        if not counts.all():
            raise ValueError(
                f"{(counts == 0).sum()} of the {num_above} nodes above level {level}, such as {counts.argmin()}, have no child. "
                "Are the levels of two trees mixed?"
            )
        if counts.max() > 2 * counts.min():
            # The table of children is as wide as the largest, so a file could ask for any amount of memory by one such node.
            raise ValueError(
                f"A node above level {level} has {counts.max()} children and another {counts.min()}, but in a balanced tree none has more "
                "than twice as many as another. Are the levels of two trees mixed?"
            )
        steps_back = nodes[1:] < nodes[:-1]
        if level < len(parents) - 1 and steps_back.any():
            place = int(steps_back.argmax())
            raise ValueError(
                f"Node {place} of level {level} is under node {nodes[place]}, and the next under {nodes[place + 1]}; nodes are numbered from "
                "the left, so parents only grow. Are the levels of two trees mixed?"
            )
        num_above = len(nodes)

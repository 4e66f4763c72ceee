"""Labels that are one label in several spellings: ``Boats``, ``boats `` and ``boats.``."""

import unicodedata
from collections.abc import Container, Sequence

import numpy as np

__all__ = ["join_spellings", "spelling_groups", "spelling_warning"]


def _plain(label: str) -> str:
    """The common part of a label's spellings: all but case, blanks, final punctuation and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", label).casefold().split()).rstrip(" .,;:!?") or label


def spelling_groups(labels: Sequence[str]) -> list[list[str]]:
    """Labels that differ only in spelling, a list for each label that has several."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(_plain(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def join_spellings(labels: Sequence[str], counts: np.ndarray, preferred: Container[str] = ()) -> np.ndarray:
    """The spelling that stands for each label: one in ``preferred``, then the most frequent, then the first in the alphabet.

    Args:
        labels: Labels L.
        counts: Documents of each, (L,).
        preferred: Labels to keep, such as those of a label file.

    Returns:
        Index of the label that takes its place, (L,).
    """
    groups: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(_plain(label), []).append(index)
    joined = np.arange(len(labels))
    for group in groups.values():
        joined[group] = min(group, key=lambda index: (labels[index] not in preferred, -counts[index], labels[index]))
    return joined


def spelling_warning(source: str, groups: Sequence[Sequence[str]]) -> str | None:
    """A paragraph on labels in several spellings; None where there are none."""
    if not groups:
        return None
    example = " and ".join(map(repr, groups[0]))
    labels = "1 label stands" if len(groups) == 1 else f"{len(groups):,} labels stand"
    return (
        f"{source}: {labels} there in spellings that differ only by case, blanks, final punctuation or Unicode form, for example "
        f"{example}. A model learns them as different labels. Join them with normalize_labels=True (--normalize_labels)."
    )

"""Ids of labels: the label space of the training data, and labels that only evaluation data hold."""

from collections.abc import Iterable
from dataclasses import dataclass

from hf_xmtc.models.label_names import LabelNames

from .label_file import LabelFile

__all__ = ["LabelSpace", "build_label_space", "check_id_gaps"]


@dataclass(frozen=True)
class LabelSpace:
    """Labels in id order: those a model is trained for, then those seen only in evaluation data."""

    names: LabelNames
    descriptions: list[str | None] | None
    evaluation_only: list[str]

    @property
    def ids(self) -> dict[str, int]:
        """Label → label id, evaluation-only labels from ``num_labels`` on."""
        return self.names.ids | {label: len(self.names) + i for i, label in enumerate(self.evaluation_only)}


def build_label_space(
    train_labels: set[str],
    evaluation_labels: set[str],
    *,
    label_space: str,
    order: LabelFile | None,
    numeric: bool,
    for_training: bool,
    source: str,
) -> LabelSpace:
    """Fix the label ids of a data set.

    Args:
        train_labels: Labels that occur in the training split.
        evaluation_labels: Labels that occur in the other splits.
        label_space: ``train`` for the labels of the training split, ``file`` for all labels of ``order``.
        order: Order and metadata of labels. With ``label_space="train"`` it decides about the order alone: labels it does
            not list follow in sorted order, and those of its labels that no training document has get no id.
        numeric: True if labels are numbers without names, sorted as such.
        for_training: True if the training split must have labels, all of them known.
        source: Name of the data set, for messages.

    Raises:
        ValueError: If there is no label to number, no file for ``label_space="file"``, or a training label is not in it.
    """
    sort_key = int if numeric else None
    unlisted = sorted(train_labels - order.names.ids.keys() if order else train_labels, key=sort_key)
    if for_training and not train_labels:
        raise ValueError(f"{source}: no document of the training split has a label. Is label_column the right column?")
    if label_space == "file":
        if order is None:
            raise ValueError(
                f"label_space='file' needs a label file, but {source!r} brings none. "
                "Give label_file=… or label_names=…, or leave label_space out to use the labels of the training split."
            )
        if unlisted and for_training:
            raise ValueError(
                f"{source}: {len(unlisted)} labels of the training split are not among the {len(order.names)} of the label "
                f"file, for example {unlisted[0]!r}. Add them to the file, or leave label_space='file' out."
            )
        labels = order.names.labels
    else:
        labels = [label for label in order.names.labels if label in train_labels] if order else []
        labels = labels + unlisted
    if not labels and evaluation_labels:
        raise ValueError(
            f"{source} has labels but no training split to number them by. "
            "Give the names of the model's labels: label_names=…, or label_file=… (--label_file), with label_space='file'."
        )
    names, descriptions = (order or LabelFile.from_names([])).arrange(labels)
    return LabelSpace(names, descriptions, sorted((train_labels | evaluation_labels) - names.ids.keys(), key=sort_key))


def check_id_gaps(labels: Iterable[str], source: str) -> None:
    """Refuse integer ids without names that are not 0 … n-1: they may be codes, start at 1, or lack a label.

    Args:
        labels: The ids that occur in any split, as decimal strings.
        source: Name of the data set, for the message.

    Raises:
        ValueError: If an id between 0 and the largest never occurs.
    """
    ids = set(map(int, labels))
    missing = next((i for i in range(len(ids)) if i not in ids), None)
    if missing is not None:
        hint = " Do they count from 1? Text files are read so with one_based=True (--one_based)." if missing == 0 else ""
        raise ValueError(
            f"{source}: the label ids go up to {max(ids)} but id {missing} never occurs, and there are no label names to "
            f"say whether it exists.{hint} Give a labels.json or label_names=… with one name per id; if the numbers are codes and "
            "not ids, store them as strings."
        )

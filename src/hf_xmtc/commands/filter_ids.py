"""The column ``filter_labels`` of a file of documents as label ids of a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.models.label_names import LabelNames

__all__ = ["FilterIds"]


class FilterIds:
    """Called on the labels that are left out of each document, it gives their ids in the model; those it does not have count for nothing.

    Args:
        folder: Of the documents; its label file names labels that are written as numbers.
        names: Labels of the model.
    """

    def __init__(self, folder: Path, names: LabelNames):
        self._folder, self._names, self._labels = folder, names, None

    def __call__(self, rows: Sequence[Any] | None) -> list[list[int]] | None:
        """Ids of each document; None where no document leaves anything out.

        Raises:
            ValueError: If a document has no list of labels, or numbers that nothing names.
        """
        if rows is None:
            return None
        ids = self._names.ids
        return [[ids[name] for label in row or () if (name := self._name(label)) in ids] for row in rows]

    def _name(self, label: Any) -> str:
        if isinstance(label, str):
            return label
        if self._labels is None:
            self._labels = self._read_labels()
        if type(label) is not int or not 0 <= label < len(self._labels):
            raise ValueError(
                f"The column {FILTER_LABELS!r} holds {label!r}, but the label file in {self._folder} has {len(self._labels)} labels, 0 to "
                f"{len(self._labels) - 1}. Give lists of labels, or of their numbers in that file."
            )
        return self._labels[label]

    def _read_labels(self) -> Sequence[str]:
        from hf_xmtc.data.label_file import LABEL_FILES, read_label_file  # not at the top: it needs pyarrow

        path = next((self._folder / name for name in LABEL_FILES if (self._folder / name).is_file()), None)
        if path is None:
            raise ValueError(
                f"The column {FILTER_LABELS!r} holds numbers, but {self._folder} has no label file that names them. Put the data set's "
                "labels.parquet there, or write labels."
            )
        return read_label_file(path).names.labels

"""The label file of a data set: which labels there are, in which order, and what they are called."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from hf_xmtc.models.label_names import LabelNames

from .column_batches import damage_reported
from .skos import SKOS_ENDINGS, read_skos

__all__ = ["LABEL_FILES", "LabelFile", "check_label_file", "file_digest", "read_label_file"]

# Names under which a data set may bring its label file, the first found wins.
LABEL_FILES = ("labels.parquet", "labels.json")


@dataclass(frozen=True)
class LabelFile:
    """Labels with their metadata, index = position in the file (and label id, where a data set holds integer ids)."""

    names: LabelNames
    descriptions: list[str | None] | None = None

    @classmethod
    def from_names(cls, names: LabelNames | Sequence[str]) -> "LabelFile":
        """A label file held in memory."""
        return cls(LabelNames.of(names))

    @property
    def fingerprint(self) -> str:
        """Hash of everything in it."""
        digest = hashlib.blake2b(digest_size=16)
        for index, label in enumerate(self.names.labels):
            description = self.descriptions[index] if self.descriptions else None
            entry = [label, self.names.name_of(index), self.names.parents_of(index), description]
            digest.update(json.dumps(entry).encode() + b"\n")
        return digest.hexdigest()

    def arrange(self, labels: Iterable[str]) -> tuple[LabelNames, list[str | None] | None]:
        """Metadata of some labels, in the order given; labels that are not in the file get none.

        Returns:
            The names and the descriptions (``None`` where no label has one) of ``labels``.
        """
        labels = list(labels)
        indices = [self.names.ids.get(label) for label in labels]
        names = [None if i is None else self.names.name_of(i) for i in indices]
        parents = [[] if i is None else self.names.parents_of(i) for i in indices]
        descriptions = [self.descriptions[i] if self.descriptions and i is not None else None for i in indices]
        return LabelNames(labels, names, parents), (descriptions if any(descriptions) else None)


def read_label_file(path: str | os.PathLike) -> LabelFile:
    """Read ``labels.parquet``, ``labels.json`` or a SKOS vocabulary.

    Args:
        path: A parquet file with a column ``label`` and, where known, ``name``, ``description`` and ``parents``; a
            JSON list of strings or ``{"label", "name", "parents"}`` entries; or a SKOS vocabulary (``.ttl``, ``.rdf``, ``.nt``).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a label occurs twice or is empty, or the file is damaged or has neither form.
    """
    path = Path(path)
    check_label_file(path)
    if path.suffix in SKOS_ENDINGS:
        return LabelFile(*read_skos(path))
    if path.suffix not in (".parquet", ".json"):
        raise ValueError(
            f"The label file {path} ends in {path.suffix!r}; give a labels.parquet, labels.json or SKOS vocabulary (.ttl, .rdf, .nt)."
        )
    if path.suffix == ".json":
        labels = LabelFile(LabelNames.load(path))
    else:
        try:
            labels = _read_parquet(path)
        except ValueError as error:
            raise ValueError(f"Label file {path.name}: {error}") from error
    empty = next((place for place, label in enumerate(labels.names.labels) if not label.strip()), None)
    if empty is not None:
        raise ValueError(
            f"Label file {path.name}: entry {empty} (counted from 0) is the empty label. Name it, or remove it."
        )
    return labels


def check_label_file(path: str | os.PathLike) -> None:
    """Refuse a label file that is not there.

    Raises:
        FileNotFoundError: With its path.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no label file {os.fspath(path)!r}. Give a labels.parquet or labels.json.")


def file_digest(path: Path) -> str:
    """Hash of a file's content."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _read_parquet(path: Path) -> LabelFile:
    fields = ("label", "name", "description", "parents")
    with damage_reported(path):
        names = pq.read_schema(path).names
        if "label" not in names:
            raise ValueError(f"it needs a column 'label' (and may have name, description, parents) but has {names}.")
        if repeated := [field for field in fields if names.count(field) > 1]:
            raise ValueError(f"it has several columns named {repeated[0]!r}, among {names}. Keep one of them.")
        table = pq.read_table(path)
        columns = {field: table[field].to_pylist() if field in names else None for field in fields}
    labels = columns["label"]
    if not all(isinstance(label, str) for label in labels):
        position = next(i for i, label in enumerate(labels) if not isinstance(label, str))
        raise ValueError(f"row {position} has the label {labels[position]!r}; labels must be strings.")
    descriptions = columns["description"] if any(columns["description"] or []) else None
    if strange := [text for text in descriptions or [] if not isinstance(text, str | None)]:
        raise ValueError(f"it has the description {strange[0]!r}; descriptions must be strings.")
    return LabelFile(LabelNames(labels, columns["name"], columns["parents"]), descriptions)

"""Label names: the one place that knows which label has which id."""

import hashlib
import json
import os
from collections.abc import Sequence

__all__ = ["LabelNames"]

LABELS_FILE = "labels.json"


class LabelNames:
    """The label space in id order: label, display name and parents of each label id.

    It is read from and written to ``labels.json``, a JSON list whose index is the label id and whose entries are a string or
    ``{"label": …, "name": …, "parents": […]}``. Half a million names load in well under a second because nothing is
    built per label until it is asked for.

    Args:
        labels: Distinct label strings, index = label id.
        names: Display name of each label; the label itself where it is missing or empty.
        parents: Labels of the parents of each label, not necessarily members of ``labels``.

    Raises:
        ValueError: If a label occurs twice or is no string, or ``names`` or ``parents`` has another length than ``labels``.
    """

    def __init__(
        self,
        labels: Sequence[str],
        names: Sequence[str | None] | None = None,
        parents: Sequence[Sequence[str]] | None = None,
    ):
        self.labels = list(labels)
        self._names = None if names is None else list(names)
        self._parents = None if parents is None else [list(entry) for entry in parents]
        self._ids: dict[str, int] | None = None
        for field, values in (("names", self._names), ("parents", self._parents)):
            if values is not None and len(values) != len(self.labels):
                raise ValueError(
                    f"There are {len(self.labels)} labels but {len(values)} {field}. "
                    "Give one entry per label, in the same order."
                )
        for label_id, label in enumerate(self.labels):
            if not isinstance(label, str):
                raise ValueError(
                    f"Label id {label_id} is {label!r} of type {type(label).__name__}, but labels are strings. "
                    f"Pass {str(label)!r}."
                )
        if len(set(self.labels)) != len(self.labels):
            seen: dict[str, int] = {}
            for label_id, label in enumerate(self.labels):
                if label in seen:
                    raise ValueError(
                        f"The label {label!r} occurs twice, as label ids {seen[label]} and {label_id}. "
                        "Label strings must be distinct; give display names in `names` where two labels read alike."
                    )
                seen[label] = label_id

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, label_id: int) -> str:
        return self.labels[label_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelNames) and self._entries() == other._entries()

    def __deepcopy__(self, memo: dict) -> "LabelNames":
        return self  # never changed after construction, and configs are copied often

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in self.labels[:3])
        return f"LabelNames({len(self)} labels: {shown}{', …' if len(self) > 3 else ''})"

    def name_of(self, label_id: int) -> str:
        """Display name of a label id, the label itself where it has none."""
        name = self._names[label_id] if self._names is not None else None
        return name or self.labels[label_id]

    def parents_of(self, label_id: int) -> list[str]:
        """Labels of the parents of a label id, empty where it has none."""
        return self._parents[label_id] if self._parents is not None else []

    @property
    def ids(self) -> dict[str, int]:
        """Label → label id, built at the first call."""
        if self._ids is None:
            self._ids = {label: label_id for label_id, label in enumerate(self.labels)}
        return self._ids

    def id_of(self, label: str) -> int:
        """Label id of a label string.

        Raises:
            KeyError: If there is no such label.
        """
        return self.ids[label]

    def digest(self) -> str:
        """Digest of the labels in their order; display names and parents do not count."""
        return hashlib.blake2b("\0".join(self.labels).encode(), digest_size=8).hexdigest()

    def _entries(self) -> list[str | dict]:
        entries: list[str | dict] = []
        for label_id, label in enumerate(self.labels):
            extra: dict = {}
            if self.name_of(label_id) != label:
                extra["name"] = self.name_of(label_id)
            if self.parents_of(label_id):
                extra["parents"] = self.parents_of(label_id)
            entries.append({"label": label, **extra} if extra else label)
        return entries

    def save(self, path: str | os.PathLike) -> None:
        """Write ``labels.json``; ``path`` is the file or the folder it goes into."""
        path = os.fspath(path)
        if os.path.isdir(path):
            path = os.path.join(path, LABELS_FILE)
        with open(path, "w", encoding="utf-8") as file:
            # One label a line: half a million labels stay readable in a diff.
            file.write("[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in self._entries()) + "\n]\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LabelNames":
        """Read ``labels.json``; ``path`` is the file or the folder that holds it.

        Raises:
            ValueError: If the file is not a JSON list of strings or ``{"label", "name", "parents"}`` entries.
        """
        path = os.fspath(path)
        if os.path.isdir(path):
            path = os.path.join(path, LABELS_FILE)
        with open(path, encoding="utf-8") as file:
            try:
                entries = json.load(file)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path} is not valid JSON ({error}). Copy it again from where the model came.") from error
        if not isinstance(entries, list):
            raise ValueError(f"{path} must hold a JSON list with one entry per label, found a {type(entries).__name__}.")
        if all(isinstance(entry, str) for entry in entries):
            return cls(entries)
        labels, names, parents = [], [], []
        for label_id, entry in enumerate(entries):
            entry = {"label": entry} if isinstance(entry, str) else entry
            if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
                raise ValueError(
                    f'{path}: entry {label_id} is {entry!r}; expected a string or {{"label", "name", "parents"}}.'
                )
            labels.append(entry["label"])
            names.append(entry.get("name"))
            parents.append(entry.get("parents") or [])
        return cls(labels, names, parents)

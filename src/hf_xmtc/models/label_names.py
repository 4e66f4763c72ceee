"""Label names: the one place that knows which label has which id."""

import contextlib
import difflib
import gc
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring

from .json_reader import read_json

__all__ = ["LabelNames"]

LABELS_FILE = "labels.json"


class LabelNames:
    """The label space in id order: label, display name and parents of each label id.

    It is read from and written to ``labels.json``, a JSON list whose index is the label id and whose entries are a string or
    ``{"label": …, "name": …, "parents": […]}``. Half a million labels are read in well under a second: dictionaries from and
    to label ids are built when they are first asked for.

    Args:
        labels: Distinct label strings, index = label id; of whole characters, as UTF-8 needs them.
        names: Display name of each label; the label itself where it is missing or empty.
        parents: List of the labels of each label's parents, not necessarily members of ``labels``; None where it has none.

    Raises:
        TypeError: If ``labels`` is a single string.
        ValueError: If a label occurs twice or is no string, parents are no list of strings, or ``names`` or ``parents`` has
            another length than ``labels``.
    """

    def __init__(
        self,
        labels: Sequence[str],
        names: Sequence[str | None] | None = None,
        parents: Sequence[Sequence[str] | None] | None = None,
    ):
        if isinstance(labels, str):  # which is a sequence of letters
            raise TypeError(f"The labels are the one string {labels!r:.80}. Pass a list: [{labels!r:.80}].")
        self.labels = list(labels)
        self._names = None if names is None else list(names)
        self._parents = None if parents is None else [_checked_parents(i, entry) for i, entry in enumerate(parents)]
        self._ids: dict[str, int] | None = None
        self._by_id: dict[int, str] | None = None
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
        for label_id, name in enumerate(self._names or ()):
            if name is not None and not isinstance(name, str):
                raise ValueError(
                    f"The name of label id {label_id} is {name!r} of type {type(name).__name__}, but names are strings or None."
                )
        _check_characters(self.labels, self._names, self._parents)
        if len(set(self.labels)) != len(self.labels):
            seen: dict[str, int] = {}
            for label_id, label in enumerate(self.labels):
                if label in seen:
                    raise ValueError(
                        f"The label {label!r} occurs twice, as label ids {seen[label]} and {label_id}. "
                        "Label strings must be distinct; give display names in `names` where two labels read alike."
                    )
                seen[label] = label_id
        # One form for what says the same, so that equal label spaces compare equal: a name is one that differs from the label.
        if self._names is not None:
            pairs = zip(self._names, self.labels, strict=True)
            self._names = [name if name and name != label else None for name, label in pairs]
            self._names = self._names if any(self._names) else None
        if self._parents is not None and not any(self._parents):
            self._parents = None

    @classmethod
    def of(cls, names: "LabelNames | Sequence[str]") -> "LabelNames":
        """Label names as they are, as this class where theirs came with a model folder, or of a list of labels."""
        if isinstance(names, cls):
            return names
        return cls(names.labels, names._names, names._parents) if hasattr(names, "name_of") else cls(names)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, label_id: int) -> str:
        return self.labels[label_id]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelNames):
            return NotImplemented
        return (self.labels, self._names, self._parents) == (other.labels, other._names, other._parents)

    def __deepcopy__(self, memo: dict) -> "LabelNames":
        return self  # never changed after construction, and configs are copied often

    def __repr__(self) -> str:
        examples = ", ".join(f"{label!r:.40}" for label in self.labels[:3])
        return f"LabelNames({len(self)} labels: {examples}{', …' if len(self) > 3 else ''})"

    def name_of(self, label_id: int) -> str:
        """Display name of a label id, the label itself where it has none."""
        name = self._names[label_id] if self._names is not None else None
        return name or self.labels[label_id]

    def parents_of(self, label_id: int) -> list[str]:
        """Labels of the parents of a label id, empty where it has none."""
        return list(self._parents[label_id]) if self._parents is not None else []

    def parent_ids(self) -> tuple[list[list[int]], list[str]]:
        """The ids of each label's parents, from L on for those that are no labels; and these, in the order of their ids."""
        rows = [self.parents_of(label_id) for label_id in range(len(self))]
        others = sorted({parent for row in rows for parent in row if parent not in self.ids})
        ids = {**self.ids, **{parent: len(self) + place for place, parent in enumerate(others)}}
        return [[ids[parent] for parent in row if ids[parent] != label] for label, row in enumerate(rows)], others

    @property
    def by_id(self) -> dict[int, str]:
        """Label id → label, built at the first call; the form in which transformers asks for names."""
        if self._by_id is None:
            self._by_id = dict(enumerate(self.labels))
        return self._by_id

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
        if label not in self.ids:
            raise KeyError(f"There is no label {label!r} among the {len(self)}.{self.hint_at(str(label))}")
        return self.ids[label]

    def hint_at(self, unknown: str) -> str:
        """A sentence on which labels are named so, or written nearly so; empty where none is."""
        named = [label for label_id, label in enumerate(self.labels) if self.name_of(label_id) == unknown]
        if named:
            return f" It is the name of {', '.join(map(repr, named[:3]))}."
        close = difflib.get_close_matches(unknown, self.ids, n=3)
        return f" Close to it: {', '.join(close)}." if close else ""

    def digest(self) -> str:
        """Digest of the labels in their order; display names and parents do not count."""
        if any("\0" in label for label in self.labels):
            # Joined by it, other labels would read the same. The digests of all other labels stay what configs have recorded.
            content = json.dumps(self.labels, ensure_ascii=False).encode()
            return hashlib.blake2b(content, digest_size=8, person=b"with NUL").hexdigest()
        return hashlib.blake2b("\0".join(self.labels).encode(), digest_size=8).hexdigest()

    def _json_of(self, label_id: int) -> str:
        """Entry of a label id in ``labels.json``, as `json.dumps` writes it in a third of the time."""
        entry = encode_basestring(self.labels[label_id])
        name = self._names[label_id] if self._names is not None else None
        parents = self._parents[label_id] if self._parents is not None else ()
        if name is None and not parents:
            return entry
        name = f', "name": {encode_basestring(name)}' if name is not None else ""
        parents = f', "parents": [{", ".join(map(encode_basestring, parents))}]' if parents else ""
        return f'{{"label": {entry}{name}{parents}}}'

    def save(self, path: str | os.PathLike) -> None:
        """Write ``labels.json``; ``path`` is the file or the folder it goes into."""
        path = os.fspath(path)
        if os.path.isdir(path):
            path = os.path.join(path, LABELS_FILE)
        with open(path, "w", encoding="utf-8") as file:
            # One label a line: half a million labels stay readable in a diff.
            file.write("[\n" + ",\n".join(map(self._json_of, range(len(self)))) + "\n]\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LabelNames":
        """Read ``labels.json``; ``path`` is the file or the folder that holds it.

        Raises:
            ValueError: If the file is not a JSON list of strings or ``{"label", "name", "parents"}`` entries.
        """
        path = os.fspath(path)
        if os.path.isdir(path):
            path = os.path.join(path, LABELS_FILE)
        with _garbage_collector_paused():
            entries = read_json(path, list)
            try:
                if all(isinstance(entry, str) for entry in entries):
                    return cls(entries)
                for label_id, entry in enumerate(entries):
                    if not isinstance(entry, str) and not (isinstance(entry, dict) and "label" in entry):
                        raise ValueError(
                            f'entry {label_id} is {entry!r:.200}; expected a string or {{"label", "name", "parents"}}.'
                        )
                return cls(
                    [entry if isinstance(entry, str) else entry["label"] for entry in entries],
                    [None if isinstance(entry, str) else entry.get("name") for entry in entries],
                    [None if isinstance(entry, str) else entry.get("parents") for entry in entries],
                )
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error


def _checked_parents(label_id: int, parents: object) -> tuple[str, ...]:
    if parents is None:
        return ()
    if not isinstance(parents, list | tuple) or not all(isinstance(parent, str) for parent in parents):
        hint = f" Write [{json.dumps(parents, ensure_ascii=False)}] for one parent." if isinstance(parents, str) else ""
        raise ValueError(
            f"The parents of label id {label_id} are {parents!r:.200}, but parents are a list of strings.{hint}"
        )
    return tuple(parents)


def _check_characters(labels: list[str], names: list[str | None] | None, parents: list[tuple[str, ...]] | None) -> None:
    """Refuse halves of a character, which no file can hold."""
    for field, texts in (("label", labels), ("name", names or ()), ("parents", map("".join, parents or ()))):
        for label_id, text in enumerate(texts):
            try:
                (text or "").encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"The {field} of label id {label_id}, {text!r:.200}, cannot be written as UTF-8 ({error.reason}). "
                    "Was it cut in the middle of a character? Give the whole one."
                ) from error


@contextlib.contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """Spare Python's garbage collector the hundreds of thousands of objects that only live while a file is read.

    It would walk over them again and again, which takes four times as long as reading them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

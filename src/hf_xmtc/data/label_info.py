"""Facts about the labels of a loaded data set, in a side file that travels with the data."""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hf_xmtc.disk import replace_file
from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.strict_json import json_bytes

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

__all__ = ["LABEL_INFO_FILE", "LabelInfo", "label_info_of"]

LABEL_INFO_FILE = "xmtc_label_info.json"


@dataclass(frozen=True)
class LabelInfo:
    """Label space and origin of a data set from `load_xmtc_dataset`.

    Attributes:
        names: Labels in id order with display names and parents; their number is ``num_labels``.
        descriptions: Description of each label, ``None`` if no label has one.
        evaluation_only: Labels seen only in evaluation data; the i-th has the id ``num_labels + i``. No model predicts them.
        source: ``demo``, the folder's name, or the Hub id.
        validation_carved: True if the validation split was taken out of the training split.
        num_documents: Documents of each split.
        num_without_labels: Of these, documents with an empty label list.
        num_with_unseen_labels: Of these, documents with a label of ``evaluation_only``.
        num_filtered: Labels that the column ``filter_labels`` took from documents of each split that has it.
        num_empty_labels: Documents with a label without a character, which was left out.
        num_blank: Documents of each split with neither text nor labels.
        num_dropped: Documents without labels that ``drop_unlabeled`` took from each split; empty where it was not asked for.
        fingerprint: Changes with the content of the data and the settings it was loaded with.
        license: Licence named in the data set's card, ``None`` if it names none.
        language: Languages named in the data set's card, ``"fi"`` or ``"fi, sv"``; ``None`` if it names none.
        test_carved: True if the test split was taken out of the training split.
        spellings: Labels that differ only by case, blanks, final punctuation or Unicode form, in groups.
        duplicates: Documents with a text of another, see `hf_xmtc.data.duplicates.count_duplicates`.
        named: Name of the benchmark that this is (`hf_xmtc.data.named_datasets`), ``None`` for other data.
    """

    names: LabelNames
    # Left out of the repr, which ends up in logs: they can be hundreds of thousands of strings.
    descriptions: list[str | None] | None = field(repr=False)
    evaluation_only: list[str] = field(repr=False)
    source: str
    validation_carved: bool
    num_documents: dict[str, int]
    num_without_labels: dict[str, int]
    num_with_unseen_labels: dict[str, int] = field(default_factory=dict)
    num_filtered: dict[str, int] = field(default_factory=dict)
    num_empty_labels: int = 0
    num_blank: dict[str, int] = field(default_factory=dict)
    num_dropped: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    license: str | None = None
    language: str | None = None
    test_carved: bool = False
    spellings: list[list[str]] = field(default_factory=list, repr=False)
    duplicates: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict, repr=False)
    named: str | None = None

    @property
    def num_labels(self) -> int:
        """Labels a model is trained for; label ids from here on are evaluation-only."""
        return len(self.names)

    def label_of(self, label_id: int) -> str:
        """Label string of a label id, evaluation-only ids included."""
        return self.names[label_id] if label_id < self.num_labels else self.evaluation_only[label_id - self.num_labels]

    def save(self, folder: str | os.PathLike) -> None:
        """Write ``labels.json`` and the side file into a folder."""
        self.names.save(folder)
        self.save_facts(folder)

    def save_facts(self, folder: str | os.PathLike) -> None:
        """Write the side file alone; other processes see the old content or the new."""
        entries = {key: value for key, value in vars(self).items() if key != "names"}
        path = Path(folder) / LABEL_INFO_FILE
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        temporary.write_bytes(json_bytes(entries, indent=0))
        replace_file(temporary, path)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> "LabelInfo":
        """Read what `save` wrote."""
        return cls(names=LabelNames.load(folder), **read_json_object(Path(folder) / LABEL_INFO_FILE))


def label_info_of(dataset: "Dataset | DatasetDict") -> LabelInfo:
    """Label names and origin of a data set that came from `load_xmtc_dataset`.

    The side file is found through ``dataset.cache_files``, so it survives ``select``, ``shuffle``, ``train_test_split`` and
    ``map`` (which caches beside the data by default).

    Args:
        dataset: The result of `load_xmtc_dataset`, one of its splits, or something made from them.

    Raises:
        ValueError: If no side file lies with the data, or the splits come from different data sets.
    """
    splits = list(dataset.values()) if isinstance(dataset, dict) else [dataset]
    folders = {folder for split in splits for folder in _side_file_folders(split)}
    if not folders:
        raise ValueError(
            "This data set carries no label information: it was not made by load_xmtc_dataset, or its rows were copied into "
            "memory or another folder (keep_in_memory=True, disabled caching, from_dict, save_to_disk). "
            "Call label_info_of on what load_xmtc_dataset returned, before such a step, and keep the result."
        )
    if len(folders) > 1:
        sources = sorted(f"{LabelInfo.load(folder).source} ({folder.name})" for folder in folders)
        raise ValueError(
            f"The rows come from {len(folders)} different loads: {', '.join(sources)}. Their label ids do not mean the same "
            "labels. Load the data in one call of load_xmtc_dataset."
        )
    return LabelInfo.load(folders.pop())


def _side_file_folders(dataset: "Dataset") -> Iterator[Path]:
    for entry in dataset.cache_files:
        for folder in Path(entry["filename"]).resolve().parents:
            if (folder / LABEL_INFO_FILE).is_file():
                yield folder
                break

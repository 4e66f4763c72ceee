"""`load_xmtc_dataset`: any supported data set as texts and label ids."""

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hf_xmtc.models.label_names import LabelNames

try:
    import datasets
except ImportError as error:
    raise ImportError("`load_xmtc_dataset` needs `datasets`: pip install 'hf_xmtc[train]'") from error

from .build_folder import build_folder
from .cache_keys import cache_key
from .duplicates import duplicate_warning
from .encoding import encode_source
from .formats.corpus import ReadSettings, columns_of_files, stored_group
from .formats.split_files import unread_remark
from .formats.text_columns import column_listing
from .formats.unlabeled import dropped_sentence
from .label_columns import UnknownLabelIdError
from .label_file import LabelFile, check_label_file, file_digest, read_label_file
from .label_info import LABEL_INFO_FILE, LabelInfo
from .label_separators import separator_warning
from .label_spellings import spelling_warning
from .loader_settings import LoaderSettings
from .named_datasets import NamedDataset, find_benchmark
from .sources import Source, read_source

__all__ = ["load_xmtc_dataset"]

# Raised when the same source and settings would be encoded differently, so that old caches are not reused.
_ENCODING_VERSION = 4


def load_xmtc_dataset(
    name_or_path: str | os.PathLike,
    *,
    format: str | None = None,
    label_space: str = "train",
    label_file: str | os.PathLike | None = None,
    label_names: LabelNames | Sequence[str] | None = None,
    label_format: str = "ids",
    label_separator: str | None = None,
    one_based: bool = False,
    validation_fraction: float = 0.1,
    test_fraction: float = 0.0,
    split_by: str = "hash",
    group_column: str | None = None,
    normalize_labels: bool = False,
    drop_unlabeled: bool = False,
    named: str | None = None,
    text_column: str = "text",
    label_column: str = "labels",
    for_training: bool = True,
    encoding: str | None = None,
    config_name: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    revision: str | None = None,
    num_proc: int | None = None,
) -> "datasets.DatasetDict":
    """Load a data set as texts and label ids.

    Every split has the columns ``text`` (string, missing texts as ``""``) and ``labels`` (``List(Value("int32"))``: the
    label ids of the document, each once; documents without labels are kept). Names, descriptions and counts come from
    `label_info_of`. The result is the same in every process: labels are in the order of the label file
    (``labels.parquet`` or ``labels.json``) where there is one, else sorted. Labels that occur only in evaluation data get
    ids from ``num_labels`` on and are warned about. Labels that a column ``filter_labels`` lists are no labels of the document, and the
    column stays, so that metrics leave them out of its predictions too. The encoded data is cached and rebuilt when the source or a setting
    changes.

    Args:
        name_or_path: ``"demo"``, a folder with ``train.parquet``, ``validation.parquet``, ``test.parquet`` (or shards such
            as ``train-00000-of-00002.parquet``) in the columns ``text`` and ``labels``, a folder or file in another format
            (docs/data.md), or the id of a data set on the Hub. A single file is training data.
        format: Format of the files, such as ``"csv"`` or ``"xmc-raw"``; recognised by their names and first lines where it is None.
        label_space: ``"train"`` numbers the labels of the training split; ``"file"`` all labels of the label file.
        label_file: Label file or SKOS vocabulary to use instead of the data set's own. It sets order and names. Integer labels are those of
            the data set's own label file; where that has no label in common with it, or there is none, its n-th entry is label id n.
        label_names: The same held in memory, for instance the names of a trained model.
        label_format: Meaning of lists of integers: ``"ids"`` or ``"multi_hot"`` rows of 0 and 1; ``"multi_hot"`` also for a column of
            0 and 1 for each label.
        label_separator: What separates labels in a cell of a table or of parquet; ``""`` where a cell is one label. Lists in brackets need none.
        one_based: ``True`` if integer label ids in text files count from 1.
        validation_fraction: Share of the training documents that becomes the validation split where there is none; 0 for none.
        test_fraction: Likewise for the test split.
        split_by: How these documents are chosen, always the same ones: ``"hash"`` of the text (equal texts stay together),
            ``"stratified"`` over the labels (each label has its share in each split, and one document at least in training; equal texts
            stay together), or ``"group"``, by a hash of ``group_column``.
        group_column: Column whose equal values stay together, such as the book of a chapter.
        normalize_labels: Join labels that differ only by case, blanks, final punctuation or Unicode form; the most frequent spelling
            stays.
        drop_unlabeled: Leave out documents without labels, and warn of how many each split had. Splits are taken out of what remains.
        named: Benchmark that the data are, such as ``"eurlex-4k"``: its sizes are checked and its propensity constants used. By default
            the one with the name of the folder, if there is one; ``"none"`` for none. See `hf_xmtc.data.named_datasets`.
        text_column: Column of the text in the source, or several, ``"title,abstract"``, joined by line ends.
        label_column: Column of the labels in the source, or several, ``"topic_*"``.
        for_training: ``False`` accepts data without a training split or without labels, for evaluation or prediction alone.
        encoding: Encoding of text files, by default UTF-8; UTF-16 is recognised.
        config_name: Configuration of a Hub data set that has several.
        cache_dir: Folder for the encoded data, by default the cache of `datasets`.
        revision: Branch, tag or commit of a Hub data set.
        num_proc: Processes that convert large files of other formats than parquet; None for this one alone. The data are the same. A script
            needs ``if __name__ == "__main__":`` around the call.

    Returns:
        The splits that exist, among ``train``, ``validation`` and ``test``. Splits without labels (``for_training=False``)
        have no column ``labels``; those with pairs to leave out also have ``filter_labels``.

    Raises:
        FileNotFoundError: If there is no such data set or label file.
        ChildProcessError: If one of several processes was killed.
        ConnectionError: If a Hub data set is asked for and the Hub cannot be reached.
        ValueError: If the data is empty or damaged, a column is missing or of an unsupported type, or names and label ids disagree.
    """
    settings = LoaderSettings(
        label_space,
        label_format,
        validation_fraction,
        text_column,
        label_column,
        for_training,
        test_fraction,
        split_by,
        group_column,
        normalize_labels,
        drop_unlabeled,
        label_separator,
    )
    reading = ReadSettings(
        text_column,
        label_column,
        label_format,
        label_separator,
        one_based,
        encoding,
        group_column=group_column,
        require_labels=for_training,
    )
    source = read_source(
        name_or_path,
        format=format,
        reading=reading,
        config_name=config_name,
        revision=revision,
        cache_dir=cache_dir,
        num_proc=num_proc,
    )
    if source.files:
        group = group_column and stored_group(group_column)
        columns = {"text_column": "text", "label_column": "labels", "group_column": group}
        settings = replace(settings, **columns, label_format="ids", label_separator=None)
    given_names = None if label_names is None else LabelFile.from_names(label_names)
    label_path = _choose_label_file(source, label_file, given_names)
    source = replace(source, unread=tuple(name for name in source.unread if name != (label_path and label_path.name)))
    fingerprint = _fingerprint(source, given_names, label_path, settings)
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_xmtc"
    folder /= f"{re.sub(r'[^A-Za-z0-9_.-]', '_', source.name)}-{fingerprint}"
    if not (folder / LABEL_INFO_FILE).is_file():
        labels = read_label_file(label_path) if label_path else given_names
        own_names = _own_names(source, labels)
        try:
            with build_folder(folder) as unfinished:
                encode_source(source, labels, settings, fingerprint, unfinished, own_names)
        except UnknownLabelIdError:
            if source.files:
                source.files.check_label_ids(len((own_names or labels).names))
            raise
    info = LabelInfo.load(folder)
    benchmark = find_benchmark(named, source.name)
    facts = {"language": source.card.language, "named": benchmark and benchmark.name}
    if any(getattr(info, name) != value for name, value in facts.items()):
        # They change nothing in the data, so they are no part of the fingerprint.
        info = replace(info, **facts)
        info.save_facts(folder)
    _warn_about(source, info, benchmark)
    return datasets.DatasetDict(
        {split: datasets.Dataset.from_file(str(folder / f"{split}.arrow"), split=split) for split in info.num_documents}
    )


def _choose_label_file(source: Source, path: str | os.PathLike | None, given_names: LabelFile | None) -> Path | None:
    if given_names is None:
        if path is not None:
            check_label_file(path)
        return Path(path) if path is not None else source.label_file
    if path is not None:
        raise ValueError(
            f"Both label_file={os.fspath(path)!r} and label_names ({len(given_names.names)} names) are given. Give one."
        )
    return None


def _own_names(source: Source, labels: LabelFile | None) -> LabelFile | None:
    """The data set's own label file, if labels are taken from another that has some of its labels; None otherwise."""
    if source.label_file is None or labels is None:
        return None
    own = read_label_file(source.label_file)
    return own if not own.names.ids.keys().isdisjoint(labels.names.ids) else None


def _fingerprint(source: Source, given_names: LabelFile | None, label_path: Path | None, settings: LoaderSettings) -> str:
    labels = given_names.fingerprint if given_names else label_path and [label_path.suffix, file_digest(label_path)]
    if source.label_file not in (None, label_path):
        labels = [labels, file_digest(source.label_file)]
    parts = [_ENCODING_VERSION, source.name, source.fingerprint, source.card.license, labels, asdict(settings)]
    return cache_key(parts)


def _warn_about(source: Source, info: LabelInfo, benchmark: NamedDataset | None) -> None:
    warning_of_benchmark = benchmark and benchmark.difference(info)
    num_labelled = sum(info.num_documents[split] - count for split, count in info.num_without_labels.items())
    for text in (
        warning_of_benchmark,
        separator_warning(source.name, [*info.names.labels, *info.evaluation_only], num_labelled),
        spelling_warning(source.name, info.spellings),
        duplicate_warning(source.name, info.duplicates, info.num_documents),
    ):
        if text:
            warnings.warn(text, stacklevel=3)
    if info.num_empty_labels:
        warnings.warn(
            f"{source.name}: {info.num_empty_labels:,} documents have an empty label, which is left out. Does a cell end in a separator?",
            stacklevel=3,
        )
    if any(info.num_blank.values()):
        counts = ", ".join(f"{count:,} in {split}" for split, count in info.num_blank.items() if count)
        warnings.warn(
            f"{source.name}: documents have neither text nor labels ({counts}), and count as documents. Are they empty rows of a table? Then "
            "remove them.",
            stacklevel=3,
        )
    unlabelled = [split for split in info.num_documents if split not in info.num_without_labels]
    columns = columns_of_files(source.splits[unlabelled[0]].schema) if unlabelled else []
    if len(columns) > 1:
        warnings.warn(
            f"{source.name}: the documents of {', '.join(unlabelled)} have no labels here, as no column has that name; the columns are "
            f"{column_listing(columns)}. Name that of the labels in label_column=… (--label_column).",
            stacklevel=3,
        )
    if source.unread:
        warnings.warn(f"{source.name}: {unread_remark(source.unread)}", stacklevel=3)
    if any(info.num_dropped.values()):
        warnings.warn(f"{source.name}: {dropped_sentence(info.num_dropped)}", stacklevel=3)
    if source.left_out:
        warnings.warn(
            f"{source.name}: the splits {list(source.left_out)} are left out; only train, validation and test are used.",
            stacklevel=3,
        )
    if info.evaluation_only:
        documents = ", ".join(f"{count} in {split}" for split, count in info.num_with_unseen_labels.items() if count)
        num_unseen = len(info.evaluation_only)
        labels_occur = "1 label occurs" if num_unseen == 1 else f"{num_unseen} labels occur"
        warnings.warn(
            f"{source.name}: {labels_occur} only in evaluation data, for example {info.evaluation_only[0]!r} (documents "
            f"affected: {documents}). No model trained on this data can predict them; they have label ids from "
            f"{info.num_labels} on and recall counts them as missed unless told otherwise.",
            stacklevel=3,
        )

"""From a source to encoded splits on disk: label ids, splits taken out of training, Arrow files and the side file."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datasets import Features, List, Value

from .column_batches import column_batches, damage_reported
from .document_sample import text_hashes
from .duplicates import count_duplicates
from .filter_labels import FILTER_LABELS
from .formats.label_cells import FLAGS, flags_without_multi_hot
from .formats.text_columns import matching_columns
from .formats.unlabeled import TAG_HINT
from .joined_columns import is_lists, joined_labels, kind_of_columns, label_columns
from .label_columns import LabelCoder, LabelRows, is_string, label_kind, list_lengths, read_label_rows
from .label_file import LabelFile
from .label_info import LabelInfo
from .label_space import build_label_space, check_id_gaps
from .label_spellings import join_spellings, spelling_groups
from .loader_settings import LoaderSettings
from .sources import SPLITS, Source
from .split_rows import SplitRows, drop_unlabeled
from .splits import split_by_hash, split_stratified

__all__ = ["encode_source"]


def encode_source(
    source: Source,
    label_file: LabelFile | None,
    settings: LoaderSettings,
    fingerprint: str,
    folder: Path,
    id_names: LabelFile | None = None,
) -> LabelInfo:
    """Write each split as ``<split>.arrow`` with ``text`` and ``labels``, and the side file, into a folder.

    Args:
        source: The raw splits.
        label_file: Order and metadata of the labels; ``None`` sorts them.
        settings: How to read the source.
        fingerprint: Identifies source and settings, recorded in the side file.
        folder: An empty folder.
        id_names: Names integer labels, where ``label_file`` is not their own.

    Raises:
        ValueError: If the data is empty or damaged, a column is missing or of an unsupported type, or names and label ids
            disagree.
    """
    id_names = id_names or label_file
    data = _nonempty_splits(source, settings)
    kinds = _label_kinds(data, source.name, settings)
    coder = LabelCoder()
    splits = {
        name: SplitRows(
            split,
            f"{source.name}: {name}",
            kinds[name] and _read_labels(data, name, kinds[name], coder, id_names, source.name, settings),
            _read_filters(data, name, kinds[name], coder, id_names, source.name, settings),
        )
        for name, split in data.items()
    }
    label_file = label_file and label_file.matching([label for label in coder.labels if label.strip()], source.name)
    order = label_file or _class_names_as_file(data, settings, source.name)
    numeric = order is None and bool({"ids", "multi_hot"} & set(kinds.values()))
    if numeric and "ids" in kinds.values():
        check_id_gaps(coder.labels, source.name)
    num_empty = _drop_empty_labels(splits, coder)
    if settings.normalize_labels:
        _join_labels(splits, coder, order)
    num_filtered = _drop_filtered(splits)
    num_dropped = drop_unlabeled(splits) if settings.drop_unlabeled else {}
    splits, carved = _carve(splits, settings)
    used = {name: coder.labels_in(split.labels) for name, split in splits.items() if split.labels}
    space = build_label_space(
        used.get("train", set()),
        set().union(*(labels for name, labels in used.items() if name != "train")),
        label_space=settings.label_space,
        order=order,
        numeric=numeric,
        for_training=settings.for_training,
        source=source.name,
    )
    ids = space.ids
    # A code that no row uses (an unused dictionary entry) has no id; it is never looked up.
    id_of_code = np.array([ids.get(label, -1) for label in coder.labels], dtype=np.int32)
    num_blank = {}
    for name, split in splits.items():
        if split.labels:
            split.labels = LabelRows(id_of_code[split.labels.codes], split.labels.lengths)
        if split.filters:
            # What is no label of any document is never predicted.
            split.filters = LabelRows(id_of_code[split.filters.codes], split.filters.lengths).known
        num_blank[name] = _write(split, settings.text_column, folder / f"{name}.arrow")
    labelled = {name: split.labels for name, split in splits.items() if split.labels}
    info = LabelInfo(
        names=space.names,
        descriptions=space.descriptions,
        evaluation_only=space.evaluation_only,
        source=source.name,
        validation_carved="validation" in carved,
        test_carved="test" in carved,
        num_documents={name: split.num_documents for name, split in splits.items()},
        num_without_labels={name: int((labels.lengths == 0).sum()) for name, labels in labelled.items()},
        num_with_unseen_labels={name: labels.num_rows_from(len(space.names)) for name, labels in labelled.items()},
        num_filtered=num_filtered,
        num_empty_labels=num_empty,
        num_blank=num_blank,
        num_dropped=num_dropped,
        fingerprint=fingerprint,
        license=source.card.license,
        language=source.card.language,
        spellings=spelling_groups([*space.names.labels, *space.evaluation_only]),
        duplicates=count_duplicates({name: split.hashes(settings.text_column) for name, split in splits.items()}),
    )
    info.save(folder)
    return info


def _nonempty_splits(source: Source, settings: LoaderSettings) -> dict[str, pads.Dataset]:
    """The splits that have rows, with their text column checked."""
    with damage_reported(source.name):
        counts = {name: data.count_rows() for name, data in source.splits.items()}
    if not any(counts.values()):
        raise ValueError(f"The data set {source.name!r} is empty: {counts} rows. Was it written before it was filled?")
    if settings.for_training and not counts.get("train"):
        problem = "is empty" if "train" in counts else f"does not exist (there are {list(counts)})"
        raise ValueError(
            f"The training split of {source.name!r} {problem}. For evaluation or prediction alone pass for_training=False."
        )
    for name, data in source.splits.items():
        columns = data.schema.names
        texts = matching_columns(columns, settings.text_column)
        if not texts:
            raise ValueError(
                f"{source.name}: the {name} split has no column {settings.text_column!r}; its columns are {columns}. "
                "Name the column of the texts in text_column=…."
            )
        for column in texts:
            text_type = data.schema.field(column).type
            value_type = text_type.value_type if pa.types.is_dictionary(text_type) else text_type
            if not (is_string(value_type) or pa.types.is_null(value_type)):
                raise ValueError(
                    f"{source.name}: column {column!r} of {name} has the type {text_type}; texts must be strings. "
                    "Name another column in text_column=…."
                )
    if empty := [name for name, count in counts.items() if not count]:
        warnings.warn(f"{source.name}: the splits {empty} have no rows and are left out.", stacklevel=5)
    return {name: data for name, data in source.splits.items() if counts[name]}


def _label_kinds(data: dict[str, pads.Dataset], source: str, settings: LoaderSettings) -> dict[str, str | None]:
    """Kind of each split's label column, ``None`` where there is none."""
    kinds: dict[str, str | None] = {}
    for name, split in data.items():
        if columns := label_columns(split.schema, settings):
            where = f"{source}: column {settings.label_column!r} of {name}"
            kinds[name] = kind_of_columns(split.schema, columns, settings, where)
        elif settings.for_training:
            raise ValueError(
                f"{source}: the {name} split has no column {settings.label_column!r}; its columns are {split.schema.names}. "
                "Without labels there is nothing to learn from or to compare with: name their column in label_column=… "
                f"(--label_column), or {TAG_HINT}"
            )
        else:
            kinds[name] = None
    different = {kind for kind in kinds.values() if kind not in (None, "empty")}
    if len(different) > 1:
        raise ValueError(f"{source}: the splits hold different kinds of labels, {kinds}. Write them all the same way.")
    return kinds


def _read_labels(
    data: dict[str, pads.Dataset],
    name: str,
    kind: str,
    coder: LabelCoder,
    id_names: LabelFile | None,
    source: str,
    settings: LoaderSettings,
) -> LabelRows:
    """The label sets of one split; integers are named by its own features, else by ``id_names``."""
    schema, where = data[name].schema, f"{source}: column {settings.label_column!r} of {name}"
    columns = label_columns(schema, settings)
    column = columns[0]
    id_labels = _class_names(schema, settings, where) or (id_names.names.labels if id_names else None)
    if not is_lists(schema, columns):
        join = joined_labels(schema, columns, settings, f"{source}: {name}")
        rows = read_label_rows(data[name], columns, kind, coder, id_labels, where, join)
        may_be_flags = columns != [settings.label_column] or (kind == "ids" and id_labels is None)
        values = {label.lower() for label in coder.labels_in(rows)} if may_be_flags else set()
        if values and values <= FLAGS and settings.label_format != "multi_hot":
            raise flags_without_multi_hot(f"{source}: {name}", columns, values)
        return rows
    if kind == "multi_hot" and id_labels is None:
        # Columns without names: the first document says how many there are.
        first, rows = next(iter(data.items()))
        batches = column_batches(rows, column, 1, f"{source}: column {column!r} of {first}")
        id_labels = [str(i) for i in range(int(next(list_lengths(batch)[0] for batch in batches if len(batch))))]
    return read_label_rows(data[name], column, kind, coder, id_labels, where)


def _read_filters(
    data: dict[str, pads.Dataset],
    name: str,
    kind_of_labels: str | None,
    coder: LabelCoder,
    id_names: LabelFile | None,
    source: str,
    settings: LoaderSettings,
) -> LabelRows | None:
    """The labels that are left out of each document of a split, written as its labels are; None where there are none."""
    schema = data[name].schema
    if FILTER_LABELS not in schema.names or settings.label_column == FILTER_LABELS:
        return None
    where = f"{source}: column {FILTER_LABELS!r} of {name}"
    kind = label_kind(schema.field(FILTER_LABELS).type, "ids", where)
    names = _class_names(schema, settings, where) or (id_names.names.labels if id_names else None)
    if kind == "ids" and names is None and kind_of_labels == "strings":
        raise ValueError(
            f"{where} holds numbers, but labels are strings, and no label file names the numbers. Give label_file=… (--label_file), or write labels."
        )
    return read_label_rows(data[name], FILTER_LABELS, kind, coder, names, where)


def _drop_empty_labels(splits: dict[str, SplitRows], coder: LabelCoder) -> int:
    """Take labels without a character from all documents; how many documents had one."""
    codes = np.arange(len(coder.labels))
    codes[[not label.strip() for label in coder.labels]] = -1
    if (codes >= 0).all():
        return 0
    count = 0
    for split in splits.values():
        if split.labels:
            before = split.labels.lengths
            split.labels = split.labels.replace(codes).known
            count += int((before != split.labels.lengths).sum())
    return count


def _drop_filtered(splits: dict[str, SplitRows]) -> dict[str, int]:
    """Take labels that are left out of a document from its labels.

    Returns:
        How many were taken from each split.
    """
    counts = {}
    for name, split in splits.items():
        if split.labels and split.filters:
            before = len(split.labels.codes)
            split.labels = split.labels.without(split.filters)
            counts[name] = before - len(split.labels.codes)
    return counts


def _class_names(schema: pa.Schema, settings: LoaderSettings, where: str) -> list[str] | None:
    """Names that the data set's own features give to integer labels, if they do."""
    columns = label_columns(schema, settings)
    if len(columns) != 1:
        return None
    column = columns[0]
    try:
        feature = Features.from_arrow_schema(pa.schema([schema.field(column)], metadata=schema.metadata))[column]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{where}: the description of its features, which `datasets` has written into the file, is damaged ({error!r}). Was "
            "the download cut off? Fetch it again."
        ) from error
    return getattr(getattr(feature, "feature", feature), "names", None)


def _class_names_as_file(data: dict[str, pads.Dataset], settings: LoaderSettings, source: str) -> LabelFile | None:
    name, first = next(iter(data.items()))
    names = _class_names(first.schema, settings, f"{source}: column {settings.label_column!r} of {name}")
    return LabelFile.from_names(names) if names else None


def _join_labels(splits: dict[str, SplitRows], coder: LabelCoder, order: LabelFile | None) -> None:
    """Give all spellings of a label the code of one of them."""
    labelled = [split for split in splits.values() if split.labels]
    counts = sum(np.bincount(split.labels.codes, minlength=len(coder.labels)) for split in labelled)
    joined = join_spellings(coder.labels, counts, order.names.ids if order else ())
    for split in labelled:
        split.labels = split.labels.replace(joined)
        split.filters = split.filters and split.filters.replace(joined)


def _carve(splits: dict[str, SplitRows], settings: LoaderSettings) -> tuple[dict[str, SplitRows], list[str]]:
    """Take the validation and test splits that are missing and asked for out of the training split.

    Returns:
        All splits, and the names of those that were taken out; none where nothing would be left to train on.
    """
    fractions = {"validation": settings.validation_fraction, "test": settings.test_fraction}
    fractions = {name: fraction for name, fraction in fractions.items() if fraction and name not in splits}
    train = splits.get("train")
    if train is None or not fractions:
        return splits, []
    if settings.split_by == "group":
        hashes = text_hashes(train.groups(settings.group_column))
    else:
        hashes = train.hashes(settings.text_column).exact
    shares = list(fractions.values())
    if settings.split_by == "stratified" and train.labels:
        split_of = split_stratified(hashes, train.labels.codes, train.labels.lengths, shares)
    else:
        split_of = split_by_hash(hashes, shares)
    keep = {name: split_of == number for number, name in enumerate([*fractions, "train"])}
    if not keep["train"].any():
        return splits, []
    parts = {name: train.select(rows) for name, rows in keep.items() if rows.any()}
    splits = {**splits, **parts}
    return {name: splits[name] for name in SPLITS if name in splits}, [name for name in parts if name != "train"]


def _write(split: SplitRows, text_column: str, path: Path) -> int:
    """Write a split; how many of its documents have neither text nor labels."""
    of_labels = {"labels": split.labels, FILTER_LABELS: split.filters}
    of_labels = {name: rows for name, rows in of_labels.items() if rows}
    schema = Features({"text": Value("string"), **dict.fromkeys(of_labels, List(Value("int32")))}).arrow_schema
    num_blank, document, positions = 0, 0, dict.fromkeys(of_labels, 0)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for texts in split.texts(text_column):
            columns = [texts]
            unlabelled = texts
            if split.labels:
                unlabelled = texts.filter(pa.array(split.labels.lengths[document : document + len(texts)] == 0))
            num_blank += pc.sum(pc.equal(pc.utf8_trim_whitespace(unlabelled), "")).as_py() or 0
            for name, rows in of_labels.items():
                lengths, start = rows.lengths[document : document + len(texts)], positions[name]
                positions[name] += int(lengths.sum())
                columns.append(LabelRows(rows.codes[start : positions[name]], lengths).to_arrow())
            document += len(texts)
            if len(texts):
                writer.write_batch(pa.record_batch(columns, schema=schema))
    return num_blank

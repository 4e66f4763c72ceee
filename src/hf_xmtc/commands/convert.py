"""`hf-xmtc convert`: a data set of any format as parquet files with labels and a data card, seen whole or not at all."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from hf_xmtc.data.build_folder import build_folder
from hf_xmtc.data.data_card import CardFacts, read_data_card
from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.data.formats.conversion import write_corpus, write_labels
from hf_xmtc.data.formats.corpus import LABEL_IDS, LABEL_STRINGS, Corpus, ReadSettings, columns_of_files
from hf_xmtc.data.formats.registry import FORMATS, CorpusFiles, find_format
from hf_xmtc.data.formats.split_files import names_hint, unread_files, unread_remark
from hf_xmtc.data.formats.text_columns import column_listing
from hf_xmtc.data.formats.unlabeled import dropped_sentence
from hf_xmtc.data.label_file import LabelFile, label_file_in, read_label_file
from hf_xmtc.data.label_separators import separator_warning

from .convert_options import option_parser
from .output_checks import check_new_folder

__all__ = ["convert", "main"]


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``hf-xmtc convert``.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    try:
        print(convert(option_parser().parse_args(argv)))
    except (ImportError, OSError, ValueError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        raise SystemExit(130) from None


def convert(options: argparse.Namespace) -> str:
    """Convert a data set.

    Returns:
        A sentence on what was written.

    Raises:
        ChildProcessError: If one of several processes was killed.
        FileExistsError: If the output folder exists.
        FileNotFoundError: If there is no such data, or its format is not recognised.
        ValueError: If the data or the settings cannot be used.
    """
    path, folder = Path(options.dataset), Path(options.output_dir)
    check_new_folder(folder)
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or file {path}. Check --dataset.")
    found = find_format(path, options.format, options.encoding)
    if found is None:
        names = ", ".join(kind.name for kind in FORMATS)
        raise FileNotFoundError(
            f"The format of {path} is not recognised. {names_hint(path)}Name it with --format, one of {names}. Parquet needs no conversion."
        )
    kind, files = found
    names = (
        "text_column",
        "label_column",
        "label_format",
        "label_separator",
        "one_based",
        "encoding",
        "with_features",
        "group_column",
    )
    reading = ReadSettings(**{name: getattr(options, name) for name in names}, require_labels=False)
    source = CorpusFiles(kind.name, files, reading, options.drop_unlabeled)
    corpus = source.read()
    side = path if path.is_dir() else path.parent
    labels, num_labels = _label_file(corpus, options.label_file, side)
    if num_labels is not None and corpus.labels is None:
        source = replace(source, settings=replace(reading, num_labels=num_labels))
        corpus = source.read()
    corpus = replace(corpus, labels=labels)
    with build_folder(folder) as unfinished:
        written = write_corpus(corpus, unfinished, source, path.name, options.num_proc)
        counts = {split: of.num_documents for split, of in written.items()}
        num_labels, remarks = _complete_labels(corpus, unfinished, path.name, counts)
        readme = side / "README.md"
        facts = read_data_card(readme) if readme.is_file() else CardFacts()
        num_dropped = {split: of.num_dropped for split, of in written.items()}
        dropped = f" {dropped_sentence(num_dropped)}" if options.drop_unlabeled else ""
        described = ", described in `labels.parquet`" if (unfinished / "labels.parquet").is_file() else ""
        of_labels = f"{num_labels:,} labels{described}.{dropped}"
        card = _data_card(path.resolve().name, kind.name, counts, of_labels, corpus, facts)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
    documents = ", ".join(f"{count:,} in {split}" for split, count in counts.items())
    unread = unread_files(path, set().union(*files.values()), kind.side_files)
    if unread := [name for name in unread if name != Path(options.label_file or "").name]:
        remarks.append(f"In the folder, {unread_remark(unread)}")
    for split, rows in corpus.splits.items():
        if "labels" not in rows.schema.names:
            columns = column_listing(columns_of_files(rows.schema))
            remarks.append(f"No column {options.label_column!r} in {split}, of {columns}; --label_column names it.")
    return " ".join([f"{path} ({kind.name}): {documents}; {num_labels:,} labels; written to {folder}.{dropped}", *remarks])


def _label_file(corpus: Corpus, given: str | None, folder: Path) -> tuple[LabelFile | None, int | None]:
    """The labels to put beside the data: a file that the user names, else those that the format describes, else the file beside the data.

    Integer labels keep their meaning where these differ.

    Returns:
        The labels, and how many of them integer labels may name; None where there are no integer labels, or none to name.
    """
    own = corpus.labels
    if own is None and (path := label_file_in(folder)):
        own = read_label_file(path)
    labels = read_label_file(given) if given else own
    types = [kind for rows in corpus.splits.values() for kind in rows.schema.types]
    if LABEL_IDS not in types:
        return labels, None
    if labels is None:
        if LABEL_STRINGS in types:
            raise ValueError(
                f"Some of the labels and {FILTER_LABELS} are strings, others label ids, and no label file names the ids. Give --label_file."
            )
        return None, None
    if own is not labels and own is not None and not own.names.ids.keys().isdisjoint(labels.names.ids):
        joint = LabelFile(*labels.arrange(dict.fromkeys([*own.names.labels, *labels.names.labels])))
        return joint, len(own.names)
    return labels, len(labels.names)


def _complete_labels(corpus: Corpus, folder: Path, name: str, counts: dict[str, int]) -> tuple[int, list[str]]:
    """Write ``labels.parquet`` anew where it differs from the labels that occur: sorted, or by their notations.

    Returns:
        The number of labels, and sentences on what a reader should know.
    """
    occurring = _occurring_labels(corpus, folder)
    ids = {label for label in occurring if isinstance(label, int)}
    labels = sorted(label for label in occurring - ids if label.strip())
    if corpus.labels is not None:
        described = corpus.labels.matching(labels, name)
        if described is not corpus.labels:
            write_labels(described, folder / "labels.parquet")
        return len(described.names), []
    if ids:
        missing = next((i for i in range(len(ids)) if i not in ids), None)
        gap = f"The label ids go up to {max(ids)}, but {missing} never occurs: give --label_file, or write codes as strings."
        return len(ids), [] if missing is None else [gap]
    if labels:
        write_labels(LabelFile.from_names(labels), folder / "labels.parquet")
    warning = separator_warning(name, labels, sum(counts.values()))
    return len(labels), [warning] if warning else []


def _occurring_labels(corpus: Corpus, folder: Path) -> set[str | int]:
    labels: set[str | int] = set()
    for split, documents in corpus.splits.items():
        if "labels" in documents.schema.names:
            for path in folder.glob(f"{split}*.parquet"):
                for batch in pq.ParquetFile(path).iter_batches(columns=["labels"]):
                    labels.update(pc.unique(batch.column(0).flatten()).to_pylist())
    return labels


def _data_card(name: str, kind: str, counts: dict[str, int], of_labels: str, corpus: Corpus, facts: CardFacts) -> str:
    header = ["---"]
    header += [f"license: {json.dumps(facts.license)}"] if facts.license else []
    header += [f"language: {json.dumps(facts.language.split(', '))}"] if facts.language else []
    header += ["task_categories: [text-classification]", "configs:", "- config_name: default", "  data_files:"]
    for split in counts:
        header += [f"  - split: {split}", f'    path: "{split}*.parquet"']
    columns = dict.fromkeys(column for documents in corpus.splits.values() for column in documents.schema.names)
    rows = [f"| {split} | {count:,} |" for split, count in counts.items()]
    body = [
        f"# {name}",
        "",
        f"Converted with `hf-xmtc convert` from files in the format `{kind}`. Columns: {', '.join(f'`{column}`' for column in columns)}. {of_labels}",
        "",
        "| split | documents |",
        "| --- | ---: |",
        *rows,
    ]
    return "\n".join([*header, "---", "", *body]) + "\n"

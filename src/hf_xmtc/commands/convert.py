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
from hf_xmtc.data.formats.conversion import write_corpus, write_labels
from hf_xmtc.data.formats.corpus import LABEL_STRINGS, Corpus, ReadSettings
from hf_xmtc.data.formats.registry import FORMATS, CorpusFiles, find_format
from hf_xmtc.data.formats.unlabeled import dropped_sentence
from hf_xmtc.data.label_file import LabelFile, read_label_file

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
            f"The format of {path} is not recognised. Name it with --format, one of {names}. Parquet needs no conversion."
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
    if options.label_file:
        corpus = replace(corpus, labels=read_label_file(options.label_file))
    with build_folder(folder) as unfinished:
        written = write_corpus(corpus, unfinished, source, path.name, options.num_proc)
        num_labels = _complete_labels(corpus, unfinished)
        readme = (path if path.is_dir() else path.parent) / "README.md"
        facts = read_data_card(readme) if readme.is_file() else CardFacts()
        counts = {split: of.num_documents for split, of in written.items()}
        num_dropped = {split: of.num_dropped for split, of in written.items()}
        dropped = f" {dropped_sentence(num_dropped)}" if options.drop_unlabeled else ""
        card = _data_card(path.resolve().name, kind.name, counts, num_labels, corpus, facts, dropped)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
    documents = ", ".join(f"{count:,} in {split}" for split, count in counts.items())
    without = [split for split, documents in corpus.splits.items() if "labels" not in documents.schema.names]
    missing = f" No column {options.label_column!r} in {', '.join(without)}; --label_column names it." if without else ""
    return f"{path} ({kind.name}): {documents}; {num_labels:,} labels; written to {folder}.{dropped}{missing}"


def _complete_labels(corpus: Corpus, folder: Path) -> int:
    """The number of labels; where the format does not describe them, those that occur are written, sorted."""
    if corpus.labels is not None:
        return len(corpus.labels.names)
    labels: set[str] = set()
    for split, documents in corpus.splits.items():
        if "labels" not in documents.schema.names or documents.schema.field("labels").type != LABEL_STRINGS:
            continue
        for path in folder.glob(f"{split}*.parquet"):
            for batch in pq.ParquetFile(path).iter_batches(columns=["labels"]):
                labels.update(pc.unique(batch.column(0).flatten()).to_pylist())
    labels = {label for label in labels if label.strip()}
    if labels:
        write_labels(LabelFile.from_names(sorted(labels)), folder / "labels.parquet")
    return len(labels)


def _data_card(
    name: str, kind: str, counts: dict[str, int], num_labels: int, corpus: Corpus, facts: CardFacts, dropped: str
) -> str:
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
        f"Converted with `hf-xmtc convert` from files in the format `{kind}`. Columns: {', '.join(f'`{column}`' for column in columns)}. "
        f"{num_labels:,} labels, described in `labels.parquet`.{dropped}",
        "",
        "| split | documents |",
        "| --- | ---: |",
        *rows,
    ]
    return "\n".join([*header, "---", "", *body]) + "\n"

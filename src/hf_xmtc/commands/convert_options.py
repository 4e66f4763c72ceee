"""Options of `hf-xmtc convert`. Nothing heavy is imported, so that help and errors come at once."""

import argparse
from collections.abc import Sequence

from .format_options import add_format_options
from .output_checks import check_new_folder, refusals

__all__ = ["check_options", "option_parser"]


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc convert",
        description="Write a data set of any format as a folder of parquet files with labels.parquet and a data card.",
        allow_abbrev=False,
    )
    parser.add_argument("--dataset", required=True, metavar="PATH", help="folder or file to read")
    parser.add_argument("--output_dir", required=True, metavar="DIR", help="folder to make")
    add_format_options(parser.add_argument_group("format"))
    parser.add_argument("--group_column", help="column to keep, by which documents are split later (--split_by group)")
    parser.add_argument(
        "--label_file",
        metavar="FILE",
        help="labels.json, labels.parquet or SKOS vocabulary (.ttl, .rdf, .nt) to put beside the data",
    )
    parser.add_argument(
        "--drop_unlabeled", action="store_true", help="leave out documents without labels, and report how many"
    )
    parser.add_argument(
        "--with_features",
        action="store_true",
        help="also write the bags of words of xmc-sparse, as feature_ids and feature_values",
    )
    parser.add_argument(
        "--num_proc",
        type=int,
        metavar="N",
        help="processes that read files of 0.5 GB and more; they share a file of csv, tsv, jsonl, libmultilabel, fasttext or annif "
        "that is not compressed (default: 1)",
    )
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not exist and a folder that is there.

    Raises:
        SystemExit: In all cases.
    """
    options = option_parser().parse_args(argv)
    with refusals():
        check_new_folder(options.output_dir)

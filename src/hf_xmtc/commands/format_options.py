"""Options of data in any format of files, shared by commands. Nothing heavy is imported."""

import argparse
from typing import Any

__all__ = ["add_format_options", "format_arguments"]

_OF_LOADER = ("format", "encoding", "label_separator", "one_based", "text_column", "label_column", "label_format")


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def add_format_options(group: argparse._ArgumentGroup) -> None:
    """Add the options that say how files are read; the same as those of `hf-xmtc train`."""
    group.add_argument("--format", help="format of the files, such as csv or xmc-raw (default: recognised)")
    group.add_argument("--encoding", help="encoding of text files (default: UTF-8; UTF-16 is recognised)")
    group.add_argument("--label_separator", help="separator of labels in a cell of a table; '' where a cell is one label")
    group.add_argument(
        "--one_based",
        type=_truth,
        nargs="?",
        const=True,
        default=False,
        metavar="BOOL",
        help="integer label ids in text files count from 1",
    )
    group.add_argument(
        "--text_column", default="text", help="column with the texts, or several with commas between them (default: text)"
    )
    group.add_argument(
        "--label_column",
        default="labels",
        help="column with the labels of each text, or several, such as 'topic_*' (default: labels)",
    )
    group.add_argument("--label_format", default="ids", help="what integer labels are: ids or multi_hot (default: ids)")


def format_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """These options as arguments of `load_xmtc_dataset`."""
    return {name: getattr(options, name) for name in _OF_LOADER}

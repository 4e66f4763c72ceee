"""Options of commands that load a data set and train nothing; nothing heavy is imported."""

import argparse
from typing import Any

from .format_options import add_format_options, format_arguments

__all__ = ["add_data_options", "loader_arguments"]

_OF_LOADER = (
    "label_space",
    "label_file",
    "validation_fraction",
    "test_fraction",
    "split_by",
    "group_column",
    "normalize_labels",
    "drop_unlabeled",
)


def add_data_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the group of options on the data, which mean the same as with `hf-xmtc train`."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--dataset", default="demo", help="demo, a folder or file of any format, or a Hub data set id (default: demo)"
    )
    data.add_argument("--dataset_revision", help="revision of a data set on the Hub")
    add_format_options(data)
    data.add_argument(
        "--label_space", default="train", help="train: the labels of the training split; file: label_file's (default: train)"
    )
    data.add_argument("--label_file", metavar="FILE", help="labels.json or labels.parquet that fixes order and names")
    data.add_argument(
        "--validation_fraction",
        type=float,
        default=0.1,
        help="part of train held out where there is no validation split (default: 0.1)",
    )
    data.add_argument(
        "--test_fraction", type=float, default=0.0, help="part of train held out where there is no test split (default: 0)"
    )
    data.add_argument("--split_by", default="hash", help="how these are chosen: hash, stratified or group (default: hash)")
    data.add_argument("--group_column", help="column whose equal values stay in one split, with --split_by group")
    data.add_argument("--normalize_labels", action="store_true", help="join labels that differ only in spelling")
    data.add_argument(
        "--drop_unlabeled", action="store_true", help="leave out documents without labels, and report how many"
    )
    return data


def loader_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of `load_xmtc_dataset`, without the data set."""
    further = {name: getattr(options, name) for name in _OF_LOADER}
    return {"revision": options.dataset_revision, **format_arguments(options), **further}

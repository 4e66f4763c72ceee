"""Options of `hf-xmtc extend`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from .format_options import add_format_options
from .output_checks import check_new_folder, refusals

__all__ = ["check_options", "option_parser", "output_folder"]


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc extend",
        description="Add documents and labels to a model that holds its training documents (families neighbors and treaderxml), without "
        "training. The model stays as it is; the extended one is a new folder. It is measured before and after where the data set has a "
        "test or validation split.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder, or its id on the Hub")
    parser.add_argument("--revision", help="branch, tag or commit of a model on the Hub")
    parser.add_argument(
        "--output_dir", metavar="DIR", help="folder of the extended model, new (default: MODEL-extended; then -2, -3)"
    )
    parser.add_argument(
        "--dataset",
        help="demo, a folder or file of any format, or a Hub data set id; the documents of its train split are added",
    )
    parser.add_argument("--dataset_revision", help="revision of a data set on the Hub")
    add_format_options(parser.add_argument_group("files, as for hf-xmtc train"))
    parser.add_argument(
        "--drop_unlabeled", action="store_true", help="leave out documents without labels, and report how many"
    )
    parser.add_argument(
        "--label_file",
        metavar="FILE",
        help="labels.json or labels.parquet with names and descriptions of labels; without --dataset all of its labels are added",
    )
    parser.add_argument(
        "--label_space",
        default="train",
        help="labels that are added: train for those of the documents; file for all of the label file (default: train)",
    )
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not go together and a folder that is there.

    Raises:
        SystemExit: In all cases.
    """
    parser = option_parser()
    options = parser.parse_args(argv)
    if options.dataset is None and options.label_file is None:
        parser.error("there is nothing to add: give --dataset with documents, --label_file with labels, or both")
    with refusals():
        check_new_folder(output_folder(options))


def output_folder(options: argparse.Namespace) -> Path:
    """The folder of the extended model; without ``output_dir`` beside the model, or here for one of the Hub.

    It is named after the model: ``tags-extended``, and after that ``tags-extended-2``.
    """
    if options.output_dir:
        return Path(options.output_dir)
    place = Path(options.model) if Path(options.model).is_dir() else Path(Path(options.model).name)
    if extended := re.fullmatch(r"(.*-extended)(?:-(\d+))?", place.name):
        return place.with_name(f"{extended[1]}-{int(extended[2] or 1) + 1}")
    return Path(f"{place}-extended")

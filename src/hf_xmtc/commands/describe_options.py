"""Options of `hf-xmtc describe`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
from collections.abc import Sequence

from .data_options import add_data_options
from .output_checks import check_card_folder, refusals

__all__ = ["check_options", "option_parser"]


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc describe",
        description="Count documents, labels, words and duplicates of a data set, as the tables of papers do.",
        allow_abbrev=False,
    )
    data = add_data_options(parser)
    data.add_argument(
        "--named", help="benchmark to compare with (default: the one with the name of the folder); none for none"
    )
    parser.add_argument(
        "--output_dir",
        metavar="DIR",
        help="folder for statistics.json, label_frequency.png and README.md, the card of the data",
    )
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not exist and a folder that holds a card.

    Raises:
        SystemExit: In all cases.
    """
    options = option_parser().parse_args(argv)
    if options.output_dir is not None:
        with refusals():
            check_card_folder(options.output_dir)

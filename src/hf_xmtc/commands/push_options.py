"""Options of `hf-xmtc push`. Nothing heavy is imported, so that help and errors come at once."""

import argparse
from collections.abc import Sequence

__all__ = ["check_options", "option_parser"]


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc push", description="Publish a model folder on the Hugging Face Hub.", allow_abbrev=False
    )
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder written by train.py")
    parser.add_argument("--repo_id", required=True, metavar="USER/NAME", help="repo on the Hub, made if it is not there")
    parser.add_argument("--private", action="store_true", help="make a new repo private")
    parser.add_argument("--revision", help="branch to push to, made if it is not there (default: main)")
    parser.add_argument("--commit_message", help="subject of the commit")
    parser.add_argument(
        "--license", help="licence of the weights for the card, such as apache-2.0 (default: the card's own)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a repo that holds another model")
    parser.add_argument(
        "--dry_run", action="store_true", help="check the folder, list what would be sent and what not, and send nothing"
    )
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not exist.

    Raises:
        SystemExit: In both cases.
    """
    option_parser().parse_args(argv)

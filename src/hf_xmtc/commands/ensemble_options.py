"""Options of `hf-xmtc ensemble`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
import os
from collections.abc import Sequence

from .output_checks import check_empty_folder, refusals

__all__ = ["check_options", "method_for_files", "option_parser"]


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc ensemble",
        description="Combine trained models of the same labels into one model folder, or prediction files into one file.",
        allow_abbrev=False,
    )
    parser.add_argument("models", nargs="*", metavar="DIR", help="model folders written by hf-xmtc train, at least two")
    parser.add_argument("--output_dir", required=True, metavar="DIR", help="folder of the result, new or empty")
    parser.add_argument(
        "--method",
        choices=["tuned", "consensus", "mean_score", "mean_rank"],
        help="tuned: weight and exponent per part, best on validation; consensus: 1 - product of (1 - p) (default: tuned; "
        "consensus for --predictions without --tune_on)",
    )
    parser.add_argument(
        "--metric", default="nDCG@5", help="what tuning looks at: P@k, nDCG@k, R@k, RP@k or PSP@k (default: nDCG@5)"
    )
    parser.add_argument("--num_trials", type=int, default=300, help="trials of tuning (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of tuning (default: 0)")
    parser.add_argument(
        "--predictions",
        nargs="+",
        default=[],
        metavar="FILE",
        help="combine prediction files of the same documents instead of models: parquet or jsonl, as hf-xmtc predict writes them",
    )
    parser.add_argument(
        "--tune_on",
        nargs="+",
        default=[],
        metavar="FILE",
        help="validation predictions with the true labels (gold), a file for each of --predictions in the same order, for --method tuned",
    )
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not go together and a folder that is not empty.

    Raises:
        SystemExit: In all cases.
    """
    parser = option_parser()
    options = parser.parse_args(argv)
    if bool(options.models) == bool(options.predictions):
        parser.error("give either model folders or --predictions with files")
    if len(options.models or options.predictions) < 2:
        parser.error("give at least two, or there is nothing to combine")
    if options.models and options.tune_on:
        parser.error("--tune_on is for --predictions; models are tuned on the validation predictions in their folders")
    if options.predictions:
        try:
            method_for_files(options.predictions, options.tune_on, options.method)
        except ValueError as error:
            parser.error(str(error))
    if options.num_trials < 0:
        parser.error(f"--num_trials is {options.num_trials} but must be at least 0")
    with refusals():
        check_empty_folder(options.output_dir)


def method_for_files(
    files: Sequence[str | os.PathLike], tune_on: Sequence[str | os.PathLike], method: str | None = None
) -> str:
    """How to combine prediction files; by default tuned where there is something to tune on, else the consensus.

    Args:
        files: The files.
        tune_on: Files of validation documents, in the same order.
        method: What the user has chosen.

    Raises:
        ValueError: If files to tune on are missing, not needed, or those that are combined.
    """
    method = method or ("tuned" if tune_on else "consensus")
    if method != "tuned" and tune_on:
        raise ValueError(
            f"--method {method} is not tuned, but was given {len(tune_on)} files to tune on. Leave --tune_on out, or choose --method tuned."
        )
    if method == "tuned" and len(tune_on) != len(files):
        raise ValueError(
            f"--method tuned was given {len(files)} --predictions and {len(tune_on)} files to tune on. Give --tune_on with the validation "
            "predictions of each, in the same order, or choose --method consensus."
        )
    combined = {os.path.realpath(file) for file in files}
    if both := [file for file in tune_on if os.path.realpath(file) in combined]:
        raise ValueError(
            f"{both[0]} is among both --predictions and --tune_on, but on the documents it is tuned on a combination looks better than it "
            "is. Give --tune_on the predictions of validation documents, or choose --method consensus."
        )
    return method

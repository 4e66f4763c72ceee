"""Options of `hf-xmtc ensemble`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
from collections.abc import Sequence

__all__ = ["check_options", "option_parser"]


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
        default="tuned",
        choices=["tuned", "consensus", "mean_score", "mean_rank"],
        help="tuned: weight and exponent per part, best on validation; consensus: 1 - product of (1 - p) (default: tuned)",
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
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not go together.

    Raises:
        SystemExit: In both cases.
    """
    parser = option_parser()
    options = parser.parse_args(argv)
    if bool(options.models) == bool(options.predictions):
        parser.error("give either model folders or --predictions with files")
    if len(options.models or options.predictions) < 2:
        parser.error("give at least two, or there is nothing to combine")
    if options.num_trials < 0:
        parser.error(f"--num_trials is {options.num_trials} but must be at least 0")

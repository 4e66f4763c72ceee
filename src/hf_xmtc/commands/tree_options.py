"""Options of `hf-xmtc tree`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
from collections.abc import Sequence

from .data_options import add_data_options
from .output_checks import check_tree_folder, refusals

__all__ = ["MAX_FEATURES", "check_options", "option_parser"]

# Most frequent words that describe labels.
MAX_FEATURES = 500_000


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc tree",
        description="Build a label tree from the training texts of a data set. Those for validation and test are not looked at. Labels and "
        "training texts are those of `hf-xmtc train` with the same options of the data.",
        allow_abbrev=False,
    )
    data = add_data_options(parser)
    data.add_argument(
        "--max_features",
        type=int,
        default=MAX_FEATURES,
        help=f"most frequent words that describe labels (default: {MAX_FEATURES})",
    )
    tree = parser.add_argument_group("tree")
    purpose = tree.add_mutually_exclusive_group(required=True)
    purpose.add_argument("--output_dir", metavar="DIR", help="folder for label_tree.safetensors and label_tree.json")
    purpose.add_argument(
        "--model",
        metavar="DIR",
        help="build nothing, but list the tree of this trained model: a line for each cluster, its labels with tabs between them",
    )
    tree.add_argument(
        "--max_leaf",
        type=int,
        help="most labels of a cluster (default: the size at which a beam of 10 needs the fewest scores)",
    )
    tree.add_argument(
        "--levels",
        type=int,
        nargs="+",
        metavar="DEPTH",
        help="depths of the levels, of 2^DEPTH nodes each, the last that of the clusters; with --max_leaf (default: the clusters alone)",
    )
    tree.add_argument("--seed", type=int, default=0, help="of the labels that clusters begin with (default: 0)")
    tree.add_argument("--num_workers", type=int, help="threads; the tree does not depend on them (default: all cores)")
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not exist and a folder that holds a tree.

    Raises:
        SystemExit: In all cases.
    """
    parser = option_parser()
    options = parser.parse_args(argv)
    others = [name for name, value in vars(options).items() if name != "model" and value != parser.get_default(name)]
    if options.model is not None and others:
        parser.error(f"--{', --'.join(others)} build a tree, but with --model one is listed. Leave out one or the other")
    if options.levels and options.max_leaf is None:
        parser.error(f"--levels {' '.join(map(str, options.levels))} needs --max_leaf, the most labels of a cluster")
    if options.output_dir is not None:
        with refusals():
            check_tree_folder(options.output_dir)

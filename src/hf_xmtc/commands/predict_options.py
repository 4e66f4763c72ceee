"""Options of `hf-xmtc predict`. Nothing heavy is imported, so that help and errors come at once."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_args, get_type_hints

from .output_checks import check_new_file, check_other_file, refusals

__all__ = ["INPUT_FORMATS", "OUTPUT_FORMATS", "PredictArguments", "check_options", "check_output_name", "option_parser"]

INPUT_FORMATS = (
    *("parquet", "jsonl", "csv", "tsv", "txt"),
    *("fasttext", "libmultilabel", "annif", "annif-folder", "xmc-raw", "rcv1"),
)
OUTPUT_FORMATS = ("parquet", "jsonl", "csv")


def _option(description: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"help": description})


@dataclass
class PredictArguments:
    """Model and texts; the options of ``scripts/predict.py``."""

    model: str = _option("Model folder, or its id on the Hub.")
    input: str = _option(
        "File of texts, plain or gzip: parquet, jsonl, csv, tsv, txt (one text a line) …; - for standard input."
    )
    output: str = _option("File to write: its ending says parquet, jsonl or csv.")
    top_k: int | None = _option("Labels per text (default: 5; with --threshold all that are above it).", None)
    min_score: float = _option("Leave out labels with a lower score (default: 0).", 0.0)
    threshold: str | None = _option(
        "Only labels whose score is above it: a number from 0 to 1, or 'model' for the thresholds saved with the model.",
        None,
    )
    with_names: bool = _option("Also write the labels' names for readers, where labels are codes.", False)
    text_column: str = _option(
        "Column of the texts, or several, such as title,abstract or 'part_*' (default: text).", "text"
    )
    id_column: str | None = _option("Column of ids to copy to the output; id where columns have no names.", None)
    input_format: str | None = _option(
        f"Format of the input, where its ending and first line do not tell: {', '.join(INPUT_FORMATS)}. Labels in it are not used.",
        None,
    )
    encoding: str | None = _option("Encoding of a text file (default: UTF-8; UTF-16 is recognised).", None)
    max_length: int | None = _option("Tokens after which a text is cut (default: what the model takes).", None)
    batch_size: int = _option("Texts that go through the model together (default: 32).", 32)
    chunk_size: int = _option("Texts read and written together, at most lost by an interruption (default: 1024).", 1024)
    device: str | None = _option("cpu, cuda, cuda:1, mps … (default: a GPU if there is one).", None)
    num_threads: int | None = _option("Threads on a CPU (default: all cores).", None)
    revision: str | None = _option("Branch, tag or commit of a model on the Hub.", None)
    trust_remote_code: bool = _option("Run the code that comes with the model, for families not in hf_xmtc.", False)
    overwrite: bool = _option("Replace a finished output, and drop an unfinished one of other settings.", False)

    def __post_init__(self):
        for name in ("top_k", "batch_size", "chunk_size", "num_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value} but must be at least 1.")
        if not 0 <= self.min_score <= 1:
            raise ValueError(
                f"--min_score is {self.min_score} but scores lie between 0 and 1. Use 0 to keep all top_k labels."
            )
        check_output_name(self.output)
        if self.threshold not in (None, "model") and not _is_score(self.threshold):
            raise ValueError(f"--threshold is {self.threshold!r} but must be a number from 0 to 1, or 'model'.")


def option_parser() -> argparse.ArgumentParser:
    """A parser with an option for each field of `PredictArguments`, as transformers' `HfArgumentParser` makes them."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc predict", description="Tag a file of texts with a trained model.", allow_abbrev=False
    )
    types = get_type_hints(PredictArguments)
    for entry in fields(PredictArguments):
        names = dict.fromkeys((f"--{entry.name}", f"--{entry.name.replace('_', '-')}"))
        kind = next((kind for kind in get_args(types[entry.name]) if kind is not type(None)), types[entry.name])
        settings: dict[str, Any] = {"type": kind, "help": entry.metadata["help"], "default": entry.default}
        if kind is bool:
            settings.update(type=_boolean, nargs="?", const=True)
        elif entry.default is MISSING:
            settings.update(default=None, required=True)
        parser.add_argument(*names, **settings)
    return parser


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse options that do not exist, values that cannot be, and files that are there.

    Raises:
        SystemExit: In all cases.
    """
    with refusals():
        settings = PredictArguments(**vars(option_parser().parse_args(argv)))
        check_other_file(settings.output, settings.input)
        # A state beside the output is that of a run that was stopped, which may be complete.
        if not settings.overwrite and not os.path.exists(f"{settings.output}.partial.json"):
            check_new_file(settings.output)


def check_output_name(output: str | os.PathLike[str]) -> None:
    """Refuse a name of the output that does not say its format.

    Raises:
        ValueError: With the ending.
    """
    ending = os.path.splitext(output)[1]
    if ending.lower().lstrip(".") not in OUTPUT_FORMATS:
        raise ValueError(
            f"The output {os.fspath(output)} ends in {ending!r}; give a name ending in .parquet, .jsonl or .csv."
        )


def _boolean(text: str) -> bool:
    if text.lower() in ("yes", "true", "t", "y", "1"):
        return True
    if text.lower() in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false.")


def _is_score(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1
    except ValueError:
        return False

"""Outputs that a command must not write to. Nothing heavy is imported, so that a command refuses them before it imports torch."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "METRICS_FILE",
    "RECIPE_FILE",
    "check_card_folder",
    "check_empty_folder",
    "check_new_file",
    "check_new_folder",
    "check_other_file",
    "check_run_folder",
    "check_tree_folder",
    "refusals",
]

RECIPE_FILE = "recipe.json"
METRICS_FILE = "metrics.json"
# As `hf_xmtc.label_tree` names it, which needs scipy.
_TREE_FILE = "label_tree.json"
# What a kill may leave in a folder that holds nothing else yet.
_LEFTOVERS = {".lock", RECIPE_FILE + ".tmp"}


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """End the program with a sentence where something is refused in this context.

    Raises:
        SystemExit: With the class and the message of the error.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error


def check_new_folder(path: str | os.PathLike) -> None:
    """Refuse a folder that is there.

    Raises:
        FileExistsError: With its name.
    """
    if os.path.exists(path):
        raise FileExistsError(f"{os.fspath(path)} exists. Choose another --output_dir, or delete it.")


def check_empty_folder(path: str | os.PathLike) -> None:
    """Refuse a folder that is not empty, and a file.

    Raises:
        FileExistsError: With its name.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} exists and is not an empty folder. Choose another --output_dir.")


def check_card_folder(path: str | os.PathLike) -> None:
    """Refuse a folder that holds a card, which somebody may have written.

    Raises:
        FileExistsError: With its name.
    """
    _check_lacks(path, "README.md", "a README.md", "move it away")


def check_tree_folder(path: str | os.PathLike) -> None:
    """Refuse a folder that holds a label tree.

    Raises:
        FileExistsError: With its name.
    """
    _check_lacks(path, _TREE_FILE, "a label tree", f"delete {_TREE_FILE} to build anew")


def _check_lacks(folder: str | os.PathLike, file: str, content: str, remedy: str) -> None:
    if os.path.exists(os.path.join(folder, file)):
        raise FileExistsError(f"{os.fspath(folder)} holds {content}. Choose another --output_dir, or {remedy}.")


def check_new_file(path: str | os.PathLike) -> None:
    """Refuse an output file that is finished.

    Raises:
        FileExistsError: With its name.
    """
    if os.path.exists(path):
        raise FileExistsError(
            f"{os.fspath(path)} exists already: a run into it has finished. Name another --output, or replace it by --overwrite."
        )


def check_other_file(output: str | os.PathLike, input_file: str | os.PathLike) -> None:
    """Refuse to write into the file that is read.

    Raises:
        ValueError: With its name.
    """
    if os.path.realpath(output) == os.path.realpath(input_file):
        raise ValueError(f"--input and --output are both {os.fspath(output)}. Name another output to keep the texts.")


def check_run_folder(path: str | os.PathLike) -> None:
    """Refuse a folder that a training run must not write to.

    Raises:
        FileExistsError: If it holds a finished model, or anything that is no run of `hf-xmtc train`.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file. Choose another --output_dir.")
    present = {entry.name for entry in path.iterdir()} - _LEFTOVERS if path.exists() else set()
    if METRICS_FILE in present:
        raise FileExistsError(
            f"{path} holds a finished model. Choose another --output_dir, or delete that folder to train anew."
        )
    if present and RECIPE_FILE not in present:
        names_present = ", ".join(sorted(present)[:5])
        raise FileExistsError(
            f"{path} is not empty ({names_present}) and was not made by hf-xmtc train. Choose another --output_dir."
        )

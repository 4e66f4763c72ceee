"""`hf-xmtc push`: publish a model folder on the Hugging Face Hub, after training or later."""

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_xmtc.hub import push_folder
from hf_xmtc.hub.model_files import ModelFiles
from hf_xmtc.hub.push import describe_left_out

from .push_options import option_parser

if TYPE_CHECKING:
    from hf_xmtc.training import XMTCTrainingArguments

__all__ = ["explain_failed_push", "main", "push_command"]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``scripts/push_to_hub.py`` and ``hf-xmtc push``.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        Exit status: 0 when the model is published (or would be, in a dry run), 1 when it is refused.
    """
    options = option_parser().parse_args(argv)
    try:
        address = push_folder(
            options.model,
            options.repo_id,
            private=options.private,
            revision=options.revision,
            commit_message=options.commit_message,
            license=options.license,
            overwrite=options.overwrite,
            dry_run=options.dry_run,
        )
    except (ValueError, OSError) as error:
        print(f"Nothing was published. {error}", file=sys.stderr)
        return 1
    if options.dry_run:
        files = ModelFiles.find(options.model)
        sizes = {name: (files.folder / name).stat().st_size for name in files.names}
        for name, size in sizes.items():
            print(f"{size:>14,}  {name}")
        print(f"{sum(sizes.values()):>14,}  bytes in {len(sizes)} files would go to {address}")
        if files.left_out:
            print(describe_left_out(files.left_out, "".join(f"\n{'':>14}  {name}" for name in files.left_out)))
    else:
        print(f"Published at {address}")
    return 0


@contextlib.contextmanager
def explain_failed_push(folder: Path, args: "XMTCTrainingArguments") -> Iterator[None]:
    """Name the command that only pushes, in the error of a push within this context.

    Args:
        folder: The finished model folder.
        args: With ``hub_model_id`` (the folder's name by default), ``hub_private_repo`` and ``hub_revision``.

    Raises:
        OSError: In the place of an OSError or ValueError of the push.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise OSError(
            f"The model is finished in {folder}, but was not published: {error}\nPublish it, without training again: {push_command(folder, args)}"
        ) from error


def push_command(folder: Path, args: "XMTCTrainingArguments") -> str:
    """The command that publishes a finished model folder as a training run with these arguments would."""
    command = ["hf-xmtc", "push", "--model", str(folder), "--repo_id", args.hub_model_id or folder.name]
    command += ["--private"] if args.hub_private_repo else []
    command += ["--revision", args.hub_revision] if args.hub_revision else []
    return shlex.join(command)

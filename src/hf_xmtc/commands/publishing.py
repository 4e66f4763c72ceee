"""When a push fails after training: the model is finished, and needs no second training."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from hf_xmtc.training import XMTCTrainingArguments

__all__ = ["explain_failed_push", "push_command"]


@contextlib.contextmanager
def explain_failed_push(folder: Path, args: XMTCTrainingArguments) -> Iterator[None]:
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


def push_command(folder: Path, args: XMTCTrainingArguments) -> str:
    """The command that publishes a finished model folder as a training run with these arguments would."""
    command = ["hf-xmtc", "push", "--model", str(folder), "--repo_id", args.hub_model_id or folder.name]
    command += ["--private"] if args.hub_private_repo else []
    command += ["--revision", args.hub_revision] if args.hub_revision else []
    return shlex.join(command)

"""Errors of a full, read-only or forbidden disk, which the libraries report in many ways and mostly without the file."""

import errno
import os
import shutil
from pathlib import Path

__all__ = ["disk_error"]

_FULL = ("No space left on device", "os error 28", "Disk quota exceeded", "os error 122")
# `torch.save` says no more than this, whatever the reason: the disk tells.
_TORCH_CANNOT_WRITE = ("inline_container.cc", "PytorchStreamWriter failed writing")
_LITTLE = 2**26


def disk_error(error: BaseException, folder: str | os.PathLike) -> OSError | None:
    """The same error in a sentence that names file and disk, if it is one of writing to a disk, else None.

    Args:
        error: Any error.
        folder: Where was written, if the error does not say it; its newest file is named then.
    """
    number, text = getattr(error, "errno", None), str(error)
    # Of a copy the second name is that of the file that was written.
    name = getattr(error, "filename2", None) or getattr(error, "filename", None)
    path = Path(os.fsdecode(name)) if name else _newest_file(Path(folder))
    free = shutil.disk_usage(_existing(path)).free
    size = f"{free / 2**20:,.1f} MiB are free on the disk of {path}"
    full = number in (errno.ENOSPC, errno.EDQUOT) or any(sign in text for sign in _FULL)
    if full or any(sign in text for sign in _TORCH_CANNOT_WRITE):
        reason = "The disk is full" if full or free < _LITTLE else "The disk refuses"
        return OSError(
            f"{reason}: {path} could not be written ({size}). Make room and give the same command again; it goes on from the "
            "last whole checkpoint."
        )
    near = path.absolute().is_relative_to(Path(folder).absolute()) or Path(folder).absolute().is_relative_to(path.absolute())
    if number in (errno.EROFS, errno.EACCES, errno.EPERM) and near:
        reason = "its file system is read-only" if number == errno.EROFS else "this user may not write there"
        return OSError(f"{path} cannot be written: {reason}. Choose another --output_dir, or change the rights.")
    return None


def _newest_file(folder: Path) -> Path:
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=folder)


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())

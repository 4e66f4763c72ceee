"""Writing to a disk: content is there before its name is, and errors say which file or disk they are about.

The libraries report a full, read-only or forbidden disk in many ways and mostly without the file.
"""

import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["disk_error", "name_file", "replace_file", "sync_folder"]

_FULL = ("No space left on device", "Disk quota exceeded")
# `torch.save` says no more than this, whatever the reason: the disk tells.
_TORCH_CANNOT_WRITE = ("inline_container.cc", "PytorchStreamWriter failed writing")
_LITTLE = 2**26  # bytes; a disk with less is taken for full
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)


# ---- writing -------------------------------------------------------------------------------------------------------------


def replace_file(written: Path, path: Path) -> None:
    """Give a file that was written beside it its name; an interruption, of the power too, leaves the old content or the new."""
    with open(written, "r+b") as file:
        os.fsync(file.fileno())
    os.replace(written, path)
    sync_folder(path.parent)


def sync_folder(folder: str | os.PathLike) -> None:
    """Bring the names in a folder to the disk, where system, file system and rights let a folder be opened for that."""
    if sys.platform == "win32":
        return
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


# ---- errors --------------------------------------------------------------------------------------------------------------


def disk_error(error: BaseException, *places: str | os.PathLike) -> OSError | None:
    """The same error in a sentence that names file and disk, if it is one of writing to a disk, else None.

    Args:
        error: Any error.
        places: Where it may have happened, for errors that do not say it: the output first. With one place it was there; of several
            those are named whose disk is full, or which this user may not write.
    """
    number, path, text = _number(error), _path(error), str(error)
    output, *others = [Path(place).absolute() for place in places]
    if "/torch_" in text:  # shared memory of processes that load data, which is no disk
        return None
    full = number in (errno.ENOSPC, errno.EDQUOT) or any(sign in text for sign in _FULL)
    if full or any(sign in text for sign in _TORCH_CANNOT_WRITE):
        said = _about_file(path or output, full) if path or not others else _about_disks([output, *others], full, text)
        return OSError(f"{said} Make room and give the same command again; it goes on from what is complete.")
    if number not in (errno.EROFS, errno.EACCES, errno.EPERM):
        return None
    if path is None:
        forbidden = [place for place in (output, *others) if not os.access(_existing(place), os.W_OK)]
    else:
        # A folder above the output is there and may be forbidden for another reason, such as data in it.
        to_be_made = output.is_relative_to(path.absolute()) and not os.path.exists(path)
        forbidden = [path] if to_be_made or path.absolute().is_relative_to(output) else []
    if not forbidden:
        return None
    reason = "its file system is read-only" if number == errno.EROFS else "this user may not read or write there"
    said = "" if path else f" (It was: {error})"
    remedy = "Choose another --output_dir" if path or output in forbidden else "Name another place (HF_HOME, TMPDIR)"
    return OSError(f"{' and '.join(map(str, forbidden))} cannot be used: {reason}. {remedy}, or change the rights.{said}")


@contextlib.contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the one file that is written within this context in errors that do not, and say what to do about a full disk."""
    try:
        yield
    except OSError as error:
        if _number(error) in (errno.ENOSPC, errno.EDQUOT):
            raise disk_error(error, path) from error
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _about_file(path: Path, full: bool) -> str:
    free = _free(path)
    reason = "The disk is full" if full or free < _LITTLE else "The disk refuses"
    said = f"{reason}: {path} could not be written ({_mebibytes(free)} are free on its disk)."
    with contextlib.suppress(OSError):  # a file may vanish meanwhile
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
        if files:
            said += f" The newest file in it is {max(files, key=lambda file: file.stat().st_mtime_ns).name}."
    return said


def _about_disks(places: list[Path], full: bool, text: str) -> str:
    """The disks that are full, if any is; else how much is free on each."""
    disks: dict[int, list[Path]] = {}
    for place in sorted(places):
        on_disk = disks.setdefault(_disk(place), [])
        if not any(place.is_relative_to(other) for other in on_disk):
            on_disk.append(place)
    free = {" and ".join(map(str, on_disk)): _free(on_disk[0]) for on_disk in disks.values()}
    little = [names for names, size in free.items() if size < _LITTLE]
    if little:
        return " ".join(f"The disk of {names} is full ({_mebibytes(free[names])} are free)." for names in little)
    sizes = "; ".join(f"{_mebibytes(size)} on that of {names}" for names, size in free.items())
    return f"{'A disk is full' if full else 'A disk refuses'}, and the error does not say which ({text}). Free are {sizes}."


def _number(error: BaseException) -> int | None:
    number = getattr(error, "errno", None)
    if number is None and (match := re.search(r"\(os error (\d+)\)", str(error))):  # libraries written in Rust
        return int(match[1])
    return number


def _path(error: BaseException) -> Path | None:
    # Of a copy the second name is that of the file that was written.
    name = getattr(error, "filename2", None) or getattr(error, "filename", None)
    return Path(os.fsdecode(name)) if isinstance(name, str | bytes | os.PathLike) else None


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _free(path: Path) -> int:
    return shutil.disk_usage(_existing(path)).free


def _disk(path: Path) -> int:
    return os.stat(_existing(path)).st_dev


def _existing(path: Path) -> Path:
    return next(place for place in (path.absolute(), *path.absolute().parents) if os.path.exists(place))

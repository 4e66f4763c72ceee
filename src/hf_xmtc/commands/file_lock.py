"""A lock on an output, so that two runs never write into one file or folder."""

import contextlib
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["InUseError", "exclusive"]

logger = logging.getLogger(__name__)

# A byte far behind the text is locked on Windows, where a locked part cannot be read by others.
_LOCKED_BYTE = 2**30
_held: set[int] = set()


class InUseError(OSError):
    """Another run is writing there."""


@contextlib.contextmanager
def exclusive(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Hold a lock file for as long as this context lasts; the system frees it when the process ends in whatever way.

    Args:
        path: The lock file; it and its folder are made where they are missing, and removed afterwards (the folder if empty).
        what: Name of the output it stands for, as the user knows it.

    Raises:
        InUseError: If another process, or another place in this one, holds it. It is not waited for.
        FileNotFoundError: If the lock file is a link to nowhere.
    """
    path = Path(path)
    missing = [folder for folder in path.parents if not folder.exists()]
    descriptor = _acquire(path, what)
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        # Removed while it is held: whoever has opened the file meanwhile notices that it has gone (`_acquire`).
        with contextlib.suppress(PermissionError):  # Windows removes no open file; left behind, it locks nothing
            path.unlink(missing_ok=True)
        os.close(descriptor)
        with contextlib.suppress(OSError):  # a folder that is not empty
            for folder in missing:
                folder.rmdir()


def _acquire(path: Path, what: str) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # its folder has been removed in this moment by the run before
            if path.is_symlink():
                raise FileNotFoundError(
                    f"{path}, the lock of {what}, is a link to {os.readlink(path)}, whose folder does not exist. Was the output copied "
                    "without what it links to? Remove the link."
                ) from None
            continue
        try:
            _lock(descriptor, path)
            if not _is_there(path, descriptor):
                os.close(descriptor)
                continue
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode())
            return descriptor
        except (BlockingIOError, PermissionError) as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise InUseError(
                f"{what} is being written by another run ({holder}). Wait until it ends or stop it, or name another output."
            ) from error
        except BaseException:
            os.close(descriptor)
            raise


def _lock(descriptor: int, path: Path) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:  # a file system without locks
        logger.warning(f"{path} cannot be locked ({error.strerror}), so do not start a second run into the same output.")


def _is_there(path: Path, descriptor: int) -> bool:
    """True if the open file is still the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    for _ in range(20):
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            holder = json.loads(os.read(descriptor, 1000))
            return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
        except (ValueError, KeyError, TypeError):  # it holds the lock, and is about to write who it is
            time.sleep(0.01)
    return "a process that has just started"


def _leave_to_parent() -> None:
    """A forked process (a data loader's) holds nothing, or it would keep the lock of a killed parent."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)

"""Folders that are seen whole or not at all, whatever interrupts their making."""

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["build_folder"]

_UNFINISHED = re.compile(r"\..+-[0-9a-f]{32}(\.lock)?")
_DAY = 24 * 60 * 60  # seconds


@contextlib.contextmanager
def build_folder(target: Path) -> Iterator[Path]:
    """A new folder that gets the name of the target when the block ends well, and is removed when it does not.

    Several processes may make the same target at once; the first that is ready provides it. What killed processes have left
    beside it is removed: a process that is still at work holds a lock, which ends with it.

    Args:
        target: A folder that does not exist yet.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target.parent)
    folder = target.parent / f".{target.name}-{uuid.uuid4().hex}"
    with _locked(folder):
        folder.mkdir()
        try:
            yield folder
            try:
                os.replace(folder, target)
            except OSError:
                # Another process has finished the same work in the meantime: its folder holds the same content.
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path, timeout: float = -1) -> Iterator[None]:
    """Hold the lock of a folder; raises `Timeout` where another process holds it for longer."""
    lock = FileLock(_lock_file(folder))
    lock.acquire(timeout=timeout)
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):  # on Windows, somebody may look at it just now
            os.unlink(_lock_file(folder))


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _remove_leftovers(parent: Path) -> None:
    entries = {entry.name: entry for entry in parent.iterdir() if _UNFINISHED.fullmatch(entry.name)}
    for name, entry in entries.items():
        if not name.endswith(".lock"):
            # Only of folders that are there, whose lock is held from before they were made.
            with contextlib.suppress(Timeout), _locked(entry, timeout=0):
                shutil.rmtree(entry, ignore_errors=True)
        elif name.removesuffix(".lock") not in entries:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > _DAY:
                    entry.unlink()

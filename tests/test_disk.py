"""Errors of the disk in one sentence with the file or disk that is known, whoever reports them in whatever way."""

import errno
import os

import pytest
import torch
from safetensors import SafetensorError

from hf_xmtc import disk
from hf_xmtc.disk import disk_error, name_file


def errors_of_full_disks():
    yield OSError(errno.ENOSPC, "No space left on device")
    yield OSError(errno.EDQUOT, "Disk quota exceeded")
    yield SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    yield Exception("No space left on device (os error 28)")  # tokenizers
    try:
        torch.save({"weight": torch.zeros(100_000)}, "/dev/full")
    except RuntimeError as error:
        yield error


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """Folders output, cache and tmp on a disk each, by default with room; set the free MiB of one by its name."""
    free = dict.fromkeys(("output", "cache", "tmp"), 5000)
    for name in free:
        (tmp_path / name).mkdir()

    def of(path):
        return path.relative_to(tmp_path).parts[0]

    monkeypatch.setattr(disk, "_disk", lambda path: list(free).index(of(path)))
    monkeypatch.setattr(disk, "_free", lambda path: free[of(path)] * 2**20)
    return free


@pytest.mark.parametrize("error", list(errors_of_full_disks()), ids=lambda error: type(error).__name__)
def test_a_full_disk_is_named_by_the_one_place_that_was_written(tmp_path, error):
    (tmp_path / "old.json").touch()
    (tmp_path / "optimizer.pt").touch()
    os.utime(tmp_path / "old.json", (0, 0))
    told = str(disk_error(error, tmp_path))
    assert told.startswith("The disk ") and f": {tmp_path} could not be written (" in told
    assert (
        "MiB are free on its disk). The newest file in it is optimizer.pt. Make room and give the same command again" in told
    )


@pytest.mark.parametrize("error", list(errors_of_full_disks()), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("full", ["output", "cache", "tmp"])
def test_of_several_places_the_one_whose_disk_is_full_is_named(tmp_path, disks, error, full):
    disks[full] = 3
    told = str(disk_error(error, *(tmp_path / name for name in disks)))
    assert told.startswith(f"The disk of {tmp_path / full} is full (3.0 MiB are free). Make room")
    assert not any(str(tmp_path / other) in told for other in disks if other != full)


def test_without_a_full_disk_none_is_blamed_and_what_is_free_is_said(tmp_path, disks):
    told = str(disk_error(OSError(errno.EDQUOT, "Disk quota exceeded"), *(tmp_path / name for name in disks)))
    assert told.startswith("A disk is full, and the error does not say which ([Errno 122] Disk quota exceeded). Free are ")
    assert all(f"5,000.0 MiB on that of {tmp_path / name}" in told for name in disks)


def test_a_file_that_the_error_names_is_named_wherever_it_lies(tmp_path, disks):
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "cache" / "data.arrow"))
    told = str(disk_error(error, *(tmp_path / name for name in disks)))
    assert told.startswith(f"The disk is full: {tmp_path}/cache/data.arrow could not be written (5,000.0 MiB are free")


def test_of_a_copy_the_file_that_was_written_is_named(tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device", "/package/cornet.py", None, str(tmp_path / "cornet.py"))
    assert str(disk_error(error, tmp_path)).startswith(f"The disk is full: {tmp_path}/cornet.py could not be written (")


def test_a_read_only_or_forbidden_output_is_named(tmp_path):
    told = disk_error(OSError(errno.EROFS, "Read-only file system", str(tmp_path / "run")), tmp_path / "run", "/cache")
    assert str(told).startswith(f"{tmp_path}/run cannot be used: its file system is read-only. Choose another --output_dir")
    for path in ("new", "new/run", "new/run/model.safetensors"):  # of the first two the output needs to be made
        told = disk_error(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / path)), tmp_path / "new" / "run")
        assert str(told).startswith(
            f"{tmp_path / path} cannot be used: this user may not read or write there. Choose another"
        )


def test_without_a_file_the_place_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    for name in ("output", "cache"):
        (tmp_path / name).mkdir()
    error = SafetensorError("I/O error: Permission denied (os error 13)")
    monkeypatch.setattr(disk.os, "access", lambda path, mode: True)
    assert disk_error(error, tmp_path / "output", tmp_path / "cache") is None
    monkeypatch.setattr(disk.os, "access", lambda path, mode: path.name != "cache")
    told = str(disk_error(error, tmp_path / "output", tmp_path / "cache"))
    assert told.startswith(f"{tmp_path}/cache cannot be used: this user may not read or write there. Name another place")


def test_other_errors_are_left_alone(tmp_path):
    for error in (ValueError("x"), FileNotFoundError(errno.ENOENT, "No such file", "x"), RuntimeError("CUDA out of memory")):
        assert disk_error(error, tmp_path) is None
    # The data, and a folder above the output that is there already and may hold the data.
    for path in ("/data/texts.parquet", tmp_path):
        assert disk_error(PermissionError(errno.EACCES, "Permission denied", str(path)), tmp_path / "run") is None


def test_the_file_of_an_error_stays_and_a_nameless_one_gets_the_file_that_was_written(tmp_path):
    for number, name, named in (
        (errno.EIO, None, "partial"),
        (errno.EIO, "other", "other"),
        (errno.ENOSPC, None, "partial"),
        (errno.ENOSPC, "other", "other"),
    ):
        with pytest.raises(OSError, match="other|partial") as raised, name_file(tmp_path / "partial"):
            raise OSError(number, os.strerror(number), name and str(tmp_path / name))
        assert str(tmp_path / named) in str(raised.value)
        assert ("Make room" in str(raised.value)) == (number == errno.ENOSPC)

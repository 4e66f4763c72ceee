"""Errors of the disk in one sentence with file and disk, whoever reports them in whatever way."""

import errno

import pytest
import torch
from safetensors import SafetensorError

from hf_xmtc.training.disk_errors import disk_error


def errors_of_full_disks():
    yield OSError(errno.ENOSPC, "No space left on device")
    yield OSError(errno.EDQUOT, "Disk quota exceeded")
    yield SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    yield Exception("No space left on device (os error 28)")  # tokenizers
    try:
        torch.save({"weight": torch.zeros(100_000)}, "/dev/full")
    except RuntimeError as error:
        yield error


@pytest.mark.parametrize("error", list(errors_of_full_disks()), ids=lambda error: type(error).__name__)
def test_a_full_disk_is_named_with_the_file(tmp_path, error):
    (tmp_path / "old.json").touch()
    (tmp_path / "optimizer.pt").touch()
    told = str(disk_error(error, tmp_path))
    assert told.startswith("The disk ") and f"{tmp_path}/optimizer.pt could not be written (" in told
    assert "MiB are free on the disk" in told and "give the same command again" in told


def test_of_a_copy_the_file_that_was_written_is_named(tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device", "/package/cornet.py", None, str(tmp_path / "cornet.py"))
    assert str(disk_error(error, tmp_path)).startswith(f"The disk is full: {tmp_path}/cornet.py could not be written (")


def test_a_read_only_output_is_named(tmp_path):
    told = disk_error(OSError(errno.EROFS, "Read-only file system", str(tmp_path / "run")), tmp_path / "run")
    assert str(told).startswith(
        f"{tmp_path}/run cannot be written: its file system is read-only. Choose another --output_dir"
    )
    told = disk_error(PermissionError(errno.EACCES, "Permission denied", str(tmp_path)), tmp_path / "run")
    assert "this user may not write there" in str(told)


def test_other_errors_are_left_alone(tmp_path):
    for error in (ValueError("x"), FileNotFoundError(errno.ENOENT, "No such file", "x"), RuntimeError("CUDA out of memory")):
        assert disk_error(error, tmp_path) is None
    elsewhere = PermissionError(errno.EACCES, "Permission denied", "/data/texts.parquet")
    assert disk_error(elsewhere, tmp_path / "run") is None

import os
import time

import pytest
from filelock import FileLock

from hf_xmtc.data.build_folder import build_folder

LEFTOVER = f".demo-0011223344556677-{'a' * 32}"


def build(target) -> None:
    with build_folder(target) as folder:
        (folder / "content").write_text("whole")


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / LEFTOVER).mkdir()
    (tmp_path / LEFTOVER / "half.arrow").write_text("half")
    (tmp_path / f"{LEFTOVER}.lock").touch()
    (tmp_path / ".other").mkdir()
    build(tmp_path / "corpus")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other", "corpus"]
    assert (tmp_path / "corpus" / "content").read_text() == "whole"


def test_what_a_living_process_builds_is_left_alone(tmp_path):
    with build_folder(tmp_path / "slow") as folder:
        (folder / "content").write_text("slow")
        build(tmp_path / "quick")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick", "slow"]
    with FileLock(tmp_path / f"{LEFTOVER}.lock"):  # as held by another process, which has made no folder yet
        build(tmp_path / "other")
        assert (tmp_path / f"{LEFTOVER}.lock").exists()


def test_an_old_lock_without_a_folder_goes(tmp_path):
    lock = tmp_path / f"{LEFTOVER}.lock"
    lock.touch()
    os.utime(lock, (time.time() - 100_000,) * 2)
    build(tmp_path / "corpus")
    assert not lock.exists()


def test_a_failure_leaves_nothing_and_a_finished_folder_stays(tmp_path):
    with pytest.raises(KeyError), build_folder(tmp_path / "corpus"):
        raise KeyError("failure")
    assert list(tmp_path.iterdir()) == []
    with build_folder(tmp_path / "corpus") as second:
        build(tmp_path / "corpus")
        (second / "content").write_text("second")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    assert (tmp_path / "corpus" / "content").read_text() == "whole"

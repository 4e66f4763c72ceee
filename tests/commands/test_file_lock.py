"""Two runs never write into one output; a lock ends with its process."""

import os
import signal
import threading

import pytest

from hf_xmtc.commands.file_lock import InUseError, exclusive


def test_a_second_run_is_refused_while_the_first_lives_and_free_afterwards(tmp_path):  # AC-73
    lock = tmp_path / "run" / ".lock"
    with exclusive(lock, "The folder run"):
        with pytest.raises(
            InUseError, match=rf"^The folder run is being written by another run \(process {os.getpid()} on "
        ):
            with exclusive(lock, "The folder run"):
                raise AssertionError("two runs in one output")
        assert lock.exists()
    assert not lock.parent.exists()  # nothing is left, or a refused run would leave an empty folder
    with exclusive(lock, "The folder run"):
        (lock.parent / "recipe.json").touch()
    assert [entry.name for entry in lock.parent.iterdir()] == ["recipe.json"]


def test_a_run_that_has_the_lock_and_is_about_to_say_who_it_is_is_named(tmp_path):  # AC-73
    path = tmp_path / "x.lock"
    with exclusive(path, "x"):
        said = path.read_bytes()
        path.write_bytes(b"")
        writes = threading.Timer(0.05, path.write_bytes, [said])
        writes.start()
        with pytest.raises(InUseError, match=f"process {os.getpid()} on "), exclusive(path, "x"):
            pass
        writes.join()


def test_the_lock_of_a_killed_run_is_taken_over_though_its_children_live(tmp_path):  # AC-73
    lock, ready = tmp_path / "lock", os.pipe()
    run = os.fork()
    if run == 0:
        with exclusive(lock, "run"):
            worker = os.fork()
            if worker == 0:
                signal.pause()
            os.write(ready[1], str(worker).encode())
            signal.pause()
    worker = int(os.read(ready[0], 20))
    try:
        with pytest.raises(InUseError, match=f"process {run} on"), exclusive(lock, "run"):
            pass
        os.kill(run, signal.SIGKILL)
        os.waitpid(run, 0)
        with exclusive(lock, "run"):
            assert lock.exists()
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_lock_file_that_links_to_nowhere_is_refused(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "gone" / "lock")
    with pytest.raises(FileNotFoundError, match=r"lock of run, is a link to .*gone/lock, whose folder does not exist"):
        with exclusive(tmp_path / "lock", "run"):
            pass


def test_a_lock_file_that_was_left_behind_locks_nothing(tmp_path):
    (tmp_path / "lock").write_text("{", encoding="utf-8")
    with exclusive(tmp_path / "lock", "run"):
        with pytest.raises(InUseError, match="another run"), exclusive(tmp_path / "lock", "run"):
            pass
    assert not (tmp_path / "lock").exists()

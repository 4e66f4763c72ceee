"""Checkpoint folders: complete under their name, and any damage is found."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from hf_xmtc.training import checkpoint_files
from hf_xmtc.training.checkpoint_files import (
    best_checkpoint,
    checkpoints_in,
    clear_unfinished,
    damage_of,
    seal,
    set_damaged_aside,
)


def write_parts(folder, best: str | None = None) -> None:
    folder.mkdir(parents=True)
    save_file({"weight": torch.arange(8.0)}, folder / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"state": torch.arange(8)}, folder / name)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 3, "best_model_checkpoint": best}))
    (folder / "label_shard_1_of_2").mkdir()
    torch.save({"state": torch.arange(4)}, folder / "label_shard_1_of_2" / "optimizer.pt")


@pytest.fixture
def make_checkpoint(tmp_path):
    def make(step: int, best: int | None = None):
        write_parts(tmp_path / ".unfinished" / "new", best and f"elsewhere/checkpoint-{best}")
        seal(tmp_path / ".unfinished" / "new", tmp_path / f"checkpoint-{step}")
        return tmp_path / f"checkpoint-{step}"

    return make


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


PARTS = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (empty, "has 0 bytes instead of "),
        (cut, " bytes instead of "),
        (flip, "is not what was written"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["empty", "cut", "flipped", "missing"],
)
@pytest.mark.parametrize("name", [*PARTS, "label_shard_1_of_2/optimizer.pt"])
def test_any_damage_of_any_part_is_found_and_named(make_checkpoint, name, harm, message):  # AC-72
    checkpoint = make_checkpoint(3)
    assert damage_of(checkpoint) is None
    harm(checkpoint / name)
    assert damage_of(checkpoint).startswith(f"{name} ") and message in damage_of(checkpoint)


def test_a_damaged_list_of_files_is_damage_too(make_checkpoint):  # AC-72
    checkpoint = make_checkpoint(3)
    for content in ("", "[]", '{"files": 3}', "[" * 100_000):
        (checkpoint / "manifest.json").write_text(content)
        assert damage_of(checkpoint) == "manifest.json cannot be read"


@pytest.mark.parametrize("name", PARTS)
def test_a_checkpoint_without_a_list_is_taken_only_if_every_part_opens(tmp_path, name):
    write_parts(tmp_path / "checkpoint-3")
    assert damage_of(tmp_path / "checkpoint-3") is None
    cut(tmp_path / "checkpoint-3" / name)
    assert damage_of(tmp_path / "checkpoint-3") == f"it has no manifest.json and {name} cannot be opened"
    (tmp_path / "checkpoint-3" / name).unlink()
    (tmp_path / "checkpoint-3" / "label_shard_1_of_2" / "optimizer.pt").unlink()
    assert "it has no manifest.json and lacks " in damage_of(tmp_path / "checkpoint-3")


def test_damaged_checkpoints_are_set_aside_up_to_the_newest_whole_one(tmp_path, make_checkpoint):  # AC-72
    for step in (3, 20, 100):
        make_checkpoint(step)
    cut(tmp_path / "checkpoint-100" / "optimizer.pt")
    (said,) = set_damaged_aside(tmp_path, needs_best=True)
    assert said.startswith("checkpoint-100 cannot be used and is now called damaged-checkpoint-100: optimizer.pt has ")
    assert [path.name for path in checkpoints_in(tmp_path)] == ["checkpoint-20", "checkpoint-3"]
    assert set_damaged_aside(tmp_path, needs_best=True) == []


def test_a_checkpoint_whose_best_one_is_damaged_serves_only_runs_that_need_no_best_one(tmp_path, make_checkpoint):  # AC-72
    make_checkpoint(3)
    make_checkpoint(6, best=3)
    empty(tmp_path / "checkpoint-3" / "model.safetensors")
    assert set_damaged_aside(tmp_path, needs_best=False) == []
    first, second = set_damaged_aside(tmp_path, needs_best=True)
    needed = "checkpoint-3, the best so far when it was written, is needed (load_best_model_at_end=True) and damaged: "
    assert f"{needed}model.safetensors has 0" in first
    assert second.startswith("checkpoint-3 cannot be used") and checkpoints_in(tmp_path) == []


def test_the_best_checkpoint_lies_beside_the_one_that_names_it(tmp_path, make_checkpoint):  # AC-76
    assert best_checkpoint(make_checkpoint(6, best=3)) == tmp_path / "checkpoint-3"
    assert best_checkpoint(make_checkpoint(6)) is None


@pytest.mark.parametrize("content", ['{"best', "[1]"])
def test_a_damaged_state_of_the_trainer_is_named(tmp_path, make_checkpoint, content):
    checkpoint = make_checkpoint(6)
    (checkpoint / "trainer_state.json").write_text(content)
    with pytest.raises(
        ValueError, match=r"trainer_state\.json (is not valid JSON .* Copy|must hold a JSON object, found a list)"
    ):
        best_checkpoint(checkpoint)


def test_a_checkpoint_has_its_name_only_when_all_of_it_is_written(tmp_path, make_checkpoint, monkeypatch):
    make_checkpoint(3)

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint_files.os, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        make_checkpoint(6)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["checkpoint-3"]


def test_a_kill_while_a_checkpoint_is_replaced_loses_neither(tmp_path, make_checkpoint, monkeypatch):  # AC-72
    make_checkpoint(3)
    content = (make_checkpoint(6) / "manifest.json").read_text()

    def stop_at_second(source, target):
        if target == tmp_path / "checkpoint-6":
            raise KeyboardInterrupt
        os.replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint_files.os, "rename", stop_at_second)
        make_checkpoint(6)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["checkpoint-3"]
    clear_unfinished(tmp_path)
    assert damage_of(tmp_path / "checkpoint-6") is None
    assert (tmp_path / "checkpoint-6" / "manifest.json").read_text() == content
    make_checkpoint(6)
    clear_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-3", "checkpoint-6"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be opened there")
def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_older_one_goes(
    tmp_path, make_checkpoint, monkeypatch
):
    make_checkpoint(6)
    events, sync, rename, rmtree = [], os.fsync, os.rename, shutil.rmtree

    def sync_file(descriptor):
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        events.append(("sync", place.relative_to(tmp_path).as_posix()) if place.is_dir() else ("sync", "a file"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_file)
    monkeypatch.setattr(
        os, "rename", lambda source, target: (events.append(("rename", target.name)), rename(source, target))
    )
    monkeypatch.setattr(
        shutil, "rmtree", lambda path, **how: (events.append(("remove", Path(path).name)), rmtree(path, **how))
    )
    make_checkpoint(6)
    order = [event for event in events if event != ("sync", "a file")]
    assert order[-5:] == [
        ("rename", "checkpoint-6-replaced"),
        ("rename", "checkpoint-6"),
        ("sync", ".unfinished"),
        ("sync", "."),
        ("remove", "checkpoint-6-replaced"),
    ]
    assert {("sync", ".unfinished/new"), ("sync", ".unfinished/new/label_shard_1_of_2")} <= set(order[:-5])

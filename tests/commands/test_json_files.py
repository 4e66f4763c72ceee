"""A JSON file that could not be written leaves the one before as it was."""

import os
import sys
from pathlib import Path

import pytest

from hf_xmtc.commands.json_files import write_json


def test_content_is_readable_and_the_folder_is_made(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"title": "Käse", "values": [1, None]})
    expected = '{\n  "title": "Käse",\n  "values": [\n    1,\n    null\n  ]\n}\n'
    assert (tmp_path / "new" / "a.json").read_bytes() == expected.encode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]


def test_undefined_is_null_and_half_characters_are_written(tmp_path):  # AC-68
    write_json(tmp_path / "a.json", {"P@1": float("nan"), "name": "caf\udce9"})
    assert (tmp_path / "a.json").read_bytes() == b'{\n  "P@1": null,\n  "name": "caf\\udce9"\n}\n'


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
def test_content_is_on_the_disk_before_its_name_and_the_name_at_the_end(tmp_path, monkeypatch):
    events, replace = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
    monkeypatch.setattr(os, "replace", lambda source, target: (events.append("replace"), replace(source, target)))
    write_json(tmp_path / "a.json", {"a": 1})
    assert events == ["a.json.tmp", "replace", tmp_path.name]


@pytest.mark.parametrize("failing", ["content", "replacing"])
def test_a_failure_leaves_the_old_content(tmp_path, monkeypatch, failing):
    write_json(tmp_path / "a.json", {"a": 1})

    def fail(source, target):
        raise OSError("disk full")

    if failing == "replacing":
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(TypeError if failing == "content" else OSError):
        write_json(tmp_path / "a.json", {"a": object() if failing == "content" else 2})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": 1\n}\n'

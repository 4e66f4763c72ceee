import os
import random
import signal

import pytest

from reliability import mutate_data_files as script


@pytest.mark.parametrize("name", script.MUTATIONS)
def test_a_mutation_changes_the_content_and_is_the_same_for_the_same_seed(name):
    content = bytes(range(256)) * 2
    first, second = (script.MUTATIONS[name](bytearray(content), random.Random(7)) for _ in range(2))
    assert first == second != content


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (("read", "digest"), "unchanged"),
        (("read", "other"), "changed"),
        (("ValueError", "/tmp/x/test.parquet is not readable parquet", True), "ValueError"),
        (("ValueError", "something is wrong", True), "failure"),
        (("OSError", "test.parquet: ZSTD decompression failed", False), "failure"),
        ((None, "the process ended with -11", False), "failure"),
    ],
)
def test_only_documented_errors_that_name_the_file_are_accepted(answer, outcome):
    assert script.outcome_of(answer, "test.parquet", "digest")[0] == outcome


def test_a_crash_and_a_hang_are_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(script, "load_and_read", lambda *paths: os.kill(os.getpid(), signal.SIGKILL))
    assert script.answer_of(tmp_path, tmp_path) == (None, "the process ended with -9", False)
    monkeypatch.setattr(script, "TIMEOUT", 0.1)
    monkeypatch.setattr(script, "load_and_read", lambda *paths: signal.pause())
    assert script.answer_of(tmp_path, tmp_path) == (None, "no answer after 0.1 s", False)


def test_a_few_mutations_are_counted_and_written(monkeypatch, tmp_path):
    monkeypatch.setattr(script, "COMPRESSIONS", ("zstd",))
    assert script.main(["--mutations", "6", "--seed", "3", "--output", str(tmp_path / "new" / "result.json")]) == 0
    table = (tmp_path / "new" / "result.md").read_text()
    assert "6 mutations, seed 3" in table and "| README.md | bits flipped |" in table

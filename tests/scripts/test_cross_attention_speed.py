"""The benchmark of the cross attention: both ways give the same, and every case has its line."""

import json

import cross_attention_speed
from cross_attention_speed import Case


def test_both_ways_are_measured_and_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(cross_attention_speed, "CASES", (Case("small", 60, 32, (3, 2), 60, 16),))
    cross_attention_speed.main(["--output", str(tmp_path / "found"), "--repeats", "1", "--threads", "1"])
    cases = json.loads((tmp_path / "found.json").read_text())["cases"]
    assert [case["title"] for case in cases] == ["small"]
    for case in cases:
        assert case["gradients_apart"] < 1e-4
        assert case["plain_ms"] > 0 and case["ours_ms"] > 0
        assert case["plain_mib"] > 7  # the answers alone
    lines = (tmp_path / "found.md").read_text().splitlines()
    assert sum(line.startswith("| small |") for line in lines) == 1

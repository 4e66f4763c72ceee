"""The benchmark of label trees: every size and number of threads has its line, and sizes that are not measured again stay."""

import json

import label_tree_speed


def test_sizes_are_measured_and_earlier_ones_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(label_tree_speed, "in_new_process", lambda function, *arguments: function(*arguments))
    for num_labels, workers in (("300", ["1", "2"]), ("200", ["1"])):
        arguments = ["--output", str(tmp_path / "found"), "--num_labels", num_labels, "--num_words", "1000"]
        label_tree_speed.main([*arguments, "--num_workers", *workers])
    cases = json.loads((tmp_path / "found.json").read_text())["cases"]
    assert [(case["num_labels"], case["num_workers"]) for case in cases] == [(200, 1), (300, 1), (300, 2)]
    assert cases[1]["digest"] == cases[2]["digest"]
    assert all(case["tree_cpu_seconds"] > 0 and case["peak_mib"] >= case["texts_peak_mib"] for case in cases)
    lines = (tmp_path / "found.md").read_text().splitlines()
    assert sum(line.startswith("| 300 | 225 |") for line in lines) == 2

"""The benchmark of linear trees: trees are trained and compared with omikuji's prediction, and trained ones are taken too."""

import json

import datasets
import pytest

import linear_tree_speed
from hf_xmtc import BonsaiForXMTC, load_xmtc_dataset
from small_corpus import write_corpus


def test_ours_and_omikuji_are_measured_with_the_same_trees_and_earlier_cases_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "caches")
    data, trained = write_corpus(tmp_path / "data"), tmp_path / "trained"
    output = ["--output", str(tmp_path / "found"), "--num_documents", "3", "--batch_sizes", "2"]
    linear_tree_speed.main([*output, "--dataset", str(data)])
    model, tokenizer = linear_tree_speed.train(BonsaiForXMTC, load_xmtc_dataset(data), tmp_path / "trees")
    model.save_pretrained(trained)
    tokenizer.save_pretrained(trained)
    data.rename(tmp_path / "again")
    given = ["--dataset", str(tmp_path / "again"), "--model", str(trained)]
    linear_tree_speed.main([*output, *given, "--trees", str(tmp_path / "trees")])
    cases = json.loads((tmp_path / "found.json").read_text())["cases"]
    assert [case["name"] for case in cases] == [f"{name}, bonsai, 1 thread(s)" for name in ("again", "data")]
    for case in cases:
        assert case["num_documents"] == 3 and case["largest_difference"] < 1e-5
        assert list(case["ours_ms"]) == ["1", "2"] and min(case["omikuji_ms"], *case["ours_ms"].values()) > 0
    assert "ours, batches of 2 (ratio)" in (tmp_path / "found.md").read_text()
    with pytest.raises(SystemExit):
        linear_tree_speed.main([*output, *given])

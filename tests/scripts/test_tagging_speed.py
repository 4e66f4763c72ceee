"""The benchmark of tagging: what is counted and what it says of a model without candidates."""

import json

import pytest

import tagging_speed
from small_laco import save_generator, save_small_laco

TEXTS = ["edit a text file", "play music", "show a picture of a file"]


def test_a_models_time_per_text_is_measured(tiny_model_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("edit a text file\n" * 50, encoding="utf-8")
    arguments = ["--model", str(tiny_model_folder), "--input", str(texts), "--output", str(tmp_path / "found")]
    tagging_speed.main([*arguments, "--num_texts", "10"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["num_texts"] == 10 and found["candidates_ms"] is None and 0 < found["scores_ms"] < 10_000
    table = (tmp_path / "found.md").read_text()
    assert "| scores and the best labels |" in table and "together" not in table
    texts.write_text("edit\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="holds 1 texts, but more than 32 are needed"):
        tagging_speed.main(arguments)


def test_what_finding_candidates_takes_has_a_line_of_its_own(tmp_path):
    save_small_laco(tmp_path / "model", TEXTS, "abcde", num_candidates=3)
    save_generator(tmp_path / "model", TEXTS, [[0, 1], [2], [3, 4]], num_labels=5)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    arguments = {"model": tmp_path / "model", "input": tmp_path / "texts.txt", "output": tmp_path / "found", "num_texts": 9}
    tagging_speed.main([text for name, value in arguments.items() for text in (f"--{name}", str(value))])
    found, table = json.loads((tmp_path / "found.json").read_text()), (tmp_path / "found.md").read_text()
    assert found["candidates_ms"] > 0 and found["scores_ms"] > 0 and found["num_candidates"] == 3
    together = found["candidates_ms"] + found["scores_ms"]
    assert "| 3 candidates from 3 training texts | " in table and f"| together | {together:.1f} |" in table


def test_candidates_have_a_line_of_their_own():
    results = {
        "machine": {"threads": 1, "processor": "a processor"},
        "versions": {"torch": "2"},
        "model": "LACOForXMTC",
        "num_labels": 22_625,
        "num_candidates": 64,
        "num_training_texts": 41_333,
        "max_length": 96,
        "num_texts": 512,
        "batch_size": 32,
        "candidates_ms": 5.04,
        "scores_ms": 30.0,
        "peak_memory_mib": 900,
    }
    table = tagging_speed.markdown(results)
    assert "| 64 candidates from 41,333 training texts | 5.0 |" in table and "| together | 35.0 |" in table

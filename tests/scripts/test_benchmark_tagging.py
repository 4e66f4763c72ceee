"""The benchmark of tagging: what is counted and what it says of a model without candidates."""

import json

import pytest

import benchmark_tagging
from hf_xmtc import LACOConfig, LACOForXMTC, train_word_tokenizer
from hf_xmtc.retrieval import CandidateGenerator

TEXTS = ["edit a text file", "play music", "show a picture of a file"]


def test_a_models_time_per_text_is_measured(tiny_model_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("edit a text file\n" * 50, encoding="utf-8")
    arguments = ["--model", str(tiny_model_folder), "--input", str(texts), "--output", str(tmp_path / "found")]
    benchmark_tagging.main([*arguments, "--num_texts", "10"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["num_texts"] == 10 and found["candidates_ms"] is None and 0 < found["scores_ms"] < 10_000
    table = (tmp_path / "found.md").read_text()
    assert "| scores and the best labels |" in table and "together" not in table
    texts.write_text("edit\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="holds 1 texts, but more than 32 are needed"):
        benchmark_tagging.main(arguments)


def test_what_finding_candidates_takes_has_a_line_of_its_own(tmp_path):
    tokenizer = train_word_tokenizer(TEXTS, num_cls_tokens=1, max_length=16, min_document_frequency=1)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    settings = {"backbone_config": sizes, "num_candidates": 3, "cross_attention_channels": 2}
    model = LACOForXMTC(LACOConfig.for_tokenizer(tokenizer, label_names=list("abcde"), **settings))
    generator = CandidateGenerator.fit(TEXTS, [[0, 1], [2], [3, 4]], num_labels=5, min_document_frequency=1)
    for part in (model, tokenizer, generator):
        part.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    arguments = {"model": tmp_path / "model", "input": tmp_path / "texts.txt", "output": tmp_path / "found", "num_texts": 9}
    benchmark_tagging.main([text for name, value in arguments.items() for text in (f"--{name}", str(value))])
    found, table = json.loads((tmp_path / "found.json").read_text()), (tmp_path / "found.md").read_text()
    assert found["candidates_ms"] > 0 and found["scores_ms"] > 0 and found["num_candidates"] == 3
    together = found["candidates_ms"] + found["scores_ms"]
    assert "| 3 candidates from 3 training texts | " in table and f"| together | {together:.1f} |" in table

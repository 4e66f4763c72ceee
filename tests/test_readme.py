"""The Python of README and docs runs; their commands name scripts, subcommands and options that exist, their links files."""

import json
import re
import shlex
from pathlib import Path

import datasets
import pytest
import torch

from hf_xmtc import (
    AttentionXMLConfig,
    AttentionXMLForXMTC,
    label_info_of,
    load_xmtc_dataset,
    train_word_tokenizer,
)
from hf_xmtc.cli import main as cli
from hf_xmtc.metrics import precision_at_k
from small_ensemble import save_small_cnn, small_ensemble
from small_laco import save_generator, save_small_laco

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "scripts" / "results" / "README.md")
}
# A part of every Python block, by the test that runs it.
EXAMPLES = {
    "tag": "[{'label': 'interface::graphical'",
    "write_data": "import pandas",
    "train": "XMTCTrainer(",
    "label_head": "LabelHead(",
    "words_family": "XMLCNNConfig.for_tokenizer",
    "explain": "tagger.explain(",
    "label_sets": 'threshold="model"',
    "label_pairs": "conditional_probabilities",
    "candidates": "open_generator(",
    "metrics": "precision_at_k(top_labels, positives, 3)",
    "open": "output.top_labels[0]",
    "ensemble": '"outputs/together"',
    "combine": "combine_rankings(",
    "frequency": "auc_by_frequency(",
}
# Each script does what a subcommand of `hf-xmtc` does.
SCRIPTS = {"scripts/train.py": "train", "scripts/predict.py": "predict", "scripts/push_to_hub.py": "push"}
COMMANDS = {*SCRIPTS.values(), "compare", "convert", "describe", "ensemble", "extend", "tree"}


def blocks_of(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", "\n".join(PAGES.values()), flags=re.DOTALL | re.MULTILINE)


def example(name: str) -> str:
    (block,) = [block for block in blocks_of("python") if EXAMPLES[name] in block]
    return block


def with_changes(block: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert block.count(old) == 1, f"the example has changed: {old}"
        block = block.replace(old, new)
    return block


@pytest.fixture
def run(tmp_path, monkeypatch, modules_cache):
    """Run a block in an empty folder with caches of its own, and return its names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def run_block(block: str) -> dict:
        names: dict = {}
        exec(compile(block, "README.md", "exec"), names)
        return names

    return run_block


def test_every_python_example_is_run_by_one_of_these_tests():
    tests = Path(__file__).read_text("utf-8")
    assert all(f'example("{name}")' in tests for name in EXAMPLES)
    named = [[name for name, part in EXAMPLES.items() if part in block] for block in blocks_of("python")]
    assert sorted(name for (name,) in named) == sorted(EXAMPLES)
    assert len(named) == sum(text.count("```python") for text in PAGES.values())


def test_the_readme_is_short():
    lines = PAGES["README.md"].splitlines()
    assert len(lines) <= 200 and max(map(len, lines)) <= 120


def test_links_between_pages_lead_to_files():
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", text):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_the_label_head_example_gives_gradients_and_the_best_labels(run):
    names = run(
        with_changes(example("label_head"), {"num_labels=100_000": "num_labels=1_000", "randint(100_000": "randint(1_000"})
    )
    assert names["hidden"].grad.abs().sum() > 0 and names["head"].output.weight.grad.shape == (1_000, 512)
    assert names["scores"].shape == names["label_ids"].shape == (32, 10)


def test_the_pipeline_example_gives_what_it_shows(run, tiny_model_folder):
    changes = {'"outputs/demo-bertxml"': repr(str(tiny_model_folder))}
    block = with_changes(example("tag"), {**changes, "\ntagger(": "\nanswers = tagger("})
    answers = run(block)["answers"]
    assert len(answers) == 5 and all({"label", "score"} <= set(answer) for answer in answers)
    scores = [answer["score"] for answer in answers]
    assert scores == sorted(scores, reverse=True)


def test_the_explanation_example_weighs_the_words_and_draws_them(run, tmp_path):
    tokenizer = train_word_tokenizer(["a fast window manager for the X Window System, written in C"] * 2, max_length=32)
    config = AttentionXMLConfig(
        vocab_size=len(tokenizer), label_names=["interface::x11", "role::program"], hidden_size=4, embedding_size=4
    )
    AttentionXMLForXMTC(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    names = run(with_changes(example("explain"), {'"outputs/attentionxml"': repr(str(tmp_path / "model"))}))
    found = names["explanation"]
    assert found.label == "interface::x11" and found.kind == "attention" and len(found.tokens) == 12
    assert sum(token.weight for token in found.tokens) == pytest.approx(1.0, abs=1e-5)
    assert (tmp_path / "why.png").stat().st_size > 1_000


def test_the_example_of_a_model_of_candidates_answers_with_them(run, tmp_path):
    texts = ["a fast window manager", "a window for music", "music in C", "a fast compiler for C"]
    folder = tmp_path / "outputs" / "laco"
    save_small_laco(folder, texts, "abcd", num_candidates=3)
    generator = save_generator(folder, texts, [[0], [0, 1], [1, 2], [3]], num_labels=4)
    names = run(example("candidates"))
    found, _ = generator.candidates(["a fast window manager for the X Window System, written in C"], 3)
    answer = names["tagger"]("a fast window manager for the X Window System, written in C")
    assert {entry["label"] for entry in answer} == {"abcd"[label] for label in found[0]}


def test_the_example_of_what_labels_say_of_each_other_gives_probabilities(run, tmp_path):
    names = ["interface::x11", "implemented-in::c", "role::program"]
    save_small_laco(tmp_path / "outputs" / "laco", ["a fast window manager"], names, auxiliary_task="both")
    changes = {"model.conditional": "known = model.conditional", "model.pair": "pair = model.pair"}
    found = run(with_changes(example("label_pairs"), changes))
    assert found["known"].shape == (1, 3) and found["pair"].shape == (1, 1) and 0 < float(found["pair"]) < 1


def test_the_data_example_writes_a_split_that_can_be_loaded(run, tmp_path):
    (tmp_path / "mydata").mkdir()
    run(example("write_data"))
    data = load_xmtc_dataset("mydata", validation_fraction=0)
    (row,) = data["train"]
    names = label_info_of(data).names
    assert row["text"] == "cheap flights to Rome" and [names[label_id] for label_id in row["labels"]] == ["travel", "italy"]


def test_the_example_of_label_sets_answers_by_rank_and_by_threshold(run, tiny_model_folder):
    changes = {
        '"outputs/demo-bertxml"': repr(str(tiny_model_folder)),
        "tagger(text, top_k": "best = tagger(text, top_k",
        "tagger(text, threshold=0.5)": "above = tagger(text, threshold=0.5)",
        'tagger(text, threshold="model")': 'chosen = tagger(text, threshold="model")',
    }
    names = run(with_changes(example("label_sets"), changes))
    assert len(names["best"]) == 3 and names["above"] == names["chosen"]  # thresholds that were not tuned are 0.5
    assert all(answer["score"] > 0.5 for answer in names["above"])


def test_the_example_of_opening_a_folder_names_the_best_labels(run, tiny_model_folder):
    block = example("open").replace('"outputs/demo-bertxml"', repr(str(tiny_model_folder)))
    names = run(with_changes(block, {"\n[model.config": "\nlabels = [model.config"}))
    assert len(names["labels"]) == 5 and set(names["labels"]) <= set(names["model"].config.label_names)


def test_the_example_of_a_family_of_words_starts_biases_at_frequencies(run):
    names = run(example("words_family"))
    bias = names["model"].label_head.label_bias
    assert bias.shape == (572,) and bias.max() < 3 and bias.min() < -6


def test_the_example_of_metrics_prints_what_it_says(run, capsys):
    run(example("metrics"))
    assert capsys.readouterr().out.split()[:1] == ["0.5"] and "# 0.5 0.709…" in example("metrics")


def test_the_example_of_an_ensemble_answers_with_both_parts(run, tiny_model_folder, tmp_path):
    labels = json.loads((tiny_model_folder / "labels.json").read_text())
    parts = {"bert": tiny_model_folder, "cnn": save_small_cnn(tmp_path / "cnn", labels)}
    small_ensemble(parts).save_pretrained(tmp_path / "outputs" / "together")
    answers = run(with_changes(example("ensemble"), {"\ntagger(": "\nanswers = tagger("}))["answers"]
    assert len(answers) == 3 and {answer["label"] for answer in answers} < set(labels)


def test_the_example_of_combined_rankings_is_at_least_as_good_as_the_better_one(run):
    names = run(example("combine"))
    assert precision_at_k(names["top_labels"], names["positives"], 5) >= 0.4 and names["consensus"].shape == (20, 5)


def test_the_example_of_frequent_and_rare_labels_gives_rows(run):
    names = run(example("frequency"))
    assert [row["num_labels"] for row in names["rows"]] == [1, 2] and set(names["kinds"]) == {"torso", "tail"}


def test_the_training_example_runs_from_the_data_to_a_saved_model(run, tmp_path, capsys):
    sizes = "hidden_size=16, intermediate_size=16, num_hidden_layers=1, cornet_context_size=8, "
    changes = {
        "BertXMLConfig(label_names": f"BertXMLConfig({sizes}label_names",
        "num_train_epochs=5": "max_steps=1, use_cpu=True",
    }
    names = run(with_changes(example("train"), changes))
    assert names["trainer"].state.global_step == 1
    assert "eval_nDCG@5" in capsys.readouterr().out
    folder = tmp_path / "outputs" / "by-hand" / "model"
    assert json.loads((folder / "config.json").read_text())["num_labels"] == len(names["info"].names)
    assert {"model.safetensors", "tokenizer.json", "labels.json", "modeling_bertxml.py"} <= {
        p.name for p in folder.iterdir()
    }
    torch.testing.assert_close(
        type(names["trainer"].model).from_pretrained(folder).label_head.output.bias,
        names["trainer"].model.label_head.output.bias,
    )


def commands() -> list[tuple[str, list[str]]]:
    """Subcommand and options of every line in README and docs that runs a script or ``hf-xmtc``."""
    found = []
    for line in "\n".join(blocks_of("bash")).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for position, word in enumerate(words):
            if word.startswith("scripts/recipes/"):
                assert (ROOT / word).is_file(), word
            elif word.startswith("scripts/"):
                assert word in SCRIPTS and (ROOT / word).is_file(), word
                found.append((SCRIPTS[word], words[position + 1 :]))
            elif word == "hf-xmtc":
                found.append((words[position + 1], words[position + 2 :]))
    return found


def test_every_script_and_subcommand_that_is_named_is_there():
    assert {command for command, _ in commands()} == COMMANDS
    text = "\n".join(PAGES.values())
    assert set(re.findall(r"`hf-xmtc (\w+)`", text)) == COMMANDS
    for path in re.findall(r"(?<![\w./])(?:scripts|notebooks|src|tests|docs)/[\w./-]*\w", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_that_is_named_is_one_of_the_command(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli([command, "--help_all" if command == "train" else "--help"])
    assert ended.value.code == 0
    known = set(re.findall(r"(?<![\w-])--\w+", capsys.readouterr().out))
    given = {word.partition("=")[0] for name, words in commands() if name == command for word in words if word[:2] == "--"}
    assert given and given <= known

"""`hf-xmtc compare`: tables, tests and a picture from the predictions in model folders."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from hf_xmtc.cli import main as cli
from hf_xmtc.commands.compare_options import System, systems_named
from hf_xmtc.commands.output_folder import OutputFolder
from hf_xmtc.commands.stored_predictions import write_label_counts
from hf_xmtc.commands.system_comparison import compare_systems
from hf_xmtc.metrics import inverse_propensity, ranking_report
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames

NAMES = [f"label {i}" for i in range(9)]
COUNTS = np.arange(1, 10)
GOLD = np.random.default_rng(0).permuted(np.tile(np.arange(9), (40, 1)), axis=1)[:, :3]
GOLD[0] = -100  # a document without labels


def write_run(folder, quality, seed=0, gold=GOLD):
    """A model folder whose ranking has the true labels in front as often as ``quality`` says; its metrics."""
    generator = np.random.default_rng(seed)
    is_gold = (np.arange(9)[None, :, None] == gold[:, None, :]).any(axis=2)
    scores = generator.random(is_gold.shape) * (1 - quality) + quality * is_gold
    top_labels = np.argsort(-scores, axis=1)[:, :6]
    folder.mkdir(parents=True)
    names = LabelNames(NAMES)
    names.save(folder / LABELS_FILE)
    write_label_counts(folder, NAMES, COUNTS, 20)
    top_scores = np.take_along_axis(scores, top_labels, axis=1)
    OutputFolder(folder).write_predictions("test", np.arange(len(gold)), top_labels, top_scores, gold, names, [])
    return ranking_report(top_labels, gold, inverse_propensity=inverse_propensity(COUNTS, 20))


def compared(*arguments):
    return cli(["compare", *map(str, arguments)])


def test_metrics_are_those_of_the_report_and_files_are_written(tmp_path, capsys):
    reports = {name: write_run(tmp_path / name, quality) for name, quality in (("good", 0.45), ("fair", 0.3), ("bad", 0.0))}
    assert compared(*(tmp_path / name for name in reports), "--output_dir", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    stored = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for name, report in reports.items():
        values = {metric: of["value"] for metric, of in stored["systems"][name].items()}
        assert values == pytest.approx({metric: report[metric] for metric in ("P@1", "P@5", "nDCG@5", "R@5", "PSP@5")})
        assert all(of["low"] - 1e-9 <= of["value"] <= of["high"] + 1e-9 for of in stored["systems"][name].values())
    assert stored["num_documents"] == 39 and "1 further documents have no true label" in printed
    results = {(pair["first"], pair["second"]): pair["ahead"] for pair in stored["pairs"] if pair["metric"] == "nDCG@5"}
    assert results["good", "bad"] == "good" and results["fair", "bad"] == "fair"
    assert stored["friedman"]["nDCG@5"]["p"] < 0.001
    assert (tmp_path / "out" / "comparison.md").read_text().startswith(printed)
    assert (tmp_path / "out" / "comparison.png").stat().st_size > 5000
    with pytest.raises(SystemExit, match="is not an empty folder"):
        compared(tmp_path / "good", tmp_path / "bad", "--output_dir", tmp_path / "out")


def test_seeds_of_a_system_are_paired_and_the_same_model_shows_no_difference(tmp_path, capsys):
    for seed in (1, 2, 3):
        write_run(tmp_path / f"a{seed}", 0.5, seed)
    runs = ",".join(str(tmp_path / f"a{seed}") for seed in (1, 2, 3))
    assert compared(f"one={runs}", f"two={runs}", tmp_path / "a1", "--metrics", "P@3", "PSP@3") == 0
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("| P@3 ") and "one − two" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    same = "+0.00 (+0.00 … +0.00)"
    assert cells == ["P@3", "one − two", same, "1.000", "1.000", same, "1.000", "not shown"]
    assert "| one    | 3 " in printed and "p values have Holm's correction for 3 pairs" in printed


def test_a_system_is_ahead_only_where_the_corrected_p_value_is_below_5_per_cent():
    # a is 0.02 above b and c in the mean, with p = 0.03 for each pair, which Holm's correction for three pairs makes 0.09.
    noise = np.tile([1.0, -1.0], 25)
    noise *= 0.02 * (49 / 50) ** 0.5 * 50**0.5 / stats.t.isf(0.015, 49)
    base = np.random.default_rng(0).random(50)
    values = {name: value[None, :, None] for name, value in (("a", base + 0.02 + noise), ("b", base), ("c", base))}
    pairs = compare_systems(values, np.ones((50, 1)), ["P@1"]).pairs
    assert pairs[0].documents.p == pytest.approx(0.03) and pairs[0].documents.low > 0
    assert pairs[0].p_t == pytest.approx(0.09) and [pair.ahead for pair in pairs] == [None, None, None]
    (pair,) = compare_systems({"a": values["a"], "b": values["b"]}, np.ones((50, 1)), ["P@1"]).pairs
    assert pair.p_t == pytest.approx(0.03) and pair.ahead == "a"


def test_a_system_is_ahead_only_where_it_is_over_documents_and_over_seeds():
    # Over documents the difference is clear, over the three seeds (+0.9, +0.1, +0.2) it is not.
    base, gains = np.random.default_rng(0).random((1, 50, 1)), np.array([0.9, 0.1, 0.2])
    noise = np.random.default_rng(1).normal(0, 0.01, (1, 50, 1))
    values = {"a": base + gains[:, None, None] + noise, "b": base + np.zeros((3, 1, 1))}
    (pair,) = compare_systems(values, np.ones((50, 1)), ["P@1"]).pairs
    assert pair.p_t < 0.05 < pair.p_seeds and pair.ahead is None
    assert pair.p_seeds == pytest.approx(stats.ttest_1samp(gains + noise.mean(), 0).pvalue)
    values = {"a": values["a"].mean(axis=0, keepdims=True), "b": base}
    (pair,) = compare_systems(values, np.ones((50, 1)), ["P@1"]).pairs
    assert pair.seeds is None and pair.ahead == "a"


def test_other_documents_and_other_true_labels_are_refused(tmp_path):
    write_run(tmp_path / "a", 0.5)
    write_run(tmp_path / "fewer", 0.5, gold=GOLD[:-1])
    other = GOLD.copy()
    other[3, 0] = next(label for label in range(9) if label not in GOLD[3])
    write_run(tmp_path / "other", 0.5, gold=other)
    with pytest.raises(SystemExit, match="have 40 and 39 documents"):
        compared(tmp_path / "a", tmp_path / "fewer")
    with pytest.raises(SystemExit, match="true label ids .* in place 3"):
        compared(tmp_path / "a", tmp_path / "other")
    with pytest.raises(SystemExit, match=r"There is no .*nowhere"):
        compared(tmp_path / "a", tmp_path / "nowhere")


def test_files_without_a_model_folder_have_no_psp_and_need_true_labels(tmp_path, capsys):
    columns = {"id": ["x", "y", "z"], "labels": [["a"], ["b"], ["a"]], "scores": [[0.9], [0.8], [0.7]]}
    pq.write_table(pa.table(columns), tmp_path / "one.parquet")
    pq.write_table(pa.table({**columns, "labels": [["b"], ["b"], ["c"]]}), tmp_path / "two.parquet")
    with pytest.raises(SystemExit, match="has no column gold"):
        compared(tmp_path / "one.parquet", tmp_path / "two.parquet")
    pq.write_table(pa.table({**columns, "gold": [["a"], ["b"], ["c"]]}), tmp_path / "three.parquet")
    compared(tmp_path / "one.parquet", tmp_path / "three.parquet")
    printed = capsys.readouterr().out
    assert "PSP is left out" in printed and "PSP@5" not in printed and "| one    | 1    | 66.67 " in printed
    with pytest.raises(SystemExit, match="PSP@k needs"):
        compared(tmp_path / "one.parquet", tmp_path / "three.parquet", "--metrics", "PSP@1")


def test_on_validation_what_was_chosen_there_is_named(tmp_path, capsys):
    recipes = {
        "svm": {"model_family": "dismec"},
        "bert": {"model_family": "bertxml", "learning_rate": 0.1},
        "last": {"model_family": "bertxml", "learning_rate": 0.1, "load_best_model_at_end": False},
        "tuned": {"model_family": "ensemble", "method": "tuned"},
        "equal": {"model_family": "ensemble", "method": "consensus"},
    }
    for name, recipe in recipes.items():
        write_run(tmp_path / name, 0.5)
        (tmp_path / name / "recipe.json").write_text(json.dumps(recipe))
        shutil.copy(tmp_path / name / "predictions" / "test.parquet", tmp_path / name / "predictions" / "validation.parquet")
    part = tmp_path / "equal" / "parts" / "near"
    part.mkdir(parents=True)
    (part / "metrics.json").write_text(json.dumps({"train": {"num_neighbors": 50}}))
    folders = [tmp_path / name for name in recipes]
    compared(*folders, "--split", "validation")
    printed = capsys.readouterr().out
    assert (
        "something was chosen: bert (best checkpoint); tuned (weights of the ensemble); equal (vote of the neighbours). Such a system"
        in printed
    )
    compared(*folders)
    compared(tmp_path / "svm", tmp_path / "last", "--split", "validation")
    assert "Warning" not in capsys.readouterr().out


def test_systems_are_read_from_the_command_line(tmp_path):
    write_run(tmp_path / "lr=0.1", 0.5)
    assert System.parse(str(tmp_path / "lr=0.1")).name == "lr=0.1"
    assert System.parse(str(tmp_path / "lr=0.1" / "predictions" / "test.parquet")).name == "lr=0.1"
    assert [run.name for run in System.parse("a=x/1,x/2").runs] == ["1", "2"]
    for texts, message in (
        (["a"], "needs two"),
        (["a", "b/a"], "called a"),
        (["a", "b="], "no name or no run"),
        (["a=1,2", "b=1,2,3"], r"2 \(a\), 3 \(b\) runs"),
    ):
        with pytest.raises(ValueError, match=message):
            systems_named(texts)

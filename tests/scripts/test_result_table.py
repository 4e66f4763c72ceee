"""Means, deviations, bold cells, missing runs and the picture of a table, from results made up here."""

import dataclasses
import json

import pytest

from pair_gains import DataSetResults, gains_of
from result_table import as_json, columns_of, markdown, plot_validation_curves, write_table
from table_layout import METRICS, SET_METRICS, Line, RowResults, TableLayout


def result(seed, value, seconds=100.0, curve=(), **train):
    """A result file: every metric has the same value."""
    return {
        "seed": seed,
        "metrics": {split: dict.fromkeys(METRICS, value) for split in ("validation", "test")},
        "train": {"seconds": seconds, "threads": 2, **train},
        "validation_curve": [{"step": step, "epoch": step / 10, "nDCG@5": height} for step, height in curve],
        "recipe": {},
        "dataset": {"name": "toy", "num_labels": 1234, "num_documents": {"train": 5000, "test": 70}},
        "versions": {"torch": "2.13.0", "hf_xmtc": "0.1.0"},
    }


def row(name, runs, num_wanted=None, skipped=None):
    return RowResults(name, name.upper(), Line("tab:blue", "solid"), num_wanted or len(runs), runs, skipped)


def cells(text, title):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_mean_and_sample_deviation_over_seeds():
    columns = columns_of(row("a", [result(1, 0.80), result(2, 0.82), result(3, 0.87)]))
    assert columns["P@1"].mean == pytest.approx(0.83)
    assert columns["P@1"].sd == pytest.approx(((0.03**2 + 0.01**2 + 0.04**2) / 2) ** 0.5)
    assert columns_of(row("a", [result(1, 0.8)]))["P@1"].sd is None


def test_cells_are_per_cent_with_the_deviation_and_the_best_is_bold():
    runs = [result(1, 0.5), result(2, 0.6), result(3, 0.55)]
    text = markdown("T", [row("a", runs), row("b", [result(None, 0.83, seconds=7.4)])])
    assert cells(text, "A")[1] == "55.00 ± 5.00"
    assert cells(text, "B")[1] == "**83.00**"
    assert cells(text, "A")[-3:] == ["55.00 ± 5.00", "100 ± 0", "3"]
    assert cells(text, "B")[-3:] == ["**83.00**", "7", "1"]  # a single time decides nothing; no row knows its memory


def test_parameters_are_in_millions_and_values_of_a_paper_stand_below_the_row():
    paper = ("CorNet", {"P@1": 86.39, "nDCG@5": 71.24})
    with_paper = dataclasses.replace(row("a", [result(1, 0.5, parameters=8_261_716)]), paper=paper)
    text = markdown("T", [with_paper, row("b", [result(1, 0.4)])])
    assert cells(text, "A")[-2:] == ["8.3", "1"] and cells(text, "B")[-2] == "–"
    published = cells(text, "… in the CorNet paper")
    assert published[1] == "86.39" and published.count("–") == len(published) - 3


@pytest.mark.parametrize(
    ("others", "is_bold"),
    [
        ([result(1, 0.50), result(2, 0.52), result(3, 0.51)], True),
        # By 2, 1.5 and 1 points: the deviation is 0.5, the interval 1.24.
        ([result(1, 0.58), result(2, 0.60), result(3, 0.61)], True),
        ([result(1, 0.61), result(2, 0.60), result(3, 0.58)], False),  # -1, +1.5 and +4: as far on average, but not by seed
        ([result(1, 0.58), result(2, 0.60), result(4, 0.50)], False),  # two shared seeds decide nothing
        ([result(1, 0.50)], False),
        ([result(None, 0.58)], True),  # no seed: exact; the deviation is 1.04, the interval 2.59
        ([result(None, 0.59)], False),
    ],
)
def test_the_best_is_bold_only_where_the_t_interval_over_shared_seeds_leaves_out_0(others, is_bold):
    runs = [result(1, 0.60), result(2, 0.615), result(3, 0.62)]
    text = markdown("T", [row("a", runs), row("b", others, num_wanted=3)])
    assert cells(text, "A")[1].startswith("**61.17") == is_bold and cells(text, "B")[1][0] != "*"


def test_where_no_spread_is_known_nothing_is_bold():
    text = markdown("T", [row("a", [result(1, 0.50)]), row("b", [result(1, 0.9)])])
    assert "*" not in cells(text, "A")[1] + cells(text, "B")[1]
    assert "**" not in "".join(cells(markdown("T", [row("a", [result(1, 0.5), result(2, 0.5)])]), "A"))  # best of one


def test_nothing_is_bold_in_a_column_that_some_rows_lack():
    without = result(None, 0.4)
    del without["metrics"]["test"]["PSP@1"]
    text = markdown("T", [row("a", [result(None, 0.5)]), row("b", [without])])
    place = [cell.strip() for cell in text.splitlines()[2].split("|")].index("PSP@1") - 1
    assert cells(text, "A")[place] == "50.00" and cells(text, "A")[1] == "**50.00**"


def test_missing_and_skipped_runs_are_said():
    rows = [
        row("a", [result(1, 0.5)], num_wanted=3),
        row("b", [], num_wanted=2, skipped="its encoder is not installed: pip install x"),
        row("c", [result(1, 0.4)]),
    ]
    text = markdown("T", rows)
    assert cells(text, "A")[-1] == "1 of 3" and cells(text, "C")[-1] == "1"
    assert set(cells(text, "B")[1:-1]) == {"–"} and cells(text, "B")[-1] == "0 of 2"
    assert "Missing: 2 of 3 runs of A." in text
    assert "Missing: 2 of 2 runs of B; its encoder is not installed: pip install x." in text
    assert "runs of C" not in text


def test_a_resumed_run_does_not_count_for_the_time():
    runs = [result(1, 0.5, seconds=100), result(2, 0.5, seconds=10, resumed_at_epoch=3)]
    assert columns_of(row("a", runs))["seconds"].mean == 100
    assert "interrupted and resumed: A (1)" in markdown("T", [row("a", runs)])


def test_sizes_threads_and_versions_stand_below_the_table():
    text = markdown("T", [row("a", [result(1, 0.5)])], picture="t.png")
    assert "Data set toy: 1,234 labels; documents: train 5,000, test 70." in text
    assert "Threads: A 2." in text and "hf_xmtc 0.1.0, torch 2.13.0" in text
    assert "](t.png)" in text
    assert markdown("T", [row("a", [result(1, 0.5)])], remarks=["Read this."]).split("\n\n")[2] == "Read this."


def test_json_keeps_fractions_with_all_digits():
    content = as_json("T", [row("a", [result(1, 0.123456789)]), row("b", [])])
    assert content["rows"]["a"]["columns"]["P@1"] == {"mean": 0.123456789, "sd": None}
    assert content["rows"]["a"]["seeds"] == [1] and content["rows"]["b"]["columns"] == {}
    assert json.loads(json.dumps(content)) == content


def test_picture_draws_means_at_common_steps_in_the_lines_own_style(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = []
    monkeypatch.setattr(Axes, "legend", lambda axes: None)  # nothing is really drawn that it could name
    monkeypatch.setattr(Axes, "plot", lambda axes, x, y, **style: drawn.append((x, y, style["color"], style["linestyle"])))
    monkeypatch.setattr(Axes, "axhline", lambda axes, y, **style: drawn.append((y, style["linestyle"])))
    runs = [result(1, 0.5, curve=[(10, 0.2), (20, 0.4)]), result(2, 0.5, curve=[(10, 0.4), (20, 0.5), (30, 0.6)])]
    base = RowResults("b", "B", Line("tab:red", "dotted"), 2, runs)
    svm = RowResults("svm", "SVM", Line("tab:gray", "dashed"), 1, [result(None, 0.7)])
    plot_validation_curves("T", [base, svm, row("empty", [], 1)], tmp_path / "t.png")
    (x, y, *style), (height, svm_style) = drawn
    assert x == (10, 20) and y == pytest.approx((30, 45)) and style == ["tab:red", "dotted"]
    assert height == pytest.approx(70) and svm_style == "dashed"


def test_three_files_are_written(tmp_path):
    runs = [result(1, 0.5, curve=[(10, 0.2), (20, 0.4)])]
    text = write_table("Toy", [row("a", runs), row("b", [result(None, 0.4)])], tmp_path / "toy")
    assert (tmp_path / "toy.md").read_text(encoding="utf-8") == text and "](toy.png)" in text
    assert json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))["title"] == "Toy"
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_differences_of_pairs_stand_below_the_table_and_a_row_without_seeds_counts_for_all(tmp_path):
    rows = [
        row("svm", [result(None, 0.5)]),
        row("a", [result(1, 0.52, curve=[(10, 0.6)]), result(2, 0.54, curve=[(10, 0.6)])]),
    ]
    gains = gains_of(DataSetResults("toy", "Toy", rows), [("svm", "a"), ("a", "b")])
    text = write_table("T", rows, tmp_path / "toy", gains=gains)
    assert cells(text, "SVM → A")[1] == "+3.00 ± 12.71" and cells(text, "SVM → A")[-2:] == ["–", "2"]
    (pair,) = json.loads((tmp_path / "toy.json").read_text())["gains"]
    assert pair["gains"]["P@1"]["mean"] == pytest.approx(3.0)


def test_memory_is_a_column_where_runs_know_it_and_the_least_of_three_runs_is_bold():
    rows = [
        row("a", [result(seed, 0.5, peak_memory_mb=700) for seed in (1, 2, 3)]),
        row("b", [result(seed, 0.6, peak_memory_mb=900) for seed in (1, 2, 3)]),
        row("c", [result(None, 0.4)]),
    ]
    assert columns_of(rows[1])["peak_memory_mb"].mean == 900 and "peak_memory_mb" not in columns_of(rows[2])
    assert "| **700 ± 0** |" in markdown("T", rows) and "| 900 ± 0 |" in markdown("T", rows)
    single = [row(name, [result(None, 0.5, peak_memory_mb=memory)]) for name, memory in (("a", 700), ("b", 900))]
    assert "| 700 |" in markdown("T", single)


def test_how_far_gradients_are_apart_is_said_where_a_run_has_measured_it():
    text = markdown("T", [row("a", [result(1, 0.5, first_step_gradient_difference=3e-7)]), row("b", [result(1, 0.5)])])
    assert "usual way are at most 3.0e-07 apart" in text
    assert "apart" not in markdown("T", [row("b", [result(1, 0.5)])])


@pytest.mark.parametrize(
    ("recorded", "note"),
    [
        ({}, "Of the training documents the first 300 are used."),  # of runs before there were samples
        ({"document_sample": "text_hash"}, "Of the training documents 300, a sample by a hash of the texts, are used."),
    ],
)
def test_how_documents_were_chosen_is_said(recorded, note):
    limited = {**result(1, 0.5), "recipe": {"max_train_documents": 300, **recorded}}
    assert note in markdown("T", [row("a", [limited])])


def test_a_table_of_sets_has_its_metrics_and_the_lowest_hamming_loss_is_bold(tmp_path):
    def run(micro: float, hamming: float, kl: float, sets: int) -> dict:
        found = result(None, 0.5)
        values = {
            **dict.fromkeys(SET_METRICS, 0.4),
            "micro_f1": micro,
            "hamming_loss": hamming,
            "label_dependency_kl": kl,
            "num_distinct_sets": sets,
        }
        found["metrics"] = dict.fromkeys(("validation", "test"), values)
        found["validation_curve"] = [{"step": 1, "epoch": 0.1, "nDCG@5": 0.2, "micro_f1": 0.3}]
        found["dataset"]["num_distinct_sets"] = 1392
        return found

    layout = TableLayout(SET_METRICS, "micro_f1")
    text = write_table(
        "T", [row("a", [run(0.7, 0.02, 1.5, 300)]), row("b", [run(0.6, 0.01, 2.5, 310)])], tmp_path / "t", layout
    )
    heading = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    a, b = (dict(zip(heading, [title, *cells(text, title)[1:]], strict=True)) for title in "AB")
    assert (a["micro F1"], b["micro F1"]) == ("**70.00**", "60.00") and (a["Hamming loss"], b["Hamming loss"]) == (
        "2.00",
        "**1.00**",
    )
    assert (a["KL"], b["KL"]) == ("**1.50**", "2.50") and (a["distinct sets"], b["distinct sets"]) == ("300", "310")
    assert "The true labels form 1,392 distinct sets." in text and "![micro F1 on validation](t.png)" in text
    stored = json.loads((tmp_path / "t.json").read_text())
    assert stored["rows"]["a"]["columns"]["micro_f1"]["mean"] == 0.7


def test_what_the_parts_of_a_model_of_candidates_are_worth_stands_below_it():
    of_candidates = result(None, 0.5)
    of_candidates["metrics"]["test"] |= {"generator_P@1": 0.25, "generator_nDCG@5": 0.4, "model_P@1": 0.45}
    of_candidates["metrics"]["test"] |= {"candidate_recall": 0.6875, "num_candidates": 64}
    of_candidates["train"]["retrieval_weight"] = 0.65
    text = markdown("T", [row("a", [of_candidates]), row("b", [result(None, 0.3)])])
    assert "Votes count in the scores by a share of 0.65, chosen on validation." in text
    assert cells(text, "… its generator alone")[1] == "25.00"
    assert cells(text, "… by its own scores alone")[1] == "45.00"
    assert cells(text, "A")[1] == "**50.00**"
    assert "A: the 64 candidates of a document hold 68.75 % of its labels" in text
    assert "B: the" not in text


def test_what_the_teachers_of_a_model_know_is_told_once_for_rows_with_the_same():
    def with_teacher(seed, recall):
        run, votes = result(seed, 0.5), dict.fromkeys(("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5"), recall / 2)
        for split, more in (("validation", 0.05), ("test", 0.0)):
            run["metrics"][split] |= {"teacher_recall": recall + more}
            run["metrics"][split] |= {f"neighbors_{name}": value for name, value in votes.items()}
        return run

    rows = [
        row("a", [with_teacher(1, 0.2), with_teacher(2, 0.3)]),
        row("b", [with_teacher(1, 0.6)]),
        row("c", [with_teacher(1, 0.6)]),
    ]
    text = markdown("T", [*rows, row("d", [result(1, 0.4)])])
    shown = "65.0 % on validation, 60.0 % on test; 30.0 % on validation, 25.0 % on test (A)."
    assert f"Share of a document's labels that its teacher holds: {shown}" in text
    few, many = (
        ", ".join(f"{name} {value}" for name in ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")) for value in ("12.50", "30.00")
    )
    assert f"Votes of a teacher's texts alone, without any training: {many}; {few} (A)." in text
    assert "teacher" not in markdown("T", [row("d", [result(1, 0.4)])])


def test_how_well_training_documents_are_fitted_has_a_column_where_it_was_measured():
    with_both = result(1, 0.5, label_dependency_kl=0.25)
    text = markdown("T", [row("a", [with_both]), row("b", [result(1, 0.3)])], layout=TableLayout(("P@1",)))
    assert text.splitlines()[2].startswith("| model | P@1 | KL, training |")
    assert cells(text, "A")[2] == "0.25" and cells(text, "B")[2] == "–"

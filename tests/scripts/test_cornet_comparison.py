import json

import pytest

import run_tables
from cornet_comparison import write_comparison
from pair_gains import DataSetResults, Gain, gains_of
from table_layout import METRICS, Line, RowResults
from tables import COMPARISONS, TABLES, Comparison, Row, Table

LINE = Line("tab:blue", "solid")
PAIRS = (("base", "cornet"),)


def run(seed: int, value: float, curve: list[float], **metrics: float) -> dict:
    return {
        "seed": seed,
        "metrics": {split: {**dict.fromkeys(METRICS, value), **metrics} for split in ("validation", "test")},
        "train": {"seconds": 1.0, "threads": 1},
        "validation_curve": [{"step": 10 * step, "nDCG@5": value} for step, value in enumerate(curve, start=1)],
        "recipe": {},
        "dataset": {"name": "toy", "num_labels": 3, "num_documents": {"train": 5}},
        "versions": {"torch": "2.13.0"},
    }


def results(name: str, base: list[dict], cornet: list[dict]) -> DataSetResults:
    rows = [RowResults("base", "Base", LINE, 2, base), RowResults("cornet", "CorNetBase", LINE, 2, cornet)]
    return DataSetResults(name, name.title(), rows)


def test_gains_are_means_over_pairs_of_the_same_seed():
    of = results(
        "toy",
        [run(1, 0.50, [0.2, 0.4, 0.40]), run(2, 0.60, [0.2, 0.4, 0.40]), run(3, 0.1, [0.0, 0.0, 0.0])],
        [run(2, 0.64, [0.3, 0.5, 0.41]), run(1, 0.52, [0.3, 0.5, 0.41])],
    )
    (pair,) = gains_of(of, PAIRS)
    assert pair.seeds == [1, 2]  # the third has no partner
    gain = pair.gains["P@1"]  # 2 and 4
    assert gain.mean == pytest.approx(3.0) and gain.sd == pytest.approx(2**0.5)
    assert (
        gain.half_width == pytest.approx(12.706, abs=1e-3) and not gain.holds
    )  # t of one degree of freedom, times 2**0.5 / 2**0.5
    assert pair.steps == (20, 20)  # 95 % of 0.40: without CorNet and with it at the second check


@pytest.mark.parametrize(
    ("differences", "half_width", "holds"),
    [
        ([1.0, 2.0, 3.0], 4.3027 / 3**0.5, False),
        ([2.0, 3.0, 4.0], 4.3027 / 3**0.5, True),
        ([-1, -1, -1.5, -1, -1], 0.2776, True),
    ],
)
def test_a_difference_holds_where_its_t_interval_leaves_out_0(differences, half_width, holds):
    gain = Gain.of(differences)
    assert gain.half_width == pytest.approx(half_width, rel=1e-3) and gain.holds == holds
    assert not Gain.of([5.0]).holds  # of one pair nothing is known


def test_steps_are_fewer_where_the_curve_rises_faster_and_none_where_it_stays_below():
    fast = results("toy", [run(1, 0.5, [0.1, 0.3, 0.4])], [run(1, 0.5, [0.39, 0.4, 0.4])])
    slow = results("toy", [run(1, 0.5, [0.1, 0.3, 0.4])], [run(1, 0.5, [0.1, 0.1, 0.1])])
    assert [gains_of(of, PAIRS)[0].steps for of in (fast, slow)] == [(30, 10), (30, None)]


def test_pairs_without_a_common_seed_are_left_out():
    assert gains_of(results("toy", [run(1, 0.5, [0.1])], [run(2, 0.5, [0.1])]), PAIRS) == []


def test_claims_are_counted_and_everything_is_written(tmp_path):
    comparison = Comparison("What it adds", {"cpu": ("toy", "other")}, PAIRS, remarks=("A caveat.",))
    found = [
        results("toy", [run(1, 0.5, [0.1, 0.4])], [run(1, 0.52, [0.39, 0.4], **{"P@1": 0.51, "PSP@1": 0.4})]),
        results("other", [run(1, 0.5, [0.1, 0.4])], []),
    ]
    text = write_comparison(comparison, found, tmp_path / "cornet-2-cpu")
    assert text == (tmp_path / "cornet-2-cpu.md").read_text(encoding="utf-8")
    assert "| Base | +1.00 | +2.00 |" in text and "20 → 10" in text
    assert f"ahead in {len(METRICS) - 1} of {len(METRICS)} cells" in text
    assert "Not ahead: Base PSP@1 on toy (-10.00)." in text
    assert "Of the 0 cells with several seeds the interval leaves out 0 in 0: it is ahead in 0 and behind in 0." in text
    assert "P@5 gains, and more than P@1, in 1 of 1 pairs; in 0 neither gains" in text
    assert "of 1 pairs 1 reach the goal in fewer steps, 0 at the same check and 0 later" in text
    assert "the highest nDCG@5 on 0 of 1 data sets on which all models have run (toy: CorNetBase)" in text
    assert "at their last check: 3 of 3 (toy 2 of 2, other 1 of 1)." in text and "- A caveat." in text
    assert "No pair of runs yet." in text
    stored = json.loads((tmp_path / "cornet-2-cpu.json").read_text(encoding="utf-8"))
    assert stored["gains"]["toy"][0]["gains"]["P@1"] == {"mean": pytest.approx(1.0), "sd": None, "half_width": None}
    assert (tmp_path / "cornet-2-cpu.png").stat().st_size > 10_000


def test_cells_are_clear_beyond_the_spread_of_several_seeds_and_losses_are_no_gains(tmp_path):
    comparison = Comparison("What it adds", {"cpu": ("toy",)}, PAIRS)
    worse = {"P@1": 0.40, "P@5": 0.45}
    found = [
        results(
            "toy",
            [run(1, 0.50, [0.4, 0.3]), run(2, 0.501, [0.4, 0.3])],
            [run(1, 0.55, [0.4, 0.3], **worse), run(2, 0.552, [0.4, 0.3], **worse)],
        )
    ]
    text = write_comparison(comparison, found, tmp_path / "x")
    count = len(METRICS)
    assert (
        f"Of the {count} cells with several seeds the interval leaves out 0 in {count}: it is ahead in {count - 2}" in text
    )
    assert (
        f"(Base on toy {count - 2}) and behind in 2. Not ahead: Base P@1 on toy (-10.05), Base P@5 on toy (-5.05)." in text
    )
    # P@5 loses less than P@1, which is no gain.
    assert "P@5 gains, and more than P@1, in 0 of 1 pairs; in 1 neither gains" in text
    assert "0 reach the goal in fewer steps, 1 at the same check and 0 later" in text
    assert "at their last check: 0 of 4 (toy 0 of 4)." in text


def test_a_curve_without_checks_reaches_nothing(tmp_path):
    (pair,) = gains_of(results("toy", [run(1, 0.5, [])], [run(1, 0.5, [0.4])]), PAIRS)
    assert pair.steps == (None, None)


def test_many_cells_in_which_it_is_not_ahead_are_counted_by_model(tmp_path):
    comparison = Comparison("What it adds", {"cpu": ("toy",)}, PAIRS)
    found = [results("toy", [run(1, 0.5, [0.1, 0.4])], [run(1, 0.4, [0.1, 0.4])])]
    assert f"Not ahead: Base in {len(METRICS)} cells." in write_comparison(comparison, found, tmp_path / "x")


def test_a_comparison_makes_its_tables_and_then_compares_them(tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    for name in ("base", "cornet"):
        (tmp_path / "recipes" / f"{name}.yaml").write_text("learning_rate: 0.001\n", encoding="utf-8")
    rows = (Row("base", "Base", LINE), Row("cornet", "CorNetBase", LINE))
    for name in ("one", "two"):
        (tmp_path / "data" / name).mkdir(parents=True)
        monkeypatch.setitem(TABLES, name, Table(name, name, name, rows, tmp_path / "recipes"))
    monkeypatch.setitem(COMPARISONS, "toys", Comparison("Toys", {"cpu": ("one", "two"), "paper": ("one",)}, PAIRS))
    done = []

    def note(table, row, seed, work_dir, dataset, word_vectors):
        done.append((table.name, row.name, seed, work_dir.name))
        return run(seed, 0.5 + 0.01 * (row.name == "cornet"), [0.1, 0.4])

    monkeypatch.setattr(run_tables, "run_row", note)
    arguments = [
        "--table",
        "toys",
        "--seeds",
        "1",
        "--data_dir",
        str(tmp_path / "data"),
        "--results_dir",
        str(tmp_path / "out"),
    ]
    run_tables.main([*arguments, "--datasets", "two"])
    assert done == [("two", "base", 1, "two"), ("two", "cornet", 1, "two")]
    assert "+1.00" in (tmp_path / "out" / "toys-cpu.md").read_text(encoding="utf-8")
    run_tables.main(arguments)
    assert done[2:] == [("one", "base", 1, "one"), ("one", "cornet", 1, "one")]  # what is there is not run again
    with pytest.raises(SystemExit, match="no data set three here, but one, two"):
        run_tables.main([*arguments, "--datasets", "three"])
    with pytest.raises(SystemExit, match="This comparison has no scale large, but cpu, paper"):
        run_tables.main([*arguments, "--scale", "large"])

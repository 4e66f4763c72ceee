import dataclasses
import json

from laco_comparison import write_laco_comparison
from pair_gains import DataSetResults
from table_layout import SET_METRICS, Line, RowResults
from tables import COMPARISONS, LACO_MODELS

TITLES = {name: title for name, title, _ in LACO_MODELS}


def run(seed: int, value: float, curve: list[float], **metrics: float) -> dict:
    values = {**dict.fromkeys(SET_METRICS, value), **metrics}
    return {
        "seed": seed,
        "metrics": {"validation": values, "test": values},
        "validation_curve": [{"step": 10 * step, "micro_f1": height} for step, height in enumerate(curve, start=1)],
    }


def results(**runs: list[dict]) -> DataSetResults:
    rows = [
        RowResults(name, title, Line("tab:blue", "solid"), 2, runs.get(name.replace("-", "_"), []))
        for name, title in TITLES.items()
    ]
    return DataSetResults("toy", "Toy", rows)


def test_gains_and_claims_are_counted_with_the_right_direction(tmp_path):
    found = results(
        bert=[run(1, 0.5, [0.1, 0.4, 0.3], hamming_loss=0.05), run(2, 0.6, [0.1, 0.4, 0.3], hamming_loss=0.05)],
        laco=[run(1, 0.55, [0.39, 0.4, 0.3], hamming_loss=0.04), run(2, 0.64, [0.39, 0.4, 0.3], hamming_loss=0.03)],
        laco_clcp=[
            run(1, 0.5, [0.1, 0.1, 0.1], label_dependency_kl=0.2, num_distinct_sets=9),
            run(2, 0.59, [0.1, 0.1, 0.1], label_dependency_kl=0.1),
        ],
    )
    text = write_laco_comparison(COMPARISONS["laco"], [found], tmp_path / "laco-cpu")
    (line,) = [line for line in text.splitlines() if line.startswith("| BERT (w/o JE & CA) → LACO |")]
    # Two differences of 5 and 4 points: t of one degree of freedom is 12.7, so their mean may be 0 yet.
    assert "+4.50 ± 6.35" in line
    assert (
        "LACO is better than BERT: micro F1 better on 1 of 1 data sets, which holds on 0; Hamming loss better on 1 of 1"
        in text
    )
    assert (
        "CLCP helps, most of all rare labels: micro F1 better on 0 of 1 data sets, which holds on 0 (that it is worse holds on 1)"
        in text
    )
    assert "CLCP brings them nearer: KL better on 1 of 1 data sets" in text
    assert "The joint embedding helps: not compared." in text
    assert "LACO converges faster than BERT: fewer steps on 1 of 1 data sets, as many on 0." in text
    assert "CLCP makes it faster: fewer steps on 0 of 1 data sets, as many on 0." in text
    assert text == (tmp_path / "laco-cpu.md").read_text(encoding="utf-8")
    stored = json.loads((tmp_path / "laco-cpu.json").read_text(encoding="utf-8"))
    assert {pair["other"] for pair in stored["gains"]["toy"]} == {"LACO", "LACO + CLCP"}
    # Points of 100, but distinct sets as they are.
    clcp = next(pair for pair in stored["gains"]["toy"] if pair["other"] == "LACO + CLCP")
    assert abs(clcp["gains"]["num_distinct_sets"]["mean"] - (9 - 0.55 + 0.59 - 0.64) / 2) < 1e-9
    assert (tmp_path / "laco-cpu.png").stat().st_size > 10_000


def test_rows_that_say_nothing_are_not_compared_and_the_page_says_why(tmp_path):
    runs = {"bert": [run(1, 0.5, [0.1, 0.4])], "laco": [run(1, 0.6, [0.3, 0.4])]}
    found = dataclasses.replace(results(**runs), not_compared=("bert",), remarks=("BERT is broken.",))
    text = write_laco_comparison(COMPARISONS["laco"], [found], tmp_path / "laco-cpu")
    assert "No pair of runs yet." in text and "BERT is broken." in text
    assert "LACO is better than BERT: not compared." in text and "LACO converges faster than BERT: not compared." in text

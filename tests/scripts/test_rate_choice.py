"""Learning rates are chosen on validation, for each row among its own candidates."""

import json

import run_tables
from control_tables import CONTROL_TABLES, LACO_RATES
from pair_gains import DataSetResults
from rate_choice import write_rate_choice
from table_layout import Line, RowResults

RESULTS = run_tables.SCRIPTS / "results" / "laco-demo-54-rates.json"


def candidate(name, rates, *values):
    """A row with a run for each value of micro F1 on validation; on test the order is the other way round."""
    runs = [
        {
            "metrics": {"validation": {"micro_f1": value}, "test": {"micro_f1": 1 - value}},
            "recipe": dict(zip(("learning_rate", "label_learning_rate"), rates, strict=True)),
        }
        for value in values
    ]
    return RowResults(name, name.title(), Line("black", "solid"), 1, runs)


def test_the_best_rates_on_validation_are_chosen_for_each_row(tmp_path):
    rows = [
        candidate("bert-slow", (0.0001, 0.0001), 0.6, 0.5),
        candidate("bert-fast", (0.0005, 0.005), 0.58),
        candidate("laco-slow", (0.0001, 0.0001), 0.7),
        candidate("laco-fast", (0.0005, 0.005)),  # not run yet
    ]
    choices = {"bert": ("bert-slow", "bert-fast"), "laco": ("laco-slow", "laco-fast")}
    text = write_rate_choice(DataSetResults("rates", "Rates", rows), choices, "micro_f1", tmp_path / "rates")
    assert "| Bert-Slow | 0.0001 | 0.0001 | 55.00 | 2 |\n| Bert-Fast | 0.0005 | 0.005 | **58.00** | 1 |" in text
    assert "| Laco-Slow | 0.0001 | 0.0001 | **70.00** | 1 |" in text and "Not run yet: laco-fast." in text
    assert (tmp_path / "rates.md").read_text(encoding="utf-8") == text + "\n"
    assert json.loads((tmp_path / "rates.json").read_text())["rates"] == {
        "bert": {"learning_rate": 0.0005, "label_learning_rate": 0.005, "micro_f1": 0.58},
        "laco": {"learning_rate": 0.0001, "label_learning_rate": 0.0001, "micro_f1": 0.7},
    }


def test_laco_has_the_rates_that_were_chosen():
    table = CONTROL_TABLES["laco-demo-54-rates"]
    assert set(table.choices) == set(LACO_RATES)
    assert sorted(name for tried in table.choices.values() for name in tried) == sorted(row.name for row in table.rows)
    if RESULTS.exists():
        chosen = json.loads(RESULTS.read_text(encoding="utf-8"))["rates"]
        assert {name: (rates["learning_rate"], rates["label_learning_rate"]) for name, rates in chosen.items()} == LACO_RATES

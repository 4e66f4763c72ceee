"""The learning rates of a row that are best on validation, from runs with each."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from hf_xmtc.commands.json_files import write_json
from pair_gains import DataSetResults
from table_layout import HEADINGS, RowResults

__all__ = ["write_rate_choice"]

RATES = ("learning_rate", "label_learning_rate")


def write_rate_choice(results: DataSetResults, choices: Mapping[str, Sequence[str]], metric: str, stem: Path) -> str:
    """Write ``<stem>.md`` and ``.json``: the values of all runs, and the best rates of each row.

    Args:
        results: The runs.
        choices: Row of another table → the rows of this one that try rates for it.
        metric: The metric on validation that decides.
        stem: Where to write.

    Returns:
        The Markdown.
    """
    lines = [f"| row | encoder | head | {HEADINGS[metric]} | runs |", "| --- | ---: | ---: | ---: | ---: |"]
    chosen = {}
    for name, candidates in choices.items():
        tried = [row for candidate in candidates if (row := results.row(candidate)).runs]
        values = {row.name: _on_validation(row, metric) for row in tried}
        best = max(values, key=lambda candidate: values[candidate], default=None)
        for row in tried:
            rates = {rate: row.runs[0]["recipe"][rate] for rate in RATES}
            value = f"{100 * values[row.name]:.2f}"
            if row.name == best:
                chosen[name] = rates | {metric: values[best]}
                value = f"**{value}**"
            lines.append(
                f"| {row.title} | {' | '.join(f'{rate:g}' for rate in rates.values())} | {value} | {len(row.runs)} |"
            )
    missing = [candidate for tried in choices.values() for candidate in tried if not results.row(candidate).runs]
    text = "\n\n".join(
        [
            f"# {results.title}",
            "\n".join(lines),
            "Per cent on the validation split, mean over the runs; the best of each row is bold.",
            *([f"Not run yet: {', '.join(missing)}."] if missing else []),
        ]
    )
    stem.with_name(f"{stem.name}.md").write_text(text + "\n", encoding="utf-8")
    write_json(stem.with_name(f"{stem.name}.json"), {"title": results.title, "metric": metric, "rates": chosen})
    return text


def _on_validation(row: RowResults, metric: str) -> float:
    return statistics.fmean(run["metrics"]["validation"][metric] for run in row.runs)

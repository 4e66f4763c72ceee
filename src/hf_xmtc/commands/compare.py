"""`hf-xmtc compare`: which of several models is better, and whether that is more than chance, from their stored predictions."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hf_xmtc.metrics import SHORT_REPORT
from hf_xmtc.metrics.document_values import document_values
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames

from .compare_options import System, check_options, option_parser, systems_named
from .comparison_page import comparison_page
from .json_files import write_json
from .metric_weights import metric_weights, read_recipe
from .output_folder import empty_folder
from .stored_predictions import LABEL_COUNTS, read_label_counts, read_predictions
from .system_comparison import SystemComparison, compare_systems

__all__ = ["compare_predictions", "main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``hf-xmtc compare``.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    check_options(argv)
    options = option_parser().parse_args(argv)
    try:
        print(
            compare_predictions(systems_named(options.systems), options.split, options.metrics, options.output_dir), end=""
        )
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError):
            raise  # the extra that is missing is named by hf_xmtc.cli
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        raise SystemExit(f"{type(error).__name__}: {error}") from error


def compare_predictions(
    systems: Sequence[System],
    split: str = "test",
    metrics: Sequence[str] | None = None,
    output_dir: str | Path | None = None,
) -> str:
    """Compare systems by their predictions of the same documents.

    Args:
        systems: Two or more.
        split: Predictions to read in model folders.
        metrics: ``P@k``, ``nDCG@k``, ``R@k``, ``RP@k`` or ``PSP@k``; by default those of short tables.
        output_dir: New or empty folder for ``comparison.md``, ``comparison.json`` and ``comparison.png``.

    Returns:
        The tables as Markdown.

    Raises:
        FileNotFoundError: If a run has no predictions.
        FileExistsError: If the output is not empty.
        ValueError: If the documents or their true labels differ, no file has true labels, or a metric cannot be computed.
    """
    files = [_prediction_file(run, split) for system in systems for run in system.runs]
    # Label ids are those of the first model folder that says how often each label occurs in training; PSP weighs labels by that.
    folder = next((file.parent.parent for file in files if (file.parent.parent / LABEL_COUNTS).is_file()), None)
    ids = dict(LabelNames.load(folder / LABELS_FILE).ids) if folder else {}
    num_labels = len(ids)
    parts = read_predictions(files, ids)
    gold = parts[0].gold
    if gold is None:
        raise ValueError(
            f"{files[0]} has no column gold with the true labels, nor has any other. Give files that hf-xmtc train wrote."
        )
    weights, ignored, notes = None, None, []
    if folder:
        weights, ignored = metric_weights(read_label_counts(folder), read_recipe(folder), num_labels, len(ids))
        metrics = metrics or SHORT_REPORT
    elif metrics is None:
        metrics = [name for name in SHORT_REPORT if not name.startswith("PSP")]
        notes.append(f"PSP is left out, because no run has {LABEL_COUNTS}.")
    found = iter([document_values(part.top_labels, gold, metrics, weights, ignored) for part in parts])
    of_runs = {system.name: [next(found) for _ in system.runs] for system in systems}
    first = of_runs[systems[0].name][0]
    if first.num_left_out:
        notes.append(f"{first.num_left_out:,} further documents have no true label; they are left out.")
    comparison = compare_systems(
        {name: np.stack([run.values for run in runs]) for name, runs in of_runs.items()}, first.weights, metrics
    )
    heading = f"Comparison on {len(first.values):,} documents"
    page = comparison_page(comparison, {system.name: len(system.runs) for system in systems}, heading, notes)
    if output_dir is not None:
        runs = {system.name: [str(run) for run in system.runs] for system in systems}
        _write(empty_folder(output_dir), page, comparison, {"num_documents": len(first.values), "runs": runs})
    return page


def _prediction_file(run: Path, split: str) -> Path:
    """The file of a run, as an absolute path, so that its model folder is two levels up."""
    file = (run / "predictions" / f"{split}.parquet" if run.is_dir() else run).absolute()
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no {file}. Give model folders of hf-xmtc train or prediction files; the seeds of one system are NAME=RUN,RUN,… A "
            f"model of data without a {split} split has no predictions of it: choose --split validation, or train with --test_fraction 0.1."
        )
    return file


def _write(folder: Path, page: str, comparison: SystemComparison, facts: dict) -> None:
    from hf_xmtc.analysis import plot_differences

    plot_differences(comparison.pairs, folder / "comparison.png")
    picture = "![differences with their 95 % intervals](comparison.png)"
    (folder / "comparison.md").write_text(f"{page}\n{picture}\n", encoding="utf-8")
    write_json(folder / "comparison.json", {**facts, **asdict(comparison)})

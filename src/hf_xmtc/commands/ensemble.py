"""`hf-xmtc ensemble`: trained models of the same labels in one folder, or prediction files in one file."""

import logging
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hf_xmtc.ensemble import METHODS, Combination, metric_function, tune
from hf_xmtc.hub import card_from_folder
from hf_xmtc.inference.model_opening import check_readable, open_model
from hf_xmtc.metrics import best_threshold
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames
from hf_xmtc.models.modeling_ensemble import PARTS_FOLDER, EnsembleForXMTC

from .ensemble_comparison import Comparison, comparison_summary, overlap, weight_summary
from .ensemble_options import check_options, method_for_files, option_parser
from .export_check import check_reopens
from .frequency_report import frequency_report
from .json_files import write_json
from .metric_weights import metric_weights, read_recipe
from .output_folder import METRICS_FILE, RECIPE_FILE, OutputFolder, empty_folder
from .reporting import next_steps
from .stored_predictions import (
    LABEL_COUNTS,
    StoredPredictions,
    check_same_documents,
    read_label_counts,
    read_predictions,
)

__all__ = ["ensemble_files", "ensemble_folders", "main"]

logger = logging.getLogger(__name__)

SPLITS = ("validation", "test")
# Labels of each part that are combined where there are no predictions to say how many were looked at.
DEPTH = 100
# Facts of the data that the ensemble has from its first part.
_OF_DATA = (
    "dataset_name",
    "dataset_description",
    "dataset_license",
    "dataset_repo_id",
    "dataset_language",
    "language",
    *(f"{split}_{fact}" for split in SPLITS for fact in ("carved", "fraction")),
    "split_by",
    "label_space",
    "propensity_a",
    "propensity_b",
    "ignore_unseen_labels",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``hf-xmtc ensemble``.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    check_options(argv)
    options = option_parser().parse_args(argv)
    tuning = {"metric": options.metric, "num_trials": options.num_trials, "seed": options.seed}
    try:
        metric_function(options.metric, [])
        if options.predictions:
            print(ensemble_files(options.predictions, options.output_dir, options.method, options.tune_on, **tuning))
        else:
            print(ensemble_folders(options.models, options.output_dir, options.method or "tuned", **tuning))
    except (ImportError, OSError, ValueError) as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        raise SystemExit(f"{type(error).__name__}: {error}") from error


def ensemble_folders(folders: Sequence[str | Path], output_dir: str | Path, method: str = "tuned", **tuning: Any) -> str:
    """Combine model folders into one, by the predictions that training left in them.

    Args:
        folders: Model folders of `hf-xmtc train`, two or more.
        output_dir: Folder of the ensemble, new or empty.
        method: ``tuned``, ``consensus``, ``mean_score`` or ``mean_rank``.
        tuning: Of `tune`.

    Returns:
        A summary in a few lines.

    Raises:
        FileNotFoundError: If a folder is not complete, or has no predictions of a split that is needed.
        FileExistsError: If the output is not empty.
        ValueError: If the parts have other labels or documents than each other, or one cannot be a part.
    """
    folders, output = [Path(folder) for folder in folders], empty_folder(output_dir)
    for folder in folders:
        check_readable(str(folder))
    names, part_names = _common_labels(folders), _part_names(folders)
    ids = dict(names.ids)
    splits = {split: _predictions(folders, split, ids, method) for split in SPLITS}
    splits = {split: parts for split, parts in splits.items() if parts}
    stored = [part for parts in splits.values() for part in parts]
    # A part over a label tree has fewer labels than it was asked for; one that was asked for fewer would answer more than were measured.
    depth = max((part.top_labels.shape[1] for part in stored), default=DEPTH)
    depth = min([depth, *(top_k for folder in folders if (top_k := read_recipe(folder).get("eval_top_k")))])
    for part in stored:  # as the model will combine them
        part.top_labels, part.top_scores = part.top_labels[:, :depth], part.top_scores[:, :depth]
    if method == "tuned" and "validation" not in splits:
        raise FileNotFoundError(
            f"{folders[0]} and {folders[1]} have no predictions/validation.parquet in common to tune on. "
            f"{_remedy(folders, 'Train with a validation split')}"
        )
    recipe, counted = read_recipe(folders[0]), read_label_counts(folders[0])
    if counted is None:
        logger.warning(f"{folders[0] / LABEL_COUNTS} is missing, as in folders of older versions, so PSP is left out.")
    comparison = Comparison(part_names, *metric_weights(counted, recipe, len(names), len(ids)), depth)
    validation = splits.get("validation")
    chosen = Combination(method)
    if method == "tuned":
        known = _known_gold(validation[0].gold, comparison.ignore_unseen)
        chosen = tune(
            [part.ranking for part in validation], known, inverse_propensity=comparison.inverse_propensity, **tuning
        )
    model = _build(folders, part_names, chosen, depth)
    metrics = _write_predictions(
        OutputFolder(output), splits, chosen, comparison, model, names, list(ids)[len(names) :], counted and counted[0]
    )
    _save(model, output, folders, part_names, recipe, chosen, method, tuning, "validation" in splits)
    card = card_from_folder(output, metrics=metrics)
    (output / "README.md").write_text(str(card), encoding="utf-8")
    _check_reopens(model, output, names, len(folders))
    write_json(output / METRICS_FILE, metrics)  # last, because it marks the folder as finished
    measured = comparison_summary(metrics) or "Not measured: the parts have no predictions of the same documents."
    return (
        f"{measured}\n{weight_summary(part_names, chosen)}"
        f"The ensemble of {', '.join(part_names)} is in {output}. {next_steps(output)}"
    )


def ensemble_files(
    files: Sequence[str | Path],
    output_dir: str | Path,
    method: str | None = None,
    tune_on: Sequence[str | Path] = (),
    **tuning: Any,
) -> str:
    """Combine prediction files of the same documents into ``predictions.parquet``, by the labels' names.

    Args:
        files: Files of `hf-xmtc predict`, or those in a model folder's ``predictions/``, which also hold the true labels (``gold``).
        output_dir: As for `ensemble_folders`.
        method: Likewise; by default ``tuned`` where there is something to tune on, else ``consensus``.
        tune_on: The same models' files of validation documents with their true labels, in the same order.
        tuning: As for `ensemble_folders`.

    Returns:
        A summary in a few lines.

    Raises:
        FileExistsError: If the output is not empty.
        ValueError: If the files are of different documents, or ``tuned`` is asked for without files to tune on or their true labels.
    """
    note = (
        "" if method or tune_on else "The method is consensus, because there is no --tune_on with validation predictions.\n"
    )
    method = method_for_files(files, tune_on, method)
    output, ids = empty_folder(output_dir), {}
    parts = read_predictions(files, ids)
    gold, names = parts[0].gold, _part_names([_named_path(Path(file)) for file in files])
    validation = read_predictions(tune_on, ids) if tune_on else []
    # As in a folder, one depth for all documents; here that of the longest list.
    depth = max(part.top_labels.shape[1] for part in (*parts, *validation))
    comparison, chosen = Comparison(names, depth=depth), Combination(method)
    metrics: dict[str, Any] = {"method": method, "depth": depth, "parts": _by_name(names, map(str, files)), "comparison": {}}
    if method == "tuned":
        if validation[0].gold is None:
            raise ValueError(
                f"{tune_on[0]} has no column gold with the true labels to tune on. Give --tune_on the files in a model folder's predictions/, "
                "which have it, or choose --method consensus."
            )
        chosen = tune([part.ranking for part in validation], validation[0].gold, **tuning)
        metrics |= {"tuned_on": _by_name(names, map(str, tune_on)), **tuning}
        metrics |= {"weights": _by_name(names, chosen.weights), "exponents": _by_name(names, chosen.exponents)}
        metrics["comparison"]["tuned_on"] = comparison.table(validation, chosen)
    if gold is not None:  # what is compared here is not what a choice may rest on
        metrics["comparison"]["documents"] = comparison.table(parts, chosen, others=False)
    metrics["overlap"] = overlap(names, parts, None)
    top_labels, top_scores = chosen([part.ranking for part in parts], max(part.top_labels.shape[1] for part in parts), depth)
    labels = np.asarray(list(ids), dtype=object)
    columns = {"id" if parts[0].has_ids else "row": parts[0].documents}
    columns["labels"] = [labels[row[row >= 0]].tolist() for row in top_labels]
    columns["scores"] = [scores[row >= 0].tolist() for row, scores in zip(top_labels, top_scores, strict=True)]
    if gold is not None:
        columns["gold"] = [labels[row[row >= 0]].tolist() for row in gold]
    pq.write_table(pa.table(columns), output / "predictions.parquet", compression="zstd")
    write_json(output / METRICS_FILE, metrics)
    return f"{note}{comparison_summary(metrics)}\nThe combined predictions are in {output / 'predictions.parquet'}."


def _named_path(file: Path) -> Path:
    """The path whose name names a part: the model folder of a file in ``predictions/``, else the file."""
    folder = file.absolute().parent
    return folder.parent if folder.name == "predictions" else file.with_suffix("")


def _by_name(names: Sequence[str], values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _part_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders, made distinct from each other, in upper and lower case alike, and from methods, which stand in the same tables."""
    names: list[str] = []
    taken = {"tuned", *METHODS}
    for path in paths:
        name = candidate = re.sub(r"[^A-Za-z0-9_.-]+", "-", path.resolve().name).strip(".-") or "part"
        number = 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken.add(candidate.lower())
        names.append(candidate)
    return names


def _common_labels(folders: Sequence[Path]) -> LabelNames:
    names = [LabelNames.load(folder / LABELS_FILE) for folder in folders]
    for folder, other in zip(folders[1:], names[1:], strict=True):
        if other.digest() != names[0].digest():
            place = next(
                (i for i, pair in enumerate(zip(names[0].labels, other.labels, strict=False)) if pair[0] != pair[1]), None
            )
            shown = "" if place is None else f"; label id {place} is {names[0][place]!r} and {other[place]!r}"
            raise ValueError(
                f"{folders[0]} has {len(names[0])} labels and {folder} has {len(other)}{shown}. Parts need the same labels in the same order: "
                "train them on the same data. Prediction files of different label sets are combined with --predictions."
            )
    return names[0]


def _predictions(folders: Sequence[Path], split: str, ids: dict[str, int], method: str) -> list[StoredPredictions] | None:
    """Of each part; None where no part has the split, or some lack it and nothing is tuned.

    Raises:
        FileNotFoundError: If some have it and others not, and weights are tuned.
        ValueError: If they are of different documents.
    """
    paths = [folder / "predictions" / f"{split}.parquet" for folder in folders]
    missing = [path for path in paths if not path.is_file()]
    if len(missing) == len(paths):
        return None
    if missing:
        lacking = f"{', '.join(map(str, missing))} {'is' if len(missing) == 1 else 'are'} missing, but other parts have predictions of {split}"
        if method != "tuned":
            logger.warning(f"{lacking}, so the ensemble is not measured on {split}.")
            return None
        raise FileNotFoundError(f"{lacking}. {_remedy(folders, 'Train again on the same data what lacks it')}")
    parts = [StoredPredictions.read(path, ids) for path in paths]
    check_same_documents(parts)
    return parts


def _remedy(folders: Sequence[Path], otherwise: str) -> str:
    """How to combine parts without predictions."""
    extended = [str(folder) for folder in folders if read_recipe(folder).get("extended_with")]
    cause = (
        f"hf-xmtc extend leaves predictions of the model before out of {', '.join(extended)}. Choose"
        if extended
        else otherwise + ", or choose"
    )
    return f"{cause} --method consensus, mean_score or mean_rank, which need no predictions."


def _known_gold(gold: np.ndarray, num_labels: int | None) -> np.ndarray:
    return gold if num_labels is None else np.where(gold >= num_labels, -100, gold)


def _build(folders: Sequence[Path], names: Sequence[str], chosen: Combination, depth: int) -> EnsembleForXMTC:
    parts = {name: open_model(str(folder)) for name, folder in zip(names, folders, strict=True)}
    assert len(parts) == len(folders), f"two of {len(folders)} parts have one name: {names}"
    return EnsembleForXMTC.from_parts(parts, chosen.method, chosen.weights, chosen.exponents, depth)


def _write_predictions(
    folder: OutputFolder,
    splits: dict[str, list[StoredPredictions]],
    chosen: Combination,
    comparison: Comparison,
    model: EnsembleForXMTC,
    names: LabelNames,
    unseen: list[str],
    label_counts: np.ndarray | None,
) -> dict[str, Any]:
    """Write the ensemble's predictions, set its threshold, and measure it beside its parts: what metrics.json holds."""
    metrics: dict[str, Any] = {"comparison": {}}
    for split, parts in splits.items():
        top_labels, top_scores = chosen([part.ranking for part in parts], model.config.depth, model.config.depth)
        gold = parts[0].gold
        metrics[split] = comparison.metrics(top_labels, gold)
        # What is compared on the test split is not what a choice may rest on.
        metrics["comparison"][split] = comparison.table(parts, chosen, others=split == "validation")
        folder.write_predictions(split, np.asarray(parts[0].documents), top_labels, top_scores, gold, names, unseen)
        if split == "validation":
            model.set_thresholds(best_threshold(top_scores, top_labels, gold, len(names)))
    if splits:
        split = list(splits)[-1]
        if label_counts is not None:
            weights = comparison.inverse_propensity
            metrics["by_frequency"] = frequency_report(split, top_labels, top_scores, gold, label_counts, weights)
        metrics["overlap"] = overlap(comparison.names, splits[split], split)
    return metrics


def _save(
    model: EnsembleForXMTC,
    output: Path,
    folders: Sequence[Path],
    names: Sequence[str],
    recipe: dict[str, Any],
    chosen: Combination,
    method: str,
    tuning: dict[str, Any],
    has_validation: bool,
) -> None:
    """Write the model with its parts, and where they are from."""
    model.save_pretrained(output)
    for name, folder in zip(names, folders, strict=True):
        for file in (RECIPE_FILE, METRICS_FILE):
            if (folder / file).is_file():
                shutil.copy(folder / file, output / PARTS_FOLDER / name / file)
    if (folders[0] / LABEL_COUNTS).is_file():
        (output / LABEL_COUNTS).parent.mkdir(exist_ok=True)
        shutil.copy(folders[0] / LABEL_COUNTS, output / LABEL_COUNTS)
    settings = {"method": method, **(tuning if method == "tuned" else {}), "depth": model.config.depth}
    settings["parts"] = model.config.parts
    facts = {key: recipe[key] for key in _OF_DATA if key in recipe}
    thresholds = {"tune_threshold": "global"} if has_validation else {}
    write_json(output / RECIPE_FILE, {"model_family": "ensemble", **settings, **thresholds, **facts})


def _check_reopens(model: EnsembleForXMTC, output: Path, names: LabelNames, num_parts: int) -> None:
    """Count the folder's parts and open it in a fresh process; the texts are names of labels, for those of the data are not here."""
    saved = sorted(path.parent.name for path in output.glob(f"{PARTS_FOLDER}/*/config.json"))
    if len(saved) != num_parts:
        raise RuntimeError(
            f"{num_parts} model folders were given, but {output} has {len(saved)} parts ({', '.join(saved)}). Combine the models anew, into a "
            "new folder."
        )
    texts = [names.name_of(label_id) for label_id in range(min(5, len(names)))]
    with torch.inference_mode():
        found = model(texts)
    there = [row >= 0 for row in found.top_labels]
    labels = [[names[i] for i in row[kept].tolist()] for row, kept in zip(found.top_labels, there, strict=True)]
    scores = [row[kept].tolist() for row, kept in zip(found.top_scores, there, strict=True)]
    difference = check_reopens(output, texts, labels, scores)
    logger.info(
        f"Reopened {output} in a fresh process without hf_xmtc: the scores agree (largest difference {difference:.1e})."
    )

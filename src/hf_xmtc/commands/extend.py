"""`hf-xmtc extend`: further documents and labels for a model that grows without training, as a new model folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import DatasetDict

from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.data.build_folder import build_folder
from hf_xmtc.data.label_file import read_label_file
from hf_xmtc.hub import card_from_folder
from hf_xmtc.inference.model_opening import check_readable, choose_device, open_model
from hf_xmtc.inference.text_prediction import predict_texts
from hf_xmtc.models.configuration_ensemble import EnsembleConfig
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.stored_documents import AddedDocuments

from .export_check import check_reopens
from .extend_options import check_options, option_parser, output_folder
from .extension_report import ExtensionReport, counted, describe
from .extension_summary import summarize
from .families import FAMILIES
from .format_options import format_arguments
from .json_files import write_json
from .output_checks import METRICS_FILE, RECIPE_FILE, check_new_folder
from .starting_model import StartingModel
from .stored_predictions import write_label_counts

__all__ = ["extend", "main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``hf-xmtc extend``.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    check_options(argv)
    try:
        print(extend(option_parser().parse_args(argv)))
    except (ImportError, OSError, ValueError) as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        raise SystemExit(f"{type(error).__name__}: {error}") from error


def extend(options: argparse.Namespace) -> str:
    """Open a model, add what is asked for, and write it to a new folder.

    Args:
        options: Of `option_parser`.

    Returns:
        What was added, and the next step.

    Raises:
        FileNotFoundError: If the model, the data set or the label file is not there.
        FileExistsError: If the output is.
        ValueError: If the family cannot grow, or the data cannot be used.
    """
    output = output_folder(options)
    check_new_folder(output)
    check_readable(options.model)
    _check_growth(options.model, options.revision)
    recipe = StartingModel.from_pretrained(options.model, options.revision).recipe
    model, tokenizer = open_model(options.model, options.revision)
    model.to(choose_device(None))
    model.check_growth()
    num_known, counts, texts, measured = model.config.num_labels, AddedDocuments(0, 0, 0), [], None
    if options.dataset is None:
        labels = read_label_file(Path(options.label_file))
        source, num_new = Path(options.label_file).name, model.add_labels(labels.names, tokenizer, labels.descriptions)
    else:
        data = _load(options)
        rows, info = data["train"], label_info_of(data)
        report = ExtensionReport(data, info)
        report.rank(model, tokenizer)
        source, num_new = info.source, model.add_labels(info.names, tokenizer, info.descriptions)
        texts, ids = rows["text"][:], [model.config.label_names.id_of(label) for label in info.names.labels]
        counts = model.add_documents(texts, [[ids[label] for label in row] for row in rows["labels"]], tokenizer)
        report.rank(model, tokenizer)
        measured = report.metrics(model.config.label_names, num_known)
    addition = {"source": source, "labels": num_new, "documents": counts.new, "relabelled_documents": counts.relabelled}
    summary = summarize(model, tokenizer, counts, num_known, texts)
    texts = texts[:5] or [model.config.label_names.name_of(label) for label in range(num_known, model.config.num_labels)][:5]
    with build_folder(output) as folder:
        _write(model, tokenizer, recipe, addition, measured, folder, output.name)
        top_labels, top_scores, _ = predict_texts(model, tokenizer, texts, top_k=5)
        names = [[model.config.label_names[label] for label in row] for row in top_labels]
        check_reopens(folder, texts, names, top_scores.tolist())
    return (
        f"{summary}\n{describe(measured) + chr(10) if measured else ''}"
        f"Try it: hf-xmtc predict --model {output} --input texts.txt --output tags.jsonl"
    )


def _check_growth(model: str, revision: str | None) -> None:
    family = XMTCConfig.get_config_dict(model, revision=revision)[0].get("model_type")
    growing = sorted(name for name, (_, model_class) in FAMILIES.items() if hasattr(model_class, "add_documents"))
    if family in growing:
        return
    remedy = (
        "Train it on the old and the new documents together; hf-xmtc train --model goes on with models trained by gradients."
    )
    if family == EnsembleConfig.model_type:
        remedy = (
            "Extend its parts with the same data, and combine them anew by hf-xmtc ensemble --method consensus; parts of other families need "
            "training on all documents."
        )
    raise ValueError(
        f"{model} is of the family {family}, which takes no documents or labels without training, as {' and '.join(growing)} do. {remedy}"
    )


def _load(options: argparse.Namespace) -> DatasetDict:
    return load_xmtc_dataset(
        options.dataset,
        label_space=options.label_space,
        label_file=options.label_file,
        validation_fraction=0.0,
        drop_unlabeled=options.drop_unlabeled,
        revision=options.dataset_revision,
        **format_arguments(options),
    )


def _write(
    model: Any,
    tokenizer: Any,
    recipe: dict[str, Any],
    addition: dict[str, Any],
    measured: dict | None,
    folder: Path,
    name: str,
) -> None:
    """Write the model folder. Predictions and metrics of training, which are those of the model before, are left out."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    counts = model.document_labels.label_ids.long().bincount(minlength=model.config.num_labels).cpu().numpy()
    write_label_counts(folder, model.config.label_names.labels, counts, model.config.num_documents)
    fixed = {"model_family": model.config.model_type, **recipe}
    write_json(folder / RECIPE_FILE, {**fixed, "extended_with": [*recipe.get("extended_with", []), addition]})
    limit = (
        f"After training, {counted(addition['documents'], 'document')} and {counted(addition['labels'], 'label')} of {addition['source']} were "
        f"added without training. {describe(measured) if measured else 'The model has not been evaluated since.'}"
    )
    card = card_from_folder(folder, name, limits=[limit])
    (folder / "README.md").write_text(str(card), encoding="utf-8")
    write_json(folder / METRICS_FILE, {"extension": {**addition, "evaluation": measured}})  # marks the folder as finished

"""The model card: what a stranger reads first, and what the Hub's search and leaderboards read.

`build_model_card` turns facts into a card; `card_from_folder` takes the facts from a model folder, so a card can be made
again when the text around the numbers gets better. Writing a card needs no network.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.configuration_laco import LACOConfig
from hf_xmtc.models.former_settings import with_current_fields
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames
from hf_xmtc.strict_json import as_plain, json_text

from .card_limits import limits_of, stored_families
from .card_usage import TASK, has_tuned_threshold, usage
from .citations import citation
from .ensemble_card import introduction, parts_section
from .frequency_section import frequency_section
from .markdown import code, escaped, hub_link
from .metric_meanings import NOT_PER_CENT, meaning_of
from .verify import num_labels_of

__all__ = ["REPO_ID_PLACEHOLDER", "build_model_card", "card_from_folder"]

# Stands for the repo's name in a card that is not published yet; `push_folder` fills it in.
REPO_ID_PLACEHOLDER = "<user>/<model>"
TRAINING_CURVE_FILE = "training_curve.png"

# By which people look for this kind of model.
TAGS = ("extreme-multi-label-classification", "xmtc", "multi-label", TASK)

_OF_CONFIG = (
    "num_candidates",
    "decision_threshold",
    "auxiliary_task",
    "cross_attention",
    "label_scoring",
    "label_text_weight",
)
# What the card shows of longer names; labels can be whole sentences.
_EXAMPLE_LENGTH = 80
_SETTING_LENGTH = 1_000

_METRIC_IDS = {"P": "precision", "R": "recall", "RP": "r_precision"}

# Facts in recipe.json that have their own place in the card.
_FACT_KEYS = (
    "model_name",
    "dataset_name",
    "dataset_description",
    "dataset_language",
    "dataset_license",
    "dataset_repo_id",
    "language",
    "base_model",
)


def build_model_card(
    *,
    model_name: str,
    model_family: str,
    dataset_name: str,
    label_info: Mapping[str, Any],
    metrics: Mapping[str, Mapping[str, Any]],
    recipe: Mapping[str, Any] | None = None,
    base_model: str | None = None,
    dataset_description: str | None = None,
    dataset_license: str | None = None,
    dataset_repo_id: str | None = None,
    language: str | Sequence[str] | None = None,
    license: str | None = None,
    limits: Sequence[str] = (),
    repo_id: str = REPO_ID_PLACEHOLDER,
    training_curve: str | None = None,
) -> ModelCard:
    """Write the card of a model, with its results in the ``model-index`` form that the Hub reads.

    Paths of the machine that trained the model are reduced to their last part wherever they occur in the facts. Names are
    shown letter by letter, whatever markup they hold, and long ones are cut; `dataset_description` and ``limits`` are Markdown.

    Args:
        model_name: Name of the model, without the account.
        model_family: Family as in ``--model_family``, such as ``bertxml``; becomes a tag.
        dataset_name: Name of the data set for readers.
        label_info: ``num_labels``, and optionally ``examples`` (a few label names), ``num_with_parents``, ``families`` (those of
            the models in the folder, or "training texts", where they are more than ``model_family``), and of the config
            ``num_candidates``, ``decision_threshold``, ``auxiliary_task``, ``cross_attention``, ``label_scoring``
            and ``label_text_weight``.
        metrics: Split → metric → value as in metrics.json, values as fractions; ``train`` holds seconds and memory. None, NaN
            and infinity are undefined, and shown so. ``by_frequency``, and of ensembles ``comparison`` and ``overlap``, get sections.
        recipe: Setting → value, shown as a table; settings that are None are left out.
        base_model: Pretrained encoder; linked when it is a Hub id ``user/name``. None when trained from scratch.
        dataset_description: Sentences on origin, language and size of the data set.
        dataset_license: Licence of the data set, in words.
        dataset_repo_id: Hub id of the data set; None when it is not on the Hub.
        language: ISO 639-1 code of the documents, or several, in a list or with commas between them.
        license: Licence of the weights, as the Hub abbreviates it; None claims none, as it is for their owner to choose.
        limits: Further limits of this model, as sentences.
        repo_id: Repo that the usage example opens.
        training_curve: Name of the picture in the model folder, if there is one.

    Returns:
        Card, ready for ``card.save("README.md")``.

    Raises:
        ValueError: If the ``num_labels`` of ``label_info`` is missing.
    """
    if "num_labels" not in label_info:
        raise ValueError(
            f"label_info must hold num_labels, found only {sorted(label_info)}. Take it from the model's config."
        )
    dataset_name, recipe, label_info = _without_path(dataset_name), as_plain(recipe or {}), as_plain(label_info)
    metrics = {split: as_plain(values) for split, values in metrics.items() if values}
    languages = [entry.strip() for entry in language.split(",")] if isinstance(language, str) else list(language or ())
    # A name without an account may be the last part of a local path, and the Hub would link it to somebody else's model.
    is_hub_id = base_model is not None and "/" in base_model and not is_local_path(base_model)
    data = ModelCardData(
        model_name=model_name,
        language=languages if len(languages) > 1 else next(iter(languages), None),
        license=license,
        library_name="transformers",
        pipeline_tag=TASK,
        base_model=base_model if is_hub_id else None,
        datasets=[dataset_repo_id] if dataset_repo_id else None,
        tags=[*TAGS, model_family, *(["cornet"] if recipe.get("cornet_num_blocks") else [])],
        eval_results=_eval_results(metrics, dataset_name, dataset_repo_id) or None,
    )
    sections = [
        f"# {escaped(model_name)}",
        _introduction(model_family, dataset_name, label_info, recipe, base_model),
        "## How to use\n\n" + usage(repo_id, model_family, label_info, recipe),
        "## Results\n\n" + _results(metrics, dataset_name, recipe),
        *(
            ["## Frequent and rare labels\n\n" + frequency_section(metrics["by_frequency"])]
            if "by_frequency" in metrics
            else []
        ),
        *(["## Parts\n\n" + parts_section(metrics, recipe)] if "comparison" in metrics else []),
        "## Data\n\n"
        + _data(dataset_name, dataset_description, dataset_license, dataset_repo_id, recipe)
        + "\n\n"
        + _labels(label_info, recipe),
        "## Training\n\n" + _training(recipe, metrics.get("train", {}), training_curve),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in [*limits_of(model_family, label_info, recipe), *limits]),
        "## Citation\n\n" + citation(model_family, recipe),
    ]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(sections) + "\n")


def card_from_folder(folder: str | Path, model_name: str | None = None, **facts: Any) -> ModelCard:
    """Write the card of a model folder from its config.json, labels.json, metrics.json and recipe.json.

    Args:
        folder: Model folder.
        model_name: Name of the model; by default ``model_name`` in recipe.json, else the folder's name.
        **facts: Any argument of `build_model_card`, for what the folder does not say or says otherwise.

    Returns:
        Card; the README.md in the folder is not touched.

    Raises:
        FileNotFoundError: If config.json or labels.json is missing.
    """
    folder = Path(folder)
    config = with_current_fields(LACOConfig, read_json_object(folder / "config.json"))
    labels = LabelNames.load(folder / LABELS_FILE)
    recipe = _read_json_if_there(folder / "recipe.json")
    known = {
        "model_name": model_name or recipe.get("model_name") or folder.resolve().name,
        "model_family": recipe.get("model_family") or config["model_type"],
        "dataset_name": recipe.get("dataset_name") or recipe.get("dataset") or "the training data",
        "label_info": {
            "num_labels": num_labels_of(config),
            "examples": [labels.name_of(label_id) for label_id in range(min(5, len(labels)))],
            **{name: config[name] for name in _OF_CONFIG if name in config},
            "families": stored_families(folder, config),
            "num_with_parents": sum(bool(labels.parents_of(label_id)) for label_id in range(len(labels))),
        },
        "metrics": _read_json_if_there(folder / "metrics.json"),
        "recipe": {key: value for key, value in recipe.items() if key not in _FACT_KEYS},
        "training_curve": TRAINING_CURVE_FILE if (folder / TRAINING_CURVE_FILE).exists() else None,
        "base_model": recipe.get("base_model") or recipe.get("model") or recipe.get("backbone"),
        "language": recipe.get("language") or recipe.get("dataset_language"),
        **{key: recipe.get(key) for key in ("dataset_description", "dataset_license", "dataset_repo_id")},
    }
    return build_model_card(**{**known, **facts})


def is_local_path(value: str) -> bool:
    """True if a setting is written like a path of one machine: absolute, below the home folder, or relative with dots."""
    if value.startswith(("~", "./", "../", ".\\", "..\\", "file:")):
        return True
    return PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()


def _without_path(value: Any) -> Any:
    """The value with local paths reduced to their last part, in lists and dictionaries too."""
    if isinstance(value, str) and is_local_path(value):
        return re.split(r"[\\/]", value.rstrip("\\/"))[-1]
    if isinstance(value, list | tuple):
        return [_without_path(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _without_path(entry) for key, entry in value.items()}
    return value


def _metric_values(split: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a split without the counts; None where one is undefined."""
    return {name: value for name, value in split.items() if not name.startswith("num_")}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _eval_results(metrics: Mapping, dataset_name: str, dataset_repo_id: str | None) -> list[EvalResult]:
    results = []
    for split in ("test", "validation"):
        for name, value in _metric_values(metrics.get(split, {})).items():
            if not _is_number(value):  # the Hub takes none
                continue
            family, _, k = name.partition("@")
            metric_id = _METRIC_IDS.get(family, re.sub(r"\W+", "_", family.lower()))
            result = EvalResult(
                task_type=TASK,
                task_name="Extreme multi-label text classification",
                dataset_type=dataset_repo_id or re.sub(r"[^\w.-]+", "-", dataset_name),
                dataset_name=dataset_name,
                dataset_split=split,
                metric_type=f"{metric_id}_at_{k}" if k else metric_id,
                metric_name=name,
                metric_value=value,
            )
            results.append(result)
    return results


def _introduction(family: str, dataset_name: str, label_info: Mapping, recipe: Mapping, base_model: str | None) -> str:
    if family == "ensemble":
        return introduction(label_info["num_labels"], dataset_name, recipe)
    blocks = recipe.get("cornet_num_blocks")
    head = f" with {blocks} CorNet block{'s' if blocks != 1 else ''}" if blocks else ""
    start = "trained from scratch"
    if base_model:
        is_frozen = family == "neighbors" and not recipe.get("tune_encoder")
        start = f"{'with the frozen encoder' if is_frozen else 'fine-tuned from'} {code(_without_path(base_model))}"
    return (
        f"Tags a text with the right few of **{label_info['num_labels']:,} labels**. A {code(family)} model{head}, {start} "
        f"on {escaped(dataset_name)}, made with `hf_xmtc`. A text can have any number of labels."
    )


def _results(metrics: Mapping, dataset_name: str, recipe: Mapping) -> str:
    splits = {split: _metric_values(metrics[split]) for split in ("test", "validation") if metrics.get(split)}
    names = list(dict.fromkeys(name for values in splits.values() for name in values))
    if not names:
        return "This model has not been evaluated."
    lines = [
        f"On {escaped(dataset_name)}, in percent:",
        "",
        f"| metric | {' | '.join(splits)} | meaning |",
        f"| --- |{' ---: |' * len(splits)} --- |",
    ]
    for name in names:
        shown = " | ".join(_shown(name, values[name]) if name in values else "–" for values in splits.values())
        lines.append(f"| {_cell(name)} | {shown} | {escaped(meaning_of(name), _SETTING_LENGTH)} |")
    notes = [_left_out_note(split, metrics[split]) for split in splits]
    if "validation" in splits and has_tuned_threshold(recipe):
        notes.append(
            "What was tuned on the validation split is measured there on the same documents: rather trust the test split."
        )
    return "\n".join(lines) + "\n\n" + "\n".join(note for note in notes if note)


def _shown(metric: str, value: Any) -> str:
    if not _is_number(value):
        return "undefined" if value is None else _cell(value)
    return f"{value if metric in NOT_PER_CENT else 100 * value:.2f}"


def _left_out_note(split: str, values: Mapping) -> str:
    if values.get("num_documents") is None:
        return ""
    note = f"The {split} split has {values['num_documents']:,} documents"
    if left_out := values.get("num_left_out"):
        return f"{note}; {left_out:,} of them have no label and are left out of the means."
    return f"{note}; all of them count."


def _data(name: str, description: str | None, license: str | None, repo_id: str | None, recipe: Mapping) -> str:
    where = hub_link(name, repo_id) if repo_id else escaped(name)
    sentences = [f"Trained on {where}."]
    if description:
        sentences.append(str(description).strip())
    if license:
        sentences.append(f"Licence of the data: {escaped(license).rstrip('.')}.")
    for split in ("validation", "test"):
        if recipe.get(f"{split}_carved"):
            share = f" ({100 * recipe[f'{split}_fraction']:g} %)" if f"{split}_fraction" in recipe else ""
            ways = {
                "stratified": "so that each label has its share in it",
                "group": "by groups of documents that belong together",
            }
            way = ways.get(recipe.get("split_by"), "by a hash of the text")
            part = f"a part of its training split{share}, chosen {way}"
            sentences.append(f"This data set has no {split} split; {part}, was held out as one.")
    if (limit := recipe.get("max_train_documents")) and recipe.get("document_sample"):
        sentences.append(f"At most {limit:,} of its training documents were used, a sample by a hash of their texts.")
    return " ".join(sentences)


def _labels(label_info: Mapping, recipe: Mapping) -> str:
    origin = "given by a label file" if recipe.get("label_space") == "file" else "that of the training split"
    text = f"The label set is {origin}: {label_info['num_labels']:,} labels"
    if label_info.get("num_with_parents"):
        text += f", {label_info['num_with_parents']:,} of them with a parent"
    if label_info.get("examples"):
        text += ". Some of them: " + ", ".join(f"“{escaped(name, _EXAMPLE_LENGTH)}”" for name in label_info["examples"])
    return text + "."


def _training(recipe: Mapping, train: Mapping, training_curve: str | None) -> str:
    parts = []
    train = {name: value for name, value in train.items() if value is not None}
    costs = [
        f"{train['seconds']:,.0f} seconds" if "seconds" in train else "",
        f"{_speed(train['documents_per_second'])} documents per second" if "documents_per_second" in train else "",
        f"peak memory {train['peak_memory_mb']:,.0f} MB" if "peak_memory_mb" in train else "",
    ]
    if any(costs):
        start = "Training took"
        if "resumed_at_epoch" in train:
            start = f"Training was interrupted and resumed at epoch {train['resumed_at_epoch']:g}; from there on it took"
        parts.append(f"{start} {', '.join(cost for cost in costs if cost)}.")
    shown = {key: _without_path(value) for key, value in recipe.items() if value is not None and key != "output_dir"}
    if shown:
        rows = [f"| {_cell(key)} | {_cell(value)} |" for key, value in shown.items()]
        parts.append("\n".join(["| setting | value |", "| --- | --- |", *rows]))
    if training_curve:
        parts.append(f"![Training curve]({quote(training_curve)})")
    return "\n\n".join(parts) or "The settings were not recorded."


def _speed(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _cell(value: Any) -> str:
    return escaped(value if isinstance(value, str) else json_text(value, default=str), _SETTING_LENGTH) or '""'


def _read_json_if_there(path: Path) -> dict:
    return read_json_object(path) if path.exists() else {}

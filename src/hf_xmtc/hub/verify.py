"""Is this folder a complete model that someone else can open? Asked before publishing and after training."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from huggingface_hub import ModelCard
from safetensors import SafetensorError, safe_open

from hf_xmtc.inference.model_opening import GENERATOR_FOLDER
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames

from .model_files import CARD_FILE, CONFIG_FILE, TOKENIZER_CONFIG_FILE, ModelFiles

__all__ = ["ModelFolderReport", "check_model_folder", "num_labels_of"]

REQUIRED_OF_PART = (CONFIG_FILE, "tokenizer.json", TOKENIZER_CONFIG_FILE, LABELS_FILE)
REQUIRED_FILES = (*REQUIRED_OF_PART, CARD_FILE, "metrics.json")

# Formats that run code when they are opened; the Hub flags them and nothing in this package reads them.
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
# Numbers of a tensor that are looked at together.
BLOCK_NUMBERS = 2**24


@dataclass
class ModelFolderReport:
    """Result of `check_model_folder`.

    Attributes:
        folder: The folder.
        files: Files that belong to the model, as sorted paths relative to the folder, with "/" between the parts.
        left_out: Files, links and folders that stay behind when the folder is published, as they are not part of a model.
        missing: Names of files that a complete model folder has and this one lacks.
        problems: Everything that keeps the folder from being opened or published, as sentences; empty when all is well.
        model_type: From config.json; None where it cannot be read.
        num_labels: From config.json; None where it cannot be read.
    """

    folder: Path
    files: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    model_type: str | None = None
    num_labels: int | None = None

    @property
    def num_bytes(self) -> int:
        """Size of the files that belong to the model."""
        return sum((self.folder / name).stat().st_size for name in self.files)

    def raise_for_problems(self) -> None:
        """Do nothing for a complete folder.

        Raises:
            ValueError: Listing every problem of the folder, not only the first.
        """
        if self.problems:
            listed = "\n".join(f"  - {problem}" for problem in self.problems)
            raise ValueError(f"{self.folder} is not a complete model folder:\n{listed}")


def check_model_folder(folder: str | Path) -> ModelFolderReport:
    """Look at a model folder without loading the model.

    Weights are read block by block: their header must be sound, no byte missing at the end (which is what an interrupted download or
    a full disk leaves behind), and every number finite.

    Args:
        folder: Folder written by ``scripts/train.py`` or by ``save_pretrained``.

    Returns:
        Report with all problems; see `ModelFolderReport.raise_for_problems`.

    Raises:
        FileNotFoundError: If there is no such folder.
    """
    return _check_files(ModelFiles.find(folder), REQUIRED_FILES)


def _check_files(files: ModelFiles, required_files: tuple[str, ...]) -> ModelFolderReport:
    report = ModelFolderReport(files.folder, files.names, files.left_out, problems=files.problems)
    _check_config(report, files)
    for name in [*files.weights, f"{GENERATOR_FOLDER}/candidates.safetensors"]:
        if name in report.files:
            _check_weights(report, name)
    refused = [problem.partition(" ")[0] for problem in report.problems]
    required = [name for name in (*required_files, *files.weights, *files.code) if name not in refused]
    report.missing = [name for name in required if name not in report.files]
    if report.missing:
        report.problems.insert(
            0,
            f"missing: {', '.join(report.missing)}. Was the training stopped before it ended? Run hf-xmtc train again, "
            "or copy the missing files from where the folder came from.",
        )
    pickles = [name for name in report.left_out if name.endswith(PICKLE_SUFFIXES)]
    if pickles:
        report.problems.append(
            f"pickled files, which can run code when they are opened: {', '.join(pickles)}. "
            "Delete them, or save the weights with save_pretrained, which writes safetensors."
        )
    _check_labels(report)
    _check_card(report, files)
    for name in ("tokenizer.json", "metrics.json", "recipe.json"):
        files.read_json(name)  # says what is wrong
    for path, part in files.parts.items():
        found = _check_files(part, REQUIRED_OF_PART)
        report.missing += [f"{path}/{file}" for file in found.missing]
        report.problems += [f"{path}: {problem}" for problem in found.problems]
    return report


def num_labels_of(config: dict) -> int | None:
    """Label count of a config.json: our integer ``num_labels``, else the length of ``id2label``, else None."""
    count, names = config.get("num_labels"), config.get("id2label")
    if type(count) is int:
        return count
    return len(names) if names and isinstance(names, dict) else None


def _check_config(report: ModelFolderReport, files: ModelFiles) -> None:
    config = files.read_json(CONFIG_FILE)
    if config is None:
        return
    kind = config.get("model_type")
    report.model_type, report.num_labels = kind if isinstance(kind, str) else None, num_labels_of(config)
    for name, value in (("model_type", report.model_type), ("num_labels", report.num_labels)):
        if value is None:
            report.problems.append(f"{CONFIG_FILE} has no {name}. Write it with save_pretrained instead of by hand.")


def _check_weights(report: ModelFolderReport, name: str) -> None:
    try:
        with safe_open(report.folder / name, framework="pt") as tensors:
            empty, wrong = not tensors.keys(), _first_not_finite(tensors)
    except SafetensorError as error:
        size = (report.folder / name).stat().st_size
        report.problems.append(
            f"{name} ({size:,} bytes) is not a sound safetensors file ({error}). "
            "Was a download or a copy interrupted? Delete the file and fetch or save it again."
        )
        return
    if empty:
        report.problems.append(f"{name} holds no tensors. Save the model again with save_pretrained.")
    if wrong is not None:
        report.problems.append(
            f"{name}: the tensor {wrong} holds numbers that are not finite, so the model's scores are none. Did its loss become nan? Train "
            "it again with a lower learning rate, or take an earlier checkpoint."
        )


def _first_not_finite(tensors: safe_open) -> str | None:
    """Name of the first tensor with nan or infinity; read in blocks, because it may be larger than the memory that is left."""
    for name in tensors.keys():  # noqa: SIM118, it is no dictionary
        part = tensors.get_slice(name)
        shape = part.get_shape()
        rows = max(1, BLOCK_NUMBERS // max(1, torch.Size(shape[1:]).numel())) if shape else 1
        for start in range(0, shape[0] if shape else 1, rows):
            block = part[start : start + rows] if shape else tensors.get_tensor(name)
            if not (block.float() if block.element_size() == 1 else block).isfinite().all():
                return name
    return None


def _check_card(report: ModelFolderReport, files: ModelFiles) -> None:
    text = files.read_text(CARD_FILE)
    if text is None:
        return
    try:
        ModelCard(text)
    except Exception as error:  # those of the YAML reader among them, which have no class in common with the others
        said = " ".join(str(error).split())
        report.problems.append(
            f"{CARD_FILE}: its metadata cannot be read ({said:.200}). Mend the lines between the two ---."
        )


def _check_labels(report: ModelFolderReport) -> None:
    if LABELS_FILE not in report.files:
        return
    try:
        labels = LabelNames.load(report.folder)
    except ValueError as error:
        report.problems.append(str(error))
        return
    if report.num_labels is not None and len(labels) != report.num_labels:
        report.problems.append(
            f"{LABELS_FILE} names {len(labels)} labels but {CONFIG_FILE} has num_labels={report.num_labels}. "
            "Do they come from two trainings? Copy both from the same model folder."
        )

"""Is this folder a complete model that someone else can open? Asked before publishing and after training."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open

from hf_xmtc.models.label_names import LABELS_FILE, LabelNames

__all__ = ["ModelFolderReport", "check_model_folder", "num_labels_of", "published_files"]

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
REQUIRED_FILES = (CONFIG_FILE, "tokenizer.json", "tokenizer_config.json", LABELS_FILE, "README.md", "metrics.json")

# Formats that run code when they are opened; the Hub flags them and nothing in this package reads them.
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")

# Optimizer checkpoints, caches and event logs are working files of one run, not part of the model.
_PRIVATE_FOLDER = re.compile(r"checkpoint-\d+|runs|__pycache__")
_SIBLING_IMPORT = re.compile(r"^\s*from\s+\.(\w+)\s+import\b", flags=re.MULTILINE)


@dataclass
class ModelFolderReport:
    """What `check_model_folder` found.

    Attributes:
        folder: The folder.
        files: Files that belong to the model, as sorted paths relative to the folder, with "/" between the parts.
        left_out: Folders and hidden files that stay behind when the folder is published (optimizer checkpoints, caches).
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
    def complete(self) -> bool:
        """Whether the folder can be published as it is."""
        return not self.problems

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

    Weights are opened far enough to see that their header is sound and that no byte is missing at the end, which
    is what an interrupted download or a full disk leaves behind.

    Args:
        folder: Folder written by ``scripts/train.py`` or by ``save_pretrained``.

    Returns:
        Report with all problems; see `ModelFolderReport.raise_for_problems`.

    Raises:
        FileNotFoundError: If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "not there"
        raise FileNotFoundError(f"The model folder {folder} is {what}. Give the folder that scripts/train.py wrote.")
    report = ModelFolderReport(folder)
    report.files, report.left_out = published_files(folder)
    config = _check_config(report)
    weights = _check_weights(report)
    code = _check_code(report, config)
    report.missing = [name for name in (*REQUIRED_FILES, *weights, *code) if name not in report.files]
    if report.missing:
        report.problems.insert(
            0,
            f"missing: {', '.join(report.missing)}. Was the training stopped before it ended? Run scripts/train.py again, "
            "or copy the missing files from where the folder came from.",
        )
    pickles = [name for name in report.files if name.endswith(PICKLE_SUFFIXES)]
    if pickles:
        report.problems.append(
            f"pickled files, which can run code when they are opened: {', '.join(pickles)}. "
            "Delete them, or save the weights with save_pretrained, which writes safetensors."
        )
    _check_labels(report)
    for name in ("metrics.json", "recipe.json"):
        if name in report.files:
            _read_json_object(report, name)
    return report


def published_files(folder: str | Path) -> tuple[list[str], list[str]]:
    """Sort the contents of a model folder into what is published and what stays behind.

    Returns:
        Paths of the files that are published, and of the folders and hidden files that are not, both relative and sorted.
    """
    folder = Path(folder)
    published: list[str] = []
    left_out: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or (path.is_dir() and _PRIVATE_FOLDER.fullmatch(path.name)):
            left_out.append(path.name + ("/" if path.is_dir() else ""))
        elif path.is_dir():
            below, below_left_out = published_files(path)
            published += [f"{path.name}/{name}" for name in below]
            left_out += [f"{path.name}/{name}" for name in below_left_out]
        else:
            published.append(path.name)
    return published, left_out


def num_labels_of(config: dict) -> int | None:
    """Label count of a config.json: our integer ``num_labels``, else the length of ``id2label``, else None."""
    if isinstance(config.get("num_labels"), int):
        return config["num_labels"]
    return len(config["id2label"]) if config.get("id2label") else None


def _check_config(report: ModelFolderReport) -> dict:
    if CONFIG_FILE not in report.files:
        return {}
    config = _read_json_object(report, CONFIG_FILE)
    if config is None:
        return {}
    report.model_type, report.num_labels = config.get("model_type"), num_labels_of(config)
    for name, value in (("model_type", report.model_type), ("num_labels", report.num_labels)):
        if value is None:
            report.problems.append(f"{CONFIG_FILE} has no {name}. Write it with save_pretrained instead of by hand.")
    return config


def _check_weights(report: ModelFolderReport) -> list[str]:
    """Names of the weight files there should be, after a look into those that are there."""
    names = [WEIGHTS_FILE]
    if WEIGHTS_FILE not in report.files and WEIGHTS_INDEX_FILE in report.files:
        index = _read_json_object(report, WEIGHTS_INDEX_FILE) or {}
        names = sorted(set(index.get("weight_map", {}).values()))
    for name in names:
        if name not in report.files:
            continue
        try:
            with safe_open(report.folder / name, framework="numpy") as tensors:
                empty = not tensors.keys()
        except SafetensorError as error:
            size = (report.folder / name).stat().st_size
            report.problems.append(
                f"{name} ({size:,} bytes) is not a sound safetensors file ({error}). "
                "Was a download or a copy interrupted? Delete the file and fetch or save it again."
            )
        else:
            if empty:
                report.problems.append(f"{name} holds no tensors. Save the model again with save_pretrained.")
    return names


def _check_code(report: ModelFolderReport, config: dict) -> list[str]:
    """Names of the code files that config.json and those files themselves ask for."""
    wanted = list(_modules_named_in(config))
    for name in wanted:  # grows while siblings are found
        if name in report.files:
            source = (report.folder / name).read_text(encoding="utf-8")
            wanted += [f"{module}.py" for module in _SIBLING_IMPORT.findall(source) if f"{module}.py" not in wanted]
    return wanted


def _modules_named_in(config: dict) -> Iterator[str]:
    pipelines = [entry.get("impl") for entry in (config.get("custom_pipelines") or {}).values()]
    references: list = [*(config.get("auto_map") or {}).values(), *pipelines]
    seen = set()
    while references:
        reference = references.pop(0)
        if isinstance(reference, list | tuple):  # a tokenizer has one class for each of the slow and the fast kind
            references += reference
        # "user/repo--module.Class" is code of another repo, which is fetched from there.
        elif isinstance(reference, str) and "--" not in reference and reference not in seen:
            module = reference.split(".")[0]
            if module not in seen:
                seen.add(module)
                yield f"{module}.py"


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


def _read_json_object(report: ModelFolderReport, name: str) -> dict | None:
    try:
        content = json.loads((report.folder / name).read_text(encoding="utf-8"))
    except ValueError as error:
        report.problems.append(f"{name} is not valid JSON ({error}). Copy it again from where the model came from.")
        return None
    if not isinstance(content, dict):
        report.problems.append(f"{name} must hold a JSON object, found a {type(content).__name__}.")
        return None
    return content

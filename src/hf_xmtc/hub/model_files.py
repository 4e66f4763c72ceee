"""The files of a folder that belong to a model: an allow-list, because only those are published.

Whatever else lies there (data, logs, keys, caches) stays behind, whatever it is named. The parts of an ensemble, and a model that finds
another's candidates, are model folders in it, of which the same is true. Links are followed to files of the same folder, or of the Hub's
cache where the folder is a snapshot in it, and never into folders.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.inference.model_opening import GENERATOR_FOLDER, parts_of
from hf_xmtc.models.label_names import LABELS_FILE
from hf_xmtc.models.modeling_ensemble import PARTS_FOLDER

__all__ = ["CARD_FILE", "CONFIG_FILE", "TOKENIZER_CONFIG_FILE", "ModelFiles"]

CARD_FILE = "README.md"
CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"

# Beside these: the weights that the index names, code that config.json or a code file asks for, and pictures that the card shows.
_KNOWN = re.compile(
    "|".join(
        [
            rf"{CONFIG_FILE}|generation_config\.json|{LABELS_FILE}|{CARD_FILE}",
            r"(metrics|recipe|training_log|training_args)\.json|training_curve\.png",
            r"tokenizer\.json|tokenizer_config\.json|special_tokens_map\.json|added_tokens\.json|chat_template\.jinja",
            r"vocab\.(txt|json)|merges\.txt|spiece\.model|sentencepiece\.bpe\.model|tokenizer\.model",
            r"(LICEN[CS]E|NOTICE|COPYING)(\.(txt|md))?|CITATION\.(cff|bib)",
            r"predictions/(train|validation|test|label_counts)\.parquet",
            rf"{GENERATOR_FOLDER}/candidates\.(json|safetensors)",
        ]
    )
)
# The only folders that are looked into.
_SUBFOLDERS = (GENERATOR_FOLDER, "predictions")
_SIBLING_IMPORT = re.compile(r"^\s*from\s+\.(\w+)\s+import\b", flags=re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([\w.-]+\.(?:png|jpe?g|gif|svg|webp))\)")


@dataclass
class ModelFiles:
    """The files of a model folder.

    Attributes:
        folder: The folder.
        names: Files that belong to the model, sorted, with "/" between the parts.
        left_out: What stays behind: files, links, and whole folders with "/" at the end.
        weights: Names of the weight files that there should be.
        code: Names of the code files that there should be.
        problems: What keeps files from being read or published, as sentences.
        parts: The files of the model folders in it by their paths (``parts/NAME`` of an ensemble, ``candidates``); they are among ``names``
            and ``left_out`` too.
    """

    folder: Path
    names: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    parts: dict[str, "ModelFiles"] = field(default_factory=dict)

    @classmethod
    def find(cls, folder: str | Path) -> "ModelFiles":
        """Sort what lies in a folder into what belongs to the model and what stays behind.

        Raises:
            FileNotFoundError: If there is no such folder.
        """
        folder = Path(folder)
        if not folder.is_dir():
            what = "a file, not a folder" if folder.exists() else "not there"
            raise FileNotFoundError(f"The model folder {folder} is {what}. Give the folder that hf-xmtc train wrote.")
        found = cls(folder)
        entries = dict(_entries(folder))
        # What cannot be read is no file yet for the searches below.
        found.names = [name for name, fault in entries.items() if not fault]
        is_ensemble = found._find_parts(entries)
        found._find_generator(entries)
        found.weights = [] if is_ensemble else found._find_weights()
        found.code = found._find_code()
        others = {*found.weights, *found.code, *_PICTURE.findall(found.read_text(CARD_FILE) or "")}
        if found.weights != [SAFE_WEIGHTS_NAME]:
            others.add(SAFE_WEIGHTS_INDEX_NAME)
        known = {name for name in entries if name in others or _KNOWN.fullmatch(name)}
        found.names = sorted(name for name in known if not entries[name])
        found.left_out = sorted(set(entries) - known)
        found.problems += [f"{name} {entries[name]}" for name in sorted(known) if entries[name]]
        for path, files in found.parts.items():
            found.names += [f"{path}/{name}" for name in files.names]
            found.left_out += [f"{path}/{name}" for name in files.left_out]
        return found

    def read_json(self, name: str) -> dict | None:
        """A JSON object; None where the file is not there, or (with a problem) where it holds none."""
        if name not in self.names:
            return None
        try:
            return read_json_object(self.folder / name)
        except ValueError as error:
            self._add_problem(str(error).removeprefix(f"{self.folder}{os.sep}"))
            return None

    def read_text(self, name: str) -> str | None:
        """A text; None where the file is not there, or (with a problem) where it is none."""
        if name not in self.names:
            return None
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            self._add_problem(f"{name} is not UTF-8 text ({error}). Copy it again from where the model came.")
            return None

    def _add_problem(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _find_parts(self, entries: dict[str, str]) -> bool:
        """Look into the parts of an ensemble, and take their folder out of the entries; False if there are none."""
        try:
            names = parts_of(self.read_json(CONFIG_FILE) or {})
        except ValueError as error:
            self._add_problem(str(error))
            return False
        if not names or entries.pop(f"{PARTS_FOLDER}/", None) is None:
            self.problems += (
                [f"{CONFIG_FILE} has the parts {', '.join(names)}, but there is no folder {PARTS_FOLDER}."] if names else []
            )
            return False
        for entry in sorted(os.scandir(self.folder / PARTS_FOLDER), key=lambda entry: entry.name):
            name = f"{PARTS_FOLDER}/{entry.name}"
            if entry.name in names and entry.is_dir(follow_symlinks=False):
                self.parts[name] = ModelFiles.find(entry.path)
            else:
                entries[name + _slash(entry)] = "is no part"
        missing = [path for path in (f"{PARTS_FOLDER}/{name}" for name in names) if path not in self.parts]
        self.problems += [f"{path} is missing. Copy the part, or combine the models anew." for path in missing]
        return bool(self.parts)

    def _find_generator(self, entries: dict[str, str]) -> None:
        """Look into the model that finds the candidates, and take its files out of the entries."""
        if f"{GENERATOR_FOLDER}/{CONFIG_FILE}" not in entries:
            return
        self.parts[GENERATOR_FOLDER] = ModelFiles.find(self.folder / GENERATOR_FOLDER)
        for name in [name for name in entries if name.startswith(f"{GENERATOR_FOLDER}/")]:
            del entries[name]

    def _find_weights(self) -> list[str]:
        """One file, or those that the index names."""
        if SAFE_WEIGHTS_NAME in self.names or SAFE_WEIGHTS_INDEX_NAME not in self.names:
            return [SAFE_WEIGHTS_NAME]
        shards = (self.read_json(SAFE_WEIGHTS_INDEX_NAME) or {}).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            self._add_problem(
                f"{SAFE_WEIGHTS_INDEX_NAME}: weight_map must name a file for every tensor. Save the model again with save_pretrained."
            )
            return []
        return sorted(set(shards.values()))

    def _find_code(self) -> list[str]:
        """Modules that the settings name, and those that these import."""
        names = list(dict.fromkeys(self._modules_in_settings()))
        for name in names:  # grows while siblings are found
            siblings = _SIBLING_IMPORT.findall(self.read_text(name) or "")
            names += [f"{sibling}.py" for sibling in dict.fromkeys(siblings) if f"{sibling}.py" not in names]
        return names

    def _modules_in_settings(self) -> Iterator[str]:
        for file in (CONFIG_FILE, TOKENIZER_CONFIG_FILE):
            settings = self.read_json(file) or {}
            for key in ("auto_map", "custom_pipelines"):
                entries = settings.get(key) or {}
                if not isinstance(entries, dict):
                    kind = type(entries).__name__
                    self._add_problem(
                        f"{file}: {key} must be an object, found a {kind}. Save the model again with save_pretrained."
                    )
                    continue
                for entry in entries.values():
                    if key == "custom_pipelines":
                        entry = entry.get("impl") if isinstance(entry, dict) else entry
                    yield from self._modules_of(entry, f"{file}: {key}")

    def _modules_of(self, references: object, where: str) -> Iterator[str]:
        """Files of ``module.Class``; a tokenizer has one for each of the slow and the fast kind, and None where there is none."""
        for reference in references if isinstance(references, list | tuple) else [references]:
            if isinstance(reference, str) and "." in reference:
                if "--" not in reference:  # "user/repo--module.Class" is code of another repo, which is fetched from there
                    yield f"{reference.partition('.')[0]}.py"
            elif reference is not None:
                self._add_problem(
                    f"{where} names {reference!r:.80}, but must name a class as module.Class. Save the model again with save_pretrained."
                )


def _entries(folder: Path) -> Iterable[tuple[str, str]]:
    """Names of what lies in a folder, and why it cannot be published, empty for a file that can."""
    root = folder.resolve()
    # A model folder lies up to three folders deep in a snapshot: candidates/parts/NAME.
    roots = [root, *(parent.parent / "blobs" for parent in root.parents[:4] if parent.name == "snapshots")]
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in _SUBFOLDERS and entry.is_dir(follow_symlinks=False):
            for inner in sorted(os.scandir(entry.path), key=lambda inner: inner.name):
                yield f"{entry.name}/{inner.name}" + _slash(inner), _fault(inner, roots)
        else:
            yield entry.name + _slash(entry), _fault(entry, roots)


def _slash(entry: os.DirEntry) -> str:
    return "/" if entry.is_dir(follow_symlinks=False) else ""


def _fault(entry: os.DirEntry, roots: list[Path]) -> str:
    if not entry.is_symlink():
        return "" if entry.is_file() else "is no ordinary file. Put a file there."
    target = os.path.realpath(entry.path)
    if os.path.isdir(target):
        fault = "leads to a folder"
    elif not os.path.isfile(target):
        fault = "leads nowhere"
    elif not any(Path(target).is_relative_to(root) for root in roots):
        fault = "leads out of the folder"
    else:
        return ""
    return f"is a link that {fault} ({os.readlink(entry.path)}). Put the file itself there, or delete the link."

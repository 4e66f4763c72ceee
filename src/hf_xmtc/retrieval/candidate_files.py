"""Where a generator of candidates lies, and what the two files of a `CandidateGenerator` must hold before anything is computed from them."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError

from hf_xmtc.file_checks import ArrayFile, check_csr, check_setting, read_json_object
from hf_xmtc.inference.model_opening import GENERATOR_FOLDER
from hf_xmtc.models.label_names import LABELS_FILE

__all__ = ["ARRAYS_FILE", "SETTINGS_FILE", "CandidateFiles", "find_candidate_files", "local_folder"]

ARRAYS_FILE, SETTINGS_FILE = "candidates.safetensors", "candidates.json"


@dataclass
class CandidateFiles:
    """The files of a generator, and the model's config.json where it lies beside them."""

    arrays: Path
    settings: Path
    config: Path | None

    def read_settings(self) -> dict:
        """``num_labels``, ``num_neighbors`` and ``words``; ``labels_digest`` and ``digest``, None where they are not known.

        Raises:
            ValueError: If one is missing, of another kind, or not the model's; the message names the file.
        """
        settings = read_json_object(self.settings)
        for name, kind in (("num_labels", int), ("num_neighbors", int), ("words", list)):
            check_setting(settings, name, kind, self.settings)
        for name in ("labels_digest", "digest"):
            if settings.setdefault(name) is not None:
                check_setting(settings, name, str, self.settings)
        words, num_labels = settings["words"], settings["num_labels"]
        if not words or len(set(words)) != len(words):
            raise ValueError(
                f"{self.settings}: words holds {len(words)} words, {len(set(words))} of them different, but needs at least one and each "
                "once. Copy the file again from where the model came."
            )
        # Votes for all labels are held in memory, so their number must be no other than the model's.
        of_model = num_labels if self.config is None else read_json_object(self.config).get("num_labels", num_labels)
        if of_model != num_labels:
            raise ValueError(
                f"{self.settings} has num_labels={num_labels} but config.json beside it has {of_model!r:.80}. Do they come from two "
                "models? Copy both from the same model folder."
            )
        return settings

    def read_arrays(self, num_words: int, num_labels: int) -> dict[str, np.ndarray]:
        """The arrays, as `CandidateGenerator` stores them.

        Raises:
            ValueError: If one is missing, of another type or length, or reaches outside the others; the message names file and array.
        """
        file, source = ArrayFile(self.arrays), f"{self.arrays}: "
        arrays = {"idf": file.numbers("idf", num_words)}
        num_documents = None
        for name, num_columns in (("documents", num_words), ("labels", num_labels)):
            indptr, indices = file.integers(f"{name}.indptr"), file.integers(f"{name}.indices")
            num_documents = max(1, len(indptr) - 1) if num_documents is None else num_documents
            check_csr(name, indptr, indices, num_documents, num_columns, source)
            arrays |= {f"{name}.indptr": indptr, f"{name}.indices": indices}
        return {**arrays, "documents.data": file.numbers("documents.data", len(arrays["documents.indices"]))}


def find_candidate_files(name_or_path: str, revision: str | None, token: str | bool | None) -> CandidateFiles:
    """Find the files of a model folder, or of an id on the Hub.

    Raises:
        FileNotFoundError: If they are not there.
    """
    names = (f"{GENERATOR_FOLDER}/{ARRAYS_FILE}", f"{GENERATOR_FOLDER}/{SETTINGS_FILE}")

    def find(name: str) -> Path:
        if not Path(name_or_path).is_dir():
            return Path(hf_hub_download(name_or_path, name, revision=revision, token=token))
        path = Path(name_or_path, name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        return path

    try:
        arrays, settings = map(find, names)
    except (FileNotFoundError, EntryNotFoundError) as error:
        raise FileNotFoundError(
            f"{name_or_path} lacks {' or '.join(names)} ({error}). Was the model trained with num_candidates, or saved beside its "
            "generator by CandidateGenerator.save_pretrained?"
        ) from error
    try:
        return CandidateFiles(arrays, settings, find("config.json"))
    except (FileNotFoundError, EntryNotFoundError):
        return CandidateFiles(arrays, settings, None)  # a generator that was saved alone


def local_folder(name_or_path: str | os.PathLike[str], revision: str | None, token: str | bool | None) -> Path:
    """The model folder on this machine; of an id on the Hub, its labels and generator alone are fetched."""
    if os.path.isdir(name_or_path):
        return Path(name_or_path)
    files = [LABELS_FILE, f"{GENERATOR_FOLDER}/*"]
    return Path(snapshot_download(os.fspath(name_or_path), revision=revision, token=token, allow_patterns=files))

"""Checkpoint folders on disk: written under another name first, with a list of their files that shows any damage.

A checkpoint is written into ``.unfinished/``, `seal` adds ``manifest.json`` (size and checksum of every file), brings all of it to
the disk and gives the folder its name. A folder ``checkpoint-N`` is therefore complete, or something has happened to it since;
`damage_of` finds out what. The checksum is CRC-32: it finds every flipped bit and all but one in four thousand million
other accidents, and of all that Python has it costs least beside writing (four times the speed of BLAKE2b). Forgery is no concern:
whoever can change the files can change their list.
"""

import contextlib
import json
import os
import re
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME

from hf_xmtc.disk import sync_folder
from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.json_reader import read_json
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = [
    "UNFINISHED",
    "best_checkpoint",
    "check_resumed_labels",
    "checkpoints_in",
    "checksum",
    "clear_unfinished",
    "damage_of",
    "seal",
    "set_damaged_aside",
]

MANIFEST = "manifest.json"
UNFINISHED = ".unfinished"
_REPLACED = "-replaced"
_CHUNK = 2**22


def checkpoints_in(folder: str | os.PathLike) -> list[Path]:
    """The checkpoints of a run, newest (by step) first."""
    steps = [
        (int(match[1]), entry)
        for entry in (Path(folder).iterdir() if os.path.isdir(folder) else ())
        if (match := re.fullmatch(r"checkpoint-(\d+)", entry.name)) and entry.is_dir()
    ]
    return [entry for _, entry in sorted(steps, reverse=True)]


def best_checkpoint(checkpoint: str | os.PathLike) -> Path | None:
    """The checkpoint that was the best one when this one was written: it lies beside it, wherever the folder is now."""
    state = read_json_object(Path(checkpoint) / TRAINER_STATE_NAME)
    best = state.get("best_model_checkpoint")
    return Path(checkpoint).parent / re.split(r"[\\/]", best)[-1] if best else None


# ---- writing -------------------------------------------------------------------------------------------------------------


def seal(written: Path, folder: Path) -> None:
    """Complete a checkpoint: list its files, bring them to the disk, and only then give it its name.

    Args:
        written: The folder it was written to, on the same disk.
        folder: Its name; a folder of that name is replaced.
    """
    files = {}
    for path in sorted(path for path in written.rglob("*") if path.is_file()):
        with open(path, "r+b") as file:
            value = checksum(file)
            os.fsync(file.fileno())
        files[path.relative_to(written).as_posix()] = {"size": path.stat().st_size, "crc32": f"{value:08x}"}
    with open(written / MANIFEST, "w", encoding="utf-8") as file:
        json.dump({"files": files}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    for inner in (*(path for path in written.rglob("*") if path.is_dir()), written):
        sync_folder(inner)
    replaced = written.with_name(folder.name + _REPLACED)
    shutil.rmtree(replaced, ignore_errors=True)
    # A kill between the two leaves the name to no checkpoint, and `clear_unfinished` gives it back to the older one.
    if folder.exists():
        os.rename(folder, replaced)
    os.rename(written, folder)
    sync_folder(written.parent)
    sync_folder(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def clear_unfinished(folder: str | os.PathLike) -> None:
    """Remove what was not completed among the checkpoints of a folder; one that was about to be replaced gets its name back."""
    unfinished = Path(folder, UNFINISHED)
    for replaced in unfinished.glob(f"*{_REPLACED}"):
        checkpoint = Path(folder, replaced.name.removesuffix(_REPLACED))
        if not checkpoint.exists() and damage_of(replaced) is None:
            with contextlib.suppress(FileNotFoundError):  # another process was first
                os.rename(replaced, checkpoint)
    shutil.rmtree(unfinished, ignore_errors=True)


def checksum(file: BinaryIO, before: int = 0) -> int:
    """CRC-32 of what is left of an open file, continued from that of what came ``before``."""
    while chunk := file.read(_CHUNK):
        before = zlib.crc32(chunk, before)
    return before


# ---- reading -------------------------------------------------------------------------------------------------------------


def set_damaged_aside(folder: str | os.PathLike, needs_best: bool) -> list[str]:
    """Rename the damaged checkpoints that are newer than the newest one a run can go on from.

    Args:
        folder: Folder of the checkpoints.
        needs_best: The run ends with its best model, so a checkpoint serves only while the best one so far is whole too.

    Returns:
        A sentence about each; the checkpoint to go on from is the first of `checkpoints_in` now, if any is left.
    """
    sentences = []
    for checkpoint in checkpoints_in(folder):
        damage = damage_of(checkpoint, needs_best)
        if damage is None:
            break
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(checkpoint, aside)
        sentences.append(f"{checkpoint.name} cannot be used and is now called {aside.name}: {damage}.")
    return sentences


def damage_of(checkpoint: str | os.PathLike, needs_best: bool = False) -> str | None:
    """Describe the damage of a checkpoint's files; None where it is whole.

    One without a manifest, of an earlier version or of another program, is whole where every part is there and can be opened.

    Args:
        checkpoint: Its folder.
        needs_best: Look at the one that was the best so far as well, with which a run from here may end.
    """
    damage = _damage_of_files(Path(checkpoint))
    best = best_checkpoint(checkpoint) if damage is None and needs_best else None
    if best is not None and best.name != Path(checkpoint).name and (damage_of_best := _damage_of_files(best)):
        return f"{best}, the best so far when it was written, is needed (load_best_model_at_end=True) and damaged: {damage_of_best}"
    return damage


def _damage_of_files(checkpoint: Path) -> str | None:
    if not checkpoint.is_dir():
        return "the folder is missing"
    try:
        if not (checkpoint / MANIFEST).exists():
            return _damage_without_manifest(checkpoint)
        listed = read_json_object(checkpoint / MANIFEST)["files"]
        for name, entry in listed.items():
            path, size = checkpoint / name, entry["size"]
            if not path.exists():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size:,} bytes instead of {size:,}"
            with open(path, "rb") as file:
                if f"{checksum(file):08x}" != entry["crc32"]:
                    return f"{name} is not what was written (its checksum differs)"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} cannot be read"
    except OSError as error:
        return f"{error.filename or 'a file'} cannot be read ({error.strerror})"
    return None


def _damage_without_manifest(checkpoint: Path) -> str | None:
    names = [path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*")]
    parts = {
        "weights": r".*\.safetensors|pytorch_model.*\.bin|.*/?pytorch_model_fsdp.*",
        "the optimizer's state": r"(.*/)?(optimizer\.(pt|bin)|optimizer_\d+|global_step\d+)",
        "the schedule's state": r"(.*/)?scheduler\.pt|global_step\d+",
        "the state of the random numbers": r"rng_state(_\d+)?\.pth",
        TRAINER_STATE_NAME: re.escape(TRAINER_STATE_NAME),
    }
    for part, pattern in parts.items():
        if not any(re.fullmatch(pattern, name) for name in names):
            return f"it has no {MANIFEST} and lacks {part}"
    for name in names:
        if not _opens(checkpoint / name):
            return f"it has no {MANIFEST} and {name} cannot be opened"
    return None


def _opens(path: Path) -> bool:
    """True if a file is whole as far as its format can tell; nothing is unpickled."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt"):
                return True
        if path.suffix in (".pt", ".pth"):  # zip files, with a checksum of every part
            with zipfile.ZipFile(path) as file:
                return file.testzip() is None
        if path.suffix == ".json":
            content = read_json(path)
            return path.name != TRAINER_STATE_NAME or isinstance(content.get("global_step"), int)
    except (SafetensorError, zipfile.BadZipFile, ValueError, AttributeError, OSError):
        return False
    return True


def check_resumed_labels(checkpoint: str, model: XMTCPreTrainedModel) -> None:
    """Refuse to resume from a checkpoint with another label space.

    Raises:
        ValueError: If its labels are not the model's.
    """
    path = os.path.join(checkpoint, LABELS_FILE)
    if not os.path.exists(path):
        return
    saved, current = LabelNames.load(path), model.config.label_names
    if saved.labels != current.labels:
        raise ValueError(
            f"The checkpoint {os.path.basename(checkpoint)} was trained on {len(saved)} labels that begin with "
            f"{saved.labels[:3]}, but this run has {len(current)} that begin with {current.labels[:3]}. Resume with the "
            "label file and data of the first run, or start in a new output folder."
        )

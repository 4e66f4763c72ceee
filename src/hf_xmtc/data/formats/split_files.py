"""Which files of a folder hold which split, by their names."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["SPLITS", "files_of_splits", "find_split_files", "named_files", "split_folders"]

SPLITS = ("train", "validation", "test")
_NAMES = {"train": "train|trn", "validation": "validation|valid|val|dev", "test": "test|tst"}
_GZIP = r"(\.gz)?"
_SHARD = r"(-(?P<shard>\d{5})-of-(?P<shards>\d{5})(-[0-9a-f]+)?)?"


def files_of_splits(*endings: str) -> Callable[[Path, bool], dict[str, list[Path]]]:
    """A `Format.find` for files such as ``train.csv``, ``validation-00000-of-00002.csv.gz`` or one file of any name."""

    def find(path: Path, given: bool) -> dict[str, list[Path]]:
        own = f"({'|'.join(map(re.escape, endings))})"
        if path.is_file():
            return {"train": [path]} if given or re.search(own + _GZIP + "$", path.name, re.IGNORECASE) else {}
        found = find_split_files(path, "{split}" + _SHARD + own)
        return found or (find_split_files(path, "{split}" + _SHARD + r"\.\w+") if given else {})

    return find


def named_files(*patterns: str) -> Callable[[Path, bool], dict[str, list[Path]]]:
    """A `Format.find` for splits of several files each, such as ``("{split}_texts.txt", "{split}_labels.txt")``, in that order."""

    def find(path: Path, given: bool) -> dict[str, list[Path]]:
        if not path.is_dir():
            return {}
        found = [find_split_files(path, re.escape(pattern).replace(r"\{split\}", "{split}")) for pattern in patterns]
        return {split: [files[split][0] for files in found] for split in SPLITS if all(split in files for files in found)}

    return find


def split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split that has one.

    Raises:
        ValueError: If two claim to be the same.
    """
    places = {split: [folder / name for name in _NAMES[split].split("|") if (folder / name).is_dir()] for split in SPLITS}
    for split, found in places.items():
        _check(split, [(0, 1, place) for place in found], folder)
    return {split: found[0] for split, found in places.items() if found}


def find_split_files(folder: Path, pattern: str) -> dict[str, list[Path]]:
    """The files of each split, shards in order, plain or gzip.

    Args:
        folder: Where they lie.
        pattern: Regular expression of their names, ``{split}`` in place of the split's.

    Raises:
        ValueError: If a shard is missing, or two files claim to be the same.
    """
    names = sorted(folder.iterdir())
    found = {split: _shards(names, pattern.replace("{split}", f"({_NAMES[split]})") + _GZIP) for split in SPLITS}
    for split, shards in found.items():
        _check(split, shards, folder)
    return {split: [path for *_, path in shards] for split, shards in found.items() if shards}


def _shards(paths: Sequence[Path], pattern: str) -> list[tuple[int, int, Path]]:
    matches = [(re.fullmatch(pattern, path.name), path) for path in paths if path.is_file()]
    groups = [(match.groupdict(), path) for match, path in matches if match]
    return sorted((int(group.get("shard") or 0), int(group.get("shards") or 1), path) for group, path in groups)


def _check(split: str, shards: list[tuple[int, int, Path]], folder: Path) -> None:
    if not shards:
        return
    expected = shards[0][1]
    numbers = [shard for shard, _, _ in shards]
    names = ", ".join(path.name for *_, path in shards)
    if len(set(numbers)) != len(numbers) or any(total != expected for _, total, _ in shards):
        raise ValueError(f"Several files claim to be the {split} split: {names}. Keep one set of them in {folder}.")
    if missing := sorted(set(range(expected)) - set(numbers)):
        raise ValueError(
            f"The {split} split should have {expected} files but {len(numbers)} are in {folder}: shard {missing[0]} is "
            "missing. Was the download interrupted? Fetch it again."
        )

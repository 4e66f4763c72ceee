"""Which files of a folder hold which split, by their names."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

__all__ = [
    "SPLITS",
    "files_beside",
    "files_of_splits",
    "find_split_files",
    "is_about_data",
    "named_files",
    "names_hint",
    "split_folders",
    "splits_by_name",
    "unread_files",
    "unread_remark",
]

SPLITS = ("train", "validation", "test")
_NAMES = {"train": "train|trn", "validation": "validation|valid|val|dev", "test": "test|tst"}
# What others also call test data, so only where nothing else has a name of the validation split.
_NAMES_WITHOUT_VALIDATION = {**_NAMES, "validation": "evaluation|eval"}
_TABLES = r"\.(csv|tsv|tab|jsonl|ndjson|parquet)"
_SHEETS = r"\.(xlsx|xls|ods)"
_VOCABULARIES = r"\.(ttl|rdf|nt)"
_FILTERS = r"filter_labels.*"
_NO_DATA = r"(readme|licen[cs]e|notice)\b.*|labels\.(parquet|json)"
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
    paths = sorted(folder.iterdir())

    def shards_of(names: dict[str, str]) -> dict[str, list[tuple[int, int, Path]]]:
        return {split: _shards(paths, pattern.replace("{split}", f"({names[split]})") + _GZIP) for split in SPLITS}

    found = shards_of(_NAMES)
    if any(found.values()) and not found["validation"]:
        found = shards_of(_NAMES_WITHOUT_VALIDATION)
    for split, shards in found.items():
        _check(split, shards, folder)
    return {split: [path for *_, path in shards] for split, shards in found.items() if shards}


def splits_by_name(names: Sequence[str]) -> dict[str, str]:
    """The name under which each split is, of those that there are; of several the most usual one."""
    aliases = {split: f"{_NAMES[split]}|{_NAMES_WITHOUT_VALIDATION[split]}".split("|") for split in SPLITS}
    found = {split: next((alias for alias in aliases[split] if alias in names), None) for split in SPLITS}
    return {split: name for split, name in found.items() if name is not None}


def is_about_data(path: Path) -> bool:
    """True for a README, a licence, and files of labels."""
    return _matches(_NO_DATA, path)


def files_beside(folder: Path, files: Collection[Path], side_files: Sequence[str]) -> set[Path]:
    """Other files of a data set.

    Args:
        folder: Its folder.
        files: Its documents.
        side_files: `Format.side_files`.
    """
    endings = [name for name in side_files if name.startswith(".")]
    found = {path for name in side_files if name not in endings for path in folder.glob(name)}
    found |= {path.with_suffix(ending) for path in files for ending in endings}
    return {path for path in found if path.is_file()}


def unread_files(folder: Path, files: Collection[Path], side_files: Sequence[str] = ()) -> list[str]:
    """Names of files of a folder that look like data, or like a vocabulary, and are not read.

    Args:
        folder: The folder; a file has no others.
        files: Those that are read.
        side_files: Others that are, as in `Format.side_files`.
    """
    if not folder.is_dir():
        return []
    endings = {re.escape(path.suffix) for path in files if path.suffix != ".gz" and not re.search(_FILTERS, path.name)}
    endings |= {re.escape(name) for name in side_files if name.startswith(".")}
    pattern = f".*({'|'.join([_TABLES, _SHEETS, _VOCABULARIES, _FILTERS, *sorted(endings)])}){_GZIP}"
    read = {*files, *files_beside(folder, files, side_files)}
    paths = sorted(path for place in {folder, *(path.parent for path in files)} for path in place.iterdir())
    unread = [path for path in paths if path.is_file() and path not in read and _matches(pattern, path)]
    return [path.relative_to(folder).as_posix() for path in unread if not is_about_data(path)]


def unread_remark(names: Sequence[str]) -> str:
    """A sentence on files that are not read."""
    listing = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    vocabulary = next((name for name in names if re.search(_VOCABULARIES + "$", name)), None)
    hint = f" --label_file names a vocabulary such as {vocabulary}." if vocabulary else ""
    if any(re.search(_FILTERS, name) for name in names):
        hint += " Labels to leave out are read in the format xmc-raw, from filter_labels_train.txt for trn.json and so on."
    return f"not read: {listing}. Files are read whose names say train, validation (valid, val, dev, or eval where there is no other) or test.{hint}"


def names_hint(path: Path) -> str:
    """A sentence on what to do with a folder or file whose format is not recognised; empty where nothing looks like a table."""
    entries = [path] if path.is_file() else sorted(path.iterdir())
    if tables := [entry for entry in entries if path.is_dir() and _matches(f".*{_TABLES}{_GZIP}", entry)]:
        names = f"train{tables[0].suffix} (and validation{tables[0].suffix}, test{tables[0].suffix})"
        return f"Give the file itself, {tables[0]}, or rename it: in a folder, files are called {names}. "
    if sheets := [entry for entry in entries if _matches(f".*{_SHEETS}", entry)]:
        return f"Spreadsheets such as {sheets[0].name} are not read: save it as csv (CSV UTF-8) and give that file. "
    return ""


def _matches(pattern: str, path: Path) -> bool:
    return re.fullmatch(pattern, path.name, re.IGNORECASE) is not None


def _shards(paths: Sequence[Path], pattern: str) -> list[tuple[int, int, Path]]:
    matches = [(re.fullmatch(pattern, path.name, re.IGNORECASE), path) for path in paths if path.is_file()]
    groups = [(match.groupdict(), path) for match, path in matches if match]
    return sorted((int(group.get("shard") or 0), int(group.get("shards") or 0), path) for group, path in groups)


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

"""Where a data set comes from: the shipped one, a folder of parquet files, or the Hugging Face Hub.

Each reader returns the same `Source`, splits that are still as their author left them. A new file format is one more
reader here.
"""

import hashlib
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import datasets
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from .column_batches import damage_reported
from .data_card import CardFacts, read_data_card
from .label_file import LABEL_FILES, file_digest

__all__ = ["DEMO_FOLDER", "SPLITS", "Source", "read_source"]

DEMO_FOLDER = Path(__file__).parent / "demo"
SPLITS = ("train", "validation", "test")
_SPLIT_ALIASES = {"val": "validation", "valid": "validation", "dev": "validation"}
_SPLIT_FILE = re.compile(
    r"(?P<split>train|validation|val|valid|dev|test)(-(?P<shard>\d{5})-of-(?P<shards>\d{5})(-[0-9a-f]+)?)?\.parquet"
)
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_FORMS = (
    "Give 'demo' (the data set shipped with hf_xmtc), a folder with train.parquet, validation.parquet and test.parquet "
    "(columns text and labels), or the id of a data set on the Hugging Face Hub ('user/name')."
)


@dataclass(frozen=True)
class Source:
    """A data set as its author left it.

    Attributes:
        name: ``demo``, the folder's own name, or the Hub id; never a path of this machine.
        splits: Arrow data set of each split; its schema may carry the `datasets` features.
        fingerprint: Changes whenever the content does.
        label_file: The label file that came with the data, if any.
        card: Licence and languages that the data set's card names.
        left_out: Splits of the source that are neither training, validation nor test data.
    """

    name: str
    splits: dict[str, pads.Dataset]
    fingerprint: str
    label_file: Path | None = None
    card: CardFacts = CardFacts()
    left_out: tuple[str, ...] = ()


def read_source(
    name_or_path: str | os.PathLike,
    *,
    config_name: str | None = None,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
) -> Source:
    """Open a data set by name or path without reading its rows.

    Args:
        name_or_path: ``"demo"``, a folder, or a Hub data set id. A folder of that name goes before the Hub; a folder called
            ``demo`` is ``"./demo"``.
        config_name: Configuration of a Hub data set that has several.
        revision: Branch, tag or commit of a Hub data set.
        cache_dir: Cache of `datasets.load_dataset` for Hub data sets.

    Raises:
        FileNotFoundError: If there is nothing of that name, or the folder has no parquet file of a split.
        ConnectionError: If the Hub is needed and cannot be reached.
        ValueError: If a file is damaged or shards are missing.
    """
    if name_or_path == "demo":
        return _read_folder(DEMO_FOLDER)
    path = Path(name_or_path)
    if path.is_dir():
        return _read_folder(path)
    if path.is_file():
        raise ValueError(f"{path} is a file; give the folder that holds the splits. {_FORMS}")
    if isinstance(name_or_path, str) and _HUB_ID.fullmatch(name_or_path):
        return _read_hub(name_or_path, config_name, revision, cache_dir)
    raise FileNotFoundError(f"There is no folder {os.fspath(name_or_path)!r}. {_FORMS}")


def _read_folder(folder: Path) -> Source:
    try:
        os.fspath(folder.resolve()).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The name of the folder {os.fspath(folder)!r} is not UTF-8 ({error.reason}). Rename it."
        ) from error
    # `DatasetDict.push_to_hub` puts the splits into data/; a clone of such a repository is read as it is.
    folders = [folder, folder / "data"] if (folder / "data").is_dir() else [folder]
    files = next((splits for splits in map(_split_files, folders) if splits), None)
    if files is None:
        present = sorted(entry.name for entry in folder.iterdir())
        names = ", ".join(present[:10]) + (", …" if len(present) > 10 else "") or "nothing"
        raise FileNotFoundError(
            f"The folder {folder} has no train.parquet, validation.parquet or test.parquet (nor shards such as "
            f"train-00000-of-00002.parquet); it holds: {names}. {_FORMS}"
        )
    digest = hashlib.blake2b(digest_size=16)
    splits = {}
    for split, paths in files.items():
        for path in paths:
            with damage_reported(path):
                columns = pq.read_schema(path).names
            if repeated := [column for column in columns if columns.count(column) > 1]:
                raise ValueError(
                    f"{path} has {len(repeated)} columns that share a name, {', '.join(map(repr, repeated))}, among {columns}. Keep one "
                    "of each name."
                )
            digest.update(f"{split} {file_digest(path)}".encode())
        with damage_reported(paths[0]):
            splits[split] = pads.dataset([os.fspath(path) for path in paths], format="parquet")
    readme = folder / "README.md"
    return Source(
        name=folder.resolve().name,
        splits=splits,
        fingerprint=digest.hexdigest(),
        label_file=next((place / name for place in folders for name in LABEL_FILES if (place / name).is_file()), None),
        card=read_data_card(readme) if readme.is_file() else CardFacts(),
    )


def _split_files(folder: Path) -> dict[str, list[Path]]:
    """Parquet files of each split in `SPLITS` order; refuses incomplete and ambiguous ones."""
    shards_of: dict[str, list[tuple[int, int, Path]]] = {}
    for path in sorted(folder.iterdir()):
        if match := _SPLIT_FILE.fullmatch(path.name):
            split = _SPLIT_ALIASES.get(match["split"], match["split"])
            shards_of.setdefault(split, []).append((int(match["shard"] or 0), int(match["shards"] or 1), path))
    for split, shards in shards_of.items():
        expected = shards[0][1]
        numbers = [shard for shard, _, _ in shards]
        names = ", ".join(path.name for _, _, path in shards)
        if len(set(numbers)) != len(numbers) or any(total != expected for _, total, _ in shards):
            raise ValueError(f"Several files claim to be the {split} split: {names}. Keep one set of them in {folder}.")
        if missing := sorted(set(range(expected)) - set(numbers)):
            raise ValueError(
                f"The {split} split should have {expected} files but {len(numbers)} are in {folder}: shard {missing[0]} is "
                "missing. Was the download interrupted? Fetch it again."
            )
    return {split: [path for _, _, path in sorted(shards_of[split])] for split in SPLITS if split in shards_of}


def _read_hub(name: str, config_name: str | None, revision: str | None, cache_dir: str | os.PathLike | None) -> Source:
    try:
        loaded = datasets.load_dataset(
            name, config_name, revision=revision, cache_dir=None if cache_dir is None else os.fspath(cache_dir)
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{name!r} is neither a folder here nor a data set on the Hub ({error}). {_FORMS}"
        ) from error
    except ConnectionError as error:
        raise ConnectionError(
            f"{name!r} is no folder here, and the Hugging Face Hub cannot be reached to look for a data set of that name "
            f"({error}). Check the connection, or use data that is here. {_FORMS}"
        ) from error
    renamed = {_SPLIT_ALIASES.get(split, split): split for split in loaded}
    splits = {split: loaded[renamed[split]] for split in SPLITS if split in renamed}
    if not splits:
        raise ValueError(f"The Hub data set {name!r} has the splits {list(loaded)}, none of them train, validation or test.")
    candidates = (_hub_file(name, filename, revision) for filename in LABEL_FILES)
    readme = _hub_file(name, "README.md", revision)
    return Source(
        name=name,
        # The features go along in the schema, as they do in a parquet file that `datasets` wrote.
        splits={
            split: pads.dataset(rows.data.table.replace_schema_metadata(rows.features.arrow_schema.metadata))
            for split, rows in splits.items()
        },
        fingerprint="-".join(rows._fingerprint for rows in splits.values()),
        label_file=next((path for path in candidates if path), None),
        card=read_data_card(readme) if readme else CardFacts(),
        left_out=tuple(split for split in loaded if split not in {renamed[split] for split in splits}),
    )


def _hub_file(name: str, filename: str, revision: str | None) -> Path | None:
    """A file of a Hub data set, ``None`` where the data set has none of that name."""
    try:
        return Path(hf_hub_download(name, filename, repo_type="dataset", revision=revision))
    except LocalEntryNotFoundError:
        # Offline. The cache remembers which files the data set lacked when this was last asked.
        if try_to_load_from_cache(name, filename, revision=revision, repo_type="dataset") is not _CACHED_NO_EXIST:
            effect = "labels may get other ids than they do online; go online once, or pass label_file=…."
            if filename == "README.md":
                effect = "the licence and language that it names are not known here, and cards of models will lack them; go online once."
            warnings.warn(
                f"The Hub cannot be reached to look for {filename} of {name!r}, so it is taken as missing. If the data set "
                f"has it, {effect}",
                stacklevel=5,
            )
    except EntryNotFoundError:
        pass
    return None

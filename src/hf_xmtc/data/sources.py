"""Where a data set comes from: the shipped one, files in one of many formats, or the Hugging Face Hub.

Each gives the same `Source`, splits that are still as their author left them. Files that are not parquet are converted once
(`hf_xmtc.data.formats`) and kept as parquet in the cache.
"""

import hashlib
import logging
import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import datasets
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from .build_folder import build_folder
from .cache_keys import cache_key
from .column_batches import damage_reported
from .data_card import CardFacts, read_data_card
from .formats.conversion import write_corpus
from .formats.corpus import Corpus, Format, ReadSettings
from .formats.registry import FORMATS, CorpusFiles, ambiguous_formats, find_format
from .formats.split_files import SPLITS, files_beside, files_of_splits, names_hint, splits_by_name, unread_files
from .formats.xmc_sparse import XMC_SPARSE
from .label_file import LABEL_FILES, file_digest, label_file_in
from .shard_schemas import check_shards, joint_schema

__all__ = ["DEMO_FOLDER", "SPLITS", "Source", "read_source"]

logger = logging.getLogger(__name__)

DEMO_FOLDER = Path(__file__).parent / "demo"
# Raised when a format gives other documents than before, so that old conversions are not reused.
_CONVERSION_VERSION = 4
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_FORMS = (
    "Give 'demo' (the data set shipped with hf_xmtc), a folder with train.parquet, validation.parquet and test.parquet "
    f"(columns text and labels), a folder or file of another format ({', '.join(kind.name for kind in FORMATS)}), or the id of a data "
    "set on the Hugging Face Hub ('user/name')."
)


@dataclass(frozen=True)
class Source:
    """A data set as its author left it.

    Attributes:
        name: ``demo``, the own name of the folder or file, or the Hub id; never a path of this machine.
        splits: Arrow data set of each split; its schema may carry the `datasets` features.
        fingerprint: Changes whenever the content does.
        label_file: The label file that came with the data, if any.
        card: Licence and languages that the data set's card names.
        left_out: Splits of the source that are neither training, validation nor test data.
        unread: Files of the folder that look like data and are not read.
        files: Those that were converted, so that the columns are ``text`` and ``labels``, whatever they were called; None for parquet.
    """

    name: str
    splits: dict[str, pads.Dataset]
    fingerprint: str
    label_file: Path | None = None
    card: CardFacts = CardFacts()
    left_out: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    files: CorpusFiles | None = None


def read_source(
    name_or_path: str | os.PathLike,
    *,
    format: str | None = None,
    reading: ReadSettings | None = None,
    config_name: str | None = None,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    num_proc: int | None = None,
) -> Source:
    """Open a data set by name or path. Rows of parquet files are not read; other files are converted to parquet in the cache.

    Args:
        name_or_path: ``"demo"``, a folder or file, or a Hub data set id. A folder of that name goes before the Hub; a folder called
            ``demo`` is ``"./demo"``.
        format: Format of the files; None to recognise it.
        reading: How files are read that are not parquet.
        config_name: Configuration of a Hub data set that has several.
        revision: Branch, tag or commit of a Hub data set.
        cache_dir: Cache of `datasets.load_dataset` for Hub data sets, and folder of converted files.
        num_proc: Processes that convert files, as in `write_corpus`.

    Raises:
        FileNotFoundError: If there is nothing of that name, or the folder has no files of a split.
        ConnectionError: If the Hub is needed and cannot be reached.
        ValueError: If there are files of two formats, a file is damaged or shards are missing, or a setting has no effect on this source.
    """
    reading = reading or ReadSettings()
    path = Path(name_or_path)
    if name_or_path != "demo" and path.exists():
        _check_name(path)
        if format not in (None, "parquet") or not (parquet := _parquet_files(path)):
            return _read_format(path, format, reading, cache_dir, num_proc)
        if format is None and path.is_dir() and (other := find_format(path, None)) and other[0] is not XMC_SPARSE:
            raise ambiguous_formats(
                path, {"parquet": set().union(*parquet.values()), other[0].name: set().union(*other[1].values())}
            )
        _check_no_effect("parquet files", None, reading)
        return _read_parquet(path, parquet, reading)
    _check_no_effect(f"{os.fspath(name_or_path)!r}", format, reading, missing=name_or_path != "demo")
    if name_or_path == "demo":
        return _read_parquet(DEMO_FOLDER, _parquet_files(DEMO_FOLDER))
    if isinstance(name_or_path, str) and _HUB_ID.fullmatch(name_or_path):
        return _read_hub(name_or_path, config_name, revision, cache_dir)
    raise FileNotFoundError(f"There is no folder or file {os.fspath(name_or_path)!r}. {_FORMS}")


def _check_name(path: Path) -> None:
    try:
        os.fspath(path.resolve()).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The name of the folder or file {os.fspath(path)!r} is not UTF-8 ({error.reason}). Rename it."
        ) from error


def _check_no_effect(what: str, format: str | None, reading: ReadSettings, missing: bool = False) -> None:
    """Refuse settings of text files for a source that is none, or for a path where nothing is."""
    for name in ("format", "encoding", "one_based"):
        value = format if name == "format" else getattr(reading, name)
        if value not in (None, False):
            setting = f"{name}={value!r} says how files of text are read"
            if missing:
                raise FileNotFoundError(
                    f"There is no folder or file {what}; {setting}, so it is not looked for on the Hub (leave it out for that). {_FORMS}"
                )
            raise ValueError(f"{setting}, which {what} are not. Leave it out.")


def _parquet_files(path: Path) -> dict[str, list[Path]]:
    """The parquet files of each split; a single file is training data."""
    # `DatasetDict.push_to_hub` puts the splits into data/; a clone of such a repository is read as it is.
    folders = [path, path / "data"] if (path / "data").is_dir() else [path]
    return next(filter(None, (files_of_splits(".parquet")(folder, False) for folder in folders)), {})


def _read_parquet(path: Path, files: dict[str, list[Path]], reading: ReadSettings | None = None) -> Source:
    splits = {}
    for split, paths in files.items():
        schemas = []
        for file in paths:
            with damage_reported(file):
                schemas.append(pq.read_schema(file))
            columns = schemas[-1].names
            if repeated := [column for column in columns if columns.count(column) > 1]:
                raise ValueError(
                    f"{file} has {len(repeated)} columns that share a name, {', '.join(map(repr, repeated))}, among {columns}. Keep one "
                    "of each name."
                )
        check_shards(dict(zip(paths, schemas, strict=True)), reading or ReadSettings())
        with damage_reported(paths[0]):
            splits[split] = pads.dataset([os.fspath(file) for file in paths], joint_schema(schemas), format="parquet")
    folder = path if path.is_dir() else path.parent
    readme = folder / "README.md"
    return Source(
        name=path.resolve().name,
        splits=splits,
        fingerprint=_digest(f"{split} {file_digest(file)}" for split, paths in files.items() for file in paths),
        label_file=label_file_in(folder),
        card=read_data_card(readme) if readme.is_file() else CardFacts(),
        unread=tuple(unread_files(path, set().union(*files.values()))),
    )


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode())
    return digest.hexdigest()


def _read_format(
    path: Path, name: str | None, reading: ReadSettings, cache_dir: str | os.PathLike | None, num_proc: int | None
) -> Source:
    found = None if name == "parquet" else find_format(path, name, reading.encoding)
    if found is None:
        raise _no_format(path)
    kind, files = found
    if name is None:
        names = sorted(file.name for paths in files.values() for file in paths)
        listing = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        logger.info(f"{path} is read as {kind.name}: {listing}. Another format can be named (--format).")
    folder = path if path.is_dir() else path.parent
    fingerprint = cache_key([_CONVERSION_VERSION, kind.name, asdict(reading), _digest(_contents(kind, files, folder))])
    target = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / "hf_xmtc"
    target /= f"{re.sub(r'[^A-Za-z0-9_.-]', '_', path.resolve().name)}-{kind.name}-{fingerprint}"
    corpus_files = CorpusFiles(kind.name, files, reading)
    if not target.is_dir():
        corpus = corpus_files.read()
        _check_has_text(corpus, path, kind)
        with build_folder(target) as unfinished:
            write_corpus(corpus, unfinished, corpus_files, path.name, num_proc)
    source = _read_parquet(target, _parquet_files(target))
    readme = folder / "README.md"
    return replace(
        source,
        name=path.resolve().name,
        fingerprint=fingerprint,
        label_file=source.label_file or label_file_in(folder),
        card=read_data_card(readme) if readme.is_file() else CardFacts(),
        unread=tuple(unread_files(path, set().union(*files.values()), kind.side_files)),
        files=corpus_files,
    )


def _check_has_text(corpus: Corpus, path: Path, kind: Format) -> None:
    """Refuse data without texts, from which no text model can be trained.

    Raises:
        ValueError: If there is none.
    """
    if any("text" not in documents.schema.names for documents in corpus.splits.values()):
        raise ValueError(
            f"{path} ({kind.name}) holds label ids and bags of words but no texts, and models of texts cannot be trained on them. Get the "
            "raw texts of the data set (trn.json.gz, or train_raw_texts.txt and train_labels.txt); `hf-xmtc convert --with_features` "
            "makes the bags of words readable for other programs."
        )


def _contents(kind: Format, files: dict[str, list[Path]], folder: Path) -> Iterable[str]:
    for split, paths in files.items():
        yield from (f"{split} {path.name} {file_digest(path)}" for path in paths)
    side_files = files_beside(folder, set().union(*files.values()), kind.side_files)
    yield from (f"{path.relative_to(folder)} {file_digest(path)}" for path in sorted(side_files))


def _no_format(path: Path) -> FileNotFoundError:
    if path.is_file():
        if not path.stat().st_size:
            return FileNotFoundError(
                f"The file {path} is empty, so its format is not recognised. Was it written before it was filled?"
            )
        return FileNotFoundError(
            f"The format of {path} is not recognised by its name and first line. {names_hint(path) or 'Name it in format=… (--format). '}"
            f"{_FORMS}"
        )
    present = sorted(entry.name for entry in path.iterdir())
    listing = ", ".join(present[:10]) + (", …" if len(present) > 10 else "") or "nothing"
    return FileNotFoundError(
        f"The folder {path} has no train.parquet, validation.parquet or test.parquet (nor shards such as "
        f"train-00000-of-00002.parquet), nor files of another format; it holds: {listing}. {names_hint(path)}{_FORMS}"
    )


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
    names = splits_by_name(list(loaded))
    splits = {split: loaded[own_name] for split, own_name in names.items()}
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
        left_out=tuple(split for split in loaded if split not in names.values()),
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

"""RCV1-V2 as tokens: ``lyrl2004_tokens_*.dat``, topics in ``rcv1-v2.topics.qrels`` and their names in ``rcv1.topics.hier.orig``."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hf_xmtc.models.label_names import LabelNames

from ..label_file import LabelFile
from .corpus import LABEL_STRINGS, Corpus, Documents, FileRows, Format, ReadSettings, documents_schema
from .rcv1_tokens import token_documents
from .split_files import find_split_files
from .text_lines import read_lines

__all__ = ["RCV1"]

_TOPICS, _HIERARCHY = "rcv1-v2.topics.qrels", "rcv1.topics.hier.orig"
_TOPIC = re.compile(r"parent:\s*(\S+)\s+child:\s*(\S+)\s+child-description:\s*(.*?)\s*")


def _find(path: Path, given: bool) -> dict[str, list[Path]]:
    return find_split_files(path, r"lyrl2004_tokens_{split}(_pt(?P<shard>\d+))?\.dat") if path.is_dir() else {}


def _read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    folder = next(iter(files.values()))[0].parent
    qrels = _named(folder, _TOPICS)
    if qrels is None:
        raise FileNotFoundError(
            f"{folder} has no {_TOPICS}, which holds the topics of the documents. Put it beside the .dat files."
        )
    topics = _read_topics(qrels, settings.encoding)
    schema = documents_schema(LABEL_STRINGS)
    read = partial(_read_file, topics=topics, qrels=qrels, encoding=settings.encoding)
    splits = {split: Documents(schema, FileRows(tuple(paths), read)) for split, paths in files.items()}
    hierarchy = _named(folder, _HIERARCHY)
    return Corpus(splits, hierarchy and _read_hierarchy(hierarchy, settings.encoding))


def _named(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_topics(path: Path, encoding: str | None) -> dict[str, list[str]]:
    topics: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path, encoding), start=1):
        fields = line.split()
        if fields and len(fields) != 3:
            raise ValueError(f"{path}, line {number} is {line!r:.40}, but a line holds a topic, the id of a document and 1.")
        if fields and fields[2] != "0":
            topics.setdefault(fields[1], []).append(fields[0])
    return topics


def _read_file(
    path: Path, topics: dict[str, list[str]], qrels: Path, encoding: str | None
) -> Iterator[tuple[str, list[str]]]:
    for document, text, number in token_documents(read_lines(path, encoding), path):
        if document not in topics:
            raise ValueError(f"{path}, line {number}: {qrels.name} has no topic of the document {document}. Was it cut off?")
        yield text, topics[document]


def _read_hierarchy(path: Path, encoding: str | None) -> LabelFile:
    labels, names, parents = [], [], []
    for number, line in enumerate(read_lines(path, encoding), start=1):
        match = _TOPIC.fullmatch(line)
        if match is None and line.strip():
            raise ValueError(
                f"{path}, line {number} is {line!r:.60}, but a line says parent:, child: and child-description:."
            )
        if match and match[2] != "Root":
            labels.append(match[2])
            names.append(match[3])
            parents.append([] if match[1] == "Root" else [match[1]])
    return LabelFile(LabelNames(labels, names, parents))


RCV1 = Format(
    "rcv1",
    _find,
    _read,
    f"lyrl2004_tokens_train.dat, lyrl2004_tokens_test_pt0.dat … and {_TOPICS}",
    side_files=tuple(f"{name}{ending}" for name in (_TOPICS, _HIERARCHY) for ending in ("", ".gz")),
)

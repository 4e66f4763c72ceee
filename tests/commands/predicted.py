"""Texts to tag, and how `hf-xmtc predict` tags them, for tests."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from hf_xmtc.commands import predict
from hf_xmtc.commands.predict import PredictArguments, predict_file

TEXTS = [
    "edit a plain text file",
    "sound",
    "",
    "play music and sound files and edit sound files",
    "zzz unknown",
    "a picture of a library",
    "show",
]


def run(settings: dict, **changes) -> predict.PredictSummary:
    return predict_file(PredictArguments(**{**settings, **changes}))


def rows_of(path: str | Path) -> list[dict]:
    if str(path).endswith(".parquet"):
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]

"""A data set small enough to train on in a second: a document's labels show in its words."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = {
    "animal": ["cat", "dog", "horse"],
    "colour": ["red", "green", "blue"],
    "food": ["bread", "soup", "rice"],
    "music": ["song", "drum", "choir"],
    "place": ["town", "river", "coast"],
    "tool": ["saw", "hammer", "drill"],
}


def make_documents(count: int, seed: int) -> list[tuple[str, list[str]]]:
    """Texts of 1 to 11 words with 1 to 3 labels each; the first six documents have one label each, so that all occur."""
    chance = random.Random(seed)
    documents = []
    for number in range(count):
        labels = [list(WORDS)[number]] if number < len(WORDS) else sorted(chance.sample(list(WORDS), chance.randint(1, 3)))
        words = [word for label in labels for word in chance.sample(WORDS[label], chance.randint(1, 3))]
        documents.append((" ".join(words + ["the", "of"][: chance.randint(0, 2)]), labels))
    return documents


def write_split(folder: Path, split: str, documents: list[tuple[str, list[str]]]) -> None:
    """Write ``<split>.parquet`` with the columns text and labels."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, labels = zip(*documents, strict=True)
    columns = {"text": pa.array(texts, pa.string()), "labels": pa.array(labels, pa.list_(pa.string()))}
    pq.write_table(pa.table(columns), folder / f"{split}.parquet")


def write_corpus(folder: Path, train: int = 24, validation: int = 8, test: int = 7) -> Path:
    """Write a data folder; a split with 0 documents is left out."""
    for seed, (split, count) in enumerate({"train": train, "validation": validation, "test": test}.items()):
        if count:
            write_split(folder, split, make_documents(count, seed))
    return folder

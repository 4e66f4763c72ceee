"""Speed and memory of converting a file of text documents to parquet.

    python scripts/benchmarks/convert_speed.py --documents 1000000 --formats csv tsv jsonl

Each format is converted in a process of its own; its peak memory is that of the process, imports included.
"""

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from itertools import accumulate
from pathlib import Path

from hf_xmtc.data.formats.conversion import write_corpus
from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import find_format

ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "libmultilabel": "txt", "fasttext": "txt", "annif": "tsv"}
# Different texts that are written in turn.
VARIETY = 2_000


def write_file(path: Path, kind: str, num_documents: int, num_words: int) -> None:
    """Documents of words drawn by their rank, with five labels each."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(50_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    texts = [" ".join(chance.choices(words, cum_weights=weights, k=num_words)) for _ in range(min(VARIETY, num_documents))]
    with open(path, "w", encoding="utf-8") as file:
        if kind in ("csv", "tsv"):
            file.write("text,labels\n" if kind == "csv" else "text\tlabels\n")
        for number in range(num_documents):
            labels = [f"label{(number * 7 + i * i * 31) % 10_000}" for i in range(5)]
            file.write(_line(kind, number, texts[number % len(texts)], labels) + "\n")


def _line(kind: str, number: int, text: str, labels: list[str]) -> str:
    listed = json.dumps(labels)
    if kind == "jsonl":
        return json.dumps({"text": text, "labels": labels})
    if kind == "libmultilabel":
        return f"{number}\t{' '.join(labels)}\t{text}"
    if kind == "fasttext":
        return " ".join(f"__label__{label}" for label in labels) + f" {text}"
    if kind == "annif":
        return f"{text}\t{' '.join(f'<http://example.org/{label}>' for label in labels)}"
    quoted = listed.replace('"', '""')
    return f'{text},"{quoted}"' if kind == "csv" else f"{text}\t{listed}"


def convert(path: Path, kind: str, folder: Path, answer) -> None:
    """Convert a file and send seconds and peak memory in MiB."""
    start = time.process_time()
    found, files = find_format(path, kind)
    write_corpus(found.read(files, ReadSettings()), folder, kind)
    answer.send((time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    """Write, convert and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of the file (default: %(default)s)")
    parser.add_argument("--words", type=int, default=200, help="words of a document (default: %(default)s)")
    parser.add_argument("--formats", nargs="+", default=list(ENDINGS), choices=ENDINGS, help="formats (default: all)")
    options = parser.parse_args()
    print(f"{options.documents:,} documents of {options.words:,} words\n")
    print("| format | MB | MB/s of processor time | peak MiB |\n| --- | ---: | ---: | ---: |")
    for kind in options.formats:
        with tempfile.TemporaryDirectory() as work:
            path, folder = Path(work, f"documents.{ENDINGS[kind]}"), Path(work, "parquet")
            folder.mkdir()
            write_file(path, kind, options.documents, options.words)
            receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
            process = multiprocessing.get_context("spawn").Process(target=convert, args=(path, kind, folder, sender))
            process.start()
            sender.close()  # so that a process that fails is noticed
            seconds, peak = receiver.recv()
            process.join()
            size = path.stat().st_size / 1e6
            print(f"| {kind} | {size:,.0f} | {size / seconds:,.0f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

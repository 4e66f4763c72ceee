"""Effects of damaged data files: seeded mutations of every file of a data set, loaded and read in processes of their own.

    python scripts/reliability/mutate_data_files.py --output scripts/results/reliability/mutated-data-files.json

A mutation flips bits of a file, cuts it off, swaps two pieces or appends rubbish. `load_xmtc_dataset` may then read the data or
refuse it by the `ValueError` that its documentation promises, which names the file or its split. Anything else is a failure:
another exception, a crash, a hang. Damage that is read without a word is counted apart: parquet has no checksum unless its
writer asks for one.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from hf_xmtc import label_info_of, load_xmtc_dataset
from hf_xmtc.data.sources import DEMO_FOLDER

# Documents of each split of the data set that is damaged: small, so that most damage meets data and not empty space.
DOCUMENTS = {"train": 200, "validation": 50, "test": 50}
COMPRESSIONS = ("zstd", "snappy", "none")
TIMEOUT = 60  # seconds for one load
OUTCOMES = ("unchanged", "changed", "ValueError", "failure")
EXPLANATION = (
    "Mutations of one file of a small data set each, loaded by `load_xmtc_dataset` with every row read. Unchanged: the same rows and "
    "label names as before. Changed: others, read without an error. ValueError: refused as documented, naming the file or split. "
    "Failure: anything else (other exceptions, crashes, hangs)."
)


def flip_bits(content: bytearray, chance: random.Random) -> bytearray:
    """One to eight bits turned over."""
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def truncate(content: bytearray, chance: random.Random) -> bytearray:
    """The end is missing."""
    return content[: chance.randrange(len(content))]


def swap_bytes(content: bytearray, chance: random.Random) -> bytearray:
    """Two pieces of up to 64 bytes have changed places."""
    length = chance.randint(1, min(64, len(content) // 2))
    first = chance.randint(0, len(content) - 2 * length)
    second = chance.randint(first + length, len(content) - length)
    pieces = content[first : first + length], content[second : second + length]
    content[second : second + length], content[first : first + length] = pieces
    return content


def append_rubbish(content: bytearray, chance: random.Random) -> bytearray:
    """Up to 256 random bytes follow."""
    return content + chance.randbytes(chance.randint(1, 256))


MUTATIONS: dict[str, Callable[[bytearray, random.Random], bytearray]] = {
    "bits flipped": flip_bits,
    "cut off": truncate,
    "bytes swapped": swap_bytes,
    "rubbish appended": append_rubbish,
}


def write_data_set(folder: Path, compression: str, label_file: str) -> Path:
    """A part of the demo data with its card, and a label file of either kind."""
    folder.mkdir(parents=True)
    for split, count in DOCUMENTS.items():
        rows = pq.read_table(DEMO_FOLDER / f"{split}.parquet").slice(0, count)
        pq.write_table(rows, folder / f"{split}.parquet", compression=compression)
    labels = pq.read_table(DEMO_FOLDER / "labels.parquet")
    if label_file == "labels.json":
        (folder / label_file).write_text(json.dumps(labels.select(["label", "name", "parents"]).to_pylist(), indent=0))
    else:
        pq.write_table(labels, folder / label_file, compression=compression)
    shutil.copyfile(DEMO_FOLDER / "README.md", folder / "README.md")
    return folder


def load_and_read(folder: Path, cache: Path) -> str:
    """Load a data set and read every row; a digest of all that was read."""
    digest = hashlib.blake2b()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load_xmtc_dataset(folder, cache_dir=cache)
    info = label_info_of(data)
    digest.update(repr([info.names.labels, info.evaluation_only, info.license, info.language]).encode())
    digest.update(repr([(info.names.name_of(i), info.names.parents_of(i)) for i in range(len(info.names))]).encode())
    for split, rows in data.items():
        for row in rows:
            digest.update(repr((split, row["text"], row["labels"])).encode())
    return digest.hexdigest()


def _work(folder: Path, cache: Path, answer) -> None:
    try:
        answer.send(("read", load_and_read(folder, cache)))
    except BaseException as error:  # whatever it is, the parent judges it
        answer.send((type(error).__name__, str(error), isinstance(error, ValueError)))


def answer_of(folder: Path, cache: Path) -> tuple:
    """The answer of a process of its own that loads a data set: ``("read", digest)`` or the error's name and message.

    The name is None for a crash or a hang; a third entry says whether the error is a `ValueError`.
    """
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_work, args=(folder, cache, sender))
    process.start()
    sender.close()
    answer = None
    if not receiver.poll(TIMEOUT):
        process.kill()
        answer = (None, f"no answer after {TIMEOUT} s", False)
    else:
        with contextlib.suppress(EOFError):  # it ended without an answer
            answer = receiver.recv()
    process.join()
    return answer or (None, f"the process ended with {process.exitcode}", False)


def outcome_of(answer: tuple, file: str, expected: str) -> tuple[str, str]:
    """One of `OUTCOMES`, and what was said, of a data set with one damaged file."""
    if answer[0] == "read":
        return ("unchanged" if answer[1] == expected else "changed"), ""
    name, message, is_value_error = answer
    names_it = file in message or Path(file).stem in message
    return ("ValueError" if is_value_error and names_it else "failure"), f"{name or 'no answer'}: {message}"


def mutate(count: int, seed: int, work: Path) -> dict:
    """Load ``count`` damaged data sets; the results as JSON values."""
    files = [*(f"{split}.parquet" for split in DOCUMENTS), "labels.parquet", "labels.json", "README.md"]
    sources = {
        (compression, label_file): write_data_set(work / f"{compression}-{label_file}" / "corpus", compression, label_file)
        for compression in COMPRESSIONS
        for label_file in ("labels.parquet", "labels.json")
    }
    expected = {key: answer_of(folder, work / "cache")[1] for key, folder in sources.items()}
    table: Counter[tuple[str, str, str]] = Counter()
    failures, messages, started = [], Counter(), time.monotonic()
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        # Every file by every mutation in turn.
        file = files[number % len(files)]
        name = list(MUTATIONS)[number // len(files) % len(MUTATIONS)]
        key = (chance.choice(COMPRESSIONS), "labels.json" if file == "labels.json" else "labels.parquet")
        folder, cache = work / "damaged" / "corpus", work / "damaged-cache"
        shutil.copytree(sources[key], folder)
        (folder / file).write_bytes(MUTATIONS[name](bytearray((folder / file).read_bytes()), chance))
        outcome, message = outcome_of(answer_of(folder, cache), file, expected[key])
        table[file, name, outcome] += 1
        if outcome == "failure":
            failures.append({"number": number, "file": file, "mutation": name, "message": message[:500]})
        elif message:
            messages[message.partition(" (")[0].replace(str(work), "")[:120]] += 1
        shutil.rmtree(folder.parent)
        shutil.rmtree(cache, ignore_errors=True)
    return {
        "explanation": EXPLANATION,
        "mutations": count,
        "seed": seed,
        "seconds": round(time.monotonic() - started),
        "outcomes": [
            {"file": file, "mutation": name, **{outcome: table[file, name, outcome] for outcome in OUTCOMES}}
            for file in files
            for name in MUTATIONS
        ],
        "most_frequent_messages": dict(messages.most_common(20)),
        "failures": failures,
    }


def as_markdown(result: dict) -> str:
    """The table of a result."""
    rows = [
        f"| {row['file']} | {row['mutation']} | {' | '.join(str(row[of]) for of in OUTCOMES)} |"
        for row in result["outcomes"]
    ]
    sums = " | ".join(str(sum(row[of] for row in result["outcomes"])) for of in OUTCOMES)
    head = [f"| file | mutation | {' | '.join(OUTCOMES)} |", f"| --- | --- |{' ---: |' * len(OUTCOMES)}"]
    about = f"{result['explanation']} {result['mutations']:,} mutations, seed {result['seed']}."
    return "\n".join(["# Damaged data files", "", about, "", *head, *rows, f"| all | all | {sums} |"]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run all mutations; 1 where one was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output", type=Path, required=True, help="JSON file of the results; a .md of the table goes beside it."
    )
    parser.add_argument("--mutations", type=int, default=1000, help="How many (default: %(default)s).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the damage (default: %(default)s).")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        result = mutate(args.mutations, args.seed, Path(work))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    args.output.with_suffix(".md").write_text(as_markdown(result), encoding="utf-8")
    print(as_markdown(result))
    for failure in result["failures"]:
        print(f"{failure['number']}: {failure['file']}, {failure['mutation']}: {failure['message']}")
    return int(bool(result["failures"]))


if __name__ == "__main__":
    sys.exit(main())

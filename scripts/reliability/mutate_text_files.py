"""Effects of damaged files of every format: seeded mutations of small files, read in this process.

    python scripts/reliability/mutate_text_files.py --mutations 10000 --output scripts/results/reliability/mutated-text-files.json

A damaged file may be read, or refused by a `ValueError` or `FileNotFoundError` that names the file or folder. Anything else is a failure.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.parquet_files import record_batches
from hf_xmtc.data.formats.registry import find_format
from mutate_data_files import MUTATIONS
from small_formats import FILES, write_files


def outcome_of(folder: Path, name: str) -> str:
    """``read``, ``refused``, or what else happened."""
    try:
        kind, files = find_format(folder, name)
        for documents in kind.read(files, ReadSettings()).splits.values():
            for batch, _ in record_batches(documents.rows(), documents.schema):
                batch.validate(full=True)
    except (ValueError, FileNotFoundError) as error:
        return "refused" if str(folder) in str(error) else f"{error!r} names no file"
    except Exception as error:  # whatever it is, it is counted
        return repr(error)
    return "read"


def mutate(count: int, seed: int, work: Path) -> Counter[tuple[str, str]]:
    """Outcomes of ``count`` damaged data sets, by format."""
    outcomes: Counter[tuple[str, str]] = Counter()
    names = list(FILES)
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        name = names[number % len(names)]
        folder = write_files(work / str(number), FILES[name])
        path = chance.choice(sorted(path for path in folder.iterdir() if path.stat().st_size > 2))
        damage = chance.choice(list(MUTATIONS.values()))
        path.write_bytes(damage(bytearray(path.read_bytes()), chance))
        outcomes[name, outcome_of(folder, name)] += 1
    return outcomes


def as_result(outcomes: Counter[tuple[str, str]], count: int, seed: int) -> dict:
    """The counts of each format, and what the failures were."""
    table = {name: {outcome: outcomes[name, outcome] for outcome in ("read", "refused")} for name in FILES}
    failures = [
        {"format": name, "what": outcome, "count": number}
        for (name, outcome), number in sorted(outcomes.items())
        if outcome not in ("read", "refused")
    ]
    for row in failures:
        table[row["format"]]["failure"] = table[row["format"]].get("failure", 0) + row["count"]
    return {"mutations": count, "seed": seed, "outcomes": table, "failures": failures}


def as_markdown(result: dict) -> str:
    """The table of a result."""
    columns = ("read", "refused", "failure")
    rows = [[name, *(counts.get(of, 0) for of in columns)] for name, counts in result["outcomes"].items()]
    rows.append(["all", *(sum(row[place] for row in rows) for place in range(1, len(columns) + 1))])
    lines = [
        "# Damaged text files",
        "",
        f"{result['mutations']:,} mutations (seed {result['seed']}) of one file of a small data set each, by bits flipped, cuts, swaps and rubbish. "
        "Read: as data of that format. Refused: by an error that names the file or folder. Failure: anything else.",
        "",
        f"| format | {' | '.join(columns)} |",
        f"| --- |{' ---: |' * len(columns)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run all mutations; 1 where one was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file of the results; a .md of the table goes beside it")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        outcomes = mutate(options.mutations, options.seed, Path(work))
    result = as_result(outcomes, options.mutations, options.seed)
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        options.output.with_suffix(".md").write_text(as_markdown(result), encoding="utf-8")
    print(as_markdown(result))
    for failure in result["failures"]:
        print(failure)
    return int(bool(result["failures"]))


if __name__ == "__main__":
    sys.exit(main())

"""Effects of damaged files of every format: seeded mutations of small files, read in this process.

    python scripts/reliability/mutate_text_files.py --mutations 10000

A damaged file may be read, or refused by a `ValueError` or `FileNotFoundError` that names the file or folder. Anything else is a failure.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from hf_xmtc.data.formats.conversion import record_batches
from hf_xmtc.data.formats.corpus import ReadSettings
from hf_xmtc.data.formats.registry import find_format
from mutate_data_files import MUTATIONS
from small_formats import FILES, write_files


def outcome_of(folder: Path, name: str) -> str:
    """``read``, ``refused``, or what else happened."""
    try:
        kind, files = find_format(folder, name)
        for documents in kind.read(files, ReadSettings()).splits.values():
            for batch in record_batches(documents.rows(), documents.schema):
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


def main(argv: list[str] | None = None) -> int:
    """Run all mutations; 1 where one was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage (default: %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        outcomes = mutate(options.mutations, options.seed, Path(work))
    for (name, outcome), count in sorted(outcomes.items()):
        print(f"{name}: {count} {outcome}")
    return int(any(outcome not in ("read", "refused") for _, outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())

"""Start two runs at once, into one output and into two, and compare what they leave with what one run alone leaves.

``python scripts/reliability/two_at_once.py --output scripts/results/reliability/two_at_once.json`` does so for ``train`` (200
documents of the demo data) and ``predict``, and writes the table as JSON and Markdown. Of two runs into one output exactly one may go
through; the other must be refused in a sentence that names the process of the first. Runs into two outputs have different seeds or
models, so that anything of one in the other would be seen.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kill_and_resume import COMMON, SETUPS, outcome

__all__ = ["main"]

SCRIPTS = Path(__file__).resolve().parents[1]
TRAINING = {**COMMON, **SETUPS["defaults"], "num_train_epochs": 5}
WORDS = ["library", "python", "server", "music", "editor", "kernel", "network", "game", "font", "database"]
# Many, so that the first run is still writing when the second one asks.
NUM_TEXTS = 5000
Command = tuple[str, Path, dict[str, Any]]


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reliability/two_at_once.py``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="JSON file; the table goes beside it as .md")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        results = try_all(Path(work))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    options.output.with_suffix(".md").write_text(as_table(results), encoding="utf-8")
    print(as_table(results))
    if not all(all(result["checks"].values()) for result in results):
        sys.exit("Two runs at once have got into each other's way.")


def try_all(work: Path) -> list[dict[str, Any]]:
    """One run alone of each kind, then the pairs."""
    texts = work / "texts.txt"
    lines = (f"{WORDS[row % 10]} for {WORDS[row // 10 % 10]} and {WORDS[row // 100 % 10]}" for row in range(NUM_TEXTS))
    texts.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def train(name: str, seed: int) -> Command:
        return "train", work / name, {**TRAINING, "seed": seed, "output_dir": work / name}

    def predict(name: str, seed: int) -> Command:
        return "predict", work / name, {"model": work / f"alone-{seed}", "input": texts, "output": work / name}

    results = []
    for make, ending in ((train, ""), (predict, ".jsonl")):
        alone = {}
        for seed in (1, 2):
            command = make(f"alone-{seed}{ending}", seed)
            finish(command)
            alone[seed] = content(command[1])
        results.append(into_one(make(f"one{ending}", 1), alone[1]))
        print(json.dumps(results[-1]), flush=True)
        results.append(into_two([make(f"two-{seed}{ending}", seed) for seed in (1, 2)], [alone[1], alone[2]]))
        print(json.dumps(results[-1]), flush=True)
    return results


def into_one(command: Command, expected: dict[str, Any]) -> dict[str, Any]:
    """Two runs of one command."""
    processes = [start(command), start(command)]
    said = [process.communicate()[0] for process in processes]
    ends = [process.returncode for process in processes]
    sentence, names_the_other = "", False
    if sorted(map(bool, ends)) == [False, True]:
        refused = ends.index(max(ends, key=bool))
        sentence = next((line for line in said[refused].splitlines() if "is being written by another run" in line), "")
        names_the_other = f"(process {processes[1 - refused].pid} on " in sentence
        sentence = sentence.replace(str(command[1].parent), "").replace(str(processes[1 - refused].pid), "PID")
    checks = {
        "one goes through, one is refused": sorted(map(bool, ends)) == [False, True],
        "refusal names the process": names_the_other,
        "result is that of one run alone": content(command[1]) == expected,
        "nothing is left beside it": beside(command[1]) == [],
    }
    return {"pair": f"{command[0]}, one output", "checks": checks, "said": without_host(sentence)}


def into_two(commands: list[Command], expected: list[dict[str, Any]]) -> dict[str, Any]:
    """Two runs of different commands."""
    processes = [start(command) for command in commands]
    said = [process.communicate()[0] for process in processes]
    ends = [process.returncode for process in processes]
    for words in (words for words, end in zip(said, ends, strict=True) if end):
        print(words[-2000:], file=sys.stderr)
    checks = {
        "both go through": ends == [0, 0],
        "each result is that of its run alone": ends == [0, 0] and [content(command[1]) for command in commands] == expected,
        "the two results differ": expected[0] != expected[1],
        "nothing is left beside them": [beside(command[1]) for command in commands] == [[], []],
    }
    return {"pair": f"{commands[0][0]}, two outputs", "checks": checks, "said": ""}


def start(command: Command) -> subprocess.Popen:
    """A run that says everything into one pipe."""
    script, _, settings = command
    arguments = [text for key, value in settings.items() for text in (f"--{key}", str(value))]
    line = [sys.executable, str(SCRIPTS / f"{script}.py"), *arguments]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")


def finish(command: Command) -> None:
    """A run that must go through, for others to be compared with."""
    process = start(command)
    said = process.communicate()[0]
    if process.returncode != 0:
        sys.exit(f"{command[0]} into {command[1].name} ended with status {process.returncode}:\n{said[-2000:]}")


def content(output: Path) -> dict[str, Any]:
    """Facts that must be equal: names of the files, digest of weights or predictions, metrics."""
    if output.is_file():
        return {"predictions": hashlib.sha256(output.read_bytes()).hexdigest()}
    names = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    return {"files": names, **outcome(output)}


def beside(output: Path) -> list[str]:
    """Leftovers of a run beside its output: locks, parts, states."""
    return sorted(path.name for path in output.parent.iterdir() if path.name.startswith(output.name) and path != output)


def without_host(sentence: str) -> str:
    """The sentence without the name of the machine and the time."""
    before, on, after = sentence.partition(" on ")
    return f"{before} on HOST, since TIME){after.partition(')')[2]}" if on else sentence


def as_table(results: list[dict[str, Any]]) -> str:
    """The pairs as a Markdown table."""
    held = sum(value for result in results for value in result["checks"].values())
    total = sum(len(result["checks"]) for result in results)
    lines = [
        f"Two runs at once, compared with one run alone (SHA-256 of weights, metrics and predictions): {held} of {total} checks hold.",
        "",
        "| runs | checks | the refused one says |",
        "| --- | --- | --- |",
    ]
    for result in results:
        checks = "; ".join(f"{name}: {'yes' if value else 'NO'}" for name, value in result["checks"].items())
        lines.append(f"| {result['pair']} | {checks} | {result['said'].strip() or '–'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

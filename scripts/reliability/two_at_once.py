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

__all__ = ["main"]

SCRIPTS = Path(__file__).resolve().parents[1]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TRAINING = {
    "model_family": "bertxml",
    "dataset": "demo",
    "num_cls_tokens": 2,
    "cornet_context_size": 16,
    "config_overrides": json.dumps(SIZES),
    "max_train_documents": 200,
    "max_eval_documents": 60,
    "max_length_tokens": 32,
    "per_device_train_batch_size": 10,
    "num_train_epochs": 5,
    "learning_rate": 0.01,
    "use_cpu": True,
    "disable_tqdm": True,
}
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
            finish([start(command)], [command])
            alone[seed] = content(command[1])
        results.append(into_one(make(f"one{ending}", 1), alone[1]))
        print(json.dumps(results[-1]), flush=True)
        results.append(into_two([make(f"two-{seed}{ending}", seed) for seed in (1, 2)], [alone[1], alone[2]]))
        print(json.dumps(results[-1]), flush=True)
    return results


def into_one(command: Command, expected: dict[str, str]) -> dict[str, Any]:
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


def into_two(commands: list[Command], expected: list[dict[str, str]]) -> dict[str, Any]:
    """Two runs of different commands."""
    finish([start(command) for command in commands], commands)
    checks = {
        "both go through": True,
        "each result is that of its run alone": [content(command[1]) for command in commands] == expected,
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


def finish(processes: list[subprocess.Popen], commands: list[Command]) -> None:
    """Wait for runs that must go through."""
    said = [process.communicate()[0] for process in processes]
    for process, words, (script, output, _) in zip(processes, said, commands, strict=True):
        if process.returncode != 0:
            sys.exit(f"{script} into {output.name} ended with status {process.returncode}:\n{words[-2000:]}")


def content(output: Path) -> dict[str, str]:
    """Names of the files and digests of what must be equal: weights, metrics, predictions."""
    if output.is_file():
        return {"predictions": digest(output.read_bytes())}
    metrics = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    names = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    measured = json.dumps({split: metrics[split] for split in ("validation", "test")}, sort_keys=True)
    weights = digest((output / "model.safetensors").read_bytes())
    return {"files": " ".join(names), "weights": weights, "metrics": digest(measured.encode())}


def beside(output: Path) -> list[str]:
    """What a run has left beside its output: locks, parts, states."""
    return sorted(path.name for path in output.parent.iterdir() if path.name.startswith(output.name) and path != output)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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

"""Open and use a model whose files were damaged in 1,000 ways, each in a process of its own, and count what happens.

A damaged file may give the same answer, another one in the right form (a weight may be any number, and nothing tells what it
was), or a ValueError or OSError in a sentence. Everything else is a failure and ends this script with status 1: a crash of the
process, another exception, scores that are no numbers, labels that are none, no end.

    python scripts/reliability/mutate_array_files.py --count 1000 --seed 0 --output scripts/results/reliability/mutate_array_files.json

In one half of the damage to ``candidates/`` its digest is taken out first, as whoever does it on purpose would.
"""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts" / "reliability")]

import torch  # noqa: E402
import transformers  # noqa: E402

from file_mutations import mutate  # noqa: E402
from hf_xmtc import XMTCPipeline  # noqa: E402
from hf_xmtc.inference.model_opening import open_model  # noqa: E402
from hf_xmtc.retrieval import generator_for  # noqa: E402
from small_corpus import WORDS, make_documents  # noqa: E402
from small_laco import save_generator, save_small_laco  # noqa: E402

# File → how often it is drawn.
FILES = {
    "candidates/candidates.safetensors": 45,
    "candidates/candidates.json": 15,
    "model.safetensors": 20,
    "labels.json": 5,
    "config.json": 5,
    "tokenizer.json": 5,
    "tokenizer_config.json": 5,
}
TEXTS = [text for text, _ in make_documents(3, seed=9)]
SAME, OTHER, REFUSED, FAILURE = "same answer", "another answer", "refused", "FAILURE"
OUTCOMES = (SAME, OTHER, REFUSED, FAILURE)
TIME_LIMIT, MEMORY_LIMIT = 60, 4 * 2**30  # seconds; bytes more than at the start


def make_model(folder: Path) -> None:
    """A tiny model of 6 labels that scores 4 candidates, found among 60 texts."""
    documents, names = make_documents(60, seed=3), list(WORDS)
    torch.manual_seed(0)
    texts = [text for text, _ in documents]
    save_small_laco(folder, texts, names, num_candidates=4)
    save_generator(folder, texts, [[names.index(label) for label in labels] for _, labels in documents], len(names))


def answer(folder: Path) -> list:
    """The answers of the model to some texts."""
    model, tokenizer = open_model(str(folder))
    generator = generator_for(model, str(folder))
    tagger = XMTCPipeline(model=model, tokenizer=tokenizer, candidates=generator, device="cpu")
    return [[(entry["label"], entry["score"]) for entry in row] for row in tagger(TEXTS, top_k=3)]


def outcome_of(folder: Path, expected: list) -> tuple[str, str]:
    """Outcome and what was said, in this process."""
    try:
        rows = answer(folder)
    except (ValueError, OSError) as error:
        said = str(error)
        return (
            (REFUSED, said)
            if len(said) >= 20 and " " in said
            else (FAILURE, f"{type(error).__name__} without a sentence: {said}")
        )
    except BaseException as error:
        return FAILURE, f"{type(error).__name__}: {error}"
    sound = all(isinstance(label, str) and 0.0 <= score <= 1.0 for row in rows for label, score in row)
    if len(rows) != len(TEXTS) or not sound or any(len({label for label, _ in row}) != len(row) for row in rows):
        return FAILURE, f"an answer of another form: {rows}"
    same = all(
        [label for label, _ in row] == [label for label, _ in right]
        and all(abs(score - other) < 1e-6 for (_, score), (_, other) in zip(row, right, strict=True))
        for row, right in zip(rows, expected, strict=True)
    )
    return (SAME if same else OTHER), ""


def run_apart(folder: Path, expected: list) -> tuple[str, str]:
    """`outcome_of` in a fork of this process, so that a crash or an endless loop is seen."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(TIME_LIMIT)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, used + MEMORY_LIMIT))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # progress bars and warnings
        os.write(writing, json.dumps(outcome_of(folder, expected)).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return FAILURE, f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return tuple(json.loads(said)) if said else (FAILURE, f"ended with status {os.WEXITSTATUS(status)} and without a word")


def run(count: int, seed: int) -> dict:
    """Make the model, damage it ``count`` times and count outcomes by file and kind of damage."""
    cases = []
    with tempfile.TemporaryDirectory() as temporary:
        base, damaged = Path(temporary, "base"), Path(temporary, "damaged")
        make_model(base)
        expected = answer(base)
        for number in range(count):
            draw = random.Random(f"{seed}-{number}")
            name = draw.choices(list(FILES), weights=list(FILES.values()))[0]
            shutil.copytree(base, damaged, dirs_exist_ok=True)
            if name.startswith("candidates/") and draw.random() < 0.5:
                settings = damaged / "candidates" / "candidates.json"
                settings.write_text(json.dumps({k: v for k, v in json.loads(settings.read_text()).items() if k != "digest"}))
            kind, content = mutate(name, (damaged / name).read_bytes(), draw)
            (damaged / name).write_bytes(content)
            outcome, said = run_apart(damaged, expected)
            cases.append(
                {"number": number, "file": name, "damage": kind, "outcome": outcome, "said": said.replace(temporary, "")}
            )
            if number % 100 == 99:
                print(f"{number + 1} of {count}", file=sys.stderr)
    return {"count": count, "seed": seed, "cases": cases}


def table(cases: list[dict]) -> str:
    """Outcomes by file and damage, as Markdown."""
    counts: dict[tuple[str, str], Counter] = {}
    for case in cases:
        counts.setdefault((case["file"], case["damage"]), Counter())[case["outcome"]] += 1
    rows = [f"| file | damage | {' | '.join(OUTCOMES)} |", f"| --- | --- |{' ---: |' * len(OUTCOMES)}"]
    for (name, kind), found in sorted(counts.items()):
        rows.append(f"| {name} | {kind} | {' | '.join(str(found[outcome]) for outcome in OUTCOMES)} |")
    total = Counter(case["outcome"] for case in cases)
    return "\n".join([*rows, f"| all | | {' | '.join(str(total[outcome]) for outcome in OUTCOMES)} |"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many files to damage")
    parser.add_argument("--seed", type=int, default=0, help="another one, other damage")
    parser.add_argument("--output", type=Path, help="JSON file for all cases; the table goes beside it as Markdown")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    started = time.monotonic()
    result = run(options.count, options.seed)
    text = table(result["cases"])
    print(text)
    failures = [case for case in result["cases"] if case["outcome"] == FAILURE]
    for case in failures[:20]:
        print(f"{case['number']}: {case['file']}, {case['damage']}: {case['said'][:300]}")
    print(f"{len(failures)} failures in {options.count} damaged models, {time.monotonic() - started:.0f} s")
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        short = [{**case, "said": case["said"][:160]} for case in result["cases"]]
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in short)
        options.output.write_text(
            f'{{"count": {options.count}, "seed": {options.seed}, "cases": [\n{lines}\n]}}\n', encoding="utf-8"
        )
        heading = f"# {options.count} damaged model files (seed {options.seed})\n\nMade by `scripts/reliability/mutate_array_files.py`.\n\n"
        options.output.with_suffix(".md").write_text(f"{heading}{text}\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

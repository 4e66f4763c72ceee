"""Measure what tagging a text costs: ``python scripts/benchmarks/tagging_speed.py --model FOLDER --input FILE``.

Texts are tagged as ``hf-xmtc predict`` does, in batches, after some that are not counted. The time is that of this process's cores, so
that other work on the machine does not count; with one thread it is what a text takes on one core. ``<output>.json`` holds the measurement,
``<output>.md`` the table.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from hf_xmtc.commands.document_files import DocumentFile
from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.inference.model_opening import choose_max_length, open_model
from hf_xmtc.inference.text_prediction import predict_texts
from hf_xmtc.retrieval import generator_for
from machine import machine_description, write_results

__all__ = ["main", "measure"]

WARM_UP = 32


def main(arguments: list[str] | None = None) -> None:
    """Measure a model and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Model folder, or id on the Hub.")
    parser.add_argument("--input", required=True, help="Texts, as for hf-xmtc predict.")
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_tagging")
    parser.add_argument("--num_texts", type=int, default=512)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    texts = next(DocumentFile(options.input).chunks(WARM_UP + options.num_texts)).texts
    if len(texts) <= WARM_UP:
        raise SystemExit(
            f"{options.input} holds {len(texts)} texts, but more than {WARM_UP} are needed: the first ones are not counted."
        )
    results = {
        "machine": {**machine_description(), "threads": options.threads},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        **measure(options.model, texts, options.batch_size),
    }
    table = markdown(results)
    write_results(options.output, results, table)
    print(table)


def measure(model_folder: str, texts: list[str], batch_size: int) -> dict[str, Any]:
    """Milliseconds of a text for its candidates, where the model has a generator, and for its scores; MiB at the peak."""
    model, tokenizer = open_model(model_folder)
    generator = generator_for(model, model_folder)
    limit = choose_max_length(model, tokenizer, None)

    def tag(part: list[str]) -> tuple[float, float]:
        found, finding = None, 0.0
        if generator is not None:
            found, finding = _timed(lambda: generator.candidates(part, model.config.num_candidates))
        settings = {"candidates": found, "top_k": 5, "batch_size": batch_size, "max_length": limit}
        return finding, _timed(lambda: predict_texts(model, tokenizer, part, **settings))[1]

    tag(texts[:WARM_UP])
    counted = texts[WARM_UP:]
    finding, scoring = tag(counted)
    return {
        "model": type(model).__name__,
        "num_labels": model.config.num_labels,
        "num_candidates": getattr(model.config, "num_candidates", 0),
        "num_training_texts": None if generator is None else generator.documents.shape[0],
        "max_length": limit,
        "num_texts": len(counted),
        "batch_size": batch_size,
        "candidates_ms": None if generator is None else 1000 * finding / len(counted),
        "scores_ms": 1000 * scoring / len(counted),
        "peak_memory_mib": peak_memory_mb(),
    }


def _timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    found = act()
    return found, time.process_time() - start


def markdown(results: dict[str, Any]) -> str:
    """The measurement as a table."""
    machine, finding = results["machine"], results["candidates_ms"]
    parts = [f"| scores and the best labels | {results['scores_ms']:.1f} |"]
    if finding is not None:
        parts.insert(
            0,
            f"| {results['num_candidates']} candidates from {results['num_training_texts']:,} training texts | {finding:.1f} |",
        )
        parts.append(f"| together | {finding + results['scores_ms']:.1f} |")
    head = (
        f"# Tagging with {results['model']}: {results['num_labels']:,} labels\n\n"
        f"Milliseconds of processor time per text, over {results['num_texts']} texts in batches of {results['batch_size']} with at most "
        f"{results['max_length']} tokens, on {machine['threads']} thread(s) of {machine['processor']}; at most "
        f"{results['peak_memory_mib']:,} MiB; torch {results['versions']['torch']}.\n\n| | ms |\n|---|---:|\n"
    )
    return head + "\n".join(parts) + "\n"


if __name__ == "__main__":
    main()

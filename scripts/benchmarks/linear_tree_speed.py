"""Measure prediction of our linear trees against omikuji's own: ``python scripts/benchmarks/linear_tree_speed.py --dataset DATA``.

Both predict the same sample of test documents with the same trees in the same process on as many threads, in turns, and the median of the
rounds counts. omikuji is given TF-IDF vectors; ours begins with word ids and computes them. omikuji searches with its beam of 10 and takes one
document a call; ours scores all labels. (Its `densify_weights` changed nothing, because no node's weights were dense enough.)
``<output>.json`` holds the cases, ``<output>.md`` the table; cases with other names stay as they are.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omikuji
import torch
from datasets import DatasetDict
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_xmtc import BonsaiForXMTC, ParabelForXMTC, label_info_of, load_xmtc_dataset
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.data import tokenize_dataset
from hf_xmtc.data.document_sample import sample_documents
from hf_xmtc.models.modeling_linear_tree import LinearTreeModel
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.linear_trees import train_linear_trees
from machine import machine_description

__all__ = ["main", "measure", "train"]

FAMILIES = {"bonsai": BonsaiForXMTC, "parabel": ParabelForXMTC}
MAX_LENGTH, TOP_K, BEAM, ROUNDS = 100_000, 10, 10, 3
# Documents whose scores of all labels are compared.
NUM_COMPARED = 100


def main(arguments: list[str] | None = None) -> None:
    """Measure a case and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="demo", help="As for hf-xmtc train; its test split is predicted.")
    parser.add_argument("--model_family", choices=FAMILIES, default="bonsai")
    parser.add_argument(
        "--model", type=Path, help="Folder of a trained model with its tokenizer; by default one is trained."
    )
    parser.add_argument("--trees", type=Path, help="omikuji's files, from which that model was read.")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_linear_tree"
    )
    parser.add_argument("--num_documents", type=int, default=1000)
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    if (options.model is None) != (options.trees is None):
        parser.error(f"--model {options.model} and --trees {options.trees} go together")
    torch.set_num_threads(options.threads)
    data, family = load_xmtc_dataset(options.dataset), FAMILIES[options.model_family]
    with tempfile.TemporaryDirectory() as folder:
        trees = options.trees or Path(folder, "trees")
        if options.model is None:
            model, tokenizer = train(family, data, trees)
        else:
            model, tokenizer = family.from_pretrained(options.model), AutoTokenizer.from_pretrained(options.model)
        documents, _ = tokenize_dataset(sample_documents(data["test"], options.num_documents), tokenizer, MAX_LENGTH)
        case = {
            "name": f"{Path(options.dataset).name}, {options.model_family}, {options.threads} thread(s)",
            "threads": options.threads,
            **measure(model.eval(), trees, documents["input_ids"], options.batch_sizes, options.threads),
        }
    path = options.output.with_suffix(".json")
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []
    results = {
        "machine": machine_description(),
        "versions": {"torch": torch.__version__, "omikuji": omikuji.__version__},
        "cases": sorted([*(old for old in cases if old["name"] != case["name"]), case], key=lambda case: case["name"]),
    }
    write_json(path, results)
    options.output.with_suffix(".md").write_text(markdown(results), encoding="utf-8")
    print(markdown(results))


def train(family: type[LinearTreeModel], data: DatasetDict, trees: Path) -> tuple[LinearTreeModel, PreTrainedTokenizerFast]:
    """A model with a family's default settings, as ``hf-xmtc train`` trains it, and its tokenizer; omikuji's files go into ``trees``."""
    tokenizer = train_word_tokenizer(data["train"]["text"], min_document_frequency=2, max_length=MAX_LENGTH)
    names = label_info_of(data).names
    model = family(family.config_class.for_tokenizer(tokenizer, label_names=names))
    documents, _ = tokenize_dataset(data["train"], tokenizer, MAX_LENGTH)
    train_linear_trees(model, documents, tokenizer.all_special_ids, trees)
    return model, tokenizer


@torch.no_grad()
def measure(
    model: LinearTreeModel, trees: Path, documents: list[list[int]], batch_sizes: list[int], threads: int
) -> dict[str, Any]:
    """CPU milliseconds per document of both, and the largest difference of their scores.

    Args:
        model: Our model.
        trees: omikuji's files.
        documents: Word ids of each document.
        batch_sizes: Documents that ours scores together; one by one is measured in any case.
        threads: For both.
    """
    original = omikuji.Model.load(str(trees))
    original.init_prediction_thread_pool(threads)
    words = [_tf_idf(model, ids) for ids in documents]
    difference = max(_difference(model, original, *pair) for pair in zip(documents[:NUM_COMPARED], words, strict=False))

    def predict_by_omikuji() -> None:
        for pairs in words:
            original.predict(pairs, beam_size=BEAM, top_k=TOP_K)

    def predict_in(batches: list[dict[str, torch.Tensor]]) -> None:
        for batch in batches:
            model(**batch, top_k=TOP_K)

    batches = {size: _batches(documents, size) for size in (1, *batch_sizes)}
    acts = [predict_by_omikuji, *(lambda parts=parts: predict_in(parts) for parts in batches.values())]
    omikujis, *ours = _milliseconds(acts, len(documents))
    return {
        "num_labels": model.config.num_labels,
        "num_weights": model.config.num_weights,
        "num_documents": len(documents),
        "words_per_document": sum(map(len, words)) / len(words),
        "omikuji_ms": omikujis,
        "ours_ms": {str(size): milliseconds for size, milliseconds in zip(batches, ours, strict=True)},
        "largest_difference": difference,
    }


def _milliseconds(acts: list[Callable[[], None]], num_documents: int) -> list[float]:
    """Milliseconds of processor time per document of each act, the median of rounds in which they take turns."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(ROUNDS):
        for act, of_act in zip(acts, times, strict=True):
            start = time.process_time()
            act()
            of_act.append(1000 * (time.process_time() - start) / num_documents)
    return [statistics.median(of_act) for of_act in times]


def _tf_idf(model: LinearTreeModel, ids: list[int]) -> list[tuple[int, float]]:
    """Words and values of a document, as omikuji takes them."""
    words = model.words(torch.tensor([ids], dtype=torch.long))
    return [pair for pair in zip(words.words.tolist(), words.values.tolist(), strict=True) if pair[1] > 0]


def _difference(model: LinearTreeModel, original: omikuji.Model, ids: list[int], words: list[tuple[int, float]]) -> float:
    """Largest difference of the scores of all labels, with a beam that reaches all of them."""
    num_labels = model.config.num_labels
    scores, expected = model(torch.tensor([ids], dtype=torch.long)).logits[0].sigmoid(), torch.zeros(num_labels)
    labels, theirs = zip(*original.predict(words, beam_size=10**6, top_k=num_labels), strict=True)
    expected[list(labels)] = torch.tensor(theirs)
    return (scores - expected).abs().max().item()


def _batches(documents: list[list[int]], size: int) -> list[dict[str, torch.Tensor]]:
    batches = []
    for start in range(0, len(documents), size):
        rows = [torch.tensor(ids, dtype=torch.long) for ids in documents[start : start + size]]
        mask = [torch.ones_like(row) for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        batches.append({"input_ids": pad(rows, batch_first=True), "attention_mask": pad(mask, batch_first=True)})
    return batches


def markdown(results: dict[str, Any]) -> str:
    """The measurements as a table."""
    machine, versions, cases = results["machine"], results["versions"], results["cases"]
    sizes = sorted({int(size) for case in cases for size in case["ours_ms"]})
    heads = [f"ours, {'one by one' if size == 1 else f'batches of {size}'} (ratio)" for size in sizes]
    lines = [
        "# Predicting with linear trees",
        "",
        "Milliseconds of processor time per document. omikuji and our model have the same trees and predict the same test documents in one process, in "
        f"turns; each figure is the median of {ROUNDS} rounds. omikuji begins with TF-IDF vectors, searches with a beam of {BEAM} and takes a document a "
        f"call; ours begins with word ids and scores all labels. A *ratio* below 1 means that ours is faster. *Difference* is the "
        f"largest of any label's score over {NUM_COMPARED} documents, where omikuji's beam reaches all labels. Shared machine of {machine['cores']} cores "
        f"({machine['processor']}); torch {versions['torch']}, omikuji {versions['omikuji']}.",
        "",
        f"| data, trees | labels | weights | documents | words of one | omikuji | {' | '.join(heads)} | difference |",
        f"|---|---:|---:|---:|---:|---:|{'---:|' * len(sizes)}---:|",
    ]
    for case in cases:
        times = [case["ours_ms"].get(str(size)) for size in sizes]
        ours = ["" if time is None else f"{time:.2f} ({time / case['omikuji_ms']:.2f})" for time in times]
        lines.append(
            f"| {case['name']} | {case['num_labels']:,} | {case['num_weights']:,} | {case['num_documents']:,} | {case['words_per_document']:.0f} "
            f"| {case['omikuji_ms']:.2f} | {' | '.join(ours)} | {case['largest_difference']:.0e} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

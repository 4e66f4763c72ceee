"""Measure what a teacher costs: the index of the training texts, finding a text's neighbours in it, and scoring its labels.

    python scripts/benchmarks/teacher_speed.py --dataset llms4subjects-en yso-finna-en

The model is TReaderXML of the default size with random weights, which cost what trained ones do; texts are found by TF-IDF. Times are of one
thread of this process. ``<output>.json`` holds the measurement, ``<output>.md`` the table.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hf_xmtc import TReaderXMLConfig, TReaderXMLForXMTC
from hf_xmtc.data import label_info_of, load_xmtc_dataset, tokenize_dataset
from hf_xmtc.models.aligned_tokens import pad_documents
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.teacher import store_teacher
from machine import in_new_process, machine_description, write_results

__all__ = ["main", "markdown", "measure"]

MAX_LENGTH = 128
WARM_UP = 8


def main(arguments: list[str] | None = None) -> None:
    """Measure a model on every data set and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", required=True, help="Folders, as for hf-xmtc train.")
    parser.add_argument("--num_texts", type=int, default=128, help="Texts of the test split that are tagged.")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_teacher")
    options = parser.parse_args(arguments)
    cases = [in_new_process(measure, dataset, options.num_texts, tuple(options.batch_sizes)) for dataset in options.dataset]
    results = {"machine": machine_description(), "torch": torch.__version__, "num_texts": options.num_texts, "cases": cases}
    table = markdown(results)
    write_results(options.output, results, table)
    print(table)


@torch.no_grad()
def measure(dataset: str, num_texts: int, batch_sizes: tuple[int, ...]) -> dict[str, Any]:
    """Seconds and MiB of the index, and milliseconds of a test text for its teacher and with its scores, by batch size."""
    torch.set_num_threads(1)
    data = load_xmtc_dataset(dataset)
    info = label_info_of(data)
    tokenizer = train_word_tokenizer(data["train"]["text"], min_document_frequency=2, max_length=MAX_LENGTH)
    tokenized, _ = tokenize_dataset(data, tokenizer, MAX_LENGTH)
    sizes = {"num_labels": info.num_labels, "vocab_size": len(tokenizer)}
    model = TReaderXMLForXMTC(TReaderXMLConfig(parents="none", pad_token_id=tokenizer.pad_token_id, **sizes)).eval()
    names = [info.names.name_of(label_id) for label_id in range(info.num_labels)]
    texts = tokenizer(names, add_special_tokens=False)["input_ids"]
    # A label without a known word is described by the unknown token, so that no words are sought in its documents.
    texts = [ids or [tokenizer.unk_token_id] for ids in texts]

    def store() -> None:
        store_teacher(model, tokenized["train"], info.names, texts, lambda names: [], tokenizer.all_special_ids)

    case = {
        "dataset": Path(dataset).resolve().name,
        "num_training_texts": len(tokenized["train"]),
        "num_labels": info.num_labels,
        "index_seconds": _seconds(store),
        "index_mib": sum(part.numel() * part.element_size() for part in model.teacher.state_dict().values()) / 2**20,
        "latencies": [],
    }
    test = tokenized["test"].shuffle(seed=0).select(range(WARM_UP + num_texts))["input_ids"][:]
    for batch_size in batch_sizes:
        batches = [test[start : start + batch_size] for start in range(WARM_UP, len(test), batch_size)]
        batches = [pad_documents(batch) for batch in batches]
        model(*pad_documents(test[:WARM_UP]), top_k=5)
        teachers = _seconds(lambda batches=batches: [model.teacher_of(*batch) for batch in batches])
        together = _seconds(lambda batches=batches: [model(*batch, top_k=5) for batch in batches])
        times = {"teacher_ms": 1000 * teachers / num_texts, "together_ms": 1000 * together / num_texts}
        case["latencies"].append({"batch_size": batch_size, **times})
    return case


def _seconds(act: Callable[[], Any]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def markdown(results: dict[str, Any]) -> str:
    """The measurement as a table."""
    lines = [
        "# A teacher's cost",
        "",
        f"Processor time of one thread of a shared machine ({results['machine']['processor']}); torch {results['torch']}. TReaderXML of the default "
        f"size with texts of at most {MAX_LENGTH} tokens, found by TF-IDF, over {results['num_texts']} test texts. Index: of tokenized texts. Together: teacher, reading, and the "
        "best 5 of all labels.",
        "",
        "| data set | training texts | labels | index, s | index, MiB | texts at once | teacher, ms a text | together, ms a text |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in results["cases"]:
        index = f"{case['index_seconds']:.1f} | {case['index_mib']:.0f}"
        for times in case["latencies"]:
            lines.append(
                f"| {case['dataset']} | {case['num_training_texts']:,} | {case['num_labels']:,} | {index} | {times['batch_size']} "
                f"| {times['teacher_ms']:.1f} | {times['together_ms']:.1f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""The card of a data set: its facts in the Hub's header, and the table of what is in it."""

from collections.abc import Mapping
from typing import Any

import yaml

from .markdown import escaped

__all__ = ["dataset_card", "dataset_table"]


def dataset_table(statistics: Mapping[str, Any]) -> str:
    """Counts of `hf_xmtc.data.dataset_statistics` as a Markdown table with a column for each split."""
    splits = statistics["splits"]
    rows = {
        "documents": [f"{numbers['num_documents']:,}" for numbers in splits.values()],
        "labels per document (mean)": [_mean(numbers, "labels_per_document") for numbers in splits.values()],
        "words per document (mean)": [_mean(numbers, "words_per_document") for numbers in splits.values()],
        "documents without labels": [_count(numbers, "num_without_labels") for numbers in splits.values()],
        "with labels that training lacks": [_count(numbers, "num_with_unseen_labels") for numbers in splits.values()],
        "empty texts": [_count(numbers, "num_empty") for numbers in splits.values()],
        "texts without blanks between words": [_count(numbers, "num_without_blanks") for numbers in splits.values()],
    }
    for other in splits:
        found = [statistics["duplicates"].get(split, {}).get(other) for split in splits]
        rows[f"with a text of {other} (letter by letter)"] = [
            f"{count['near']:,} ({count['exact']:,})" if count else "" for count in found
        ]
    lines = [f"| | {' | '.join(splits)} |", f"| --- |{' ---: |' * len(splits)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())])


def _mean(numbers: Mapping[str, Any], key: str) -> str:
    return f"{numbers[key]['mean']:,.2f}" if key in numbers else ""


def _count(numbers: Mapping[str, Any], key: str) -> str:
    return f"{numbers[key]:,}" if key in numbers else ""


def dataset_card(statistics: Mapping[str, Any], license: str | None, language: str | None) -> str:
    """Card of a data set whose splits lie beside it as ``train.parquet`` and so on, or are pushed with it.

    Splits that were taken from the training split for the table have no files, so the header does not name them.
    """
    splits = statistics["splits"]
    carved = {split for split in ("validation", "test") if statistics[f"{split}_carved"]}
    header = {
        "license": license or "unknown",
        **({"language": language.split(", ")} if language else {}),
        "task_categories": ["text-classification"],
        "task_ids": ["multi-label-classification"],
        "size_categories": [_size(sum(numbers["num_documents"] for numbers in splits.values()))],
        "tags": ["extreme-multi-label-classification"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"{split}*.parquet"} for split in splits if split not in carved],
            }
        ],
    }
    labels = f"{statistics['num_labels']:,} labels" if statistics["num_labels"] else "No labels"
    if spread := statistics.get("documents_per_label"):
        labels += f", of {spread['mean']:,.1f} training documents on average (median {spread['median']:g})"
    groups = ", ".join(f"{count:,} {group}" for group, count in statistics.get("label_groups", {}).items())
    return (
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n# {escaped(statistics['source'])}\n\n"
        f"{labels}{': ' if groups else ''}{groups}. {statistics['num_evaluation_only_labels']:,} more occur only in evaluation data; "
        f"{statistics['num_spellings']:,} differ from another only in spelling.\n\n{dataset_table(statistics)}\n\n"
        "![Documents of each label](label_frequency.png)\n\nDuplicates have the same letters and digits: case, blanks and punctuation make "
        "no difference. The table is that of `hf-xmtc describe`.\n"
    )


def _size(num_documents: int) -> str:
    """The Hub's name for a number of rows."""
    limits = {
        10**3: "n<1K",
        10**4: "1K<n<10K",
        10**5: "10K<n<100K",
        10**6: "100K<n<1M",
        10**7: "1M<n<10M",
        10**8: "10M<n<100M",
    }
    return next((name for limit, name in limits.items() if num_documents < limit), "100M<n<1B")

"""A model before and after its extension, on documents that are not added: what the change was worth."""

from typing import Any

import numpy as np
from datasets import DatasetDict

from hf_xmtc.data import LabelInfo
from hf_xmtc.data.document_sample import sample_documents
from hf_xmtc.inference.model_opening import choose_max_length
from hf_xmtc.inference.text_prediction import predict_texts
from hf_xmtc.metrics import ranking_report
from hf_xmtc.models.label_names import LabelNames

__all__ = ["ExtensionReport", "counted", "describe"]

# Documents that are predicted: a fair sample where there are more.
MAX_DOCUMENTS = 2_000
REPORTED = ("nDCG@5", "R@5")


class ExtensionReport:
    """Rankings of the test split's documents, or of the validation split's where there is no test split.

    Args:
        data: The new data; labels that only evaluation documents have count as missed.
        info: Their labels.
    """

    def __init__(self, data: DatasetDict, info: LabelInfo):
        self.split = next(
            (split for split in ("test", "validation") if any(data.get(split, {"labels": []})["labels"])), None
        )
        self.texts: list[str] = []
        self.labels: list[list[str]] = []
        self._rankings: list[np.ndarray] = []
        if self.split is not None:
            rows = sample_documents(data[self.split], MAX_DOCUMENTS)
            self.texts = rows["text"][:]
            self.labels = [[info.label_of(label) for label in row] for row in rows["labels"]]

    def rank(self, model: Any, tokenizer: Any) -> None:
        """Keep the best labels that a model gives the documents: first as it was, then extended."""
        max_length = choose_max_length(model, tokenizer, None)
        self._rankings.append(predict_texts(model, tokenizer, self.texts, top_k=5, max_length=max_length)[0])

    def metrics(self, names: LabelNames, num_known: int) -> dict[str, Any] | None:
        """Metrics before and after; of the new labels, those from id ``num_known`` on, recall alone. None without documents."""
        if self.split is None:
            return None
        ids = dict(names.ids)
        positives = [[ids.setdefault(label, len(ids)) for label in row] for row in self.labels]
        new = [[label for label in row if num_known <= label < len(names)] for row in positives]
        found: dict[str, Any] = {"split": self.split, "num_documents": len(self.texts)}
        for time, ranking in zip(("before", "after"), self._rankings, strict=True):
            report = ranking_report(ranking, positives, ks=(5,))
            found[time] = {name: report[name] for name in REPORTED}
            if any(new):
                found[time]["R@5_of_new_labels"] = ranking_report(ranking, new, ks=(5,))["R@5"]
        return found


def describe(metrics: dict[str, Any]) -> str:
    """The metrics in one sentence, in per cent."""
    changes = (
        f"{name.replace('_', ' ')} {100 * value:.2f}, then {100 * metrics['after'][name]:.2f}"
        for name, value in metrics["before"].items()
    )
    documents = counted(metrics["num_documents"], f"{metrics['split']} document")
    return f"On {documents} before and after: {'; '.join(changes)}."


def counted(number: int, noun: str) -> str:
    """The number with its noun: 1 label, 2 labels."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""The linear peer of the neural models: one-vs-rest linear SVMs on TF-IDF, which any new model should beat.

``python scripts/reproduction/linear_peer.py --dataset demo --output_dir outputs/svm`` writes ``metrics.json`` and ``recipe.json`` in the form
of ``scripts/train.py``: the same splits, label space, propensities and metrics. Its settings are chosen from `GRID` on the
validation split. Related: DiSMEC (Babbar and Schölkopf, 2017), the same classifier at the scale of hundreds of machines.
"""

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset, DatasetDict

from hf_xmtc.commands.data_loading import content_digest
from hf_xmtc.commands.output_folder import OutputFolder
from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.data import label_counts, label_info_of, load_xmtc_dataset
from hf_xmtc.data.filter_labels import drop_filtered_ids, most_filtered
from hf_xmtc.metrics import best_threshold, inverse_propensity, ranking_report, set_report

try:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC
except ImportError as error:
    raise ImportError("The linear peer needs `scikit-learn`: pip install 'hf_xmtc[dev]'") from error

__all__ = [
    "GRID",
    "LinearPeer",
    "Settings",
    "argument_parser",
    "choose_settings",
    "evaluate",
    "evaluate_sets",
    "main",
    "run",
    "write_run",
]

logger = logging.getLogger(__name__)


class Settings(NamedTuple):
    """Settings that are chosen on the validation split.

    Attributes:
        ngrams: Longest word n-gram: 1 for single words, 2 for single words and pairs.
        min_df: Training documents an n-gram must occur in.
        C: The SVM's penalty on training errors.
    """

    ngrams: int
    min_df: int
    C: float


# Every combination is tried; of equally good ones the first stays. The best on the demo data is inside the grid or no worse than
# what lies beyond: of C = 4 on words and pairs, C = 8, C = 16 and triples were tried once and none was better.
GRID = [Settings(*values) for values in itertools.product((1, 2), (1, 2), (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0))]
# As in the evaluation of the neural models: nDCG@5 chooses, and cut-offs and propensity constants are the trainer's defaults.
CHOOSE_BY = "nDCG@5"
CUT_OFFS = (1, 3, 5)
EVALUATED = ("validation", "test")
MODEL_FAMILY = "linear_svm"


class LinearPeer:
    """One linear SVM per label on TF-IDF of words; labels are ranked by decision value.

    Deterministic: the solver's random order has a fixed seed. Weights are dense, n-grams × L in float32.

    Args:
        settings: N-grams, their minimum document frequency, and C.
        num_labels: Labels L; ids from here on are ignored in training.
        block_documents: Documents whose decision values, (block_documents, L), are held at a time.
    """

    def __init__(self, settings: Settings, num_labels: int, block_documents: int = 512):
        self.settings, self.num_labels, self.block_documents = settings, num_labels, block_documents
        # Sublinear term frequency: a text that has a word ten times is not ten times as much about it.
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, settings.ngrams), min_df=settings.min_df)

    @property
    def num_parameters(self) -> int:
        """A weight per n-gram and an intercept, for each label."""
        return self.weights.size + self.intercepts.size

    def fit(self, texts: list[str], positives: list[list[int]]) -> "LinearPeer":
        """Learn from N texts and the label ids of each."""
        features = self.learn_features(texts)
        self.weights = np.zeros((features.shape[1], self.num_labels), dtype=np.float32)
        self.intercepts = np.zeros(self.num_labels, dtype=np.float32)
        for label_id, documents in enumerate(_documents_of_labels(positives, self.num_labels)):
            if len(documents) in (0, len(texts)):  # nothing to tell apart: such a label comes last or first
                self.intercepts[label_id] = np.inf if len(documents) else -np.inf
                continue
            target = np.zeros(len(texts), dtype=bool)
            target[documents] = True
            fitted = self.classifier().fit(features, target)
            self.weights[:, label_id], self.intercepts[label_id] = fitted.coef_[0], fitted.intercept_[0]
        return self

    def learn_features(self, texts: list[str]) -> Any:
        """Learn what words there are, and return the features of the texts, (N, n-grams), sparse."""
        return self.vectorizer.fit_transform(texts)

    def features_of(self, texts: list[str]) -> Any:
        """Features of other texts, (N, n-grams), sparse."""
        return self.vectorizer.transform(texts)

    def classifier(self) -> Any:
        """The classifier of one label, with scikit-learn's interface."""
        return LinearSVC(C=self.settings.C, random_state=0)

    def top_labels(self, texts: list[str], k: int) -> np.ndarray:
        """The k best labels of each text, best first, equal values by lower id: (N, k), or (N, L) where L < k."""
        return np.concatenate([np.argsort(-values, axis=1, kind="stable")[:, :k] for values in self.decision_values(texts)])

    def decision_values(self, texts: list[str]) -> Iterator[np.ndarray]:
        """Decision values of a block of documents at a time, (block, L)."""
        for start in range(0, len(texts), self.block_documents):
            yield self.features_of(texts[start : start + self.block_documents]) @ self.weights + self.intercepts


def _documents_of_labels(positives: list[list[int]], num_labels: int) -> list[np.ndarray]:
    """Rows of the documents that have a label, for each label."""
    documents = np.repeat(np.arange(len(positives)), [len(ids) for ids in positives])
    labels = np.fromiter(itertools.chain.from_iterable(positives), dtype=np.int64, count=len(documents))
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(num_labels + 1))
    return [documents[order[ends[label_id] : ends[label_id + 1]]] for label_id in range(num_labels)]


def evaluate(peer: LinearPeer, documents: Dataset, weights: np.ndarray) -> dict[str, float | int]:
    """Ranking metrics on a split; labels that training never saw count as missed, and those that are left out of a document do not count.

    Args:
        peer: Fitted classifiers.
        documents: Columns ``text`` and ``labels``, and ``filter_labels`` where the data set has them.
        weights: Inverse propensity of every label, those of the evaluation data alone included.
    """
    top_labels = peer.top_labels(documents["text"][:], k=max(CUT_OFFS) + most_filtered(documents))
    top_labels = drop_filtered_ids(top_labels, documents)
    return ranking_report(top_labels, documents["labels"][:], ks=CUT_OFFS, inverse_propensity=weights)


def evaluate_sets(peer: LinearPeer, data: DatasetDict, counts: np.ndarray) -> dict[str, dict[str, float | int]]:
    """Metrics of predicted sets on validation and test: the labels above one threshold, tuned by micro F1 on validation.

    Args:
        peer: Fitted classifiers.
        data: The splits.
        counts: Training documents of each label, (L,).
    """
    values = {split: np.concatenate(list(peer.decision_values(data[split]["text"][:]))) for split in EVALUATED}  # (N, L)
    ids = np.broadcast_to(np.arange(len(counts)), values["validation"].shape)
    threshold = best_threshold(values["validation"], ids, data["validation"]["labels"][:], len(counts))
    sets = {split: [np.flatnonzero(row > threshold).tolist() for row in of_split] for split, of_split in values.items()}
    return {
        split: set_report(sets[split], data[split]["labels"][:], len(counts), label_counts=counts) for split in EVALUATED
    }


def choose_settings(
    data: DatasetDict,
    num_labels: int,
    weights: np.ndarray,
    grid: list[Any],
    peer_class: Callable[..., LinearPeer] = LinearPeer,
) -> Any:
    """Train with each setting and return the best on the validation split."""
    best, best_value = grid[0], -1.0
    for settings in grid:
        started = time.monotonic()
        peer = peer_class(settings, num_labels).fit(data["train"]["text"][:], data["train"]["labels"][:])
        value = evaluate(peer, data["validation"], weights)[CHOOSE_BY]
        seconds = time.monotonic() - started
        logger.info(f"{settings}: {CHOOSE_BY} {100 * value:.2f} on validation ({seconds:.0f} s)")
        if value > best_value:
            best, best_value = settings, value
    return best


def run(
    data: DatasetDict, grid: list[Any], peer_class: Callable[..., LinearPeer] = LinearPeer, measure_sets: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Choose settings, train with them on the training split alone, and evaluate.

    Args:
        data: The splits.
        grid: Settings to choose from.
        peer_class: What they are settings of.
        measure_sets: Also measure predicted sets, with `evaluate_sets`.

    Returns:
        Metrics as in the ``metrics.json`` of a model folder, and the recipe. ``train.seconds`` is the training with the chosen
        settings; choosing them is in ``train.choosing_seconds``.
    """
    info = label_info_of(data)
    counts = np.pad(label_counts(data["train"], info.num_labels), (0, len(info.evaluation_only)))
    weights = inverse_propensity(counts, len(data["train"]))
    started = time.monotonic()
    settings = choose_settings(data, info.num_labels, weights, grid, peer_class)
    chosen = time.monotonic()
    peer = peer_class(settings, info.num_labels).fit(data["train"]["text"][:], data["train"]["labels"][:])
    seconds = time.monotonic() - chosen
    metrics: dict[str, Any] = {split: evaluate(peer, data[split], weights) for split in EVALUATED}
    if measure_sets:
        for split, report in evaluate_sets(peer, data, counts[: info.num_labels]).items():
            metrics[split] |= report
    metrics["train"] = {
        "seconds": round(seconds, 1),
        "choosing_seconds": round(chosen - started, 1),
        "documents_per_second": round(len(data["train"]) / seconds, 1),
        "peak_memory_mb": peak_memory_mb(),
        "parameters": peer.num_parameters,
        "threads": 1,
    }
    recipe = {"dataset": info.source, **settings._asdict()}
    recipe |= {"grid": [list(tried) for tried in grid], "data_digest": content_digest(data, info)}
    recipe |= {"tune_threshold": "global"} if measure_sets else {}
    return metrics, recipe


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/linear_peer.py``."""
    write_run(argument_parser(__doc__).parse_args(argv), MODEL_FAMILY, GRID, LinearPeer, {"sublinear_tf": True})


def argument_parser(doc: str, with_sets: bool = True) -> argparse.ArgumentParser:
    """Arguments that all peers take; ``--set_metrics`` is one of those that predict sets."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--dataset", default="demo", help="What load_xmtc_dataset opens: demo, a folder, or a Hub id.")
    parser.add_argument("--output_dir", type=Path, required=True, help="Folder for metrics.json and recipe.json.")
    if with_sets:
        parser.add_argument(
            "--set_metrics", action="store_true", help="Also measure predicted sets, with a tuned threshold."
        )
    return parser


def write_run(
    arguments: argparse.Namespace,
    family: str,
    grid: list[Any],
    peer_class: Callable[..., LinearPeer],
    settings: dict[str, Any],
) -> None:
    """Run a peer and write ``metrics.json`` and ``recipe.json``.

    Args:
        arguments: Of `argument_parser`.
        family: Name of the peer in its recipe.
        grid: Settings to choose from.
        peer_class: What they are settings of.
        settings: Settings that are not chosen, for the recipe.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    folder = OutputFolder(arguments.output_dir)
    try:
        # Before the minutes of work. No neural run has this recipe, so one that can be resumed is not overwritten either.
        folder.claim({"model_family": family})
        metrics, recipe = run(load_xmtc_dataset(arguments.dataset), grid, peer_class, arguments.set_metrics)
    except (OSError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    folder.begin({"model_family": family, **settings, **recipe})
    folder.finish(metrics)
    values = "   ".join(f"{name} {100 * metrics['test'][name]:.2f}" for name in ("P@1", "P@3", "P@5", CHOOSE_BY))
    logger.info(f"test: {values}   ({metrics['train']['seconds']:.0f} s of training)")


if __name__ == "__main__":
    main()

"""The peer of LACO over candidates: a logistic regression on five features of a text and a candidate, which LACO should beat.

``python scripts/reproduction/candidate_regression.py --dataset DIR --candidates_from MODEL --output_dir outputs/regression`` writes
``metrics.json`` and ``recipe.json`` in the form of ``scripts/train.py``. The features are `FEATURES`: the logarithm of the candidate's vote,
the cosines of the text with the mean of the label's training texts and with the label's name, the logarithm of the label's training texts,
and whether its name occurs in the text. A training text neither votes for its own candidates nor counts in the means.
"""

import itertools
import logging
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from hf_xmtc.commands.data_loading import content_digest
from hf_xmtc.commands.output_folder import OutputFolder
from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.data import label_counts, label_info_of, load_xmtc_dataset
from hf_xmtc.inference.model_opening import open_model
from hf_xmtc.metrics import inverse_propensity
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.retrieval import ModelCandidates
from linear_peer import CUT_OFFS, EVALUATED, LinearPeer, argument_parser, evaluate

__all__ = ["FEATURES", "CandidateFeatures", "CandidateRegression", "main"]

MODEL_FAMILY = "candidate_regression"
FEATURES = ("log vote", "cosine with training texts", "cosine with name", "log frequency", "name occurs")
LEAST_VOTE = 1e-4  # as LACO
BLOCK_DOCUMENTS = 256
WORD = re.compile(r"\w+")


class CandidateFeatures:
    """Features of texts and their candidate labels, by TF-IDF of words.

    Args:
        texts: N training texts.
        positives: Their label ids.
        names: The labels.
    """

    def __init__(self, texts: list[str], positives: list[list[int]], names: LabelNames):
        shown = [names.name_of(label_id) for label_id in range(len(names))]
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2).fit(texts)
        documents, self.names = self.vectorizer.transform(texts), self.vectorizer.transform(shown)
        of_document = np.repeat(np.arange(len(texts)), [len(ids) for ids in positives])
        ids = np.fromiter(itertools.chain.from_iterable(positives), dtype=np.int64, count=len(of_document))
        known = ids < len(names)
        place = (ids[known], of_document[known])
        self.has_label = csr_array((np.ones(len(place[0])), place), shape=(len(names), len(texts)))
        self.sums = self.has_label @ documents  # (L, words): of the vectors of a label's training texts
        self.squares = np.asarray(self.sums.multiply(self.sums).sum(axis=1)).ravel()
        self.counts = np.asarray(self.has_label.sum(axis=1)).ravel()
        self.spelt = [_words_of(name) for name in shown]

    def of(self, texts: list[str], ids: np.ndarray, votes: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Features (N, K, 5) of N texts and their K candidates.

        Args:
            texts: The texts.
            ids: Candidates, (N, K).
            votes: Their votes, (N, K).
            rows: The training texts that these are, (N,), which leave themselves out; None for other texts.
        """
        features = np.empty((*ids.shape, len(FEATURES)), dtype=np.float32)
        features[:, :, 0] = np.log(votes + LEAST_VOTE)
        for start in range(0, len(texts), BLOCK_DOCUMENTS):
            part = slice(start, start + BLOCK_DOCUMENTS)
            own = None if rows is None else self._is_own(ids[part], rows[part])
            features[part, :, 1:4] = self._of_vectors(self.vectorizer.transform(texts[part]), ids[part], own)
        for row, text in enumerate(map(_words_of, texts)):
            features[row, :, 4] = [self.spelt[label_id] in text for label_id in ids[row]]
        return features

    def _is_own(self, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """1 where a candidate is a label of the training text, (n, K)."""
        return np.take_along_axis(self.has_label[:, rows].T.toarray(), ids, axis=1)

    def _of_vectors(self, vectors: csr_array, ids: np.ndarray, own: np.ndarray | None) -> np.ndarray:
        """Both cosines and the logarithm of the frequency, (n, K, 3)."""
        with_sum, with_name = (
            np.take_along_axis((vectors @ of_labels.T).toarray(), ids, axis=1) for of_labels in (self.sums, self.names)
        )
        squares, counts = self.squares[ids], self.counts[ids]
        if own is not None:  # |s - x|² = |s|² - 2 s·x + 1 for a vector x of length 1
            squares, with_sum, counts = squares - own * (2 * with_sum - 1), with_sum - own, counts - own
        return np.stack([with_sum / np.sqrt(np.maximum(squares, 1e-12)), with_name, np.log1p(counts)], axis=2)


def _words_of(text: str) -> str:
    """The words of a text between blanks, so that "art" is not found in "party"."""
    return f" {' '.join(WORD.findall(text.lower()))} "


class CandidateRegression(LinearPeer):
    """Ranks a text's candidates by the log-odds of one logistic regression for all labels.

    Args:
        generator: Finds the candidates.
        names: The labels.
        num_candidates: Candidates of a text.
        max_documents: Training texts to learn from, drawn at random; the means are of all.
    """

    def __init__(self, generator: ModelCandidates, names: LabelNames, num_candidates: int, max_documents: int):
        self.generator, self.label_names = generator, names
        self.num_candidates, self.max_documents = num_candidates, max_documents

    def fit(self, texts: list[str], positives: list[list[int]]) -> "CandidateRegression":
        """Learn from N texts and the label ids of each."""
        self.features = CandidateFeatures(texts, positives, self.label_names)
        rows = np.sort(np.random.default_rng(0).permutation(len(texts))[: self.max_documents])
        chosen = [texts[row] for row in rows]
        ids, votes = self.generator.candidates(chosen, self.num_candidates, training_rows=rows)
        targets = np.stack([np.isin(of_text, positives[row]) for of_text, row in zip(ids, rows, strict=True)])
        features = self.features.of(chosen, ids, votes, rows)
        self.model: Pipeline = make_pipeline(StandardScaler(), LogisticRegression())
        self.model.fit(features.reshape(-1, len(FEATURES)), targets.ravel())
        return self

    @property
    def coefficients(self) -> dict[str, float]:
        """Of the standardized features."""
        values = self.model[-1].coef_[0]
        return {name: round(float(value), 4) for name, value in zip(FEATURES, values, strict=True)}

    def top_labels(self, texts: list[str], k: int) -> np.ndarray:
        """The k best candidates of each text, best first, (N, k)."""
        ids, votes = self.generator.candidates(texts, self.num_candidates)
        features = self.features.of(texts, ids, votes).reshape(-1, len(FEATURES))
        order = np.argsort(-self.model.decision_function(features).reshape(ids.shape), axis=1, kind="stable")
        return np.take_along_axis(ids, order[:, :k], axis=1)


def run(dataset: str, source: str, num_candidates: int, max_documents: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train and evaluate.

    Returns:
        Metrics as in the ``metrics.json`` of a model folder, and the recipe.
    """
    data = load_xmtc_dataset(dataset)
    info = label_info_of(data)
    counts = np.pad(label_counts(data["train"], info.num_labels), (0, len(info.evaluation_only)))
    weights = inverse_propensity(counts, len(data["train"]))
    generator = ModelCandidates(*open_model(source), info.names)
    started = time.monotonic()
    peer = CandidateRegression(generator, info.names, num_candidates, max_documents)
    peer.fit(data["train"]["text"][:], data["train"]["labels"][:])
    seconds = time.monotonic() - started
    metrics: dict[str, Any] = {split: evaluate(peer, data[split], weights) for split in EVALUATED}
    metrics["train"] = {
        "seconds": round(seconds, 1),
        "peak_memory_mb": peak_memory_mb(),
        "parameters": len(FEATURES) + 1,
        "threads": 1,
    }
    recipe = {"dataset": info.source, "coefficients": peer.coefficients, "data_digest": content_digest(data, info)}
    return metrics, recipe


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/candidate_regression.py``."""
    parser = argument_parser(__doc__, with_sets=False)
    parser.add_argument("--candidates_from", required=True, help="Model folder whose best labels are the candidates.")
    parser.add_argument("--num_candidates", type=int, default=64, help="Candidates of a text.")
    parser.add_argument("--max_train_documents", type=int, default=14_000, help="Training texts to learn from, at random.")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    settings = {name: getattr(arguments, name) for name in ("num_candidates", "max_train_documents")}
    folder = OutputFolder(arguments.output_dir)
    try:
        folder.claim({"model_family": MODEL_FAMILY})
        metrics, recipe = run(arguments.dataset, arguments.candidates_from, *settings.values())
    except (OSError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    folder.begin(
        {"model_family": MODEL_FAMILY, **settings, "candidates_from": Path(arguments.candidates_from).name, **recipe}
    )
    folder.finish(metrics)
    values = "   ".join(f"P@{k} {100 * metrics['test'][f'P@{k}']:.2f}" for k in CUT_OFFS)
    logging.getLogger(__name__).info(
        f"test: {values}   nDCG@5 {100 * metrics['test']['nDCG@5']:.2f}; {recipe['coefficients']}"
    )


if __name__ == "__main__":
    main()

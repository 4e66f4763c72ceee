"""`CandidateGenerator`: a text's likely labels are those of the training texts that share its words."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from hf_xmtc.file_checks import check_csr, check_numbers
from hf_xmtc.inference.model_opening import GENERATOR_FOLDER
from hf_xmtc.metrics.label_sets import LabelSetsLike, label_sets
from hf_xmtc.models.label_topk import exact_topk
from hf_xmtc.strict_json import json_text

from .candidate_files import ARRAYS_FILE, SETTINGS_FILE, find_candidate_files

try:
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer
except ModuleNotFoundError as error:
    raise ImportError(
        "Candidates from near training texts are found with scikit-learn, which is not there: pip install 'hf_xmtc[retrieval]'."
    ) from error

__all__ = ["CandidateGenerator"]

# Numbers of a block of texts against all training texts or all labels.
BLOCK_NUMBERS = 2**24
VECTORIZER = {"sublinear_tf": True, "dtype": np.float32, "token_pattern": r"(?u)\b\w+\b"}


class CandidateGenerator:
    """Votes of nearest training texts: a label's votes are the share of their similarities that texts with the label have.

    Similarity is the cosine of TF-IDF vectors. Labels without a vote follow by their frequency in training, with at most 1e-6, so
    every text gets as many candidates as asked for, and one that shares no word with a training text gets no votes to speak of.

    Args:
        vectorizer: Fitted.
        documents: TF-IDF vectors of the training texts, (N, V).
        labels: Their labels, (N, L), ones.
        num_neighbors: Training texts that vote.
        labels_digest: That of the config of the model whose labels they are; None where it is not known.

    Raises:
        ValueError: If the matrices do not fit each other or the vectorizer, or reach outside themselves.
    """

    def __init__(
        self,
        vectorizer: TfidfVectorizer,
        documents: csr_array,
        labels: csr_array,
        num_neighbors: int = 50,
        labels_digest: str | None = None,
    ):
        if num_neighbors < 1:
            raise ValueError(f"num_neighbors={num_neighbors}, but at least 1 text has to vote.")
        _check_matrices(documents, labels, len(vectorizer.vocabulary_))
        self.vectorizer, self.documents, self.labels = vectorizer, documents, labels
        self.labels_digest = labels_digest
        self.num_neighbors = min(num_neighbors, documents.shape[0])
        counts = np.asarray(labels.sum(axis=0)).ravel()
        # Below any vote: the share of the smallest similarity is more than this.
        self._prior = (counts / (counts.max(initial=1.0) * 1e6)).astype(np.float32)

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        positives: LabelSetsLike,
        num_labels: int,
        num_neighbors: int = 50,
        min_document_frequency: int = 2,
        max_document_share: float = 0.2,
        max_features: int | None = 200_000,
        labels_digest: str | None = None,
    ) -> "CandidateGenerator":
        """Index training texts.

        Args:
            texts: N texts.
            positives: Their label ids.
            num_labels: Labels L; ids from there on are left out.
            num_neighbors: Texts that vote.
            min_document_frequency: Texts a word must occur in.
            max_document_share: Words that occur in a larger share of the texts say nothing and cost most of the time.
            max_features: Most frequent words kept.
            labels_digest: As for the class.

        Raises:
            ValueError: If there is not one set of labels per text, or no word is left.
        """
        sets = label_sets(positives).below(num_labels)
        if len(texts) != sets.num_documents:
            raise ValueError(
                f"There are {len(texts)} texts and labels of {sets.num_documents}. Give one set of labels per text."
            )
        vectorizer = TfidfVectorizer(
            min_df=min(min_document_frequency, max(1, len(texts) // 2)),
            max_df=max_document_share if len(texts) > 100 else 1.0,
            max_features=max_features,
            **VECTORIZER,
        )
        try:
            documents = csr_array(vectorizer.fit_transform(texts))
        except ValueError as error:
            raise ValueError(
                f"No word of the {len(texts)} training texts is left to find near texts by ({error}). Are they empty? Else lower "
                f"min_document_frequency={min_document_frequency} or raise max_document_share={max_document_share}."
            ) from error
        ones = np.ones(len(sets.label_ids), dtype=np.float32)
        labels = csr_array((ones, sets.label_ids, sets.indptr), shape=(len(texts), num_labels))
        return cls(vectorizer, documents, labels, num_neighbors, labels_digest)

    @property
    def num_labels(self) -> int:
        """Labels L."""
        return self.labels.shape[1]

    def digest(self) -> str:
        """A hexadecimal digest of what candidates depend on: words, their weights, the training texts and their labels."""
        found = hashlib.blake2b(json.dumps([self.num_labels, self.num_neighbors, self._words()]).encode(), digest_size=16)
        for array in self._arrays().values():
            found.update(np.ascontiguousarray(array))
        return found.hexdigest()

    def _words(self) -> list[str]:
        return sorted(self.vectorizer.vocabulary_, key=self.vectorizer.vocabulary_.get)

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"idf": self.vectorizer.idf_.astype(np.float32), "documents.data": self.documents.data}
        for name, matrix in (("documents", self.documents), ("labels", self.labels)):
            arrays |= {f"{name}.indptr": matrix.indptr.astype(np.int64), f"{name}.indices": matrix.indices.astype(np.int32)}
        return arrays

    def candidates(
        self, texts: Sequence[str], k: int, training_rows: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each text.

        Args:
            texts: M texts.
            k: Candidates per text.
            training_rows: The texts are these ones of the training texts, (M,), and none may vote for itself: only so are its
                candidates as good and as bad as those of a new text. ``range(N)`` for all of them.

        Returns:
            Label ids, (M, min(k, L)) int64, best first, equal votes going to the lower id; and their votes, from 0 to 1, float32.

        Raises:
            TypeError: If the texts are one string, or the rows no whole numbers in one list.
            ValueError: If k is below 1, or there is not one row per text, or a row is none of a training text.
        """
        if isinstance(texts, str):
            raise TypeError(f"texts={texts!r:.80} is one text. Give a list of texts, such as [text].")
        if k < 1:
            raise ValueError(f"k={k}, but a text gets at least 1 candidate.")
        own = None if training_rows is None else np.asarray(training_rows)
        if own is not None and own.size and (own.ndim != 1 or own.dtype.kind not in "iu"):
            raise TypeError(
                f"training_rows has the shape {own.shape} and the type {own.dtype}, but it is one row number for each text, such as range(N) "
                "for all training texts."
            )
        num_training = self.documents.shape[0]
        wrong = [] if own is None else own[(own < 0) | (own >= num_training)].tolist()
        if own is not None and (len(own) != len(texts) or wrong):
            such = f", such as {wrong[0]}," if wrong else ""
            raise ValueError(
                f"training_rows holds {len(own)} rows for {len(texts)} texts, {len(wrong)} of them{such} none of the {num_training} training "
                "texts. Give one for each text, or leave it out for other texts."
            )
        k = min(k, self.num_labels)
        ids, votes = np.empty((len(texts), k), dtype=np.int64), np.empty((len(texts), k), dtype=np.float32)
        step = max(1, BLOCK_NUMBERS // max(self.documents.shape[0], self.num_labels))
        for start in range(0, len(texts), step):
            part = slice(start, min(start + step, len(texts)))
            queries = csr_array(self.vectorizer.transform(texts[part]))
            scores = self._votes(queries, None if own is None else own[part])
            found = exact_topk(torch.from_numpy(scores), k)
            votes[part], ids[part] = found[0].numpy(), found[1].numpy()
        return ids, votes

    def _votes(self, queries: csr_array, own: np.ndarray | None) -> np.ndarray:
        """Votes for all labels, (n, L), of a block of texts."""
        similarity = (queries @ self.documents.T).toarray()  # (n, N)
        if own is not None:
            similarity[np.arange(len(own)), own] = 0.0
        weights, near = (found.numpy() for found in exact_topk(torch.from_numpy(similarity), self.num_neighbors))
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(weights.dtype).tiny)
        starts = np.arange(len(near) + 1) * near.shape[1]
        voters = csr_array((weights.ravel(), near.ravel(), starts), shape=similarity.shape)
        return np.minimum((voters @ self.labels).toarray() + self._prior, 1.0)

    def save_pretrained(self, model_folder: str | os.PathLike[str]) -> None:
        """Write ``candidates.safetensors`` and ``candidates.json`` into the folder ``candidates`` of a model folder."""
        folder = Path(model_folder) / GENERATOR_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self._arrays(), folder / ARRAYS_FILE)
        settings = {
            "num_labels": self.num_labels,
            "labels_digest": self.labels_digest,
            "num_neighbors": self.num_neighbors,
            "digest": self.digest(),
            "words": self._words(),
        }
        (folder / SETTINGS_FILE).write_text(json_text(settings) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], revision: str | None = None, token: str | bool | None = None
    ) -> "CandidateGenerator":
        """Open the generator that a model was trained with.

        Args:
            name_or_path: Model folder, or id on the Hub.
            revision: Branch, tag or commit on the Hub.
            token: Hub token.

        Raises:
            FileNotFoundError: If there is none beside the model.
            ValueError: If a file is damaged, or an array reaches outside the others; the message names file and array.
            OSError: If there is no such model on the Hub, or the Hub cannot be reached.
        """
        files = find_candidate_files(os.fspath(name_or_path), revision, token)
        settings = files.read_settings()
        words, num_labels = settings["words"], settings["num_labels"]
        arrays = files.read_arrays(len(words), num_labels)
        vectorizer = TfidfVectorizer(vocabulary=words, **VECTORIZER)
        vectorizer.idf_ = arrays["idf"].astype(np.float32)
        parts = {name: (arrays[f"{name}.indices"], arrays[f"{name}.indptr"]) for name in ("documents", "labels")}
        num_documents = len(arrays["documents.indptr"]) - 1
        documents = csr_array((arrays["documents.data"], *parts["documents"]), shape=(num_documents, len(words)))
        ones = np.ones(len(parts["labels"][0]), dtype=np.float32)
        labels = csr_array((ones, *parts["labels"]), shape=(num_documents, num_labels))
        generator = cls(vectorizer, documents, labels, settings["num_neighbors"], settings["labels_digest"])
        if settings["digest"] not in (None, generator.digest()):
            raise ValueError(
                f"{files.arrays} is not the file that was saved with {SETTINGS_FILE} (digest {settings['digest']}, found "
                f"{generator.digest()}). Was one of the two changed? Copy both again from where the model came."
            )
        return generator


def _check_matrices(documents: csr_array, labels: csr_array, num_words: int) -> None:
    for name, matrix in (("documents", documents), ("labels", labels)):
        if getattr(matrix, "format", None) != "csr":
            raise ValueError(f"{name} is a {type(matrix).__name__}, but must be sparse: scipy.sparse.csr_array({name}).")
        matrix.check_format(full_check=False)  # the lengths
        check_csr(name, matrix.indptr, matrix.indices, *matrix.shape)
        check_numbers(matrix.data, f"{name}.data")
    if documents.shape[0] != labels.shape[0] or documents.shape[1] != num_words:
        raise ValueError(
            f"documents has {documents.shape[0]} rows and labels {labels.shape[0]}; documents has {documents.shape[1]} columns, but the "
            f"vectorizer knows {num_words} words. Give one row of each per training text, and one column per word."
        )

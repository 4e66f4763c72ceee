"""`ModelCandidates`: a text's likely labels are those that another model ranks first."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from hf_xmtc.inference.model_opening import GENERATOR_FOLDER, choose_max_length, open_model
from hf_xmtc.inference.text_prediction import predict_texts
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames
from hf_xmtc.models.modeling_neighbors import NeighborsForXMTC
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.tokenization.tokenizer_content import tokenizer_content

from .candidate_files import local_folder

__all__ = ["ModelCandidates"]

# Numbers of a block of texts.
BLOCK_NUMBERS = 2**24


class ModelCandidates:
    """The best labels of a trained model, whose votes are its scores: same as `CandidateGenerator`, but from any model of this package.

    Labels are matched by name, and those that only one of the two models has are never candidates. Where the generating model ranks fewer
    labels than are asked for, others follow without a vote.

    Args:
        model: The generating model, in evaluation mode: a linear tree, a model over a label tree, an ensemble, or another.
        tokenizer: Its tokenizer.
        label_names: Labels of the model that reads the candidates.

    Raises:
        ValueError: If the two have no label in common, or the model reads candidates itself.
    """

    def __init__(self, model: XMTCPreTrainedModel, tokenizer: PreTrainedTokenizerFast, label_names: LabelNames):
        config, ids = model.config, label_names.ids
        if num_candidates := getattr(config, "num_candidates", 0):
            raise ValueError(
                f"A {type(model).__name__} with num_candidates={num_candidates} reads candidates itself, so it cannot find them. Take a model "
                "that scores all labels, such as a linear tree (hf-xmtc train --model_family bonsai) or an ensemble."
            )
        # By the label ids of the generating model; the last place is that of padding.
        self._label_ids = np.array([ids.get(label, -100) for label in [*config.label_names.labels, None]])
        self.num_shared = int((self._label_ids >= 0).sum())
        if not self.num_shared:
            raise ValueError(
                f"The generating model has {config.num_labels} labels, such as {config.label_names[0]!r}, and none is among the "
                f"{len(label_names)} labels that need candidates, such as {label_names[0]!r}. Was it trained on other data?"
            )
        self.model, self.tokenizer = model, tokenizer
        self.num_labels, self.labels_digest = len(label_names), label_names.digest()

    def describe_labels(self) -> str | None:
        """A sentence on labels that only one of the two models has; None where both have the same."""
        of_model = self.model.config.num_labels
        if self.num_shared == of_model == self.num_labels:
            return None
        return (
            f"The generating model has {of_model:,} labels, of which {self.num_shared:,} are among the {self.num_labels:,} of the data. The other "
            f"{self.num_labels - self.num_shared:,} labels of the data are never candidates."
        )

    def digest(self) -> str:
        """A hexadecimal digest of what candidates depend on: weights, settings, tokenizers and the labels' ids."""
        whole, parts = self.model, list(getattr(self.model, "parts", []))
        settings = [model.config.to_json_string() for model in (whole, *parts)]
        for tokenizer in getattr(whole, "tokenizers", [self.tokenizer]):
            settings += [tokenizer_content(tokenizer), tokenizer.model_max_length]
        digest = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
        digest.update(np.append(self._label_ids, self.num_labels))
        for name, tensor in sorted(whole.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()

    def candidates(
        self, texts: Sequence[str], k: int, training_rows: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each text.

        Args:
            texts: M texts.
            k: Candidates per text.
            training_rows: Given where the texts are training texts. A model of near documents (`NeighborsForXMTC`), or an ensemble of such,
                then ranks each as if it did not hold it. Of other models this has no effect: what they have learnt from a text cannot be
                left out of their answer.

        Returns:
            Label ids, (M, min(k, labels that both models have)) int64, best first; and the scores, from 0 to 1, float32.

        Raises:
            TypeError: If the texts are one string.
            ValueError: If k is below 1.
        """
        if isinstance(texts, str):
            raise TypeError(f"texts={texts!r:.80} is one text. Give a list of texts, such as [text].")
        if k < 1:
            raise ValueError(f"k={k}, but a text gets at least 1 candidate.")
        with self._own_texts_left_out() if training_rows is not None else contextlib.nullcontext():
            return self._candidates(texts, min(k, self.num_shared))

    @property
    def has_learnt_by_heart(self) -> bool:
        """True if its scores of the texts that it was trained on say nothing of other texts."""
        return not all(isinstance(model, NeighborsForXMTC) for model in self._ranking_models)

    @property
    def _ranking_models(self) -> list[XMTCPreTrainedModel]:
        return list(getattr(self.model, "parts", [self.model]))

    @contextlib.contextmanager
    def _own_texts_left_out(self) -> Iterator[None]:
        models = [model for model in self._ranking_models if isinstance(model, NeighborsForXMTC)]
        for model in models:
            model.leaves_own_out = True
        try:
            yield
        finally:
            for model in models:
                model.leaves_own_out = False

    def _candidates(self, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        # As many as leave k when all that are not shared are left out.
        top_k = len(self._label_ids) - 1 - self.num_shared + k
        limit = choose_max_length(self.model, self.tokenizer, None)
        ids, votes = np.empty((len(texts), k), dtype=np.int64), np.empty((len(texts), k), dtype=np.float32)
        step = max(1, BLOCK_NUMBERS // max(top_k, k * k))
        for start in range(0, len(texts), step):
            block = slice(start, start + step)
            top_labels, scores, _ = predict_texts(self.model, self.tokenizer, texts[block], top_k=top_k, max_length=limit)
            ids[block], votes[block] = self._shared_labels(top_labels, scores, k)
        return ids, votes

    def _shared_labels(self, top_labels: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The first k labels of rankings (n, K) that both models have, by their own ids, filled up with others without a vote."""
        ids = self._label_ids[np.maximum(top_labels, -1)]  # (n, K)
        others = np.broadcast_to(np.sort(self._label_ids[self._label_ids >= 0])[:k], (len(ids), k))
        ranked = np.argsort(ids < 0, axis=1, kind="stable")[:, :k]
        ids, scores = (np.take_along_axis(array, ranked, axis=1) for array in (ids, scores))
        if ids.shape[1] == k and (ids >= 0).all():
            return ids, scores
        is_there = (others[:, :, None] == ids[:, None]).any(axis=2)  # (n, k)
        ids = np.concatenate([ids, np.where(is_there, -100, others)], axis=1)
        scores = np.where(ids < 0, 0.0, np.pad(scores, ((0, 0), (0, k))))
        ranked = np.argsort(ids < 0, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(ids, ranked, axis=1), np.take_along_axis(scores, ranked, axis=1)

    def save_pretrained(self, model_folder: str | os.PathLike[str]) -> None:
        """Write the generating model and its tokenizer, as a model folder of their own, into the folder ``candidates`` of a model folder."""
        folder = Path(model_folder) / GENERATOR_FOLDER
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], revision: str | None = None, token: str | bool | None = None
    ) -> "ModelCandidates":
        """Open the generating model that lies beside a model.

        Args:
            name_or_path: Folder of the model that reads the candidates, or its id on the Hub.
            revision: Branch, tag or commit on the Hub.
            token: Hub token.

        Raises:
            FileNotFoundError: If there is none, or it is not complete.
            ValueError: If a file is damaged.
            OSError: If there is no such model on the Hub, or the Hub cannot be reached.
        """
        folder = local_folder(name_or_path, revision, token)
        return cls(*open_model(str(folder / GENERATOR_FOLDER)), LabelNames.load(folder / LABELS_FILE))

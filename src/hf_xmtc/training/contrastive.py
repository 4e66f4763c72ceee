"""`ContrastiveTrainer`: tunes the encoder of `NeighborsForXMTC`, so that texts with a label in common come near each other."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn

from hf_xmtc.data import XMTCDataCollator
from hf_xmtc.models.aligned_tokens import pad_documents
from hf_xmtc.models.configuration_neighbors import SIZES
from hf_xmtc.models.modeling_neighbors import NeighborsForXMTC
from hf_xmtc.models.stored_documents import Assignments

from .neighbors import store_neighbors
from .trainer import XMTCTrainer
from .trainer_inputs import seed_draws

__all__ = ["ContrastiveTrainer", "LabelledTexts", "PairCollator", "contrastive_loss"]

# As in sentence-transformers' MultipleNegativesRankingLoss, whose scale is 20, and in SimCSE (Gao et al., 2021, §3).
TEMPERATURE = 0.05
# Column with the place of a document among the training documents.
ROW = "row"


def contrastive_loss(anchors: Tensor, candidates: Tensor, shares_label: Tensor) -> Tensor:
    """InfoNCE with the batch's other candidates as negatives: the mean of -ln softmax(cosines / temperature) at each anchor's own one.

    Args:
        anchors: Vectors of length 1 of P texts, (P, H).
        candidates: The same of the text that each is to be near, (P, H).
        shares_label: True where anchor and candidate have a label in common, (P, P): no negatives.

    Source: van den Oord et al. (2018), eq. 4, with negatives as in sentence-transformers' MultipleNegativesRankingLoss.
    """
    similarities = anchors @ candidates.T / TEMPERATURE  # (P, P)
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    similarities = similarities.masked_fill(shares_label & ~own, -torch.inf)
    return nn.functional.cross_entropy(similarities, torch.arange(len(anchors), device=anchors.device))


class LabelledTexts:
    """Training documents and labels' texts, and which of them a document can be paired with.

    A document's label is drawn in proportion to 1 / its documents, so rare labels count as much as frequent ones over all documents.

    Args:
        documents: With ``input_ids`` and ``labels``.
        label_texts: Token ids of the text of each label, empty where it has none; None for pairs of documents alone.
        num_labels: Labels L; ids from there on are left out.
    """

    def __init__(self, documents: Dataset, label_texts: Sequence[list[int]] | None, num_labels: int):
        self.documents = documents.select_columns(["input_ids"]).with_format(None)
        self.label_texts = label_texts or [[]] * num_labels
        assignments = Assignments.of(documents.with_format(None)["labels"][:], num_labels)
        self.offsets, self.label_ids = (part.numpy() for part in assignments)
        self.counts = np.bincount(self.label_ids, minlength=num_labels)
        self.documents_by_label = assignments.rows.numpy()[self.label_ids.argsort(kind="stable")]
        self.ends = self.counts.cumsum()
        self.has_text = np.array([len(text) > 0 for text in self.label_texts])

    def labels_of(self, row: int) -> np.ndarray:
        return self.label_ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def anchors(self) -> np.ndarray:
        """Rows of the documents that have anything to be paired with."""
        usable = (self.counts > 1) | self.has_text
        rows = np.arange(len(self.offsets) - 1).repeat(np.diff(self.offsets))
        return np.unique(rows[usable[self.label_ids]])

    def draw(self, row: int, random: np.random.Generator) -> tuple[int | None, int | None]:
        """Another document with a label of this one, and a label of it that has a text; None where there is none."""
        labels, partner = self.labels_of(row), None
        if (shared := labels[self.counts[labels] > 1]).size:
            label = self._rare(shared, random)
            others = self.documents_by_label[self.ends[label] - self.counts[label] : self.ends[label]]  # rows that ascend
            place = random.integers(len(others) - 1)
            partner = int(others[place + (place >= np.searchsorted(others, row))])  # the document's own place is left out
        named = labels[self.has_text[labels]]
        return partner, self._rare(named, random) if named.size else None

    def _rare(self, labels: np.ndarray, random: np.random.Generator) -> int:
        weights = 1 / self.counts[labels]
        return int(random.choice(labels, p=weights / weights.sum()))


@dataclass
class PairCollator(XMTCDataCollator):
    """Makes batches of pairs for training: each document, beside another one with a label of it, and beside the text of a label of it.

    Such a batch holds ``input_ids`` and ``attention_mask`` of documents, (D, T), ``label_input_ids`` and ``label_attention_mask`` of labels'
    texts, (M, T'), places of P pairs in both together, ``anchors`` and ``candidates``, (P,), and ``shares_label``, (P, P), as
    `contrastive_loss` takes it. Pairs depend on ``seed``, ``epoch`` and the document's row alone. Documents without a row, those of evaluation,
    become batches of `XMTCDataCollator`.
    """

    texts: LabelledTexts | None = None

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if ROW not in features[0]:
            return super().__call__(features)
        texts, rows = self.texts, [feature[ROW] for feature in features]
        drawn = [texts.draw(row, np.random.default_rng((self.seed, int(self.epoch), row))) for row in rows]
        partners = [(place, row) for place, (row, _) in enumerate(drawn) if row is not None]
        labels = [(place, label) for place, (_, label) in enumerate(drawn) if label is not None]
        anchors = [place for place, _ in (*partners, *labels)]
        documents = [feature["input_ids"] for feature in features]
        documents += [texts.documents[row]["input_ids"] for _, row in partners]
        input_ids, is_token = pad_documents(documents)
        label_ids, is_label_token = pad_documents([texts.label_texts[label] for _, label in labels] or [[0]])
        of_anchors = [texts.labels_of(rows[place]) for place in anchors]
        of_candidates = [*(texts.labels_of(row) for _, row in partners), *(np.array([label]) for _, label in labels)]
        return {
            "input_ids": input_ids,
            "attention_mask": is_token.long(),
            "label_input_ids": label_ids,
            "label_attention_mask": is_label_token.long(),
            "anchors": torch.tensor(anchors),
            "candidates": torch.arange(len(rows), len(rows) + len(anchors)),
            "shares_label": _shares_label(of_anchors, of_candidates),
        }


def _shares_label(anchors: list[np.ndarray], candidates: list[np.ndarray]) -> Tensor:
    """True where the label ids of an anchor and of a candidate have one in common, (P, P)."""
    columns = np.unique(np.concatenate([*anchors, *candidates]))
    has_label = np.zeros((2, len(anchors), len(columns)), dtype=np.float32)
    for side, texts in zip(has_label, (anchors, candidates), strict=True):
        for row, labels in zip(side, texts, strict=True):
            row[np.searchsorted(columns, labels)] = 1
    return torch.from_numpy(has_label[0] @ has_label[1].T > 0)


class ContrastiveTrainer(XMTCTrainer):
    """Trains the encoder of a `NeighborsForXMTC` by pairs of training texts that share a label, and of texts and their labels' texts.

    Evaluation during training stores the training documents as the encoder reads them then, and lets them vote with the config's
    settings; afterwards the model is without documents again, and `store_neighbors` gives it those of the end. With
    ``label_text_weight=0`` in the config labels' texts have no part.

    Args:
        model: A model with a backbone.
        args: Training arguments; those on label matrices have no effect.
        label_texts: Token ids of the text of each label, (L,); empty where a label has none.
        kwargs: As for `XMTCTrainer`.

    Raises:
        ValueError: If the model has no encoder, or no documents share a label and none of their labels has a text.
    """

    def __init__(self, model: NeighborsForXMTC, args: Any = None, *, label_texts: Sequence[list[int]], **kwargs: Any):
        if not hasattr(model, "backbone"):
            raise ValueError(
                "The model compares words and has no encoder to tune. Make it with NeighborsForXMTC.from_backbone."
            )
        super().__init__(model, args, **kwargs)
        self.label_texts = label_texts
        texts = LabelledTexts(self.train_dataset, label_texts if model.config.label_text_weight else None, self.num_labels)
        rows = texts.anchors
        if not len(rows):
            raise ValueError(
                f"No two of the {len(self.train_dataset)} training documents share a label, so there are no pairs to tune the encoder by. Leave "
                "tune_encoder out. Were the right columns read?"
            )
        self.anchors = self.train_dataset.select(rows).add_column(ROW, rows)
        self.data_collator = PairCollator(self.processing_class, self.num_labels, keep_unseen=True, texts=texts)
        seed_draws(self.data_collator, self.args)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if ROW not in self._signature_columns:
            self._signature_columns.append(ROW)

    def get_train_dataloader(self):
        documents, self.train_dataset = self.train_dataset, self.anchors
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = documents

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        return super(XMTCTrainer, self).create_optimizer(model)  # without what XMTCTrainer's does about label matrices

    def compute_loss(self, model: nn.Module, inputs: dict, return_outputs: bool = False, num_items_in_batch: Any = None):
        sides = (("input_ids", "attention_mask"), ("label_input_ids", "label_attention_mask"))
        with self.accelerator.autocast():
            vectors = torch.cat([self.model.encode(*map(inputs.get, names)).values for names in sides])
        return contrastive_loss(vectors[inputs["anchors"]], vectors[inputs["candidates"]], inputs["shares_label"])

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Metrics of the votes of the training documents, as the encoder reads them now."""
        with self.accelerator.autocast():
            store_neighbors(self.model, self.train_dataset, self.label_texts)
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            self._drop_documents()

    def _drop_documents(self) -> None:
        """Leave no documents in the model, so that a checkpoint has the encoder alone and its sizes are those of any other."""
        config = copy.deepcopy(self.model.config)
        vars(config).update(dict.fromkeys(SIZES, 0))
        self.model.take_sizes(config)

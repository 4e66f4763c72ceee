"""`ScoreHead`: label heads that find scores and not logits, for chunks of documents."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from .cornet import CorNet
from .label_head import BaseLabelHead, loss_divisor
from .label_scorer import suitable_block_size
from .label_topk import exact_topk
from .tracing import is_traced

__all__ = ["LOWEST", "ScoreHead"]

# What stands for the scores 0 and 1, so that logits are finite.
LOWEST, HIGHEST = 1e-30, 1 - 2**-24


class ScoreHead(BaseLabelHead):
    """Scores of all labels at once; the logits are those whose sigmoids are the scores.

    What the family makes of documents has ``num_documents``, and ``of_documents(start, stop)`` for some of them.
    """

    @abstractmethod
    def scores(self, hidden: Any) -> Tensor:
        """Scores of all labels, (B, L)."""

    @property
    @abstractmethod
    def numbers_per_document(self) -> int:
        """The largest row that scoring a document makes."""

    def raw_logits(self, hidden: Any) -> Tensor:
        """Logits of all labels, (B, L): those whose sigmoids are the scores."""
        chunks = self._chunks(hidden.num_documents)
        scores = [self.scores(hidden.of_documents(*chunk) if len(chunks) > 1 else hidden) for chunk in chunks]
        scores = torch.cat(scores) if len(scores) > 1 else scores[0]
        return scores.clamp(LOWEST, HIGHEST).logit().to(self.label_bias.dtype)

    def _chunks(self, num_documents: int) -> list[tuple[int, int]]:
        """First and last documents of each chunk; of an empty batch one of none."""
        if is_traced():
            return [(0, num_documents)]
        size = suitable_block_size(self.numbers_per_document, self.label_bias.device.type)
        return [(start, min(start + size, num_documents)) for start in range(0, num_documents, size)] or [(0, 0)]

    def raw_logits_of(self, hidden: Any, label_ids: Tensor) -> Tensor:
        return self.raw_logits(hidden).gather(1, label_ids)

    @torch.no_grad()
    def topk_and_loss(
        self,
        hidden: Any,
        k: int,
        labels: Tensor | None = None,
        reduction: str = "mean",
        cornet: CorNet | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """As in the base class, a chunk of documents at a time, so that the logits of a large batch are never held together."""
        chunks = self._chunks(hidden.num_documents)
        if len(chunks) == 1:
            return self._topk_and_loss(hidden, k, labels, reduction, cornet)
        if labels is not None:
            self.positives(labels, hidden.num_documents)  # refuses what is wrong with all of them
        parts = []
        for chunk in chunks:
            of_chunk = None if labels is None else labels[slice(*chunk)]
            parts.append(self._topk_and_loss(hidden.of_documents(*chunk), k, of_chunk, "sum", cornet))
        scores, label_ids, losses = zip(*parts, strict=True)
        divisor = loss_divisor(hidden.num_documents, self.num_labels, reduction)
        return torch.cat(scores), torch.cat(label_ids), None if labels is None else torch.stack(losses).sum() / divisor

    def _topk_and_loss(
        self, hidden: Any, k: int, labels: Tensor | None, reduction: str, cornet: CorNet | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        logits, loss = self.logits_and_loss(hidden, labels, reduction, cornet)
        logits, label_ids = exact_topk(logits, k)
        return logits.sigmoid(), label_ids, loss

"""`NeighborHead`: scores of labels from the training documents that are similar to a text, and from the labels' texts and centroids."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .configuration_neighbors import NeighborsConfig
from .inverted_index import index_entries
from .label_block_loss import LabelMatrix
from .score_head import ScoreHead
from .stored_documents import Assignments, StoredDocuments
from .text_index import DocumentVectors, Neighbors, VectorIndex, WordIndex, ranked_texts
from .tf_idf import WordValues

__all__ = ["LabelSimilarities", "NeighborHead", "Neighbors"]

# Between labels of equal scores the one with more training documents comes first: this times ln(1 + its documents) is
# added, which float32 still tells apart beside a vote of 0.5. Scores of 1 are equal.
PRIOR = 1e-6
# Vectors of documents that are added up at a time.
BLOCK_VECTORS = 2**16


class LabelSimilarities(NamedTuple):
    """Cosines of texts and labels, (B, L), never negative; None where they do not count.

    Attributes:
        texts: Of the labels' own texts.
        centroids: Of the mean vectors of the labels' training documents; of the label's text where it has none.
    """

    texts: Tensor | None
    centroids: Tensor | None


class NeighborHead(ScoreHead):
    """The vote of similar training documents, mixed with the similarities of the labels' own texts and centroids.

    A document's weight is its similarity to the power ``similarity_power``; a label's vote is the share of the K nearest documents'
    weights that those with the label have. Its score is (1 - w - c) · vote + w · max(0, cosine of the label's text)
    + c · max(0, cosine of its centroid). Without documents a label has its text for a centroid.

    Args:
        config: Settings of the vote, which count as they are when a text is scored, and sizes.
        settings: As for `BaseLabelHead`.
    """

    def __init__(self, config: NeighborsConfig, **settings: Any):
        super().__init__(**settings)
        self.config = config
        self.documents = self._index(config.num_documents, config.num_values)
        self.label_texts = self._index(config.num_labels, config.num_label_values)
        has_vectors = config.backbone_config is not None
        self.centroids = self._index(config.num_labels, 0) if has_vectors else None
        self.register_buffer("digests", torch.zeros(config.num_documents, dtype=torch.int64))
        self.register_buffer("label_offsets", torch.zeros(config.num_documents + 1, dtype=torch.int32))
        self.register_buffer("label_ids", torch.zeros(config.num_assignments, dtype=torch.int32))
        self.prior = nn.Parameter(torch.zeros(config.num_labels))

    def _index(self, num_texts: int, num_values: int) -> WordIndex | VectorIndex:
        if self.config.backbone_config is not None:
            return VectorIndex(self.config.backbone_config.hidden_size, num_texts)
        return WordIndex(self.config.vocab_size, num_texts, num_values)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for tensor in (self.digests, self.label_offsets, self.label_ids, self.prior):
            init.zeros_(tensor)
        self.documents.reset_parameters()
        self.label_texts.reset_parameters()
        if self.centroids is not None:
            self.centroids.reset_parameters()

    @torch.no_grad()
    def store(
        self,
        vectors: WordValues | DocumentVectors,
        stored: StoredDocuments,
        label_texts: WordValues | DocumentVectors,
    ) -> None:
        """Hold training documents, as `NeighborsForXMTC.encode` gives them, and the labels' texts; they replace what is there."""
        self.documents.store(vectors)
        self.label_texts.store(label_texts)
        self.digests = stored.digests.to(self.prior.device)
        self._assign(stored.assignments)

    @property
    def stored_documents(self) -> StoredDocuments:
        """Digests and labels of the training documents.

        Raises:
            ValueError: If an older version has stored them, without digests.
        """
        if not bool(self.digests.all()):
            raise ValueError(
                "The model was stored by an older version, without digests of its documents, and cannot tell which documents it has already. "
                "Train it again with hf-xmtc train."
            )
        return StoredDocuments(self.digests, Assignments(self.label_offsets, self.label_ids))

    @torch.no_grad()
    def add_documents(self, vectors: WordValues | DocumentVectors, stored: StoredDocuments) -> None:
        """Hold further documents too; ``stored`` has the digests and labels of all."""
        self.documents.add(vectors)
        self.digests = stored.digests
        self._assign(stored.assignments)

    @torch.no_grad()
    def add_label_texts(self, texts: WordValues | DocumentVectors) -> None:
        """Hold the texts of the last labels, which had none."""
        first = self.num_labels - texts.num_documents
        self.label_texts.select(torch.arange(first, device=self.prior.device))
        self.label_texts.add(texts)
        if isinstance(self.label_texts, WordIndex):
            self.config.num_label_values = len(self.label_texts.values)
        else:
            self._store_centroids()

    def _assign(self, assignments: Assignments) -> None:
        device = self.prior.device
        self.label_offsets, self.label_ids = (part.to(device, torch.int32) for part in assignments)
        counts = self.label_ids.long().bincount(minlength=self.num_labels)
        self.prior = nn.Parameter((PRIOR * counts.double().log1p()).to(self.prior))
        config = self.config
        config.num_documents, config.num_assignments = self.documents.num_texts, len(self.label_ids)
        if isinstance(self.documents, WordIndex):
            config.num_values, config.num_label_values = len(self.documents.values), len(self.label_texts.values)
        else:
            self._store_centroids()

    def _store_centroids(self) -> None:
        labels = torch.arange(self.num_labels, device=self.prior.device)
        self.centroids.store(DocumentVectors(self._centroids(self._sums_of(labels), labels)))

    def _centroids(self, sums: Tensor, labels: Tensor) -> Tensor:
        """Centroids of labels (W,) from the sums of their documents' vectors (W, H)."""
        # Without a document a label's sum is 0, or what rounding leaves where its documents were taken out.
        without = sums.norm(dim=1, keepdim=True) <= 1e-3
        return torch.where(without, self.label_texts.values[labels].float(), nn.functional.normalize(sums, dim=1, eps=1e-6))

    def _sums_of(self, labels: Tensor) -> Tensor:
        """Sum of the vectors of the documents of each label, (W, H) float32; label ids (W,) ascend."""
        entries = torch.isin(self.label_ids, labels).nonzero()[:, 0]
        places = torch.searchsorted(labels, self.label_ids[entries].to(labels))
        rows = Assignments(self.label_offsets, self.label_ids).rows[entries]
        vectors = self.documents.values
        sums = vectors.new_zeros(len(labels), vectors.shape[1], dtype=torch.float32)
        for block, of_block in zip(rows.split(BLOCK_VECTORS), places.split(BLOCK_VECTORS), strict=True):
            sums.index_add_(0, of_block, vectors[block].float())
        return sums

    def check(self) -> None:
        """Refuse arrays that point to what is not there.

        Raises:
            ValueError: If they do.
        """
        self.documents.check()
        self.label_texts.check()
        wrong = (self.label_ids < 0) | (self.label_ids >= self.num_labels)
        if bool(wrong.any()):
            raise ValueError(f"damaged: a document has label id {int(self.label_ids[wrong][0])} of {self.num_labels}")
        offsets, count = self.label_offsets, len(self.label_ids)
        if int(offsets[0]) != 0 or bool((offsets.diff() < 0).any()) or int(offsets[-1]) != count:
            raise ValueError(f"damaged: the documents do not have {count} labels together")

    # ---- scores ----------------------------------------------------------------------------------------------------------

    def neighbors(self, hidden: WordValues | DocumentVectors, num_neighbors: int | None = None) -> Neighbors:
        """The most similar training documents, ``num_neighbors`` or as many as the config says."""
        return ranked_texts(self.documents, hidden, num_neighbors or self.config.num_neighbors)

    def shares(self, similarities: Tensor) -> Tensor:
        """Share of each neighbour, the most similar first, in the votes of a text, (B, K)."""
        largest = similarities[:, :1]  # by which all are divided: a small similarity to a high power is 0 in float32
        weights = (similarities / largest.masked_fill(largest == 0, 1)) ** self.config.similarity_power
        total = weights.sum(dim=1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1)

    def label_similarities(self, hidden: WordValues | DocumentVectors, all_kinds: bool = False) -> LabelSimilarities:
        """Similarities of labels, of the kinds that count, or of all that there are."""
        weights = self.config.label_text_weight, self.config.label_centroid_weight
        indices = self.label_texts, self.centroids
        return LabelSimilarities(
            *(
                index.similarities(hidden).clamp(min=0) if index is not None and (weight or all_kinds) else None
                for index, weight in zip(indices, weights, strict=True)
            )
        )

    def mix(self, neighbors: Neighbors, labels: LabelSimilarities) -> Tensor:
        """Scores of all labels, (B, L), from neighbours (B, K) and the similarities of labels (B, L)."""
        (num_texts, count), config = neighbors.rows.shape, self.config
        weights = config.label_text_weight, config.label_centroid_weight
        which, entries = index_entries(self.label_offsets, neighbors.rows.flatten())
        places = which // max(1, count) * self.num_labels + self.label_ids[entries]
        shares = (1 - sum(weights)) * self.shares(neighbors.similarities)
        scores = shares.new_zeros(num_texts * self.num_labels).index_add(0, places, shares.flatten()[which])
        scores = scores.view(num_texts, self.num_labels) + self.prior.float()
        for weight, similarities in zip(weights, labels, strict=True):
            if weight:
                scores = scores + weight * similarities
        return scores.clamp(max=1)

    @property
    def label_texts_count(self) -> bool:
        """Whether a label without documents has scores by its own text."""
        return bool(self.config.label_text_weight or self.config.label_centroid_weight)

    def can_be_found(self) -> Tensor:
        """True for labels that have documents, or are found by their own text, (L,)."""
        found = self.label_ids.long().bincount(minlength=self.num_labels) > 0
        return found | self.label_texts.has_words if self.label_texts_count else found

    def scores(self, hidden: WordValues | DocumentVectors) -> Tensor:
        return self.mix(self.neighbors(hidden), self.label_similarities(hidden))

    def stored_vectors(self, digests: Tensor) -> DocumentVectors | None:
        """Vectors of documents by their digests, (B,); None where one of them is not held, or words are instead of vectors."""
        if isinstance(self.documents, WordIndex) or not len(self.digests):
            return None
        documents, rows = self._rows_of(digests, self.digests)
        first = torch.searchsorted(documents, torch.arange(len(digests), device=documents.device))
        return DocumentVectors(self.documents.values[rows[first]]) if len(documents.unique()) == len(digests) else None

    @staticmethod
    def _rows_of(digests: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs of a document (B,) and a row of those that are ``held`` (N,), of the same digest."""
        rows = torch.isin(held, digests).nonzero()[:, 0]
        documents, places = (digests[:, None] == held[rows]).nonzero(as_tuple=True)
        return documents, rows[places]

    def scores_without_own(self, hidden: WordValues | DocumentVectors, digests: Tensor) -> Tensor:
        """Scores of training documents as if the head did not hold them, (B, L): they neither vote nor count in centroids.

        Args:
            hidden: The documents.
            digests: Their digests, (B,); those that are not held have the scores that they always have.

        Raises:
            ValueError: If an older version has stored the documents, without digests.
        """
        held = self.stored_documents.digests
        neighbors = ranked_texts(self.documents, hidden, self.config.num_neighbors, held, digests)
        labels = self.label_similarities(hidden)
        if labels.centroids is not None:
            self._leave_out_of_centroids(labels.centroids, hidden.values.float(), *self._rows_of(digests, held))
        return self.mix(neighbors, labels)

    def _leave_out_of_centroids(self, cosines: Tensor, hidden: Tensor, texts: Tensor, rows: Tensor) -> None:
        """Put in place the cosines (B, L) of texts (E,) with the centroids of their own labels without their rows (E,)."""
        which, entries = index_entries(self.label_offsets, rows)
        pairs, place = (texts[which] * self.num_labels + self.label_ids[entries]).unique(return_inverse=True)
        owners, own_labels = pairs // self.num_labels, pairs % self.num_labels
        labels, of_pairs = own_labels.unique(return_inverse=True)
        remaining = self._sums_of(labels)[of_pairs].index_add(0, place, -self.documents.values[rows[which]].float())
        cosines[owners, own_labels] = (self._centroids(remaining, own_labels) * hidden[owners]).sum(dim=1).clamp(min=0)

    def word_contributions(self, words: WordValues, label_ids: Tensor) -> Tensor:
        """Contribution of each word to the score of a label: its share in the similarity of each document that votes for the label.

        With the prior they add up to the score.

        Args:
            words: W words of B documents.
            label_ids: Labels of each document, (B, S).

        Returns:
            (S, W).
        """
        neighbors, weight = self.neighbors(words), self.config.label_text_weight
        (num_texts, count), num_stored = neighbors.rows.shape, self.documents.num_texts
        which, entries = index_entries(self.label_offsets, neighbors.rows.flatten())
        has_label = neighbors.similarities.new_zeros(num_texts * count, label_ids.shape[1])
        of_text = label_ids[which // max(1, count)]  # (A, S)
        has_label = has_label.index_add(0, which, (self.label_ids[entries].long()[:, None] == of_text).float())
        per_similarity = self.shares(neighbors.similarities) / neighbors.similarities.clamp(min=1e-12)
        factors = (1 - weight) * per_similarity.flatten()[:, None] * has_label  # (B · K, S)

        keys = (torch.arange(num_texts, device=label_ids.device)[:, None] * num_stored + neighbors.rows).flatten()
        keys, order = keys.sort()
        word, stored, products = self.documents.word_entries(words)
        own = words.documents[word] * num_stored + stored
        place = torch.searchsorted(keys, own).clamp(max=max(0, len(keys) - 1))
        voting = keys[place] == own if len(keys) else own < 0
        parts = products[voting, None] * factors[order[place[voting]]]
        total = parts.new_zeros(len(words.words), label_ids.shape[1]).index_add(0, word[voting], parts)

        word, label, products = self.label_texts.word_entries(words)
        parts = weight * products[:, None] * (label[:, None] == label_ids[words.documents[word]])
        return total.index_add(0, word, parts).t()

    # ---- the label space -------------------------------------------------------------------------------------------------

    def matrices(self) -> dict[str, LabelMatrix]:
        return {}

    @property
    def numbers_per_document(self) -> int:
        return max(self.documents.num_texts, self.num_labels)

    @property
    def label_bias(self) -> nn.Parameter:
        return self.prior

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> None:
        """Follow a change of the label space; a new label has no documents and no text, so its score is 0."""
        super().resize_labels(old_ids)
        old_ids = old_ids.to(self.prior.device)
        known, num_before = old_ids >= 0, self.label_texts.num_texts
        new_ids = torch.full((num_before,), -1, device=old_ids.device)
        new_ids[old_ids[known]] = known.nonzero()[:, 0]
        self.label_texts.select(old_ids)
        assignments = Assignments(self.label_offsets, self.label_ids)
        labels = new_ids[self.label_ids.long()]
        self._assign(Assignments.of_pairs(assignments.rows[labels >= 0], labels[labels >= 0], len(self.digests)))

    def silence(self, new: Tensor) -> bool:
        return True  # `resize_labels` has

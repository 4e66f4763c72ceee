"""Documents that a model holds: their labels, the digests that recognise their texts, and their union with further documents."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["AddedDocuments", "Assignments", "StoredDocuments", "digests_of"]


class AddedDocuments(NamedTuple):
    """Counts of documents that were given to a model which holds some already.

    Attributes:
        new: Documents whose text was not there.
        relabelled: Stored documents that got labels they did not have.
        known: The others: they were there with all of their labels, or repeat another of the given ones.
        left_out: Documents without any known word, which no text could ever find.
    """

    new: int
    relabelled: int
    known: int
    left_out: int = 0


class Assignments(NamedTuple):
    """Labels of N documents.

    Attributes:
        offsets: Where the labels of each document begin, and where the last ones end, (N + 1,).
        label_ids: The labels of all documents, (A,), no label twice in a document.
    """

    offsets: Tensor
    label_ids: Tensor

    @classmethod
    def of(cls, labels: Sequence[Sequence[int]], num_labels: int) -> "Assignments":
        """Those of label ids, of which others than 0 … L-1 are left out."""
        rows = [sorted({label for label in row if 0 <= label < num_labels}) for row in labels]
        counts = torch.tensor([len(row) for row in rows], dtype=torch.long)
        return cls(_offsets(counts), torch.tensor([label for row in rows for label in row], dtype=torch.int32))

    @classmethod
    def of_pairs(cls, rows: Tensor, label_ids: Tensor, num_documents: int) -> "Assignments":
        """Those of pairs of a document's row, in order, and a label, each (A,)."""
        return cls(_offsets(rows.bincount(minlength=num_documents)), label_ids.int())

    @property
    def rows(self) -> Tensor:
        """Row of the document of each label, (A,)."""
        return torch.arange(len(self.offsets) - 1, device=self.offsets.device).repeat_interleave(self.offsets.diff())


def _offsets(counts: Tensor) -> Tensor:
    return nn.functional.pad(counts.cumsum(0), (1, 0)).int()


def digests_of(documents: Sequence[Sequence[int]]) -> Tensor:
    """A digest of 64 bits for each document as token ids, (N,) in int64."""
    digests = (hashlib.blake2b(np.asarray(ids, "<i4").tobytes(), digest_size=8).digest() for ids in documents)
    return torch.from_numpy(np.frombuffer(b"".join(digests), "<i8").astype(np.int64))


class StoredDocuments(NamedTuple):
    """Digests of the texts of N documents, (N,), and the documents' labels."""

    digests: Tensor
    assignments: Assignments

    def to(self, device: str | torch.device) -> "StoredDocuments":
        """The same on a device."""
        return StoredDocuments(self.digests.to(device), Assignments(*(part.to(device) for part in self.assignments)))

    def union(
        self, others: "StoredDocuments", num_labels: int, ambiguous: Sequence[bool] | None = None
    ) -> tuple["StoredDocuments", Tensor, AddedDocuments]:
        """These documents, followed by those of others whose text is not there.

        Of the other documents of a text the first counts, or the first of these. It gets the labels that no stored document of its text
        has.

        Args:
            others: M further documents.
            num_labels: Labels L.
            ambiguous: True for documents whose digest other texts may have too, (M,): such a document is there where one of the same
                digest has the same labels.

        Returns:
            All of them; the rows in ``others`` of those that follow, (n,); and how many these are.
        """
        count, device = len(self.digests), self.digests.device
        of_several = others.digests[[] if ambiguous is None else torch.tensor(ambiguous, dtype=torch.bool, device=device)]
        keys = torch.cat([documents._keys(of_several) for documents in (self, others)])
        texts, rows = keys.unique(return_inverse=True)[1], torch.arange(len(keys), device=device)
        first = rows.new_full(rows.shape, len(rows)).scatter_reduce(0, texts, rows, "amin")  # row of each text
        new = rows[count:][first[texts[count:]] == rows[count:]] - count
        places = torch.cat([rows[:count], rows.new_full((len(others.digests),), -1)])
        places[count + new] = count + torch.arange(len(new), device=device)

        if len(self.assignments.label_ids):  # of which those of a teacher may be labels that were removed
            num_labels = max(num_labels, 1 + int(self.assignments.label_ids.max()))
        known, given = (
            texts[start:][part.rows] * num_labels + part.label_ids
            for start, part in ((0, self.assignments), (count, others.assignments))
        )
        missing = given[~torch.isin(given, known)].unique()  # pairs of a text and a label
        targets = places[first[missing // num_labels]]
        pairs = torch.cat(
            [self.assignments.rows * num_labels + self.assignments.label_ids, targets * num_labels + missing % num_labels]
        )
        pairs = pairs.sort().values
        total, relabelled = count + len(new), len(targets[targets < count].unique())
        everything = StoredDocuments(
            torch.cat([self.digests, others.digests[new]]),
            Assignments.of_pairs(pairs // num_labels, pairs % num_labels, total),
        )
        return everything, new, AddedDocuments(len(new), relabelled, len(others.digests) - len(new) - relabelled)

    def _keys(self, ambiguous: Tensor) -> Tensor:
        """The digests; those that are ``ambiguous`` are digests of the documents' labels too, (N,)."""
        keys, rows = self.digests.clone(), torch.isin(self.digests, ambiguous).nonzero()[:, 0]
        offsets, label_ids = (part.tolist() for part in self.assignments)
        halves = self.digests[rows].cpu().view(torch.int32).view(-1, 2).tolist()
        labels = [sorted(label_ids[offsets[row] : offsets[row + 1]]) for row in rows.tolist()]
        keys[rows] = digests_of([[*digest, *own] for digest, own in zip(halves, labels, strict=True)]).to(keys.device)
        return keys

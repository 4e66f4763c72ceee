"""`TeacherKnowledge`: the labels of the most similar training texts, and their parents, as a teacher that a text is read with."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .aligned_tokens import align_words
from .backbones import build_backbone, run_backbone
from .inverted_index import index_entries
from .label_losses import sum_type
from .label_names import LabelNames
from .stored_documents import Assignments, StoredDocuments, digests_of
from .text_index import DocumentVectors, Neighbors, VectorIndex, WordIndex, nearest_texts
from .tf_idf import TfIdf, WordValues
from .tracing import is_traced

__all__ = ["Teacher", "TeacherKnowledge"]

# Before a digest that covers the parents, which earlier ones did not.
VERSION = "2:"


class Teacher(NamedTuple):
    """The set of label nodes that a document's neighbours give it, largest weight first, equal weights by id.

    Attributes:
        node_ids: Labels are 0 … L-1, parents that are no labels L … M-1, (B, K), padded with -100.
        weights: Sum of the similarities of the neighbours that have the node or a child of it, (B, K); 0 where padded.
        is_parent: True where no neighbour has the node itself, (B, K).
    """

    node_ids: Tensor
    weights: Tensor
    is_parent: Tensor


class TeacherKnowledge(nn.Module):
    """Training texts, with their labels and the parents of these, and the search for those that are near a text.

    Nothing in it learns. A text's vector is the mean of the words' first vectors (``retrieval="words"``, the paper's), that of a frozen
    encoder's states (``"encoder"``), or TF-IDF (``"tf_idf"``, the default: on the demo data the votes of 20 neighbours reach an nDCG@5 of
    80.1 on validation by TF-IDF and 68 by means of random vectors of 300 dimensions).

    Args:
        config: Has ``retrieval``, ``num_neighbors``, ``max_teacher_labels``, ``vocab_size``, ``pad_token_id``, ``num_labels``;
            ``word_size`` of words or ``backbone_config`` of an encoder; and, as the outcome of `store`, ``num_documents``,
            ``num_values``, ``num_assignments``, ``num_parents``, ``num_nodes`` (M) and ``corpus_digest``.

    Source: TReaderXML (Wang et al., 2022), §3.1, equations 1 and 2 and Algorithm 1. The algorithm drops relevant labels without a
    parent, of flat label sets all; here they stay, as the text says. Equation 2 has V_xi twice in its numerator, a misprint.
    """

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        if config.retrieval == "tf_idf":
            self.words = TfIdf(config.vocab_size, config.pad_token_id)
            self.texts = WordIndex(config.vocab_size, config.num_documents, config.num_values)
        elif config.retrieval == "words":
            self.word_vectors = nn.Parameter(torch.zeros(config.vocab_size, config.word_size))
            self.texts = VectorIndex(config.word_size, config.num_documents)
        else:
            self.encoder = build_backbone(config.backbone_config, config._attn_implementation)
            self.texts = VectorIndex(config.backbone_config.hidden_size, config.num_documents)
        self.register_buffer("text_hashes", torch.zeros(config.num_documents, dtype=torch.int64))
        self.register_buffer("node_offsets", torch.zeros(config.num_documents + 1, dtype=torch.int32))
        self.register_buffer("node_ids", torch.zeros(config.num_assignments, dtype=torch.int32))
        self.register_buffer("is_own", torch.zeros(config.num_assignments, dtype=torch.bool))
        self.register_buffer("node_names", torch.zeros(config.num_nodes, dtype=torch.int64))
        self.register_buffer("parent_offsets", torch.zeros(config.num_labels + 1, dtype=torch.int32))
        self.register_buffer("parent_ids", torch.zeros(config.num_parents, dtype=torch.int32))
        self.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> "TeacherKnowledge":
        """Stay in evaluation mode: a frozen encoder has no dropout."""
        return super().train(False)

    def reset_parameters(self) -> None:
        """Hold nothing."""
        for tensor in self.buffers(recurse=False):
            init.zeros_(tensor)
        if self.config.retrieval == "words":
            init.zeros_(self.word_vectors)
        elif self.config.retrieval == "tf_idf":
            self.words.reset_parameters()
        self.texts.reset_parameters()

    # ---- what is stored --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def take_word_vectors(self, vectors: Tensor, unread_ids: list[int]) -> None:
        """Hold the words' first vectors (V, d), by which ``retrieval="words"`` finds texts; special tokens have none."""
        self.word_vectors.copy_(vectors)
        self.word_vectors[unread_ids] = 0

    @torch.no_grad()
    def store(
        self,
        texts: WordValues | DocumentVectors,
        labels: Assignments,
        parents: Assignments,
        text_hashes: Tensor,
        names: Sequence[str] = (),
    ) -> None:
        """Hold training texts with their labels, and write their sizes and digest into the config.

        Args:
            texts: N texts, as `vectors_of` gives them.
            labels: Their labels.
            parents: The parents of each label, of which those that are no labels have ids from L on.
            text_hashes: The same number for the same text, (N,) int64.
            names: Names of the nodes, labels first; those without a name come last and are left out.
        """
        self.texts.store(texts)
        self.text_hashes = text_hashes.to(self.node_ids.device).contiguous()
        last = int(parents.label_ids.max()) if len(parents.label_ids) else -1
        num_nodes = max(self.config.num_labels, last + 1)
        self.node_names = nn.functional.pad(_digests_of(names), (0, num_nodes - len(names))).to(self.node_ids.device)
        self._assign(labels, parents, num_nodes)

    @torch.no_grad()
    def add_documents(self, texts: WordValues | DocumentVectors, stored: StoredDocuments) -> None:
        """Hold further texts behind those that are there; ``stored`` has the digests and labels of all."""
        self.texts.add(texts)
        self.text_hashes = stored.digests.contiguous()
        self._assign(stored.assignments, self.parents, self.config.num_nodes, Assignments(self.node_offsets, self.node_ids))

    @torch.no_grad()
    def name_labels(self, names: LabelNames, num_new: int) -> tuple[Tensor, list[str]]:
        """Let the last labels, which are new, be the nodes of their names; with given parents they get theirs.

        A node that has the name of a new label, a parent that was no label or a label that was removed, becomes the label.

        Args:
            names: All labels.
            num_new: How many are new, each still a node without documents.

        Returns:
            The old id of each node, (M,), -1 for new ones; and the names of these, parents that are no labels, which come last.
        """
        num_labels, device = len(names), self.node_names.device
        first, is_given = num_labels - num_new, self.config.parents_from == "given"
        self.node_names[:num_labels] = _digests_of(names.labels).to(device)
        node_of = {name: node for node, name in enumerate(self.node_names.tolist()) if name and node >= num_labels}
        taken = [node_of.pop(name, label) for label, name in enumerate(self.node_names[first:num_labels].tolist(), first)]
        behind = sorted({*range(num_labels, self.config.num_nodes)} - {*taken})

        pairs = [(label, parent) for label in range(first, num_labels) for parent in names.parents_of(label) if is_given]
        others = sorted({parent for _, parent in pairs})
        is_new = ~torch.isin(_digests_of(others).to(device), self.node_names)
        others = [other for other, new in zip(others, is_new.tolist(), strict=True) if new]
        nodes = torch.tensor([*range(first), *taken, *behind, *[-1] * len(others)])
        self._renumber(nodes, num_labels)
        self.node_names[len(nodes) - len(others) :] = _digests_of(others).to(device)

        node_of = {name: node for node, name in reversed([*enumerate(self.node_names.tolist())])}  # a label first
        given = [node_of[name] for name in _digests_of([parent for _, parent in pairs]).tolist()]
        keys = [label * len(nodes) + node for (label, _), node in zip(pairs, given, strict=True) if node != label]
        known = self.parents.rows * len(nodes) + self.parent_ids
        keys = torch.cat([known.cpu(), torch.tensor(keys, dtype=torch.long)]).unique()
        parents = Assignments.of_pairs(keys // len(nodes), keys % len(nodes), num_labels)
        self._assign(self.stored_documents.assignments, parents, len(nodes), Assignments(self.node_offsets, self.node_ids))
        return nodes, others

    @property
    def found_by(self) -> Tensor | None:
        """True for words by which texts are found, (V,); None where an encoder reads all tokens."""
        if self.config.retrieval == "tf_idf":
            return self.words.idf > 0
        return self.word_vectors.any(dim=1) if self.config.retrieval == "words" else None

    @property
    def parents(self) -> Assignments:
        """The parents of each label."""
        return Assignments(self.parent_offsets, self.parent_ids)

    @property
    def stored_documents(self) -> StoredDocuments:
        """Digests and labels of the training texts."""
        rows = Assignments(self.node_offsets, self.node_ids).rows[self.is_own]
        labels = Assignments.of_pairs(rows, self.node_ids[self.is_own], len(self.text_hashes))
        return StoredDocuments(self.text_hashes, labels)

    def _assign(self, labels: Assignments, parents: Assignments, num_nodes: int, held: Assignments | None = None) -> None:
        """Hold labels of documents and their parents, besides nodes that are ``held``: parents of removed labels stay, too."""
        labels, parents = (Assignments(*(part.to(self.node_ids.device) for part in pairs)) for pairs in (labels, parents))
        own = labels.rows * num_nodes + labels.label_ids
        ends = parents.offsets[-1:].expand(num_nodes + 1 - len(parents.offsets))  # nodes that are no labels have no parents
        which, entries = index_entries(torch.cat([parents.offsets, ends]), labels.label_ids)
        keys = [own, labels.rows[which] * num_nodes + parents.label_ids[entries]]
        keys = torch.cat(keys if held is None else [*keys, held.rows * num_nodes + held.label_ids]).unique()
        self._assign_nodes(keys // num_nodes, keys % num_nodes, torch.isin(keys, own), parents, num_nodes)

    def _assign_nodes(
        self, documents: Tensor, node_ids: Tensor, is_own: Tensor, parents: Assignments, num_nodes: int
    ) -> None:
        """Hold pairs of a document and a node, in order, and write all sizes and the digest into the config."""
        config, device = self.config, self.node_ids.device
        self.requires_grad_(False)  # arrays that have just been replaced
        nodes = Assignments.of_pairs(documents, node_ids, self.texts.num_texts)
        self.node_offsets, self.node_ids, self.is_own = (part.to(device) for part in (*nodes, is_own))
        self.parent_offsets, self.parent_ids = (part.to(device, torch.int32) for part in parents)
        config.num_documents, config.num_assignments = self.texts.num_texts, len(node_ids)
        config.num_parents, config.num_nodes = len(self.parent_ids), num_nodes
        if isinstance(self.texts, WordIndex):
            config.num_values = len(self.texts.values)
        config.corpus_digest = self.digest()

    def digest(self, of_first_version: bool = False) -> str:
        """A hexadecimal digest of the training texts' tokens and labels, and of the parents and names of nodes.

        The vectors of texts, which have other numbers in another dtype, are not in it.

        Args:
            of_first_version: As it was before version 2, of tokens and labels alone.
        """
        digest = hashlib.blake2b(digest_size=16)
        tensors = [self.text_hashes, self.node_offsets, self.node_ids, self.is_own]
        if not of_first_version:
            tensors += [self.parent_offsets, self.parent_ids, self.node_names]
        for tensor in tensors:
            digest.update(tensor.cpu().numpy())
        return digest.hexdigest() if of_first_version else VERSION + digest.hexdigest()

    def check(self) -> None:
        """Refuse arrays that are not those of the config, or point to what is not there.

        Raises:
            ValueError: If they do.
        """
        expected = self.config.corpus_digest
        if (digest := self.digest(of_first_version=not expected.startswith(VERSION))) != expected:
            raise ValueError(
                f"The training texts in the weights have the digest {digest}, but config.json has "
                f"corpus_digest={expected!r}. Do the two files come from different models? Copy both from the same folder."
            )
        self.texts.check()
        num_nodes = self.config.num_nodes
        pairs = {"labels of the training texts": Assignments(self.node_offsets, self.node_ids), "parents": self.parents}
        for content, (offsets, ids) in pairs.items():
            in_order = int(offsets[0]) == 0 and bool((offsets.diff() >= 0).all()) and int(offsets[-1]) == len(ids)
            if not in_order or bool(((ids < 0) | (ids >= num_nodes)).any()):
                raise ValueError(f"The {content} are damaged: they point outside of {num_nodes} nodes.")

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> Tensor:
        """Follow a change of the label space, of which ``old_ids`` (L,) has the old id of each label, -1 for new ones.

        Labels that are none any more stay nodes, behind the others, so that the teachers and what they say of other labels do not change.

        Returns:
            The old id of each node, (M,).
        """
        config, old_ids = self.config, old_ids.cpu()
        was_label = torch.arange(config.num_labels)
        removed = was_label[~torch.isin(was_label, old_ids)]
        nodes = torch.cat([old_ids, torch.arange(config.num_labels, config.num_nodes), removed])
        self._renumber(nodes, len(old_ids))
        return nodes

    def _renumber(self, nodes: Tensor, num_labels: int) -> None:
        """Let the nodes be those of some ids, (M,) in this order, each at most once; at -1 new ones. The others have had nothing."""
        new_ids = torch.empty(self.config.num_nodes, dtype=torch.long)
        new_ids[nodes[nodes >= 0]] = (nodes >= 0).nonzero()[:, 0]
        documents = Assignments(self.node_offsets, self.node_ids).rows.cpu()
        children, parents = new_ids[self.parents.rows.cpu()], new_ids[self.parent_ids.long().cpu()]
        pairs = (children * len(nodes) + parents)[children < num_labels].sort().values
        parents = Assignments.of_pairs(pairs // len(nodes), pairs % len(nodes), num_labels)
        self.node_names = self.node_names[nodes.clamp(min=0).to(self.node_names.device)]
        self.node_names[nodes < 0] = 0
        self._assign_nodes(documents, new_ids[self.node_ids.long().cpu()], self.is_own.cpu(), parents, len(nodes))

    @torch.no_grad()
    def forget_labels(self) -> None:
        """Hold the training texts without labels and parents."""
        nothing = torch.zeros(0, dtype=torch.long)
        labels, parents = (
            Assignments.of_pairs(nothing, nothing, size) for size in (self.texts.num_texts, self.config.num_labels)
        )
        self.node_names = self.node_names.new_zeros(self.config.num_labels)
        self._assign(labels, parents, self.config.num_labels)

    # ---- the teacher of a text -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def vectors_of(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> WordValues | DocumentVectors:
        """Vectors that texts are compared by: of length 1, and of length 0 where a text has no word that is known.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
        """
        if self.config.retrieval == "tf_idf":
            return self.words(input_ids, attention_mask)
        tokens = align_words(input_ids, attention_mask, self.config.pad_token_id)
        if self.config.retrieval == "words":
            states = nn.functional.embedding(tokens.ids, self.word_vectors)
        else:
            inputs = {"input_ids": tokens.ids, "attention_mask": tokens.read.long()}
            states = run_backbone(self.encoder, False, False, **inputs).last_hidden_state
        sums = (states.float() * tokens.mask[:, :, None]).sum(dim=1)  # (B, d)
        return DocumentVectors(nn.functional.normalize(sums, dim=1, eps=1e-6))

    @torch.no_grad()
    def neighbors(self, vectors: WordValues | DocumentVectors, num_neighbors: int | None = None) -> Neighbors:
        """The nearest training texts: rows, -100 where a text is near to no more of them, and similarities, (B, k)."""
        return nearest_texts(self.texts, vectors, num_neighbors or self.config.num_neighbors)

    @torch.no_grad()
    def teacher_from(self, neighbor_ids: Tensor, neighbor_similarities: Tensor, with_parents: bool = True) -> Teacher:
        """The labels of the ``num_neighbors`` first neighbours and their parents; the heaviest ``max_teacher_labels`` of them.

        Args:
            neighbor_ids: Rows of training texts, most similar first, (B, k or more), padded with -100.
            neighbor_similarities: Their similarities, of the same shape.
            with_parents: False for the neighbours' own labels alone.
        """
        k, num_nodes = self.config.num_neighbors, self.config.num_nodes
        is_there = neighbor_ids[:, :k] >= 0
        rows, similarities = neighbor_ids[:, :k][is_there], neighbor_similarities[:, :k][is_there]
        which, entries = index_entries(self.node_offsets, rows)
        is_own = self.is_own[entries]
        if not with_parents:
            which, entries, is_own = which[is_own], entries[is_own], is_own[is_own]
        documents = is_there.nonzero()[:, 0][which]
        keys, places = (documents * num_nodes + self.node_ids[entries]).unique(return_inverse=True)
        # In a wider type sums do not depend on the order of the neighbours.
        sums = torch.zeros(keys.shape[0], dtype=sum_type(keys.device), device=keys.device)
        sums = sums.index_add(0, places, similarities[which].to(sums.dtype))
        is_parent = torch.ones_like(keys, dtype=torch.bool)
        is_parent[places[is_own]] = False

        order = sums.argsort(descending=True, stable=True)
        order = order[(keys[order] // num_nodes).argsort(stable=True)]
        documents = keys[order] // num_nodes
        ranks = torch.arange(order.shape[0], device=order.device) - torch.searchsorted(documents, documents)
        kept = ranks < self.config.max_teacher_labels
        order, at = order[kept], (documents[kept], ranks[kept])
        # A recorded graph has the widest teachers, whatever those of its batch are.
        width = self.config.max_teacher_labels if is_traced() else 1 + (int(at[1].max()) if len(order) else 0)
        shape = (neighbor_ids.shape[0], width)
        node_ids = keys.new_full(shape, -100).index_put(at, keys[order] % num_nodes)
        weights = similarities.new_zeros(shape).index_put(at, sums[order].to(similarities.dtype))
        return Teacher(node_ids, weights, is_parent.new_zeros(shape).index_put(at, is_parent[order]))

    def teacher_of(self, vectors: WordValues | DocumentVectors) -> Teacher:
        """The teacher of texts that are no training texts, from `vectors_of`."""
        return self.teacher_from(*self.neighbors(vectors))


def _digests_of(names: Sequence[str]) -> Tensor:
    return digests_of([list(name.encode()) for name in names])

"""`CrossAttention`: words weighed by how near they and their neighbours are to any label (LACO §3.3.1)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .label_scorer import suitable_block_size
from .tracing import is_traced

__all__ = ["CrossAttention", "CrossAttentionOutput"]


class CrossAttentionOutput(NamedTuple):
    """The document vector, and what it is made of.

    Attributes:
        features: c, (B, H).
        weights: Weight of each token, 0 … 1, 0 at padding, (B, D).
        similarity: M: how near each token is to each label, (B, D, L).
        values: What the weights sum, (B, D, H).
    """

    features: Tensor
    weights: Tensor
    similarity: Tensor
    values: Tensor


class CrossAttention(nn.Module):
    """Document vector c = Σ_i a_i X_i with one weight per token: a_i = tanh(max over labels and channels of ReLU(conv(M))_i).

    The weights are neither normalised nor a label's own: all labels share c. A kernel of one label (width 1 on the label axis)
    makes c the same in any order of the labels; a wider one mixes labels that are neighbours by id.

    Only the strongest answer at a token has a gradient, so the answers of all filters at all labels are formed for a block of labels
    at a time and not stored.

    Args:
        kernel: Tokens and labels that a filter spans.
        channels: Filters.

    Source: LACO, equations 1 and 2; cosine, normalised values and the order of the maxima are those of the authors' code. Padding takes
    no part; in their code it does, so scores depend on the length of the batch.
    """

    def __init__(self, kernel: tuple[int, int] | list[int], channels: int):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, tuple(kernel))
        # An even width is padded by one more behind than before, as TensorFlow's "SAME" does in the authors' code.
        self.padding = [size for width in reversed(kernel) for size in ((width - 1) // 2, width // 2)]

    def forward(
        self, document: Tensor, read: Tensor, labels: Tensor, is_label: Tensor | None = None
    ) -> CrossAttentionOutput:
        """Weigh and sum.

        Args:
            document: States of the tokens, (B, D, H).
            read: True at tokens, False at padding, (B, D).
            labels: States of the labels, (B, L, H).
            is_label: True at labels, False at padding among them, (B, L); by default all are labels.
        """
        values, targets = (nn.functional.normalize(states, dim=-1, eps=1e-12) for states in (document, labels))
        similarity = (values @ targets.mT) * read[:, :, None]  # (B, D, L)
        if is_label is not None:
            similarity = similarity * is_label[:, None]
        # The maximum first: it is the same before and behind the ReLU, which then sees one number a token.
        weights = self._strongest_answer(similarity, is_label).relu().tanh() * read
        features = (weights[:, None] @ values).squeeze(1)
        return CrossAttentionOutput(features, weights, similarity, values)

    def working_bytes(self, num_documents: int, num_tokens: int, num_labels: int, device: str) -> int:
        """Memory of the answers that are alive at a time, on a device of a type such as ``cpu``."""
        of_label = num_documents * num_tokens * self.conv.out_channels
        return 4 * of_label * min(num_labels, suitable_block_size(of_label, device))

    def _strongest_answer(self, similarity: Tensor, is_label: Tensor | None) -> Tensor:
        """The maximum of the filters' answers over labels and filters, (B, D), for ``similarity`` (B, D, L)."""
        padded = nn.functional.pad(similarity, self.padding)
        with torch.no_grad():
            strongest, label_ids, filters = self._search(padded, is_label)
        if not torch.is_grad_enabled():
            return strongest
        # The same answer once more, from the window and the filter it came from.
        num_documents, num_tokens = strongest.shape
        tokens_spanned, labels_spanned = self.conv.kernel_size
        documents = torch.arange(num_documents, device=padded.device)[:, None, None, None]
        spanned = torch.arange(tokens_spanned, device=padded.device)
        rows = torch.arange(num_tokens, device=padded.device)[:, None, None] + spanned[:, None]
        columns = label_ids[:, :, None, None] + torch.arange(labels_spanned, device=padded.device)
        windows = padded[documents, rows, columns].flatten(2)  # (B, D, tokens · labels of a filter)
        # Looked up as embeddings, whose gradients are summed well where thousands of tokens chose the same filter.
        weights = nn.functional.embedding(filters, self.conv.weight.flatten(1))
        biases = nn.functional.embedding(filters, self.conv.bias[:, None]).squeeze(-1)
        answers = ((windows * weights).sum(dim=2) + biases).to(strongest.dtype)
        return torch.where(strongest.isinf(), strongest, answers)  # -inf where a document has no label at all

    def _search(self, padded: Tensor, is_label: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The strongest answer at each token, and the label and the filter it comes from, each (B, D)."""
        tokens_spanned, labels_spanned = self.conv.kernel_size
        num_documents, num_tokens = padded.shape[0], padded.shape[1] - tokens_spanned + 1
        num_labels = padded.shape[2] - labels_spanned + 1
        block = num_labels
        if not is_traced():
            block = suitable_block_size(num_documents * num_tokens * self.conv.out_channels, padded.device.type)
        strongest_per_block = []
        for start in range(0, num_labels, block):
            stop = min(start + block, num_labels)
            answers = self.conv(padded[:, None, :, start : stop + labels_spanned - 1])  # (B, C, D, block)
            answers, filters = answers.max(dim=1)
            if is_label is not None:
                answers = answers.masked_fill(~is_label[:, None, start:stop], float("-inf"))
            answers, label_ids = answers.max(dim=2)
            strongest_per_block.append((answers, label_ids + start, filters.gather(2, label_ids[:, :, None])[:, :, 0]))
        answers, label_ids, filters = (
            torch.stack(parts) for parts in zip(*strongest_per_block, strict=True)
        )  # (blocks, B, D)
        strongest, blocks = answers.max(dim=0)
        return strongest, label_ids.gather(0, blocks[None])[0], filters.gather(0, blocks[None])[0]

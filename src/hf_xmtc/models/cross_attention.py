"""`CrossAttention`: words weighed by how near they and their neighbours are to any label (LACO §3.3.1)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["CrossAttention", "CrossAttentionOutput"]


class CrossAttentionOutput(NamedTuple):
    """What the cross attention makes of a document.

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

    Args:
        kernel: Tokens and labels that a filter spans.
        channels: Filters.
        similarity: ``cosine``, or ``dot`` for the literal equation 1.
        values: What c sums: ``normalized`` states, or ``raw`` ones for the literal equation 2.
        masked: Leave padding out; False is the authors' code, whose scores depend on the length of the batch.

    Source: LACO, equations 1 and 2; cosine, normalised values and the order of the maxima are those of the authors' code.
    """

    def __init__(
        self,
        kernel: tuple[int, int] | list[int],
        channels: int,
        similarity: str = "cosine",
        values: str = "normalized",
        masked: bool = True,
    ):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, tuple(kernel))
        # An even width is padded by one more behind than before, as TensorFlow's "SAME" does in the authors' code.
        self.padding = [size for width in reversed(kernel) for size in ((width - 1) // 2, width // 2)]
        self.similarity, self.values, self.masked = similarity, values, masked

    def forward(
        self, document: Tensor, read: Tensor, labels: Tensor, counted: Tensor | None = None, is_label: Tensor | None = None
    ) -> CrossAttentionOutput:
        """Weigh and sum.

        Args:
            document: States of the tokens, (B, D, H).
            read: True at tokens, False at padding, (B, D).
            labels: States of the labels, (B, L, H).
            counted: Tokens that take part, (B, D); by default all that are read.
            is_label: True at labels, False at padding among them, (B, L); by default all are labels.
        """
        tokens, targets = document, labels
        if self.similarity == "cosine":
            tokens, targets = (nn.functional.normalize(states, dim=-1, eps=1e-12) for states in (document, labels))
        values = nn.functional.normalize(document, dim=-1, eps=1e-12) if self.values == "normalized" else document
        kept = (read if counted is None else counted) if self.masked else torch.ones_like(read)
        similarity = (tokens @ targets.mT) * kept[:, :, None]  # (B, D, L)
        if is_label is not None:
            similarity = similarity * is_label[:, None]
        # The maximum first: it is the same before and behind the ReLU, and this way the ReLU's copy is small.
        padded = nn.functional.pad(similarity[:, None], self.padding)
        near = self.conv(padded).amax(dim=1)  # (B, D, L)
        if is_label is not None:
            near = near.masked_fill(~is_label[:, None], float("-inf"))
        strongest = near.amax(dim=2).relu()  # (B, D)
        weights = strongest.tanh() * kept
        features = (weights[:, None] @ values).squeeze(1)
        return CrossAttentionOutput(features, weights, similarity, values)

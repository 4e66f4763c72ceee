"""Parts of the scores of the candidates that LACO reads beside a document."""

import torch
from torch import Tensor, nn

__all__ = ["LabelTerm", "log_votes", "places_among"]

# Added to votes, so that a label without any can still be chosen.
LEAST_VOTE = 1e-4


class LabelTerm(nn.Module):
    """u · tanh(W_y h_j + W_c c) + v · (W_y h_j ⊙ W_c c): a score of label j by its state h_j and the document's vector c.

    All labels share the weights, so rare labels gain. The product tells whether text and label match, which the sum cannot. u and v start
    at 0.

    Args:
        hidden_size: Width H.
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.of_label = nn.Linear(hidden_size, hidden_size)
        self.of_document = nn.Linear(hidden_size, hidden_size, bias=False)
        self.output = nn.Linear(2 * hidden_size, 1, bias=False)

    def forward(self, features: Tensor, states: Tensor) -> Tensor:
        """Scores (B, C) of labels with states (B, C, H) for documents (B, H)."""
        labels, documents = self.of_label(states), self.of_document(features)[:, None]
        return self.output(torch.cat([(labels + documents).tanh(), labels * documents], dim=2)).squeeze(-1)


def log_votes(votes: Tensor) -> Tensor:
    """log(g + 1e-4) of the generator's votes g, from 0 to 1, in float32 or wider: the votes of rare labels still differ."""
    return (votes.to(torch.promote_types(votes.dtype, torch.float32)) + LEAST_VOTE).log()


def places_among(candidate_ids: Tensor, positives: Tensor) -> Tensor:
    """Places of positives (B, P) among candidates (B, C): (B, P), -100 for those that are none and for padding."""
    same = (positives[:, :, None] == candidate_ids[:, None]) & (positives >= 0)[:, :, None]
    return torch.where(same.any(dim=2), same.to(torch.int8).argmax(dim=2), -100)

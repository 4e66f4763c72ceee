"""`SequenceTagHead`: the labels as a sequence of yes and no, tagged by a BiLSTM and a CRF (`LinearChainCRF`)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .cornet import CorNet
from .label_block_loss import LabelMatrix
from .label_head import BaseLabelHead, loss_divisor
from .label_losses import mark_positives
from .mixed_precision import in_autocast_type
from .tracing import is_traced

__all__ = ["LinearChainCRF", "SequenceTagHead"]


class LinearChainCRF(nn.Module):
    """Scores of tag sequences: emissions, transitions between neighbours, and a first and last tag.

    The sum and the maximum over all sequences are products of one matrix per position, and those of neighbours are multiplied
    pairwise: log2(L) steps instead of L. Marginals are the gradient of log Z for the emissions, the best sequence that of
    the maximum.

    Args:
        num_tags: Tags G.

    Source: Lafferty et al. (2001); BiLSTM-CRF of Huang et al. (2015), which LACO §4.3 takes for SeqTag.
    """

    def __init__(self, num_tags: int = 2):
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.start, self.end = nn.Parameter(torch.empty(num_tags)), nn.Parameter(torch.empty(num_tags))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Zeros: at first neighbours say nothing about each other."""
        for parameter in self.parameters():
            init.zeros_(parameter)

    def negative_log_likelihood(self, emissions: Tensor, tags: Tensor) -> Tensor:
        """log Z less the score of the given sequence, of each document, (B,).

        Args:
            emissions: Score of each tag at each position, (B, L, G).
            tags: (B, L) int64.
        """
        score = emissions.gather(2, tags[:, :, None]).squeeze(-1).sum(dim=1)
        score = score + self.transitions[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        return self.log_partition(emissions) - score - self.start[tags[:, 0]] - self.end[tags[:, -1]]

    def log_partition(self, emissions: Tensor) -> Tensor:
        """log Z: the sum over all sequences, (B,), of emissions (B, L, G)."""
        return self._over_sequences(emissions, torch.logsumexp)

    def log_marginals(self, emissions: Tensor) -> Tensor:
        """Log probability of each tag at each position, (B, L, G), without gradient."""
        marginals = self._gradient(emissions, torch.logsumexp)
        return marginals.clamp(min=torch.finfo(marginals.dtype).tiny).log()

    def best_tags(self, emissions: Tensor) -> Tensor:
        """Tags of the sequence with the highest score, (B, L) int64 (Viterbi)."""
        return self._gradient(emissions, lambda scores, dim: scores.max(dim=dim).values).argmax(dim=-1)

    def _gradient(self, emissions: Tensor, reduce: Callable[..., Tensor]) -> Tensor:
        if is_traced():
            raise ValueError(
                "Marginals and best sequences of a CRF are gradients, which torch.export and torch.jit.trace cannot record. Export another "
                "family, such as LACO, or run SeqTag in PyTorch."
            )
        with torch.inference_mode(False), torch.enable_grad():
            # In full precision: what follows from many small differences. A clone, which may have a gradient in inference mode too.
            emissions = emissions.detach().clone().float().requires_grad_()
            total = self._over_sequences(emissions, reduce).sum()
            return torch.autograd.grad(total, emissions)[0]

    def _over_sequences(self, emissions: Tensor, reduce: Callable[..., Tensor]) -> Tensor:
        first = self.start + emissions[:, 0]  # (B, G)
        if emissions.shape[1] == 1:
            return reduce(first + self.end, dim=-1)
        steps = self.transitions + emissions[:, 1:, None]  # (B, L - 1, from, to)
        while steps.shape[1] > 1:
            odd = steps[:, -1:] if steps.shape[1] % 2 else steps[:, :0]
            left, right = steps[:, : steps.shape[1] - odd.shape[1] : 2], steps[:, 1::2]
            steps = torch.cat([reduce(left[..., :, :, None] + right[..., None, :, :], dim=-2), odd], dim=1)
        ends = first[:, :, None] + steps[:, 0] + self.end  # (B, G, G)
        return reduce(ends.flatten(1), dim=-1)


class SequenceTagHead(BaseLabelHead):
    """States of the labels (B, L, H) in, a tag for each label out; neighbours are labels with neighbouring ids.

    The states become `emissions` (B, L, 2) once; everything else takes those as ``hidden``. A label's raw logit is the log-odds of its
    marginal, so rankings follow the marginals; the predicted set is that of the best sequence (`best_set`), which need not be the
    labels with a marginal above one half. The loss is the CRF's.

    Args:
        in_features: Width H.
        num_labels: Labels L.
        lstm_size: Width of each direction of the LSTM.
        dropout: Dropout on what the LSTM reads and writes.
        settings: As for `BaseLabelHead`; the loss is not chosen.

    Source: SeqTag of LACO §4.3: BiLSTM-CRF (Huang et al., 2015) over the label sequence.
    """

    def __init__(self, in_features: int, num_labels: int, lstm_size: int = 256, dropout: float = 0.1, **settings):
        super().__init__(num_labels, **settings)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(in_features, lstm_size, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * lstm_size, 2)
        self.crf = LinearChainCRF()

    def emissions(self, hidden: Tensor) -> Tensor:
        """Scores of no and yes for each label, (B, L, 2)."""
        states, _ = self.lstm(in_autocast_type(self.dropout(hidden)))
        return self.output(self.dropout(states))

    def best_set(self, hidden: Tensor) -> Tensor:
        """True at the labels of the best sequence, (B, L), of emissions."""
        return self.crf.best_tags(hidden) == 1

    @property
    def label_bias(self) -> Tensor:
        return self.output.bias[1:]

    def raw_logits(self, hidden: Tensor) -> Tensor:
        log_marginals = self.crf.log_marginals(hidden)
        return (log_marginals[..., 1] - log_marginals[..., 0]).to(hidden.dtype)

    def raw_logits_of(self, hidden: Tensor, label_ids: Tensor) -> Tensor:
        return self.raw_logits(hidden).gather(1, label_ids)

    def matrices(self) -> dict[str, LabelMatrix]:
        return {}

    def loss(self, hidden: Tensor, labels: Tensor, reduction: str = "sum_labels", cornet: CorNet | None = None) -> Tensor:
        """Negative log-likelihood of the documents' tag sequences; arguments as in `BaseLabelHead.loss`."""
        positives = self.positives(labels, len(hidden))
        tags = mark_positives(positives, self.num_labels).long()
        losses = self.crf.negative_log_likelihood(hidden.float(), tags)
        return losses.sum() / loss_divisor(len(positives), self.num_labels, reduction)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.crf.reset_parameters()

"""`SequenceTagHead`: the labels as a sequence of yes and no, tagged by a BiLSTM and a CRF."""

from torch import Tensor, nn

from .cornet import CorNet
from .label_head_base import BaseLabelHead, loss_divisor
from .label_positives import mark_positives
from .label_scorer import LabelMatrix, LinearHead
from .linear_chain_crf import LinearChainCRF
from .mixed_precision import in_autocast_type

__all__ = ["SequenceTagHead"]


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

    def source(self, hidden: Tensor) -> Tensor:
        return self.raw_logits(hidden)

    @property
    def linear_head(self) -> LinearHead | None:
        return None

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
        positives = self._positives(labels, len(hidden))
        tags = mark_positives(positives, self.num_labels).long()
        losses = self.crf.negative_log_likelihood(hidden.float(), tags)
        return losses.sum() / loss_divisor(len(positives), self.num_labels, reduction)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.crf.reset_parameters()

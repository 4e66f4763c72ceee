"""`SeqTagForXMTC`: text and labels in one encoder, the labels tagged as a sequence."""

from typing import Any

import torch
from torch import Tensor, nn

from .configuration_seqtag import SeqTagConfig
from .modeling_joint import JointModel
from .modeling_xmtc import XMTCOutput
from .seqtag_head import LinearChainCRF, SequenceTagHead

__all__ = ["SeqTagForXMTC"]


class SeqTagForXMTC(JointModel):
    """Joint embedding → BiLSTM-CRF over the labels in the order of their ids, which therefore matters.

    Rankings come from the CRF's marginals, predicted sets from its best sequence. It takes no candidates: labels would have other
    neighbours than in training.

    Source: SeqTag_BERT, a baseline of LACO §4.3.
    """

    config_class = SeqTagConfig

    has_thresholds = False

    def __init__(self, config: SeqTagConfig):
        super().__init__(config)
        self.use_label_head(
            SequenceTagHead(
                config.hidden_size,
                lstm_size=config.lstm_hidden_size,
                dropout=config.classifier_dropout,
                **self.label_settings(),
            )
        )
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, LinearChainCRF):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    def compute_output(self, features: Any, labels: Tensor | None, top_k: int | None, **extra: Any) -> XMTCOutput:
        """As in the base class, with the CRF's loss; ``features`` are the labels' states, (B, L, H)."""
        emissions = self.label_head.emissions(features)
        loss = self.label_head.loss(emissions, labels, self.config.loss_reduction) if labels is not None else None
        if loss is not None and top_k == 0:
            return XMTCOutput(loss=loss, **extra)
        scored = super().compute_output(emissions, None, top_k)
        sets = self.label_head.best_set(emissions) if top_k else None
        return XMTCOutput(**{**scored, "loss": loss, "label_sets": sets, **extra})

    def in_predicted_set(self, output: XMTCOutput, threshold: float | None = None) -> Tensor:
        """As in the base class; without a threshold the labels of the best sequence."""
        if threshold is not None:
            return super().in_predicted_set(output, threshold)
        return output.label_sets.gather(1, output.top_labels)

    def lowest_threshold(self, threshold: float | None = None) -> float:
        return float("-inf") if threshold is None else threshold

    def set_thresholds(self, thresholds: Any) -> None:
        raise ValueError(
            "SeqTag's predicted set is its best sequence and has no thresholds. Give threshold=… where sets are asked for."
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Tokens of the texts, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T).
            token_type_ids: Segment ids as the tokenizer gives them for one text: 0 everywhere, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_attentions: Return the encoder's attention weights, (B, heads, T + L + 1, T + L + 1).
            output_hidden_states: Return its hidden states, (B, T + L + 1, H): the input's columns, then labels and separator.
            return_dict: False for a tuple.
        """
        requested = self.requested_outputs(output_attentions, output_hidden_states)
        states = self.read_jointly(input_ids, attention_mask, *requested, token_type_ids=token_type_ids)
        output = self.compute_output(
            states.labels, labels, top_k, hidden_states=states.hidden_states, attentions=states.attentions
        )
        return output if return_dict is not False else output.to_tuple()


SeqTagConfig.register_for_auto_class()
SeqTagForXMTC.register_for_auto_class("AutoModelForSequenceClassification")

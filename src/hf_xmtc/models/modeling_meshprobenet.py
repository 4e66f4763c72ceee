"""`MeSHProbeNetForXMTC`: a few probes read the states of a bidirectional LSTM by attention (CorNet §4.3)."""

import torch
from torch import Tensor, nn

from .configuration_meshprobenet import MeSHProbeNetConfig
from .linear_layers import check_readable
from .modeling_xmtc import XMTCOutput
from .word_encoders import BiLSTM, WordEmbedding, WordLevelModel

__all__ = ["MeSHProbeNetForXMTC"]


class SelfAttentiveProbes(nn.Module):
    """M trained vectors, each of which weighs the words of a document by its products with their states.

    Neither scaled nor squashed, as in the authors' code.
    """

    def __init__(self, num_probes: int, state_size: int):
        super().__init__()
        self.probe = nn.Linear(state_size, num_probes, bias=False)

    def forward(self, states: Tensor, read: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts (B, M, S) of ``states`` (B, T, S) and weights (B, M, T), 0 where ``read`` (B, T) is False."""
        products = self.probe(states).mT  # (B, M, T)
        weights = products.masked_fill(~read[:, None], float("-inf")).softmax(dim=-1)
        return weights @ states, weights


class MeSHProbeNetForXMTC(WordLevelModel):
    """MeSHProbeNet, and CorNetMeSHProbeNet with ``cornet_num_blocks`` > 0.

    Each probe asks the document one question; the concatenated answers, and with ``bottleneck_size`` an ELU layer, go to the labels.

    Source: CorNet §4.3, after MeSHProbeNet (Xun et al., 2019); equal to the CorNet authors' code.
    """

    config_class = MeSHProbeNetConfig
    token_weight_kind = "contribution"

    def __init__(self, config: MeSHProbeNetConfig):
        super().__init__(config)
        self.words = WordEmbedding(config)
        self.bilstm = BiLSTM(config.embedding_size, config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob)
        self.probes = SelfAttentiveProbes(config.num_probes, 2 * config.hidden_size)
        self.build_label_scorer(config.num_probes * 2 * config.hidden_size, config.bottleneck_size)
        self.post_init()

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None, tuple[Tensor, ...] | None]:
        """Document features: the contexts of all probes.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            output_attentions: Also return the probes' weights.
            output_hidden_states: Also return hidden states.

        Returns:
            Features (B, M · 2H); word embeddings (B, T, E) and LSTM states (B, T, 2H); and the weights of the probes as one head
            with M queries, (B, 1, M, T). None where not asked for.
        """
        words, states, embedded = self.read_words(input_ids, attention_mask, output_hidden_states)
        contexts, weights = self.probes(states, words.read)
        hidden_states = (
            tuple(words.in_input_columns(layer) for layer in (embedded, states)) if output_hidden_states else None
        )
        attentions = (words.in_input_columns(weights, dims=(2,))[:, None],) if output_attentions else None
        return contexts.flatten(1), hidden_states, attentions

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Contribution of each token to the raw logits of chosen labels through the probes that read it, (B, S, T).

        A context is a weighted sum of states, so token t adds Σ_m α_mt · (g_m · h_t), with g_m the gradient of the logit for the
        context of probe m. Without a bottleneck these add up to the logit less its bias; with one to its linear part. CorNet
        comes after it and is left out.
        """
        check_readable("A token's contribution", self.label_head.output.weight)
        self.label_head.check_label_ids("label_ids", label_ids)
        with torch.no_grad():
            words, states, _ = self.read_words(input_ids, attention_mask)
            contexts, weights = self.probes(states, words.read)  # (B, M, S), (B, M, T)
        with torch.enable_grad():
            contexts = contexts.detach().requires_grad_()
            logits = self.label_head.raw_logits_of(contexts.flatten(1), label_ids.clamp(min=0))  # (B, S)
            each = torch.eye(logits.shape[1], device=logits.device, dtype=logits.dtype)
            (gradients,) = torch.autograd.grad(logits.sum(0), contexts, grad_outputs=each, is_grads_batched=True)
        contributions = torch.einsum("sbmh,bth,bmt->bst", gradients, states, weights) * (label_ids >= 0)[:, :, None]
        return words.in_input_columns(contributions, dims=(2,))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_attentions: Return the probes' weights.
            output_hidden_states: Return word embeddings and LSTM states.
            return_dict: False for a tuple.
        """
        requested = self.requested_outputs(output_attentions, output_hidden_states)
        features, states, attentions = self.encode(input_ids, attention_mask, *requested)
        output = self.compute_output(features, labels, top_k, hidden_states=states, attentions=attentions)
        return output if return_dict is not False else output.to_tuple()


MeSHProbeNetConfig.register_for_auto_class()
MeSHProbeNetForXMTC.register_for_auto_class("AutoModelForSequenceClassification")

"""`LACOForXMTC`: text and labels in one encoder, cross attention between them, two auxiliary tasks on label co-occurrence."""

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .configuration_laco import LACOConfig
from .joint_document_cache import DocumentCache
from .label_candidates import best_candidates, candidate_loss
from .label_losses import mark_positives, positive_ids
from .laco_candidates import LabelTerm, log_votes, places_among
from .laco_cooccurrence import RANDOM_NUMBERS, ConditionalHead, PairHead, clcp_loss, draw_given, draw_pairs, plcp_loss
from .laco_cross_attention import CrossAttention, CrossAttentionOutput
from .linear_layers import check_readable
from .modeling_joint import JointModel, JointStates, check_tensor
from .modeling_xmtc import XMTCOutput

__all__ = ["LACOForXMTC"]


class LACOForXMTC(JointModel):
    """LACO, its ablations and its auxiliary tasks, on any encoder of `JointConfig`.

    Every label is a token behind the text. The cross attention weighs the text's tokens by their nearness to labels, one weight
    for all labels, and the label head reads the weighted sum. In training PLCP and CLCP ask which labels occur together.

    With ``num_candidates`` it corrects the ranking of the candidates' generator. The logit of candidate j is

        α · log(g_j + 1e-4) + w_j · c + b_j + u · tanh(W_y h_j + W_c c) + v · (W_y h_j ⊙ W_c c)

    with the generator's vote g_j, the label's state h_j and c as above. α starts at 1 and w, b, u and v at 0, so an untrained model ranks as
    its generator does. This formula is our design.

    Source: LACO (Zhang et al., 2021), §3; where the paper is silent as the authors' code, or better as said in `LACOConfig`.
    """

    config_class = LACOConfig
    head_names = (*JointModel.head_names, "label_term", "pair_head", "conditional_head")

    def __init__(self, config: LACOConfig):
        super().__init__(config)
        width = config.hidden_size
        self.cross_attention = self.pooler = self.pair_head = self.conditional_head = None
        if config.cross_attention:
            self.cross_attention = CrossAttention(config.cross_attention_kernel, config.cross_attention_channels)
        elif config.classifier_token == "pooler":
            self.pooler = nn.Linear(width, width)
        if config.learns_pairs:
            self.pair_head = PairHead(width, config.classifier_dropout)
        if config.learns_conditions:
            self.conditional_head = ConditionalHead(width)
        self.label_term = self.vote_scale = None
        if config.num_candidates:
            self.label_term = LabelTerm(width)
            self.vote_scale = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(config.classifier_dropout)
        # Not Xavier-uniform as in other families: the authors' code starts its output layer as BERT starts its layers.
        self.build_label_scorer(width, initializer_range=0.0 if config.num_candidates else config.initializer_range)
        self.post_init()

    @property
    def token_weight_kind(self) -> str | None:
        return "contribution" if self.cross_attention is not None else None

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Conv2d):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, LabelTerm):
            init.zeros_(module.output.weight)
        elif module is self and self.vote_scale is not None:
            init.ones_(self.vote_scale)
        else:
            super()._init_weights(module)

    def take_backbone(self, backbone: nn.Module) -> None:
        pooler = getattr(backbone, "pooler", None)
        # ALBERT's is the layer itself.
        pretrained = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
        if self.pooler is not None and pretrained is not None:
            self.pooler.load_state_dict(pretrained.state_dict())
        super().take_backbone(backbone)

    def attend(self, states: JointStates, candidate_ids: Tensor | None = None) -> CrossAttentionOutput:
        """The cross attention between a document's tokens and the labels, or the candidates that were read."""
        labels = states.labels
        if labels is None and candidate_ids is None:
            labels = self.label_embedding.weight.expand(states.document.shape[0], -1, -1)
        elif labels is None:
            labels = self.label_embedding(candidate_ids.clamp(min=0))
        return self.cross_attention(states.document, states.read, labels, states.is_label)

    def encode(self, states: JointStates, candidate_ids: Tensor | None = None) -> Tensor:
        """Input of the label head, (B, H): c of equation 2, or what ``classifier_token`` says."""
        if self.cross_attention is not None:
            return self.attend(states, candidate_ids).features
        if self.config.classifier_token == "mean":
            read = states.read.to(states.document.dtype)[:, None]  # (B, 1, D)
            return (read @ states.document).squeeze(1) / read.sum(dim=2).clamp(min=1)
        first = states.document[:, 0]
        return first if self.pooler is None else self.pooler(first).tanh()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        candidate_ids: Tensor | None = None,
        candidate_votes: Tensor | None = None,
        random_numbers: Tensor | None = None,
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
            candidate_ids: Labels to score for each document, (B, C), each once, padded with -100; a model with ``num_candidates``
                needs as many of them, because the weights of its cross attention grow with their number, any other takes all labels
                without. The loss is then that of the candidates: labels of a document that are not among them add nothing. The
                output has ``top_scores`` and ``top_labels``, of all candidates without ``top_k``.
            candidate_votes: What their generator said of them, from 0 to 1, (B, C). Counted by a model with ``num_candidates``; without
                votes it scores by its corrections alone.
            random_numbers: Numbers from 0 to 2^62, (B, at least 9) int64, that decide what the auxiliary tasks ask in training;
                `XMTCDataCollator` draws them for the trainer, and by default torch does.
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_attentions: Return the encoder's attention weights, (B, heads, T + L + 1, T + L + 1) with a joint embedding.
            output_hidden_states: Return its hidden states, (B, T + L + 1, H): the input's columns, then labels and separator.
            return_dict: False for a tuple.
        """
        requested = self.requested_outputs(output_attentions, output_hidden_states)
        self._check_candidates_given(candidate_ids)
        states = self.read_jointly(input_ids, attention_mask, *requested, candidate_ids, token_type_ids)
        features = self.dropout(self.encode(states, candidate_ids))
        extra = {"hidden_states": states.hidden_states, "attentions": states.attentions}
        if candidate_ids is None:
            output = self.compute_output(features, labels, top_k, **extra)
        else:
            output = self._score_candidates(features, states.labels, candidate_ids, candidate_votes, labels, top_k, extra)
        if self.training and labels is not None and self.config.auxiliary_task != "none":
            loss = self._auxiliary_loss(states.labels, labels, random_numbers, candidate_ids)
            output["loss"] = output.loss + loss
        return output if return_dict is not False else output.to_tuple()

    @torch.no_grad()
    def score_candidates(
        self, cache: DocumentCache, candidate_ids: Tensor, candidate_votes: Tensor | None = None, top_k: int | None = None
    ) -> XMTCOutput:
        """Score labels for texts that were read by `cache_documents`; as `forward` with the same candidates and votes (B, C)."""
        states = self.read_candidates(cache, candidate_ids)
        return self._score_candidates(
            self.encode(states, candidate_ids), states.labels, candidate_ids, candidate_votes, None, top_k, {}
        )

    def _score_candidates(
        self,
        features: Tensor,
        states: Tensor,
        candidate_ids: Tensor,
        votes: Tensor | None,
        labels: Tensor | None,
        top_k: int | None,
        extra: dict,
    ) -> XMTCOutput:
        """Scores of candidates whose states are (B, C, H), best first, and the loss over them."""
        self.config.check_candidates_usable()
        if votes is not None and votes.shape != candidate_ids.shape:
            raise ValueError(
                f"candidate_votes has the shape {tuple(votes.shape)} and candidate_ids {tuple(candidate_ids.shape)}. Give one number for "
                "each candidate."
            )
        logits = self.label_head.raw_logits_of(features, candidate_ids.clamp(min=0))
        if self.label_term is not None:
            logits = logits + self.label_term(features, states)
            if votes is not None:
                logits = logits + self.vote_scale * log_votes(votes)
        loss = None
        if labels is not None:
            loss = candidate_loss(
                logits, candidate_ids, positive_ids(labels, self.config.num_labels), self.config.loss_reduction
            )
            if top_k == 0:
                return XMTCOutput(loss=loss, **extra)
        # Half precision would not tell high logits apart.
        scores = nn.functional.logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
        top_k = candidate_ids.shape[1] if top_k is None else top_k
        top_scores, top_labels = best_candidates(scores, candidate_ids, top_k)
        return XMTCOutput(loss=loss, top_scores=top_scores, top_labels=top_labels, **extra)

    def _auxiliary_loss(
        self, label_states: Tensor, labels: Tensor, numbers: Tensor | None, candidate_ids: Tensor | None = None
    ) -> Tensor:
        config, loss, num_labels = self.config, label_states.new_zeros(()), label_states.shape[1]
        positives, is_label, real = positive_ids(labels, config.num_labels), None, num_labels
        if candidate_ids is not None:
            # Padding behind the labels, so that they are the first ones and nothing is asked about it.
            order = (candidate_ids < 0).long().argsort(dim=1, stable=True)
            candidate_ids = candidate_ids.gather(1, order)
            label_states = label_states.gather(1, order[:, :, None].expand_as(label_states))
            positives, is_label = places_among(candidate_ids, positives), candidate_ids >= 0
            real = is_label.sum(dim=1)
        marked = mark_positives(positives, num_labels)
        if numbers is None:
            numbers = torch.randint(2**62, (len(labels), RANDOM_NUMBERS), device=labels.device)
        pair_weight, condition_weight = config.auxiliary_weights
        if self.pair_head is not None:
            pairs = draw_pairs(positives, real, numbers)
            loss = loss + pair_weight * plcp_loss(self.pair_head(label_states, pairs.label_ids), pairs)
        if self.conditional_head is not None:
            given = draw_given(positives, num_labels, numbers[:, RANDOM_NUMBERS - 1])
            logits = self.conditional_head(label_states, given)
            loss = loss + condition_weight * clcp_loss(logits, marked, given, is_label)
        return loss

    @classmethod
    def from_pretrained(cls, *args, output_loading_info: bool = False, **kwargs):
        """Open a checkpoint; arguments as in `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If the model scores candidates and was trained before its generator's votes were part of the logits.
        """
        model, loading = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if "vote_scale" in loading["missing_keys"]:
            raise ValueError(
                f"{args[0] if args else 'The model'} scores candidates (num_candidates={model.config.num_candidates}), but its weights have no "
                "vote_scale: it was trained before the votes of its generator were part of the logits. Train it anew, or use the version of "
                "hf_xmtc that trained it."
            )
        return (model, loading) if output_loading_info else model

    # ---- what a trained model says about its labels ------------------------------------------------------------------------

    @torch.no_grad()
    def pair_probabilities(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        pairs: Tensor,
        candidate_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Probabilities that a document has both labels of a pair, (B, M), by PLCP, which is not the same in both orders of a pair.

        Args:
            input_ids: (B, T).
            attention_mask: (B, T), or None.
            pairs: Label ids, (B, M, 2).
            candidate_ids: Labels that a model of candidates reads, those of the pairs among them.
            token_type_ids: As in `forward`.

        Raises:
            ValueError: If the model has not learnt PLCP, or a label is no candidate.
            TypeError: If the pairs are no tensor.
        """
        self._check_task_learnt(self.pair_head, "plcp")
        check_tensor("pairs", pairs, "(documents, pairs, 2)")
        self.label_head.check_label_ids("pairs", pairs.flatten(1))
        states = self._states_of_labels(input_ids, attention_mask, candidate_ids, token_type_ids)
        return self.pair_head(states, _places(pairs.flatten(1), candidate_ids).view(pairs.shape)).sigmoid()

    @torch.no_grad()
    def conditional_probabilities(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        given: Tensor,
        candidate_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Probabilities of each label, (B, L), or candidate, (B, C), when some labels of a document are known, by CLCP.

        It is learnt for the other labels: what it says of the known ones themselves means nothing.

        Args:
            input_ids: (B, T).
            attention_mask: (B, T), or None.
            given: Label ids that are known, (B, S), padded with -100; at least one per document.
            candidate_ids: Labels that a model of candidates reads, those that are known among them.
            token_type_ids: As in `forward`.

        Raises:
            ValueError: If the model has not learnt CLCP, or a known label is no candidate.
            TypeError: If what is known is no tensor.
        """
        self._check_task_learnt(self.conditional_head, "clcp")
        check_tensor("given", given, "(documents, known labels)")
        self.label_head.check_label_ids("given", given)
        if not bool((given >= 0).any(dim=1).all()):
            raise ValueError("A document has no known label, and CLCP is always told one. Leave the document out.")
        states = self._states_of_labels(input_ids, attention_mask, candidate_ids, token_type_ids)
        places = _places(positive_ids(given, self.config.num_labels), candidate_ids)
        return self.conditional_head(states, mark_positives(places, states.shape[1])).sigmoid()

    def _states_of_labels(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        candidate_ids: Tensor | None,
        token_type_ids: Tensor | None,
    ) -> Tensor:
        self._check_candidates_given(candidate_ids)
        states = self.read_jointly(input_ids, attention_mask, candidate_ids=candidate_ids, token_type_ids=token_type_ids)
        return states.labels

    def _check_candidates_given(self, candidate_ids: Tensor | None) -> None:
        if candidate_ids is None and self.config.num_candidates:
            raise ValueError(
                f"The model scores candidates (num_candidates={self.config.num_candidates}), and none were given. Give candidate_ids "
                "(documents, candidates); hf_xmtc.retrieval.open_generator opens what found them in training. The "
                "pipeline takes it too: candidates=open_generator(…)."
            )

    def _check_task_learnt(self, head: nn.Module | None, task: str) -> None:
        if head is None:
            raise ValueError(
                f"The model was trained with auxiliary_task={self.config.auxiliary_task!r} and has not learnt {task}. Train it with "
                f"auxiliary_task={task!r} or 'both'."
            )

    @torch.no_grad()
    def token_weights(
        self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor, candidate_ids: Tensor | None = None
    ) -> Tensor:
        """Contribution of each token to the raw logits of chosen labels, (B, S, T): its weight times its value's product with the label.

        With the closing separator, which has no column here, and the bias they add up to the logit, of candidates also with the vote and
        the label term. A model of candidates needs ``candidate_ids`` (B, C), because they decide the weights.
        """
        if self.cross_attention is None:
            return super().token_weights(input_ids, attention_mask, label_ids)
        self.label_head.check_label_ids("label_ids", label_ids)
        self._check_candidates_given(candidate_ids)
        states = self.read_jointly(input_ids, attention_mask, candidate_ids=candidate_ids)
        summary = self.attend(states, candidate_ids)
        check_readable("A token's contribution", self.label_head.output.weight)
        rows = self.label_head.output.weight[label_ids.clamp(min=0)] * (label_ids >= 0)[:, :, None]  # (B, S, H)
        contributions = (rows @ summary.values.mT) * summary.weights[:, None]  # (B, S, D)
        contributions = contributions[:, :, : states.words.ids.shape[1]] * states.words.read[:, None]
        return states.words.in_input_columns(contributions, dims=(2,))


def _places(label_ids: Tensor, candidate_ids: Tensor | None) -> Tensor:
    """Places of labels (B, S) among those that were read: by their ids, or among candidates."""
    if candidate_ids is None:
        return label_ids
    places = places_among(candidate_ids, label_ids)
    if bool(((places < 0) & (label_ids >= 0)).any()):
        missing = int(label_ids[(places < 0) & (label_ids >= 0)][0])
        raise ValueError(f"Label id {missing} is asked about and not among the candidates of its document. Add it to them.")
    return places


LACOConfig.register_for_auto_class()
LACOForXMTC.register_for_auto_class("AutoModelForSequenceClassification")

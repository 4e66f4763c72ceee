"""`ParabelForXMTC`, `BonsaiForXMTC` and `DiSMECForXMTC`: linear classifiers on TF-IDF, trained by the library omikuji.

Those of Parabel and Bonsai are the nodes of trees over the labels; DiSMEC's, one for each label, are a tree of one leaf.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .configuration_linear_tree import BonsaiConfig, DiSMECConfig, LinearConfig, ParabelConfig
from .linear_tree_head import LinearTreeHead, OneVsAllHead, Trees
from .modeling_gradient_free import GradientFreeModel
from .modeling_xmtc import XMTCOutput
from .tf_idf import TfIdf, values_of_tokens
from .word_encoders import check_word_tokenizer

__all__ = ["BonsaiForXMTC", "DiSMECForXMTC", "LinearTreeModel", "ParabelForXMTC"]


class LinearTreeModel(GradientFreeModel):
    """Base of these families: TF-IDF of the words, and a `LinearTreeHead` that scores the labels from it.

    A new model has trees without nodes; ``hf-xmtc train`` has omikuji train the real ones and calls `grow`.
    """

    config_class = LinearConfig

    content = "trees"

    token_weight_kind = "margin"

    def __init__(self, config: LinearConfig):
        super().__init__(config)
        self.words = TfIdf(config.vocab_size, config.pad_token_id)
        self.use_label_head(self._new_head())
        self.post_init()

    def _new_head(self) -> LinearTreeHead:
        names = ("num_trees", "level_sizes", "num_weights", "node_loss", "beam_width")
        sizes = {name: getattr(self.config, name) for name in names}
        return LinearTreeHead(self.config.vocab_size, **sizes, **self.label_settings())

    def grow(self, trees: Trees) -> None:
        """Take over trained trees."""
        self.label_head.grow(trees)
        self._take_sizes(self.label_head)

    def take_sizes(self, config: LinearConfig) -> None:
        self._take_sizes(config)
        self.label_head = self._new_head().to(self.device)

    def _take_sizes(self, source: LinearConfig | LinearTreeHead) -> None:
        for name in self.config.sizes:
            setattr(self.config, name, getattr(source, name))

    def resize_family_labels(self, old_ids: Tensor) -> None:
        self._take_sizes(self.label_head)

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Contribution of each word to the margins on a label's path, in the mean over the trees; see `XMTCPreTrainedModel.token_weights`.

        With the biases on the path they add up to the sum of its margins, which the loss of the nodes makes probabilities of.
        """
        self.label_head.check_label_ids("label_ids", label_ids)
        words, labels = self.words(input_ids, attention_mask), label_ids.clamp(min=0)
        of_words = self.label_head.word_contributions(words, labels)  # (S, W)
        of_tokens = values_of_tokens(words, of_words, input_ids, self.words.mask(input_ids, attention_mask))
        return of_tokens.transpose(0, 1) * (label_ids >= 0)[:, :, None]

    def check_content(self) -> None:
        self.label_head.check_trees()

    def check_tokenizer(self, tokenizer: Any) -> None:
        check_word_tokenizer(tokenizer, self.config.vocab_size, self.config.pad_token_id, type(self).__name__)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, TfIdf):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            return_dict: False for a tuple.
        """
        output = self.compute_output(self.words(input_ids, attention_mask), labels, top_k)
        return output if return_dict is not False else output.to_tuple()


class ParabelForXMTC(LinearTreeModel):
    """Three balanced binary trees over the labels, a linear classifier at every node.

    Source: Parabel (Prabhu et al., 2018), as omikuji implements it: with one-vs-all classifiers of a leaf's labels, weights below 0.1
    left out, and all labels scored instead of those that a beam of 10 reaches. Scores are omikuji's.
    """

    config_class = ParabelConfig


class BonsaiForXMTC(LinearTreeModel):
    """The same as `ParabelForXMTC` with shallow trees of up to 100 children a node, which need not be balanced.

    Source: Bonsai (Khandagale et al., 2020), as omikuji imitates it: its labels are represented by the texts they occur in, the first of
    the paper's three ways.
    """

    config_class = BonsaiConfig


class DiSMECForXMTC(LinearTreeModel):
    """One-vs-all: a linear classifier for each label, trained against all documents, its smallest weights left out.

    Training takes time by labels × documents, where a tree's grows with the logarithm of the labels.

    Source: DiSMEC (Babbar and Schölkopf, 2017), trained by omikuji's solver. The paper ranks labels by their margins, and so do the scores.
    """

    config_class = DiSMECConfig

    def _new_head(self) -> OneVsAllHead:
        config = self.config
        return OneVsAllHead(
            config.vocab_size, num_weights=config.num_weights, node_loss=config.node_loss, **self.label_settings()
        )


ParabelConfig.register_for_auto_class()
BonsaiConfig.register_for_auto_class()
DiSMECConfig.register_for_auto_class()
ParabelForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
BonsaiForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
DiSMECForXMTC.register_for_auto_class("AutoModelForSequenceClassification")

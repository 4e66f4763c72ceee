"""How the authors of CorNet and AttentionXML train and predict, as a trainer that takes the place of `XMTCTrainer`.

It computes with the parameters of our models, so both train the same thing.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedTokenizerBase

from hf_xmtc.data import XMTCDataCollator
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.models.word_encoders import BiLSTM
from hf_xmtc.training.arguments import XMTCTrainingArguments
from hf_xmtc.training.trainer import XMTCTrainer

__all__ = [
    "AuthorsTrainer",
    "authors_settings",
    "dense_attention_logits",
    "dense_logits",
    "dense_loss",
    "image_convolution_logits",
    "packed_states",
]


class AuthorsTrainer(XMTCTrainer):
    """`XMTCTrainer` with the structure of the code of CorNet and AttentionXML.

    Every document is padded to the maximum length; training draws batches at random and prediction takes documents as they come;
    the loss is binary cross-entropy of (B, L) logits with (B, L) targets; the best labels are those of `torch.topk` on all logits.
    Optimizer, clipping and learning rates are those of the arguments, as in any run.

    Args:
        model: A model, built with `authors_settings`.
        args: Training arguments with ``train_sampling_strategy="random"``, or documents that are in random order already.
        processing_class: The tokenizer.
        max_length_tokens: Tokens that every document is padded to.
        our_layers: Compute with our layers where they differ from the authors', see `dense_logits`.
        kwargs: Further arguments of `XMTCTrainer`.

    Source: ``data_utils.py``, ``dataset.py`` and ``models.py`` of AttentionXML (You et al., 2019), which CorNet (Xun et al., 2020) took
    over. Their data set holds padded rows and sparse targets, which become a dense matrix with every batch.
    """

    def __init__(
        self,
        model: XMTCPreTrainedModel,
        args: XMTCTrainingArguments,
        *,
        processing_class: PreTrainedTokenizerBase,
        max_length_tokens: int,
        our_layers: bool = False,
        **kwargs: Any,
    ):
        collator = XMTCDataCollator(
            processing_class, model.config.num_labels, max_length=max_length_tokens, keep_unseen=True
        )
        super().__init__(model, args, processing_class=processing_class, data_collator=collator, **kwargs)
        self.our_layers = our_layers
        model.chunk_tokens = float("inf")  # a batch goes through the encoder as a whole

    def _longest_first(self, dataset: Dataset) -> np.ndarray:
        return np.arange(len(dataset))

    def compute_loss(self, model: nn.Module, inputs: dict, return_outputs: bool = False, num_items_in_batch: Any = None):
        inputs = dict(inputs)
        labels = self._known_labels(inputs.pop("labels"))
        logits = dense_logits(model, **inputs, our_layers=self.our_layers)
        loss = dense_loss(logits, labels, model.config.loss_reduction)
        return (loss, {"logits": logits}) if return_outputs else loss

    def prediction_step(
        self, model: nn.Module, inputs: dict, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ):
        """As `XMTCTrainer.prediction_step`, from the logits of all labels."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels", None)
        with torch.no_grad():
            logits = dense_logits(model, **inputs, our_layers=self.our_layers)
            loss = None
            if labels is not None:
                loss = dense_loss(logits, self._known_labels(labels), model.config.loss_reduction)
            if prediction_loss_only:
                return loss, None, None
            values, top_labels = logits.topk(min(self.args.eval_top_k, logits.shape[1]))  # (B, K)
        return loss, (values.sigmoid(), top_labels), labels


def authors_settings(model_type: str, max_length_tokens: int) -> dict[str, Any]:
    """Fields of a family's config that decide the structure of the computation; initialisation stays ours.

    XML-CNN's convolves and pools all columns up to the maximum length, and AttentionXML has one bias for all labels.
    """
    return {
        "xmlcnn": {"pooling": "padded", "padded_length": max_length_tokens},
        "attentionxml": {"label_bias": False},
    }.get(model_type, {})


def dense_loss(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    """Binary cross-entropy with a dense matrix of targets, made as their data set makes it: nothing is checked, as it is timed.

    Args:
        logits: (B, L).
        labels: Label ids, (B, P), padded with -100.
        reduction: ``mean`` over B × L, or ``sum_labels``.
    """
    targets = torch.zeros_like(logits)
    documents, slots = (labels >= 0).nonzero(as_tuple=True)
    targets[documents, labels[documents, slots]] = 1.0
    loss = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    return loss / (logits.numel() if reduction == "mean" else len(logits))


def dense_logits(model: XMTCPreTrainedModel, input_ids: Tensor, attention_mask: Tensor, our_layers: bool = False) -> Tensor:
    """Logits of all labels, as the authors' code computes them; autograd keeps all that the backward pass needs.

    Models with an LSTM cut the batch to its longest document, as the authors' do; XML-CNN and BertXML compute every column.

    Args:
        model: The model.
        input_ids: Word ids, (B, T), padded on the right.
        attention_mask: 1 at words, 0 at padding, (B, T).
        our_layers: Compute with our layers where they differ: theirs are XML-CNN's convolutions over images, packed documents in
            the LSTM, and attention of all labels at once.

    Returns:
        (B, L).
    """
    family, with_lstm = model.config.model_type, hasattr(model, "bilstm")
    if with_lstm:
        longest = max(1, int(attention_mask.sum(dim=1).max()))
        input_ids, attention_mask = input_ids[:, :longest], attention_mask[:, :longest]
    if family == "xmlcnn" and not our_layers:
        return image_convolution_logits(model, input_ids)
    with _packed(model.bilstm) if with_lstm and not our_layers else contextlib.nullcontext():
        if family == "attentionxml" and not our_layers:
            return dense_attention_logits(model, input_ids, attention_mask)
        return model(input_ids=input_ids, attention_mask=attention_mask).logits


@contextlib.contextmanager
def _packed(bilstm: BiLSTM) -> Iterator[None]:
    bilstm.forward = functools.partial(packed_states, bilstm)
    try:
        yield
    finally:
        del bilstm.forward


def packed_states(bilstm: BiLSTM, embedded: Tensor, lengths: Tensor) -> Tensor:
    """The states of `BiLSTM`, by one LSTM of both directions over packed documents, as in the authors' code.

    Args:
        bilstm: The layer.
        embedded: (B, T, E).
        lengths: Positions of each document that count, (B,).

    Returns:
        (B, T, 2H).
    """
    cells, hidden = (state.contiguous() for state in bilstm.initial_state.expand(-1, len(embedded), -1).chunk(2))
    packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = bilstm.lstm(packed, (hidden, cells))
    return bilstm.dropout(pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])[0])


def image_convolution_logits(model: XMTCPreTrainedModel, input_ids: Tensor) -> Tensor:
    """Logits of `XMLCNNForXMTC` with ``pooling="padded"``, (B, L), by two-dimensional convolutions.

    A document is an image of one channel, words by embedding size, and a filter is as wide as the image.

    Source: what the shapes of the CorNet authors' weights, (F, 1, width, E), stand for.
    """
    images = model.words(input_ids)[:, None]  # (B, 1, T, E)
    pooled = []
    for layer in model.filters:
        filters, bias = layer.convolution.weight, layer.convolution.bias  # (F, E, width)
        features = nn.functional.conv2d(images, filters.mT[:, None], bias, padding=(filters.shape[2] - 1, 0))
        features = nn.functional.relu(features.squeeze(3))  # (B, F, T + width - 1)
        pooled.append(nn.functional.adaptive_max_pool1d(features, layer.pool_size).flatten(1))
    hidden = model.dropout(nn.functional.relu(model.bottleneck(torch.cat(pooled, dim=1))))
    return model.label_head.logits(hidden, model.cornet)


def dense_attention_logits(model: XMTCPreTrainedModel, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Logits of `AttentionXMLForXMTC`, (B, L), by way of all attention weights, (B, L, T), and all contexts, (B, L, 2H), at once.

    Source: equations 4 and 5 of AttentionXML (You et al., 2019), computed for all labels together as in its authors' code.
    """
    words = model.align(input_ids, attention_mask)
    states = model.bilstm(model.words(words.ids, words.mask), words.lengths)  # (B, T, 2H)
    head = model.label_head
    scores = head.attention(states).mT.masked_fill(~words.read[:, None], float("-inf"))  # (B, L, T)
    contexts = scores.softmax(dim=-1) @ states  # (B, L, 2H)
    for linear in head.linears:
        contexts = nn.functional.relu(linear(contexts))
    logits = head.output(contexts).squeeze(-1)  # (B, L)
    logits = logits if head.bias is None else logits + head.bias
    return logits if model.cornet is None else model.cornet(logits)

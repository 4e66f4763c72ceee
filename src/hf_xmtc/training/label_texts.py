"""Label embeddings that start from the labels' own words."""

from typing import Any

import torch
from torch import Tensor

from hf_xmtc.models.modeling_joint import JointModel

__all__ = ["LABEL_EMBEDDING_STARTS", "initialize_label_embedding"]

LABEL_EMBEDDING_STARTS = ("text", "random", "unused")


@torch.no_grad()
def initialize_label_embedding(
    model: JointModel,
    tokenizer: Any,
    start: str = "text",
    texts: list[str] | None = None,
    label_ids: list[int] | None = None,
) -> None:
    """Give the tokens that stand for labels a start that says something.

    Args:
        model: A new model whose encoder has its weights.
        tokenizer: Its tokenizer.
        start: ``text``: the mean of the embeddings of the words in the label's text; ``unused``: the encoder's rows for
            ``[unused1]``, ``[unused2]`` …, which is what LACO's authors take (of a cased BERT, where they are few); ``random``: as
            the model has them.
        texts: Texts of the labels in id order; by default their display names.
        label_ids: Labels to start; None for all.

    Raises:
        ValueError: If the start is unknown, texts are not one per label, the tokenizer has too few unused tokens, or the model has
            no label embedding or one of another width.

    Source: LACO §3.2 names no start; `text` is our improvement.
    """
    if start not in LABEL_EMBEDDING_STARTS:
        raise ValueError(f"start={start!r} is none of {', '.join(LABEL_EMBEDDING_STARTS)}.")
    words, labels = model.get_input_embeddings().weight, model.label_embedding
    if labels is None:
        raise ValueError(
            f"{type(model).__name__} has no label embedding with joint_embedding=False and cross_attention=False."
        )
    if start == "random":
        return
    chosen = slice(None) if label_ids is None else label_ids
    if words.shape[1] != labels.embedding_dim:
        raise ValueError(
            f"Words have embeddings of width {words.shape[1]} and labels of {labels.embedding_dim}, so labels cannot start from "
            "words. Use start='random'."
        )
    if start == "unused":
        labels.weight[chosen] = _unused_rows(tokenizer, words, labels.num_embeddings)[chosen]
        return
    names = model.config.label_names
    texts = [names.name_of(label_id) for label_id in range(labels.num_embeddings)] if texts is None else texts
    if len(texts) != labels.num_embeddings:
        raise ValueError(
            f"{len(texts)} texts were given for {labels.num_embeddings} labels. Give one per label, in id order."
        )
    labels.weight[chosen] = _mean_rows(tokenizer, words, texts, labels.weight)[chosen]


def _mean_rows(tokenizer: Any, words: Tensor, texts: list[str], otherwise: Tensor) -> Tensor:
    """Mean embedding of the words of each text, (L, E); a text without a known word keeps its row of ``otherwise``."""
    pieces = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    unknown = tokenizer.unk_token_id
    pieces = [[piece for piece in row if piece != unknown] for row in pieces]
    flat = torch.tensor([piece for row in pieces for piece in row], dtype=torch.long)
    counts = torch.tensor([len(row) for row in pieces])
    # One bag per text; an empty bag is a row of zeros.
    starts = counts.cumsum(0) - counts
    means = torch.nn.functional.embedding_bag(flat.to(words.device), words, starts.to(words.device), mode="mean")
    return torch.where(counts.to(words.device)[:, None] > 0, means, otherwise)


def _unused_rows(tokenizer: Any, words: Tensor, num_labels: int) -> Tensor:
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[f"[unused{number}]"] for number in range(1, len(vocabulary)) if f"[unused{number}]" in vocabulary]
    if len(ids) < num_labels:
        raise ValueError(
            f"The tokenizer has {len(ids)} unused tokens, but there are {num_labels} labels. Use start='text' or 'random'."
        )
    return words[torch.tensor(ids[:num_labels], device=words.device)]

"""Texts through a model in batches of similar length."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast
from transformers.data.data_collator import pad_without_fast_tokenizer_warning

from hf_xmtc.models.document_tokens import list_texts, tokenize_documents
from hf_xmtc.models.filter_labels import drop_filtered, padded_filters
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.models.pipeline_xmtc import DEFAULT_TOP_K
from hf_xmtc.models.predicted_sets import check_scores

__all__ = ["predict_texts"]


@torch.inference_mode()
def predict_texts(
    model: XMTCPreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Iterable[str],
    *,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    filters: Sequence[Sequence[int]] | None = None,
    top_k: int | None = None,
    threshold: float | str | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Find the best labels of some texts.

    Texts of similar length share a batch, which saves padding; the order of the answer is that of the texts.

    Args:
        model: The model, in evaluation mode and on its device.
        tokenizer: Its tokenizer.
        texts: N texts, in whatever holds them: a list, tuple, array, generator, or a column of a data set or table.
        candidates: Labels to score for each text and their votes, each (N, C), for models that score candidates.
        filters: Label ids that are left out of each text's answer, as data sets list them (`hf_xmtc.data.filter_labels`); N.
        top_k: Labels per text K at most; by default 5, or with a threshold as many as are above it.
        threshold: Only labels whose score is above it: a number, or ``"model"`` for the thresholds saved with the model.
        batch_size: Texts per batch.
        max_length: Tokens after which a text is cut; None where the model has no limit.

    Returns:
        Label ids (N, K) best first, -100 at labels that are not above the threshold; their scores (N, K) after the sigmoid; and the
        number of texts that were cut.

    Raises:
        TypeError: If a text is no string, or a whole table is given.
        ValueError: If the scores are not finite.
    """
    texts = list_texts(texts)
    if threshold is None:
        top_k = min(top_k or DEFAULT_TOP_K, model.config.num_labels if candidates is None else candidates[0].shape[1])
    batches = []
    if not texts:
        return np.zeros((0, top_k or 0), dtype=np.int64), np.zeros((0, top_k or 0), dtype=np.float32), 0
    # An ensemble reads texts; each of its parts has a tokenizer of its own. Code that came with an older model does not say so.
    reads_texts = getattr(model, "reads_texts", False)
    documents = [] if reads_texts else tokenize_documents(tokenizer, texts, max_length)
    lengths = [len(document.ids) for document in documents] or [len(text) for text in texts]
    by_length, num_cut = sorted(range(len(texts)), key=lambda i: -lengths[i]), sum(document.is_cut for document in documents)
    for start in range(0, len(texts), batch_size):
        members = by_length[start : start + batch_size]
        if reads_texts:
            batch = {"texts": [texts[i] for i in members], "max_length": max_length}
        else:
            batch = pad_without_fast_tokenizer_warning(
                tokenizer,
                {"input_ids": [documents[i].ids for i in members]},
                return_attention_mask=True,
                return_tensors="pt",
            )
            if candidates is not None:
                batch["candidate_ids"], batch["candidate_votes"] = (torch.from_numpy(array[members]) for array in candidates)
            batch = batch.to(model.device)
        left_out = padded_filters([] if filters is None else [filters[i] for i in members]).to(model.device)
        looked = top_k and top_k + left_out.shape[1]
        if threshold is None:
            output = model(**batch, top_k=looked)
            label_ids = output.top_labels
        else:
            output, in_set = model.predict_sets(None if threshold == "model" else float(threshold), looked, **batch)
            label_ids = output.top_labels.masked_fill(~in_set, -100)
        check_scores(output.top_scores, output.top_labels)
        if filters is not None:
            width = top_k or label_ids.shape[1]
            output.top_scores, label_ids = drop_filtered(output.top_scores, label_ids, left_out, width)
        num_cut += int(output.is_cut.sum()) if reads_texts else 0
        batches.append((members, label_ids.cpu().numpy(), output.top_scores.float().cpu().numpy()))
    width = max(label_ids.shape[1] for _, label_ids, _ in batches)
    top_labels, top_scores = np.full((len(texts), width), -100), np.zeros((len(texts), width), dtype=np.float32)
    for members, label_ids, scores in batches:
        top_labels[members, : label_ids.shape[1]], top_scores[members, : label_ids.shape[1]] = label_ids, scores
    return top_labels, top_scores, num_cut

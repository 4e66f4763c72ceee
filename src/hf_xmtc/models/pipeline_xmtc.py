"""`XMTCPipeline`: texts in, ranked labels out."""

from typing import Any

import torch
from transformers import Pipeline
from transformers.utils import logging

__all__ = ["XMTCPipeline"]

logger = logging.get_logger(__name__)

DEFAULT_TOP_K = 5


class XMTCPipeline(Pipeline):
    """The ``text-classification`` pipeline of hf_xmtc models.

    One text gives a list of ``{"label", "score"}`` sorted by score; a list of texts gives one such list per text. Scores are
    independent probabilities (a sigmoid each) and do not add up to one. ``name`` is added where a label has a display name
    of its own. Only the best ``top_k`` labels are computed, so it is fast with any number of labels.

    A text without any token still gets the labels' scores for an empty document, in the same form.

    Args:
        top_k: Labels per text, 5 by default; None for all.
        max_length: Tokens per text after which it is cut; the model's limit by default.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.tokenizer is None:
            raise ValueError(
                f"The pipeline got a {type(self.model).__name__} and no tokenizer. Pass tokenizer=…, or the folder that holds both."
            )
        self.model.eval()  # a model straight from training would still drop out
        self.model.check_tokenizer(self.tokenizer)
        limit = self.model.max_input_tokens
        if limit is not None and self.tokenizer.model_max_length > limit:
            # Kept on the tokenizer, so that saving the pair states the true limit.
            self.tokenizer.model_max_length = limit

    def _sanitize_parameters(self, **parameters: Any) -> tuple[dict, dict, dict]:
        unknown = sorted(set(parameters) - {"top_k", "max_length"})
        if unknown:
            raise TypeError(
                f"Unknown argument{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}: this pipeline takes top_k, max_length "
                "and batch_size. Texts are always cut at the model's limit, and scores are always sigmoids."
            )
        top_k = parameters.get("top_k", DEFAULT_TOP_K)
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise ValueError(f"top_k={top_k!r}, but it must be a whole number of at least 1, or None for all labels.")
        max_length = parameters.get("max_length")
        if max_length is not None:
            # A tokenizer that is asked for fewer tokens than its special ones does not cut at all, and says nothing.
            special, limit = self.tokenizer.num_special_tokens_to_add(), self.model.max_input_tokens
            if max_length <= special:
                raise ValueError(
                    f"max_length={max_length} leaves no room for text beside the {special} special tokens of each text."
                )
            if limit is not None and max_length > limit:
                raise ValueError(f"max_length={max_length}, but the model takes {limit} tokens. Lower it or leave it out.")
        # Only what the caller named is returned: the rest keeps its value from the pipeline's construction.
        preprocess = {key: parameters[key] for key in ("max_length",) if key in parameters}
        return preprocess, {key: parameters[key] for key in ("top_k",) if key in parameters}, {}

    def __call__(self, inputs: str | list[str], **kwargs: Any) -> list:
        """Tag one text or a list of texts.

        Args:
            inputs: A text, or a list (or any iterable such as a `datasets` column) of texts.
            kwargs: ``top_k``, ``max_length`` and ``batch_size``.

        Returns:
            For a text a list of ``{"label", "score"}``; for a list one such list per text.
        """
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, **kwargs)

    def preprocess(self, text: str, max_length: int | None = None) -> dict:
        if not isinstance(text, str):
            raise TypeError(
                f"A text must be a string, got {type(text).__name__}: {text!r:.80}. Pass a string or a list of strings."
            )
        return self.tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")

    def _forward(self, model_inputs: dict, top_k: int | None = DEFAULT_TOP_K) -> dict:
        output = self.model(**model_inputs, top_k=top_k or self.model.config.num_labels)
        return {"top_scores": output.top_scores, "top_labels": output.top_labels}

    def postprocess(self, model_outputs: dict) -> list[dict]:
        names = self.model.config.label_names
        scores = model_outputs["top_scores"][0].to(torch.float32).tolist()
        answers = []
        for label_id, score in zip(model_outputs["top_labels"][0].tolist(), scores, strict=True):
            answer = {"label": names[label_id], "score": score}
            if names.name_of(label_id) != names[label_id]:
                answer["name"] = names.name_of(label_id)
            answers.append(answer)
        return answers

"""`XMTCPipeline`: texts in, ranked labels out."""

import os
from collections.abc import Iterable
from inspect import signature
from itertools import compress
from numbers import Integral, Real
from types import GeneratorType
from typing import Any

import torch
from transformers import Pipeline
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils import logging

from .document_tokens import DocumentTokens, list_texts, replace_surrogates, split_special_tokens, tokenize_documents
from .explanation import Explanation, TokenWeight
from .predicted_sets import check_scores

__all__ = ["XMTCPipeline"]

logger = logging.get_logger(__name__)

DEFAULT_TOP_K = 5


class XMTCPipeline(Pipeline):
    """The ``text-classification`` pipeline of hf_xmtc models.

    One text gives a list of ``{"label", "score"}`` sorted by score; a list of texts gives one such list per text. Scores are
    independent probabilities (a sigmoid each) and do not add up to one. ``name`` is added where a label has a display name of its own.
    Only the best ``top_k`` labels are computed, so it is fast with any number of labels.

    A text without any token still gets the labels' scores for an empty document, in the same form. What looks like a special token in
    a text is read as text. Threads may share a pipeline.

    A model in memory: ``XMTCPipeline(model=model, tokenizer=tokenizer)``, or
    ``pipeline("text-classification", model=model, tokenizer=tokenizer, pipeline_class=XMTCPipeline)``. Without the class transformers
    takes its own pipeline for a model that it has not opened itself, which answers with one label.

    Args:
        top_k: Labels per text, 5 by default; None for all.
        threshold: Answer with the labels whose score is above it, at most ``top_k`` where that is given too: a number, or ``"model"``
            for the predicted set by the thresholds saved with the model (0.5 unless they were tuned). A text may have none.
        candidates: Score these labels alone, by models that score candidates (LACO): a list of labels, or what finds them for each
            text, such as ``hf_xmtc.retrieval.open_generator(folder)``; needed where a model has ``num_candidates``.
            A list is scored by the model alone, and best by as many labels as it was trained with.
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
        split_special_tokens(self.tokenizer)
        self.model.check_tokenizer(self.tokenizer)
        limit = self.model.max_input_tokens
        if limit is not None and self.tokenizer.model_max_length > limit:
            # Kept on the tokenizer, so that saving the pair states the true limit.
            self.tokenizer.model_max_length = limit

    def _sanitize_parameters(self, **parameters: Any) -> tuple[dict, dict, dict]:
        unknown = sorted(set(parameters) - {"top_k", "threshold", "candidates", "max_length"})
        if unknown:
            raise TypeError(
                f"Unknown argument{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}: this pipeline takes top_k, "
                "threshold, candidates, max_length and batch_size. Texts are always cut at the model's limit, and scores are always sigmoids."
            )
        top_k = parameters.get("top_k", DEFAULT_TOP_K)
        if top_k is not None and (not isinstance(top_k, Integral) or isinstance(top_k, bool) or top_k < 1):
            raise ValueError(f"top_k={top_k!r}, but it must be a whole number of at least 1, or None for all labels.")
        threshold = parameters.get("threshold")
        if threshold is not None and not (isinstance(threshold, str) and threshold == "model"):
            if not isinstance(threshold, Real) or isinstance(threshold, bool) or not 0 <= threshold <= 1:
                raise ValueError(
                    f"threshold={threshold!r}, but it must be a number from 0 to 1, or 'model' for the model's own."
                )
            parameters["threshold"] = float(threshold)
        if top_k is not None and "top_k" in parameters:
            parameters["top_k"] = int(top_k)
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
        forward = {key: parameters[key] for key in ("top_k", "threshold") if key in parameters}
        preprocess = {key: parameters[key] for key in ("max_length",) if key in parameters}
        if self.model.reads_texts:
            forward |= preprocess
        if "candidates" in parameters:
            preprocess["candidates"] = self._usable_candidates(parameters["candidates"])
        return preprocess, forward, {}

    def __call__(self, inputs: str | Iterable[str], **kwargs: Any) -> list:
        """Tag one text or several.

        Args:
            inputs: A text, or whatever holds texts: a list, tuple, array, generator, or a column of a data set or table.
            kwargs: ``top_k``, ``threshold``, ``candidates``, ``max_length`` and ``batch_size``.

        Returns:
            For a text a list of ``{"label", "score"}``; for several one such list per text. A generator, and a data set of torch, are
            answered text by text as they are read.

        Raises:
            TypeError: If a text is no string, or a whole table is given.
            ValueError: If an argument makes no sense, or the scores are not finite.
        """
        if not isinstance(inputs, str | GeneratorType | torch.utils.data.Dataset):
            inputs = list_texts(inputs)
            if not inputs:
                return []
        return super().__call__(inputs, **kwargs)

    def explain(
        self, text: str, label: str | None = None, max_length: int | None = None, candidates: Any = None
    ) -> Explanation:
        """Tokens of a text that speak for a label, by models that weigh the tokens for each label.

        Args:
            text: A text.
            label: A label, as the pipeline answers it; by default the best one. Over a label tree one of those below the beam.
            max_length: As for `__call__`.
            candidates: Likewise; by default those of the pipeline.

        Returns:
            The weights; in a notebook they show themselves as a heat map, and ``hf_xmtc.analysis.plot_explanation`` makes a picture.

        Raises:
            ValueError: If the model has no such label, it is no candidate, or there are no weights of tokens.
        """
        if self.model.token_weight_kind is None:
            self.model.token_weights(None, None, None)  # says which families have them
        candidates = self._preprocess_params.get("candidates") if candidates is None else self._usable_candidates(candidates)
        text = replace_surrogates(text)
        read = self._read(text, max_length, with_places=True)
        inputs = self._ensure_tensor_on_device(self._inputs(text, read, candidates), device=self.device)
        names = self.model.config.label_names
        with torch.no_grad():
            output = self.model(**inputs, top_k=self._num_scored(inputs))
            check_scores(output.top_scores, output.top_labels)
            label_ids, scores = output.top_labels[0], output.top_scores[0]
            label_id = int(label_ids[0]) if label is None else self._label_id(label)
            place = (label_ids == label_id).nonzero().flatten()
            if not len(place):
                num_candidates = int((label_ids >= 0).sum())
                more = (
                    "Give it in candidates."
                    if "candidate_ids" in inputs
                    else "A larger model.config.beam_width scores more."
                )
                raise ValueError(f"The label {label!r} is none of the {num_candidates} candidates of this text. {more}")
            score = float(scores[place[0]])
            chosen = torch.tensor([[label_id]], device=self.device)
            among = {"candidate_ids": inputs["candidate_ids"]} if "candidate_ids" in inputs else {}
            weights = self.model.token_weights(inputs["input_ids"], inputs["attention_mask"], chosen, **among)[0, 0]
        tokens = self.tokenizer.convert_ids_to_tokens(read.ids)
        weights = weights.float().tolist()[: len(tokens)]  # a text without tokens is read as one position
        return Explanation(
            text=text,
            label=names[label_id],
            name=names.name_of(label_id),
            score=score,
            kind=self.model.token_weight_kind,
            tokens=[
                TokenWeight(token, *place, weight)
                for token, place, weight in zip(tokens, read.places, weights, strict=True)
                if place is not None
            ],
        )

    def _usable_candidates(self, candidates: Any) -> Any:
        """Label ids, or what finds them; None for all labels."""
        if candidates is None:
            return None
        if "candidate_ids" not in signature(self.model.forward).parameters:
            raise ValueError(
                f"candidates were given, but {type(self.model).__name__} finds the labels to score itself. Leave them out."
            )
        config = self.model.config
        config.check_candidates_usable()
        if config.reads_labels_in_order:
            raise ValueError(
                "candidates were given, but the model was trained with all labels in a row (label_positions='sequential', or a kernel over "
                "several labels), so a few of them would be read as others. Leave them out."
            )
        if hasattr(candidates, "candidates"):
            if not config.num_candidates:
                raise ValueError(
                    f"candidates={type(candidates).__name__} was given, but the model was trained to score all labels "
                    "(num_candidates=0). Leave it out."
                )
            config.check_generator(candidates)
            return candidates
        listed = list(candidates) if isinstance(candidates, Iterable) and not isinstance(candidates, str) else []
        if not listed:
            raise ValueError(f"candidates={candidates!r:.80}, but it must be a list of at least one label.")
        if any(isinstance(label, list | tuple) or getattr(label, "ndim", 0) for label in listed):
            raise TypeError(
                "candidates holds lists, but it is one list of labels for all texts, or what finds labels for each, such as "
                "hf_xmtc.retrieval.open_generator(…). For a list of each text call the pipeline once for each."
            )
        return list(dict.fromkeys(self._label_id(label) for label in listed))

    def _num_scored(self, inputs: dict) -> int:
        """Labels that the model scores of these inputs: candidates, or all."""
        return inputs["candidate_ids"].shape[1] if "candidate_ids" in inputs else self.model.config.num_labels

    def _label_id(self, label: str) -> int:
        names = self.model.config.label_names
        if not isinstance(label, str):
            raise TypeError(
                f"A label must be a string, got {type(label).__name__}: {label!r:.80}. Give it as the pipeline answers it."
            )
        if label not in names.ids:
            raise ValueError(
                f"The model has no label {label!r} among its {len(names)}.{names.hint_at(label)} Give it as the pipeline answers it."
            )
        return names.ids[label]

    def save_pretrained(self, save_directory: str | os.PathLike, **kwargs: Any) -> None:
        """Save model, tokenizer and, where the pipeline has one, the generator of candidates; as `transformers.Pipeline.save_pretrained`."""
        super().save_pretrained(save_directory, **kwargs)
        generator = self._preprocess_params.get("candidates")
        if hasattr(generator, "save_pretrained"):
            generator.save_pretrained(save_directory)

    def preprocess(self, text: str, max_length: int | None = None, candidates: Any = None) -> dict:
        if self.model.reads_texts:
            return {"texts": text}
        return self._inputs(text, self._read(text, max_length), candidates)

    def _read(self, text: str, max_length: int | None, with_places: bool = False) -> DocumentTokens:
        if max_length is None and self.tokenizer.model_max_length <= LARGE_INTEGER:  # without a limit it says 1e30
            max_length = self.tokenizer.model_max_length
        return tokenize_documents(self.tokenizer, [text], max_length, with_places)[0]

    def _inputs(self, text: str, read: DocumentTokens, candidates: Any) -> dict:
        """The model's inputs for a text of which the tokens have been read."""
        input_ids = torch.tensor([read.ids], dtype=torch.long)
        inputs = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        if candidates is not None:
            if hasattr(candidates, "candidates"):
                label_ids, votes = candidates.candidates([text], self.model.config.num_candidates)
                inputs["candidate_votes"] = torch.as_tensor(votes)
            else:
                label_ids = [candidates]
            inputs["candidate_ids"] = torch.as_tensor(label_ids)
        return inputs

    def _forward(
        self,
        model_inputs: dict,
        top_k: int | None | str = "default",
        threshold: float | str | None = None,
        max_length: int | None = None,
    ) -> dict:
        inputs, limit = dict(model_inputs), self._num_scored(model_inputs)
        if self.model.reads_texts:
            inputs["max_length"] = max_length
        without_votes = "candidate_ids" in inputs and "candidate_votes" not in inputs
        if threshold == "model" and without_votes and self.model.config.num_candidates:
            raise ValueError(
                "threshold='model', but the model's own is for scores in which its generator's votes count, and a list of candidates has none. "
                "Give a number, or "
                "candidates=hf_xmtc.retrieval.open_generator(…)."
            )
        if threshold is None:
            top_k = DEFAULT_TOP_K if top_k == "default" else top_k
            output = self.model(**inputs, top_k=top_k or limit)
            return {"top_scores": output.top_scores, "top_labels": output.top_labels}
        output, in_set = self.model.predict_sets(
            None if threshold == "model" else threshold, None if top_k == "default" else top_k, **inputs
        )
        return {"top_scores": output.top_scores, "top_labels": output.top_labels, "in_set": in_set}

    def postprocess(self, model_outputs: dict) -> list[dict]:
        names = self.model.config.label_names
        check_scores(model_outputs["top_scores"], model_outputs["top_labels"])
        scores = model_outputs["top_scores"][0].to(torch.float32).tolist()
        answers, label_ids = [], model_outputs["top_labels"][0].tolist()
        in_set = model_outputs["in_set"][0].tolist() if "in_set" in model_outputs else [True] * len(scores)
        for label_id, score in compress(zip(label_ids, scores, strict=True), in_set):
            if label_id < 0:
                continue  # padding of a shorter list of candidates
            answer = {"label": names[label_id], "score": score}
            if names.name_of(label_id) != names[label_id]:
                answer["name"] = names.name_of(label_id)
            answers.append(answer)
        return answers

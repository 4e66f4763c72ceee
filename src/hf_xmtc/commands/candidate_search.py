"""Candidates for the documents of a training run, from near training texts or from the model that ``--candidates_from`` names."""

from typing import TYPE_CHECKING

from datasets import DatasetDict

from hf_xmtc.data import LabelInfo
from hf_xmtc.inference.model_opening import open_model
from hf_xmtc.retrieval import ModelCandidates
from hf_xmtc.retrieval.candidate_columns import add_candidates
from hf_xmtc.training import XMTCTrainingArguments

from .processes import log_once
from .recipe import Recipe

if TYPE_CHECKING:
    from hf_xmtc.retrieval import CandidateGenerator

__all__ = ["find_candidates"]


def find_candidates(
    recipe: Recipe, args: XMTCTrainingArguments, data: DatasetDict, tokenized: DatasetDict, info: LabelInfo
) -> tuple[DatasetDict, "CandidateGenerator | ModelCandidates", dict[str, dict[str, float]]]:
    """Add candidates to every split.

    Args:
        recipe: Settings of the run.
        args: Training arguments of this process.
        data: Splits with texts and labels.
        tokenized: The same, tokenized.
        info: The model's labels.

    Returns:
        The tokenized splits with candidates; the generator; and its metrics by split.

    Raises:
        ValueError: If every label would be a candidate, or the generating model shares no label with the data, or cannot be opened.
        OSError: If the generating model is not there or not complete.
        ImportError: If scikit-learn is missing and needed.
    """
    num_candidates, source = recipe.model.num_candidates, recipe.model.candidates_from
    if num_candidates >= info.num_labels:
        raise ValueError(
            f"num_candidates={num_candidates}, but the data have {info.num_labels} labels, so every label would be a candidate. "
            "Leave it out: the model then reads them all. (A trained model keeps its own: give it data with more labels.)"
        )
    if source is None:
        from hf_xmtc.retrieval import CandidateGenerator  # not at the top: it needs scikit-learn

        train = data["train"]
        generator = CandidateGenerator.fit(
            train["text"], train["labels"], info.num_labels, labels_digest=info.names.digest()
        )
    else:
        generator = ModelCandidates(*open_model(source), info.names)
        generator.model.to(args.device)
        if sentence := generator.describe_labels():
            log_once(args, sentence)
    unseen = info.num_labels if args.ignore_unseen_labels else None
    tokenized, report = add_candidates(data, tokenized, generator, num_candidates, unseen)
    if source is not None:
        generator.model.to("cpu")  # the accelerator's memory is for training
    log_once(args, _recall_summary(report, has_learnt_by_heart=getattr(generator, "has_learnt_by_heart", False)))
    return tokenized, generator, report


def _recall_summary(report: dict[str, dict[str, float]], has_learnt_by_heart: bool) -> str:
    """A sentence about the share of a document's labels that its candidates hold, by split."""
    shares = ", ".join(f"{split} {100 * values['candidate_recall']:.2f} %" for split, values in report.items())
    sentence = f"Share of a document's labels among its candidates: {shares}."
    if has_learnt_by_heart and "train" in report:
        sentence += (
            " The generating model has learnt by heart what it was trained on: where these are the same training texts, LACO trusts its votes more "
            "than new texts deserve, and can correct little. Take a neighbours model (--model_family neighbors), an ensemble of such, or a model "
            "of other texts."
        )
    return sentence

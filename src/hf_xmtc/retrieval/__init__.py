"""Candidates for the labels of a text: from the training texts that are nearest, or from another model."""

from typing import TYPE_CHECKING, Any

from .candidate_recall import candidate_recall
from .generator_opening import generator_for, open_generator
from .model_candidates import ModelCandidates

if TYPE_CHECKING:
    from .candidate_generator import CandidateGenerator

__all__ = ["CandidateGenerator", "ModelCandidates", "candidate_recall", "generator_for", "open_generator"]


def __getattr__(name: str) -> Any:
    if name != "CandidateGenerator":  # which needs scikit-learn
        raise AttributeError(f"module 'hf_xmtc.retrieval' has no attribute {name!r}")
    from .candidate_generator import CandidateGenerator

    return CandidateGenerator

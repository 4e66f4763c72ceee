"""Candidates for the labels of a text, from the training texts that are nearest."""

try:
    from .candidate_generator import CandidateGenerator, candidate_recall
except ModuleNotFoundError as error:
    if error.name not in ("sklearn", "scipy"):
        raise
    raise ImportError(
        "Candidates are found with scikit-learn, which is not there: pip install 'hf_xmtc[retrieval]'."
    ) from error

__all__ = ["CandidateGenerator", "candidate_recall"]

"""What training texts say about a new one: candidates for its labels from the texts that are nearest."""

try:
    from .candidate_generator import CandidateGenerator, candidate_recall
except ModuleNotFoundError as error:
    if error.name not in ("sklearn", "scipy"):
        raise
    raise ImportError(
        "Candidates are found with scikit-learn, which is not there: pip install 'hf_xmtc[retrieval]'."
    ) from error

__all__ = ["CandidateGenerator", "candidate_recall"]

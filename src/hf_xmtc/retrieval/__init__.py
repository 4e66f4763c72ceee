"""What training texts say about a new one: candidates for its labels from the texts that are nearest."""

from .candidate_generator import CandidateGenerator, candidate_recall

__all__ = ["CandidateGenerator", "candidate_recall"]

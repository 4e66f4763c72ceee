"""`keep_rows`: what a changed label space takes over from the old one."""

import torch
from torch import Tensor

__all__ = ["UNTRAINED_LOG_ODDS", "keep_rows"]

# Bias of labels that are new in a trained model, where none of the known ones has a lower one: one document in 22,000.
UNTRAINED_LOG_ODDS = -10.0


@torch.no_grad()
def keep_rows(new: Tensor, old: Tensor, kept_ids: Tensor) -> None:
    """Write the rows of known labels into ``new``; the rows of new labels stay as they are.

    Args:
        new: One row per new label, (L_new, …), changed in place.
        old: One row per old label, (L_old, …).
        kept_ids: For each new label its old label id, or -1 for a label without a predecessor, (L_new,).
    """
    kept = kept_ids >= 0
    new[kept] = old[kept_ids[kept]]

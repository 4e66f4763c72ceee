"""What a new model can be told by the training data before its first step."""

import numpy as np
import torch

from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = ["initialize_label_bias"]


@torch.no_grad()
def initialize_label_bias(model: XMTCPreTrainedModel, label_counts: np.ndarray, num_documents: int) -> None:
    """Start every label's bias at the log-odds of its training frequency.

    With many labels, nearly all of them wrong, the first steps of training otherwise learn only that labels are rare.

    Args:
        model: A new model.
        label_counts: Training documents of each label, (L,).
        num_documents: Training documents N.

    Raises:
        ValueError: If there is not one count per label.

    Source: the prior-probability initialisation of Lin et al. (2017), "Focal loss for dense object detection", §4.1, with
    each label's own prior (smoothed by half a document) in place of one for all.
    """
    if len(label_counts) != model.config.num_labels:
        raise ValueError(
            f"There are counts for {len(label_counts)} labels but num_labels={model.config.num_labels}. Count the labels "
            "of the training split with label_counts(dataset, num_labels)."
        )
    prior = (np.asarray(label_counts, dtype=np.float64) + 0.5) / (num_documents + 1.0)
    model.label_head.output.bias.copy_(torch.from_numpy(np.log(prior / (1 - prior))))

"""Options of how labels are optimized, for tests of the Trainer."""

import pytest
import torch

from hf_xmtc.training.arguments import LABEL_OPTIMIZERS

# Each name with settings under which the small corpus is learnt in a few epochs.
OPTIONS = {
    **{name: {"label_optimizer": name} for name in LABEL_OPTIMIZERS},
    "sgd_in_backward": {"label_optimizer": "sgd_in_backward", "label_learning_rate": 0.2},
    "adamw-own-rate": {"label_learning_rate": 0.02},
    "adamw-cornet-rate": {"cornet_learning_rate": 0.02},
    "sparse": {"sparse_embeddings": True},
    "sparse-epsilon": {"sparse_embeddings": True, "adam_epsilon_uncorrected": True},
    "sparse-rowwise_in_backward": {"sparse_embeddings": True, "label_optimizer": "rowwise_in_backward"},
}
ALL_OPTIONS = pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS.keys())
NOTHING_ELSE = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def label_parameters(model) -> list[torch.nn.Parameter]:
    return [parameter for matrix in model.label_matrices().values() for parameter in matrix.parameters]

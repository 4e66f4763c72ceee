import numpy as np
import pytest
import torch

from hf_xmtc.training import initialize_label_bias


def test_scores_start_at_the_frequency_of_the_labels(make_model):
    model = make_model(num_labels=3)
    initialize_label_bias(model, np.array([0, 50, 99]), num_documents=99)
    assert model.label_head.output.bias.sigmoid().tolist() == pytest.approx([0.005, 0.505, 0.995])
    assert torch.isfinite(model.label_head.output.bias).all()


def test_counts_of_another_label_set_are_refused(make_model):
    with pytest.raises(ValueError, match="counts for 2 labels but num_labels=3"):
        initialize_label_bias(make_model(num_labels=3), np.array([1, 2]), num_documents=9)

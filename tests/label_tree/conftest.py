"""Label features for small trees."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from hf_xmtc.label_tree import label_features


@pytest.fixture
def random_features():
    """Features of labels of random texts, each label in two of them or more."""

    def make(num_labels: int, seed: int = 0, num_words: int = 50) -> csr_array:
        random = np.random.default_rng(seed)
        texts = csr_array(random.random((2 * num_labels, num_words)) * (random.random((2 * num_labels, num_words)) < 0.2))
        labels = [{i % num_labels, int(random.integers(num_labels))} for i in range(2 * num_labels)]
        return label_features(texts.astype(np.float32), labels, num_labels)

    return make

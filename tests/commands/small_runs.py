"""What tests of several kinds of `hf-xmtc train` share."""

from training.interrupted_runs import Interrupted

__all__ = ["TEXT_FILES", "TINY_WORD_FAMILIES", "Interrupted", "power_cut"]

TEXT_FILES = (".json", ".md", ".py", ".txt")
# Families without CLS tokens → sizes.
TINY_WORD_FAMILIES = {
    "xmlcnn": {"embedding_size": 8, "num_filters": 4, "pool_size": 2, "bottleneck_size": 8},
    "attentionxml": {"embedding_size": 8, "hidden_size": 8, "linear_sizes": [8]},
    "xmlrnn": {"embedding_size": 8, "hidden_size": 8, "linear_sizes": [8]},
    "meshprobenet": {"embedding_size": 8, "hidden_size": 8, "num_probes": 2},
}


def power_cut(*args, **kwargs):
    raise Interrupted

"""Training: arguments, trainer, weight averaging, clipping, order of documents, memory estimates and plots."""

from .arguments import XMTCTrainingArguments, public_arguments
from .document_order import LengthBucketedSampler
from .gradient_clipping import AdaptiveGradientClipping
from .initialization import initialize_label_bias, initialize_label_weights, initialize_votes
from .label_texts import initialize_label_embedding
from .label_trees import label_clusters, level_model, set_label_tree, train_levels, with_node_labels
from .label_updates import AdamUpdate, RowwiseUpdate, SGDUpdate
from .memory import MemoryEstimate, estimate_memory
from .optimizers import CompositeOptimizer, LazyAdam, RowwiseAdam, UncorrectedEpsilonAdam
from .plots import plot_training_curve
from .trainer import XMTCTrainer
from .weight_averaging import WeightAveraging

__all__ = [
    "AdamUpdate",
    "AdaptiveGradientClipping",
    "CompositeOptimizer",
    "LazyAdam",
    "LengthBucketedSampler",
    "MemoryEstimate",
    "RowwiseAdam",
    "RowwiseUpdate",
    "SGDUpdate",
    "UncorrectedEpsilonAdam",
    "WeightAveraging",
    "XMTCTrainer",
    "XMTCTrainingArguments",
    "estimate_memory",
    "initialize_label_bias",
    "initialize_label_embedding",
    "initialize_label_weights",
    "initialize_votes",
    "label_clusters",
    "level_model",
    "plot_training_curve",
    "public_arguments",
    "set_label_tree",
    "train_levels",
    "with_node_labels",
]

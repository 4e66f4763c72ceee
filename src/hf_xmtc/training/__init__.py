"""Training: arguments, trainer, weight averaging, clipping, length-bucketed batches, memory estimates and plots."""

from .arguments import XMTCTrainingArguments
from .gradient_clipping import AdaptiveGradientClipping
from .initialization import initialize_label_bias
from .length_bucketing import LengthBucketedSampler
from .memory import MemoryEstimate, estimate_memory
from .plots import plot_training_curve
from .trainer import XMTCTrainer, public_arguments
from .weight_averaging import WeightAveraging

__all__ = [
    "AdaptiveGradientClipping",
    "LengthBucketedSampler",
    "MemoryEstimate",
    "WeightAveraging",
    "XMTCTrainer",
    "XMTCTrainingArguments",
    "estimate_memory",
    "initialize_label_bias",
    "plot_training_curve",
    "public_arguments",
]

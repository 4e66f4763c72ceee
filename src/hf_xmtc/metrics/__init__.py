"""Metrics of extreme multi-label classification in numpy: from ids of the best labels and of the positives to numbers."""

from .frequency_groups import (
    auc_by_frequency,
    equal_mass_groups,
    head_torso_tail,
    label_frequency_groups,
    macro_f1_by_frequency,
    ranking_by_frequency,
)
from .label_auc import LabelAUC, label_auc
from .label_correlation import LabelDependency, label_dependency, label_dependency_kl, num_distinct_sets
from .label_sets import LabelSets, LabelSetsLike, label_sets
from .propensity import PROPENSITY_CONSTANTS, inverse_propensity, psndcg_at_k, psp_at_k
from .ranking import ndcg_at_k, precision_at_k, r_precision_at_k, recall_at_k
from .report import SHORT_REPORT, propensity_report, ranking_report
from .thresholded import (
    PerLabelScores,
    hamming_loss,
    per_label_scores,
    precision_recall_f1,
    set_report,
    subset_accuracy,
)
from .thresholds import best_threshold, best_thresholds_per_label

__all__ = [
    "PROPENSITY_CONSTANTS",
    "SHORT_REPORT",
    "LabelAUC",
    "LabelDependency",
    "LabelSets",
    "LabelSetsLike",
    "PerLabelScores",
    "auc_by_frequency",
    "best_threshold",
    "best_thresholds_per_label",
    "equal_mass_groups",
    "hamming_loss",
    "head_torso_tail",
    "inverse_propensity",
    "label_auc",
    "label_dependency",
    "label_dependency_kl",
    "label_frequency_groups",
    "label_sets",
    "macro_f1_by_frequency",
    "ndcg_at_k",
    "num_distinct_sets",
    "per_label_scores",
    "precision_at_k",
    "precision_recall_f1",
    "propensity_report",
    "psndcg_at_k",
    "psp_at_k",
    "r_precision_at_k",
    "ranking_by_frequency",
    "ranking_report",
    "recall_at_k",
    "set_report",
    "subset_accuracy",
]

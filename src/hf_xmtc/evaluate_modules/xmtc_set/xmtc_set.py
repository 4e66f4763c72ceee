"""Precision, recall, F1, Hamming loss and label dependency of predicted label sets, as an `evaluate` module."""

from collections.abc import Sequence

import datasets
import evaluate

from hf_xmtc.evaluate_modules.label_id_inputs import LabelIdInputs
from hf_xmtc.metrics import set_report

_DESCRIPTION = """\
Metrics of predicted label sets, such as all labels with a score above a threshold: micro, macro and per-document precision,
recall and F1, macro F1 of frequent and of rare labels, Hamming loss, subset accuracy, the divergence of the dependencies
between labels and the number of distinct sets, for any number of labels.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: Predicted label ids of each document, in any order; a row may be empty.
    references: True label ids of each document, in any order; a row may be empty.
    num_labels: The model's number of labels.
    undefined: Labels and documents whose ratio is undefined: "zero" (default) counts them as 0 in the macro and samples
        means, "skip" leaves them out.
    ignore_unseen: Drop references with an id >= num_labels; by default they count as missed.
    label_counts: Number of training documents that have the label, one for each of the num_labels labels.
Returns:
    "{micro,macro,samples}_{precision,recall,f1}", "hamming_loss", "subset_accuracy", "label_dependency_kl", and the counts
    "num_clipped_pairs" (pairs of labels in the references that are never predicted), "num_distinct_sets", "num_documents"
    and "num_undefined_labels" (labels with neither a reference nor a prediction). With label_counts also "macro_f1_group1"
    (the most frequent quarter of the labels) to "macro_f1_group4"; fewer than four labels make as many groups.
Examples:
    >>> import evaluate
    >>> from hf_xmtc.evaluate_modules import module_path
    >>> metric = evaluate.load(module_path("xmtc_set"))
    >>> result = metric.compute(predictions=[[0, 1], [2]], references=[[0], [2]], num_labels=4)
    >>> result["micro_f1"], result["macro_f1"], result["hamming_loss"]
    (0.8, 0.5, 0.125)
    >>> result["label_dependency_kl"], result["num_distinct_sets"]
    (0.0, 2)
"""

_CITATION = """\
@article{scikit-learn,
  title = {Scikit-learn: Machine Learning in {P}ython},
  author = {Pedregosa, F. and others},
  journal = {Journal of Machine Learning Research},
  volume = {12},
  pages = {2825--2830},
  year = {2011}
}
@inproceedings{zhang-etal-2021-laco,
  title = {Enhancing Label Correlation Feedback in Multi-Label Text Classification via Multi-Task Learning},
  author = {Zhang, Ximing and Zhang, Qian-Wen and Yan, Zhao and Liu, Ruifang and Cao, Yunbo},
  booktitle = {Findings of the Association for Computational Linguistics: ACL-IJCNLP 2021},
  year = {2021}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class XMTCSet(LabelIdInputs, evaluate.Metric):
    """`hf_xmtc.metrics.set_report`."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": datasets.List(datasets.Value("int64")),
                    "references": datasets.List(datasets.Value("int64")),
                }
            ),
        )

    def _compute(
        self,
        predictions: list[list[int]],
        references: list[list[int]],
        num_labels: int,
        undefined: str = "zero",
        ignore_unseen: bool = False,
        label_counts: Sequence[int] | None = None,
    ) -> dict[str, float | int]:
        return set_report(
            predictions,
            references,
            num_labels,
            undefined=undefined,
            ignore_unseen=ignore_unseen,
            label_counts=label_counts,
        )

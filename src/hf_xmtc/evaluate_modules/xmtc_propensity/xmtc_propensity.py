"""PSP@k and PSnDCG@k of ranked labels, as an `evaluate` module."""

from collections.abc import Sequence

import datasets
import evaluate

from hf_xmtc import metrics
from hf_xmtc.evaluate_modules.label_id_inputs import LabelIdInputs

_DESCRIPTION = """\
Propensity-scored ranking metrics of extreme multi-label text classification: a hit on a label that is rare in the training
data counts for more, and the score is divided by that of the best possible ranking.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: Label ids of each document, best first; rows may differ in length, missing predictions are misses.
    references: Label ids of each document, in any order; a row may be empty.
    ks: Cut-offs, default (1, 3, 5).
    label_counts: Number of training documents of each label; needs num_documents.
    num_documents: Number of training documents.
    a, b: Constants of the propensity model, default 0.55 and 1.5; see hf_xmtc.metrics.PROPENSITY_CONSTANTS.
    inverse_propensity: Weight of each label, in place of the four above.
    ignore_unseen: The model's number of labels, to drop references with an id >= it; by default they count as missed.
    psndcg_variant: "pyxclib" (default) or "corpus" (AttentionXML, CorNet).
Returns:
    "PSP@k" and "PSnDCG@k" ("PSnDCG-corpus@k") for each k, and the counts "num_documents" and "num_left_out".
Examples:
    >>> import evaluate
    >>> from hf_xmtc.evaluate_modules import module_path
    >>> metric = evaluate.load(module_path("xmtc_propensity"))
    >>> result = metric.compute(predictions=[[0, 1], [0, 2]], references=[[0], [0, 2]], ks=[1], inverse_propensity=[1, 2, 4])
    >>> result["PSP@1"]
    0.4
"""

_CITATION = """\
@inproceedings{jain2016extreme,
  title = {Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking \\& Other Missing Label Applications},
  author = {Jain, Himanshu and Prabhu, Yashoteja and Varma, Manik},
  booktitle = {Proceedings of KDD},
  year = {2016}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class XMTCPropensity(LabelIdInputs, evaluate.Metric):
    """`hf_xmtc.metrics.propensity_report`, with the weights given or made from label counts."""

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
        ks: Sequence[int] = (1, 3, 5),
        label_counts: Sequence[int] | None = None,
        num_documents: int | None = None,
        a: float = 0.55,
        b: float = 1.5,
        inverse_propensity: Sequence[float] | None = None,
        ignore_unseen: int | None = None,
        psndcg_variant: str = "pyxclib",
    ) -> dict[str, float | int]:
        if inverse_propensity is None:
            if label_counts is None or num_documents is None:
                raise ValueError(
                    "xmtc_propensity needs the weights of the labels: pass label_counts and num_documents of the training "
                    "data, or inverse_propensity."
                )
            inverse_propensity = metrics.inverse_propensity(label_counts, num_documents, a, b)
        elif label_counts is not None or num_documents is not None:
            raise ValueError("Pass either inverse_propensity or label_counts with num_documents, not both.")
        return metrics.propensity_report(predictions, references, inverse_propensity, ks, ignore_unseen, psndcg_variant)

"""P@k, nDCG@k, R@k and RP@k of ranked labels, as an `evaluate` module."""

from collections.abc import Sequence

import datasets
import evaluate

from hf_xmtc.evaluate_modules.label_id_inputs import LabelIdInputs
from hf_xmtc.metrics import ranking_report

_DESCRIPTION = """\
Ranking metrics of extreme multi-label text classification: precision, recall, nDCG and R-precision among the k best labels
of each document.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: Label ids of each document, best first; rows may differ in length, missing predictions are misses.
    references: Label ids of each document, in any order; a row may be empty.
    ks: Cut-offs, default (1, 3, 5).
    empty: Documents without references: "skip" (default) leaves them out of the means, "zero" counts them as 0.
    ignore_unseen: The model's number of labels, to drop references with an id >= it; by default they count as missed.
Returns:
    "P@k", "nDCG@k", "R@k", "RP@k" for each k, and the counts "num_documents" and "num_left_out".
Examples:
    >>> import evaluate
    >>> from hf_xmtc.evaluate_modules import module_path
    >>> metric = evaluate.load(module_path("xmtc_ranking"))
    >>> result = metric.compute(predictions=[[9, 1, 2], [3, 0, 1]], references=[[1, 4], []], ks=[3])
    >>> round(result["P@3"], 4), round(result["nDCG@3"], 4), result["num_left_out"]
    (0.3333, 0.3869, 1)
"""

_CITATION = """\
@misc{bhatia2016extreme,
  title = {The Extreme Classification Repository: Multi-label Datasets and Code},
  author = {Bhatia, K. and Dahiya, K. and Jain, H. and Kar, P. and Mittal, A. and Prabhu, Y. and Varma, M.},
  year = {2016}
}
@inproceedings{chalkidis2019large,
  title = {Large-Scale Multi-Label Text Classification on {EU} Legislation},
  author = {Chalkidis, Ilias and Fergadiotis, Emmanouil and Malakasiotis, Prodromos and Androutsopoulos, Ion},
  booktitle = {Proceedings of ACL},
  year = {2019}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class XMTCRanking(LabelIdInputs, evaluate.Metric):
    """`hf_xmtc.metrics.ranking_report` without the propensity-scored part."""

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
        empty: str = "skip",
        ignore_unseen: int | None = None,
    ) -> dict[str, float | int]:
        return ranking_report(predictions, references, ks=ks, empty=empty, ignore_unseen=ignore_unseen)

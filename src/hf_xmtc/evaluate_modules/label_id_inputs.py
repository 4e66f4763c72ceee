"""Inputs that the evaluate modules share: rows of integer label ids as input."""

from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["LabelIdInputs"]


class LabelIdInputs:
    """Refuse inputs that are not label ids; mix it in before ``evaluate.Metric``.

    `evaluate` turns every number into the declared type, so scores given in place of ids would silently become ids 0.
    """

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Check that predictions and references are integers, then add the batch."""
        for name, rows in (("predictions", predictions), ("references", references)):
            _check_label_ids(name, rows)
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Check that prediction and reference are integers, then add the document."""
        for name, row in (("prediction", prediction), ("reference", reference)):
            _check_label_ids(name, None if row is None else [row])
        super().add(prediction=prediction, reference=reference, **kwargs)


def _check_label_ids(name: str, rows: Any) -> None:
    if rows is None:
        return
    if hasattr(rows, "__array__"):
        rows = np.atleast_1d(np.asarray(rows))
    try:
        kinds = set(map(type, chain.from_iterable(rows)))
    except TypeError:
        return  # a row that is no list: evaluate's own message shows the expected format
    wrong = sorted(
        kind.__name__
        for kind in kinds
        if issubclass(kind, bool | np.bool_) or (issubclass(kind, Real) and not issubclass(kind, Integral))
    )
    if wrong:
        raise TypeError(
            f"{name} must hold integer label ids but holds {wrong[0]}. Were scores or a multi-hot matrix passed? Give the "
            "ids of the labels, for predictions the best first."
        )

"""Labels that look like several labels in one: a separator that was not given, or a wrong one."""

from collections.abc import Sequence

__all__ = ["SEPARATORS", "separator_warning"]

# What separates labels in one cell; the last four as Chinese and Japanese write them.
SEPARATORS = "|;,\t\n、；，｜"
# These are also part of labels (paths, URIs, phrases), so they need a stronger sign.
_WEAK = "/ "
_SAMPLE = 1_000
# Shares of labels that hold the separator, and of distinct labels among the documents with labels.
_HOLDING, _UNIQUE = 0.5, 0.9
_MIN_LABELS = 5


def separator_warning(source: str, labels: Sequence[str], num_documents: int) -> str | None:
    """A paragraph on labels that are rather several labels with a separator between them; None where there is no sign of it.

    The signs: most labels hold the separator, and either splitting them leaves at most half as many labels, or almost each document has
    a label of its own.

    Args:
        source: Name of the data set.
        labels: The distinct labels.
        num_documents: Documents with labels.
    """
    if len(labels) < _MIN_LABELS:
        return None
    sample = labels[:: max(1, len(labels) // _SAMPLE)]
    is_unique = _UNIQUE * num_documents <= len(labels) <= num_documents
    for sign in SEPARATORS + _WEAK:
        if sum(sign in label for label in sample) < _HOLDING * len(sample):
            continue
        num_parts = len({part for label in labels for part in map(str.strip, label.split(sign)) if part})
        is_half = 2 * num_parts <= len(labels)
        if sign == " ":
            is_sign = is_unique and is_half
        elif sign == "/":
            is_sign = is_half or (is_unique and num_parts < len(labels))
        else:
            is_sign = is_half or is_unique
        if is_sign:
            example = next(label for label in labels if sign in label)
            return (
                f"{source}: most of its {len(labels):,} labels hold {sign!r}, such as {example!r:.100}; split there they would be {num_parts:,} "
                f"labels. If {sign!r} separates labels, give label_separator={sign!r} (--label_separator '{sign}'); in lists, write each label "
                "as a string of its own. If such a text is one label, all is well."
            )
    return None

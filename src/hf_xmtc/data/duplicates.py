"""Documents with the text of another document, within a split and between splits."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .document_sample import text_hashes

__all__ = ["count_duplicates", "duplicate_warning", "letters_of"]

# Share of an evaluation split's documents from which those with a training text are warned about.
_SHARE = 0.01


def letters_of(texts: pa.Array) -> pa.Array:
    """Texts reduced to what near duplicates have in common: letters and digits, in lower case and one Unicode form."""
    return pc.replace_substring_regex(pc.utf8_lower(pc.utf8_normalize(texts, "NFKC")), r"[^\p{L}\p{M}\p{N}]+", "")


def count_duplicates(splits: Mapping[str, Iterable[pa.Array]]) -> dict[str, dict[str, dict[str, int]]]:
    """Count documents whose text another document has.

    Exact duplicates have the same text; near ones (the exact ones among them) the same letters and digits, so that case, blanks and
    punctuation make no difference. Documents without a letter or digit are no duplicates.

    Args:
        splits: Texts of each split, batch by batch, training first.

    Returns:
        ``counts[split][other]`` as ``{"exact": …, "near": …}``: documents of ``split`` with a text of ``other``, an earlier split; with
        a text that stands further up in it, where both are the same.
    """
    hashes = {split: _hashes(batches) for split, batches in splits.items()}
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for split, own in hashes.items():
        counts[split] = {
            other: {kind: int(np.isin(own[kind], hashes[other][kind]).sum()) for kind in own} for other in counts
        }
        counts[split][split] = {kind: len(values) - len(np.unique(values)) for kind, values in own.items()}
    return counts


def _hashes(batches: Iterable[pa.Array]) -> dict[str, np.ndarray]:
    exact, near = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for texts in batches:
        letters = letters_of(texts)
        has_letters = pc.not_equal(letters, "")
        exact.append(text_hashes(texts.filter(has_letters).to_pylist()))
        near.append(text_hashes(letters.filter(has_letters).to_pylist()))
    return {"exact": np.concatenate(exact), "near": np.concatenate(near)}


def duplicate_warning(
    source: str, counts: Mapping[str, Mapping[str, Mapping[str, int]]], num_documents: Mapping[str, int]
) -> str | None:
    """A paragraph on evaluation splits of which 1 % or more are in the training split; None where there is none."""
    shared = {
        split: others["train"]
        for split, others in counts.items()
        if split != "train" and "train" in others and others["train"]["near"] >= max(1, _SHARE * num_documents[split])
    }
    if not shared:
        return None
    listing = "; ".join(
        f"{count['near']:,} of {num_documents[split]:,} documents in {split}, {count['exact']:,} of them letter by letter"
        for split, count in shared.items()
    )
    return (
        f"{source}: texts of the training split are also in evaluation data, but for case, blanks and punctuation ({listing}). Scores on "
        "them show what was learnt by heart. Leave them out, or make the splits anew: put all documents into train and load it with "
        "test_fraction=0.1, or with split_by='group' where a column says which documents belong together."
    )

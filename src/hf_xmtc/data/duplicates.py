"""Documents with the text of another document, within a split and between splits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .document_sample import array_hashes

__all__ = ["TextHashes", "count_duplicates", "duplicate_warning", "letters_of"]

# Share of an evaluation split's documents from which those with a training text are warned about.
_SHARE = 0.01
# What is no letter or digit: in ASCII, whose bytes are no part of another character in UTF-8; and all of it.
_ASCII_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_SIGNS = r"[^\p{L}\p{M}\p{N}]+"


@dataclass(frozen=True)
class TextHashes:
    """Hashes of the documents of a split, (N,) each.

    Attributes:
        exact: `hf_xmtc.data.document_sample.text_hashes` of the texts.
        near: Others of their letters and digits, only to be compared within this process; 0 where there are none.
    """

    exact: np.ndarray
    near: np.ndarray

    @classmethod
    def of(cls, batches: Iterable[pa.Array]) -> "TextHashes":
        """The hashes of texts that come batch by batch."""
        exact, near = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for texts in batches:
            exact.append(array_hashes(texts))
            near.append(np.fromiter((hash(letters) for letters in letters_of(texts)), np.int64, len(texts)))
        return cls(np.concatenate(exact), np.concatenate(near))

    def select(self, keep: np.ndarray) -> "TextHashes":
        """The documents where the boolean ``keep`` is true, in order."""
        return TextHashes(self.exact[keep], self.near[keep])


def letters_of(texts: pa.Array) -> list[bytes]:
    """Texts reduced to what near duplicates have in common: letters and digits, in lower case and one Unicode form, as UTF-8."""
    lower = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC")).cast(pa.binary())
    # The expression alone would do; most of its work is done several times faster here.
    letters = [text.translate(None, _ASCII_SIGNS) for text in lower.to_pylist()]
    others = [number for number, text in enumerate(letters) if not text.isascii()]
    strings = pa.array([letters[number] for number in others], pa.binary()).cast(pa.string())
    for number, text in zip(
        others, pc.replace_substring_regex(strings, _SIGNS, "").cast(pa.binary()).to_pylist(), strict=True
    ):
        letters[number] = text
    return letters


def count_duplicates(splits: Mapping[str, TextHashes]) -> dict[str, dict[str, dict[str, int]]]:
    """Count documents whose text another document has.

    Exact duplicates have the same text; near ones (the exact ones among them) the same letters and digits, so that case, blanks and
    punctuation make no difference. Documents without a letter or digit are no duplicates.

    Args:
        splits: Hashes of each split's texts, training first.

    Returns:
        ``counts[split][other]`` as ``{"exact": …, "near": …}``: documents of ``split`` with a text of ``other``, an earlier split; with
        a text that stands further up in it, where both are the same.
    """
    hashes = {}
    for split, own in splits.items():
        has_letters = own.near != hash(b"")
        hashes[split] = {"exact": own.exact[has_letters], "near": own.near[has_letters]}
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for split, own in hashes.items():
        counts[split] = {
            other: {kind: int(np.isin(own[kind], hashes[other][kind]).sum()) for kind in own} for other in counts
        }
        counts[split][split] = {kind: len(values) - len(np.unique(values)) for kind, values in own.items()}
    return counts


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

"""Training, validation and test documents out of one split: by a hash, or stratified over the labels.

A document goes into split 0, 1, … of those that are held out, or stays in training, which comes last. All is decided by the texts and
labels alone, so it is the same for every seed, run and order of the documents.
"""

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["split_by_hash", "split_stratified"]


def split_by_hash(hashes: np.ndarray, fractions: Sequence[float]) -> np.ndarray:
    """Split by the place of a hash in its range; documents of one hash (a text, a group) stay together.

    Of few documents each split gets the one with the smallest hash that is left, as long as training keeps another.

    Args:
        hashes: `hf_xmtc.data.document_sample.text_hashes` of texts or names of groups, (N,).
        fractions: Share of each split that is held out; the first takes the lowest hashes.

    Returns:
        Number of the split of each document, ``len(fractions)`` for training, (N,).
    """
    training = len(fractions)
    # In integers: as a float a hash near a border could fall on the other side of it.
    borders = np.array([math.floor(border * 2**64) for border in np.cumsum(fractions)], dtype=np.uint64)
    splits = np.searchsorted(borders, hashes, side="right")
    for split, fraction in enumerate(fractions):
        left = hashes[splits == training]
        if fraction and not (splits == split).any() and len(left) and left.min() < left.max():
            splits[hashes == left.min()] = split
    return splits


def split_stratified(hashes: np.ndarray, codes: np.ndarray, lengths: np.ndarray, fractions: Sequence[float]) -> np.ndarray:
    """Split so that each label has its share in each split: iterative stratification.

    Labels are taken from the rarest to the most frequent. The documents of a label that have no split yet go one by one where most of
    them are wanting; of equals, where most documents are. Rare labels so come first to training: with a tenth held out, labels of up
    to four documents lie there whole, and a long tail makes training larger than its share. A label that is left without a training
    document gets one back.

    Args:
        hashes: Hash of each text, (N,); documents of one text stay together.
        codes: Labels of the documents one after another, (P,).
        lengths: Labels of each document, (N,).
        fractions: Share of each split that is held out.

    Returns:
        Number of the split of each document, ``len(fractions)`` for training, (N,).

    Source: Sechidis, Tsoumakas and Vlahavas (2011), algorithm 1. They count the documents that are left of each label anew after each
    document, and draw among equals by lot; here the order of labels is that of their frequencies, which lets whole labels be taken.
    """
    training = len(fractions)
    shares = np.array([*fractions, 1 - sum(fractions)])
    _, text_of = np.unique(hashes, return_inverse=True)  # texts in the order of their hashes
    num_texts, num_labels = int(text_of.max(initial=-1)) + 1, int(codes.max(initial=-1)) + 1
    pairs = np.unique(np.repeat(text_of, lengths) * num_labels + codes)
    texts, labels = pairs // max(num_labels, 1), pairs % max(num_labels, 1)
    first_pair = np.searchsorted(texts, np.arange(num_texts + 1))
    by_label = texts[np.argsort(labels, kind="stable")]
    counts = np.bincount(labels, minlength=num_labels)
    first_text = np.append(0, np.cumsum(counts))

    wanting = np.outer(counts, shares)  # (L, splits), documents of the label
    room = (num_texts * shares).tolist()  # documents
    splits = np.full(num_texts, -1)
    for label in np.argsort(counts, kind="stable"):
        members = by_label[first_text[label] : first_text[label + 1]]
        members = members[splits[members] < 0]
        if len(members):
            splits[members] = chosen = _distribute(len(members), wanting[label].tolist(), room)
            positions = np.concatenate([np.arange(first_pair[text], first_pair[text + 1]) for text in members])
            sizes = first_pair[members + 1] - first_pair[members]
            np.subtract.at(wanting, (labels[positions], np.repeat(chosen, sizes)), 1)
    unlabelled = splits < 0
    splits[unlabelled] = _distribute(int(unlabelled.sum()), room, room)

    in_training = np.bincount(labels[splits[texts] == training], minlength=num_labels)
    for label in np.flatnonzero((in_training == 0) & (counts > 0)):
        splits[by_label[first_text[label]]] = training
    return splits[text_of]


def _distribute(number: int, wanting: list[float], room: list[float]) -> list[int]:
    """Splits for a number of documents, each where ``wanting`` is largest, then ``room``; ``room`` is updated."""
    splits, wanting = [], list(wanting)
    for _ in range(number):
        split = max(range(len(room)), key=lambda index: (wanting[index], room[index]))
        wanting[split] -= 1
        room[split] -= 1
        splits.append(split)
    return splits

"""`hf-xmtc tree`: from the training texts of a data set to a label tree."""

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from tqdm import tqdm

from hf_xmtc.data import LabelInfo, label_info_of, load_xmtc_dataset
from hf_xmtc.inference.model_opening import open_model
from hf_xmtc.label_tree import LabelTree, TreeShape, cluster_depth, label_features
from hf_xmtc.retrieval.candidate_generator import VECTORIZER
from hf_xmtc.training import label_clusters

from .data_options import loader_arguments
from .output_checks import check_tree_folder
from .processes import usable_cores
from .tree_options import MAX_FEATURES, option_parser

__all__ = ["build_tree", "describe", "main", "tree_of_texts"]

_BATCH_ROWS = 1_000


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``scripts/build_label_tree.py`` and ``hf-xmtc tree``.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        Exit status: 0 when the tree is written or listed, 1 when the data, the settings or the model are refused.
    """
    options = option_parser().parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        if options.model is not None:
            print("\n".join("\t".join(cluster) for cluster in label_clusters(open_model(options.model)[0])))
            return 0
        tree = build_tree(options)
    except (ValueError, OSError) as error:
        print(f"No tree was {'built' if options.model is None else 'listed'}. {error}", file=sys.stderr)
        return 1
    print(describe(tree))
    print(f"Written to {options.output_dir}.")
    return 0


def build_tree(options: argparse.Namespace) -> LabelTree:
    """Load the data, build the tree and write it.

    Raises:
        FileExistsError: If there is a tree in the output folder.
        ValueError: If the data or the settings cannot be used.
    """
    folder = Path(options.output_dir)
    check_tree_folder(folder)
    data = load_xmtc_dataset(options.dataset, **loader_arguments(options))
    rows, info = data["train"], label_info_of(data)
    if options.max_leaf is None:
        shape = TreeShape.for_labels(info.num_labels)
    else:
        shape = TreeShape(options.max_leaf, tuple(options.levels or [cluster_depth(info.num_labels, options.max_leaf)]))
    shape.check(info.num_labels)
    tree = tree_of_texts(rows, info, shape, options.seed, options.max_features, options.num_workers)
    built_from = {
        "dataset": options.dataset,
        "dataset_fingerprint": info.fingerprint,
        "num_documents": len(rows),
        "max_leaf": shape.max_leaf,
        "levels": shape.depths,
        "max_features": options.max_features,
        "seed": options.seed,
    }
    tree.save(folder, built_from)
    return tree


def tree_of_texts(
    rows: Dataset,
    info: LabelInfo,
    shape: TreeShape,
    seed: int,
    max_features: int = MAX_FEATURES,
    num_workers: int | None = None,
) -> LabelTree:
    """Cluster the labels of training texts by the words of the texts that have them.

    Args:
        rows: The training split.
        info: Its labels.
        shape: Levels and size of clusters.
        seed: Of the first centres of each split.
        max_features: Most frequent words that describe labels.
        num_workers: Threads; by default as many as there are cores.
    """
    features = label_features(_tfidf(rows, max_features), _label_rows(rows, info.num_labels), info.num_labels)
    with tqdm(total=info.num_labels * shape.depths[-1], desc="Clusters", unit="label", unit_scale=True) as bar:
        return LabelTree.build(
            features,
            shape,
            seed=seed,
            num_workers=num_workers or usable_cores(),
            labels_digest=info.names.digest(),
            progress=bar.update,
        )


def describe(tree: LabelTree) -> str:
    """A line for each level: its nodes, and how many of them a node above has."""
    lines = []
    for level, parents in enumerate(tree.parents):
        counts = np.bincount(parents)
        spread = f"{counts.min():,} to {counts.max():,}" if counts.min() < counts.max() else f"{counts.max():,}"
        above = "the root" if level == 0 else "a cluster" if level == tree.num_levels - 1 else "a node above"
        kind = "labels" if level == tree.num_levels - 1 else "clusters" if level == tree.num_levels - 2 else "nodes"
        lines.append(f"  level {level}: {len(parents):,} {kind}, {spread} in {above}")
    return "\n".join([f"A label tree of {tree.num_levels} levels:", *lines])


def _tfidf(rows: Dataset, max_features: int) -> csr_array:
    """TF-IDF vectors of training texts, (N, V).

    Raises:
        ValueError: If no word is left.
    """
    vectorizer = TfidfVectorizer(min_df=min(2, max(1, len(rows) // 2)), max_features=max_features, **VECTORIZER)
    try:
        return csr_array(vectorizer.fit_transform(_texts(rows)))
    except ValueError as error:
        raise ValueError(
            f"No word of the {len(rows)} training texts is left to describe labels by ({error}). Are they empty?"
        ) from error


def _texts(rows: Dataset) -> Iterator[str]:
    with tqdm(total=len(rows), desc="Words", unit="text", unit_scale=True) as bar:
        for batch in rows.select_columns("text").iter(_BATCH_ROWS):
            yield from batch["text"]
            bar.update(len(batch["text"]))


def _label_rows(rows: Dataset, num_labels: int) -> csr_array:
    """Their labels, (N, L)."""
    lists = rows.select_columns("labels").with_format("arrow")[:]["labels"].combine_chunks()
    indptr = np.append(0, np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False)))
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    return csr_array((np.ones(len(ids), dtype=bool), ids, indptr), shape=(len(rows), num_labels))

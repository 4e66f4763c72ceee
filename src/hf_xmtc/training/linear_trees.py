"""The trees of Parabel, Bonsai and DiSMEC: trained by the library omikuji, read from its files, kept as arrays."""

import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.configuration_linear_tree import LinearConfig, LinearTreeConfig
from hf_xmtc.models.linear_tree_head import ABSENT, Trees
from hf_xmtc.models.modeling_linear_tree import LinearTreeModel
from hf_xmtc.models.tf_idf import WordValues

from .word_counts import count_words, document_batches

__all__ = ["check_omikuji", "read_trees", "train_linear_trees"]

logger = logging.getLogger(__name__)

# Documents whose words are counted together.
BATCH_SIZE = 1_000

# Runs in a process of its own, because omikuji writes its progress over this one's output, cannot be interrupted, and aborts on errors.
# It is run as a file, because code given as an argument would import what lies in the working directory.
_TRAIN = """
import json, sys, omikuji
data, folder, settings, threads = sys.argv[1:]
options = omikuji.Model.default_hyper_param()
for name, value in json.loads(settings).items():
    setattr(options, name, value)
if options.linear_loss_type:
    options.linear_loss_type = omikuji.LossType.LOG.value
omikuji.Model.train_on_data(data, options, int(threads)).save(folder)
"""


def check_omikuji() -> None:
    """Refuse to begin where the libraries that train linear trees are missing.

    Raises:
        ImportError: If one of them is.
    """
    for library in ("omikuji", "cbor2"):
        if find_spec(library) is None:
            raise ImportError(f"Parabel, Bonsai and DiSMEC are trained by `{library}`: pip install 'hf_xmtc[tree]'")


def train_linear_trees(
    model: LinearTreeModel, dataset: Dataset, unread_ids: Collection[int] = (), omikuji_folder: Path | None = None
) -> dict[str, float]:
    """Have omikuji train the trees of a model, on as many threads as torch has.

    omikuji draws the first centres of its clusters anew in every run and takes no seed, so trees and scores differ a little from run to run.

    Args:
        model: A model of the right vocabulary and label space; its idf and trees are replaced.
        dataset: Documents with ``input_ids`` and ``labels``, of which those without either are left out.
        unread_ids: Ids that are no words, such as those of unknown and padding tokens.
        omikuji_folder: Where omikuji's own files are kept, to predict with them; by default they are deleted.

    Returns:
        What training took: ``seconds``, ``documents_per_second``, and the ``parameters`` of the model.

    Raises:
        ImportError: If omikuji or cbor2 is missing.
        ValueError: If no document has both words and labels.
        RuntimeError: If omikuji fails; the message has the end of its output.
    """
    check_omikuji()
    started = time.monotonic()
    count_words(model.words, dataset, unread_ids)
    with tempfile.TemporaryDirectory(prefix="linear_trees_") as folder:
        data, script = Path(folder, "data.txt"), Path(folder, "train_trees.py")
        trained = omikuji_folder or Path(folder, "trees")
        script.write_text(_TRAIN, encoding="utf-8")
        num_documents = _write_data(model, dataset, data)
        if not num_documents:
            raise ValueError(
                f"None of the {len(dataset)} training documents has both a label and a word of the vocabulary, so there is nothing to "
                "learn. Were the right columns read?"
            )
        if left_out := len(dataset) - num_documents:
            logger.info(
                f"{left_out:,} of {len(dataset):,} documents have no label or no word; the trees are trained without them."
            )
        arguments = [str(data), str(trained), json.dumps(_omikuji_settings(model.config)), str(torch.get_num_threads())]
        run = subprocess.run(
            [sys.executable, str(script), *arguments], capture_output=True, text=True, errors="replace", check=False
        )
        if run.returncode:
            raise RuntimeError(
                f"omikuji could not train the trees (exit status {run.returncode}):\n{(run.stdout + run.stderr)[-2000:]}"
            )
        model.grow(read_trees(trained, model.config.num_labels))
        seconds = time.monotonic() - started
        return {
            "seconds": round(seconds, 1),
            "documents_per_second": round(len(dataset) / seconds, 1),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }


def _batches(model: LinearTreeModel, dataset: Dataset) -> Iterator[tuple[WordValues, list[list[int]]]]:
    """Words and label ids of the documents."""
    for input_ids, mask, labels in document_batches(dataset, BATCH_SIZE):
        with torch.no_grad():
            yield model.words(input_ids.to(model.device), mask.to(model.device)).to("cpu"), labels


def _write_data(model: LinearTreeModel, dataset: Dataset, path: Path) -> int:
    """Write omikuji's input, a line ``label,label word:value word:value`` for each document, and return how many there are."""
    num_labels, body = model.config.num_labels, path.with_suffix(".body")
    num_documents = 0
    with body.open("w", encoding="ascii") as file:
        for words, labels in _batches(model, dataset):
            read = words.values > 0
            pairs = [
                f"{word}:{value:.8g}"
                for word, value in zip(words.words[read].tolist(), words.values[read].tolist(), strict=True)
            ]
            ends = words.documents[read].bincount(minlength=words.num_documents).cumsum(0).tolist()
            for start, end, label_ids in zip([0, *ends[:-1]], ends, labels, strict=True):
                known = sorted({label_id for label_id in label_ids if 0 <= label_id < num_labels})
                if known and end > start:
                    file.write(f"{','.join(map(str, known))} {' '.join(pairs[start:end])}\n")
                    num_documents += 1
    with path.open("w", encoding="ascii") as file, body.open(encoding="ascii") as lines:
        file.write(f"{num_documents} {model.config.vocab_size} {num_labels}\n")
        file.writelines(lines)
    return num_documents


def _omikuji_settings(config: LinearConfig) -> dict[str, Any]:
    one_leaf = {"n_trees": 1, "min_branch_size": config.num_labels + 1}
    return {
        **(_tree_settings(config) if isinstance(config, LinearTreeConfig) else one_leaf),
        "linear_loss_type": int(config.node_loss == "log"),
        "linear_c": config.node_cost,
        "linear_weight_threshold": config.weight_threshold,
    }


def _tree_settings(config: LinearTreeConfig) -> dict[str, Any]:
    return {
        "n_trees": config.num_trees,
        "min_branch_size": config.min_branch_size,
        "max_depth": config.max_depth,
        "cluster_k": config.num_clusters,
        "cluster_balanced": config.balanced_clusters,
    }


# ---- what omikuji has saved ------------------------------------------------------------------------------------------------


class _Weights(NamedTuple):
    """Weights of some nodes: word, column and value of each; the word behind the vocabulary is the bias."""

    words: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def read_trees(folder: Path, num_labels: int) -> Trees:
    """The trees that omikuji has saved (``settings.json`` and a CBOR file for each tree).

    Its leaves, above the labels, lie at several levels, and in its beam they stay beside the nodes of the levels below. Here they have
    an only child of probability 1 on each of those levels, which comes to the same.

    Args:
        folder: Their folder.
        num_labels: Labels L; those that no training document has are in no tree.

    Raises:
        ValueError: If they are too large for a model.
    """
    import cbor2

    num_words = read_json_object(folder / "settings.json")["n_features"]
    level = []
    for tree in range(len(list(folder.glob("tree*.cbor")))):
        with (folder / f"tree{tree}.cbor").open("rb") as file:
            level.append((tree, 0, cbor2.load(file)))
    num_trees, level_sizes, parents, certain, of_nodes, of_labels = len(level), [], [], [], [], []
    label_parents, present = np.zeros((num_trees, num_labels), np.int32), np.zeros((num_trees, num_labels), bool)
    while level:
        below, sizes = [], [0] * num_trees
        goes_on = {tree for tree, _, content in level if "Branch" in content}
        for tree, node, content in level:
            kind, parts = next(iter(content.items()))
            if kind == "Leaf" and tree in goes_on:
                certain.append(len(parents))
                parents.append(node)
                below.append((tree, len(parents), content))
                sizes[tree] += 1
                continue
            weights = _read_weights(parts["weights"])
            if kind == "Leaf":
                labels = np.asarray(parts["labels"], dtype=np.int64)
                label_parents[tree, labels], present[tree, labels] = node, True
                of_labels.append(weights._replace(columns=tree * num_labels + labels[weights.columns]))
            else:
                of_nodes.append(weights._replace(columns=len(parents) + weights.columns))
                below += [(tree, len(parents) + 1 + child, part) for child, part in enumerate(parts["children"])]
                parents += [node] * len(parts["children"])
                sizes[tree] += len(parts["children"])
        if below:
            level_sizes.append(sizes)
        level = below
    of_labels = [weights._replace(columns=len(parents) + weights.columns) for weights in of_labels]
    words, columns, values = (np.concatenate(arrays) for arrays in zip(*of_nodes, *of_labels, strict=True))
    bias = np.concatenate([np.zeros(len(parents), np.float32), np.where(present, 0, ABSENT).astype(np.float32).ravel()])
    if len(values) >= 2**31:
        raise ValueError(
            f"The trees have {len(values):,} weights, but a model holds fewer than 2**31. Raise weight_threshold or min_document_frequency."
        )
    is_bias = words == num_words
    bias[columns[is_bias]], bias[certain] = values[is_bias], -ABSENT
    order = np.argsort(words * len(bias) + columns, kind="stable")[: len(words) - is_bias.sum()]  # biases come last
    arrays = {
        "parents": np.asarray(parents, dtype=np.int32),
        "label_parents": label_parents,
        "offsets": np.pad(np.bincount(words[order], minlength=num_words).cumsum(), (1, 0)),
        "columns": columns[order],
        "weights": values[order],
        "bias": bias,
    }
    return Trees(level_sizes, **{name: torch.from_numpy(array) for name, array in arrays.items()})


def _read_weights(content: dict[str, Any]) -> _Weights:
    """A matrix of words × children, dense or by words."""
    kind, parts = next(iter(content.items()))
    if kind == "Dense":
        matrix = np.asarray(parts["data"], dtype=np.float32).reshape(parts["dim"])
        words, columns = np.nonzero(matrix)
        return _Weights(words, columns, matrix[words, columns])
    counts = np.diff(np.asarray(parts["indptr"], dtype=np.int64))
    words = np.repeat(np.asarray(parts["outer_inds"], dtype=np.int64), counts)
    return _Weights(words, np.asarray(parts["inner_inds"], dtype=np.int64), np.asarray(parts["data"], dtype=np.float32))

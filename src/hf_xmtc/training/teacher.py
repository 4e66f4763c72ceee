"""The teacher knowledge of a TReaderXML model: training texts, parents of labels, and descriptions."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset

from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.models.modeling_treaderxml import TReaderXMLForXMTC
from hf_xmtc.models.stored_documents import Assignments, digests_of
from hf_xmtc.models.teacher_knowledge import TeacherKnowledge
from hf_xmtc.models.text_encoding import encode_texts
from hf_xmtc.models.text_index import DocumentVectors
from hf_xmtc.models.tf_idf import TfIdf, WordValues

try:
    from scipy.sparse import csr_array
except ModuleNotFoundError as error:
    raise ImportError(
        "TReaderXML's teacher is computed with scipy, which is not there: pip install 'hf_xmtc[retrieval]'."
    ) from error

from hf_xmtc.label_tree import label_features

from .label_parents import containing_labels, tree_parents
from .word_counts import count_words

__all__ = ["LabelNodes", "label_nodes", "store_teacher", "vectors_of_texts"]

logger = logging.getLogger(__name__)

# Labels of which so large a share are contained in others are a hierarchy; a few pairs are chance.
MIN_CONTAINED = 0.1


class LabelNodes(NamedTuple):
    """Labels and parents that are no labels, L and M in all.

    Attributes:
        parents: Ids of the parents of each label, (L,) lists.
        descriptions: Token ids of the text of each node, (M,) lists.
        parents_from: ``given``, ``containment``, ``tree`` or ``none``.
    """

    parents: list[list[int]]
    descriptions: list[list[int]]
    parents_from: str


@torch.no_grad()
def store_teacher(
    model: TReaderXMLForXMTC,
    train: Dataset,
    names: LabelNames,
    label_texts: list[list[int]],
    tokenize: Callable[[list[str]], list[list[int]]],
    unread_ids: Collection[int],
) -> None:
    """Give a model the training texts with their labels, and the nodes' parents and descriptions.

    Args:
        model: A model with a teacher; what it holds is replaced. A trained one keeps the vectors of words, or the encoder, by which it
            finds texts; a new one takes its word embeddings or encoder, which have their first weights.
        train: The training split, and nothing else, tokenized, with ``labels``.
        names: The labels with their parents.
        label_texts: Token ids of the text of each label, (L,) lists; empty where it has none, and then it is described by the words that
            weigh most in its documents.
        tokenize: From texts to token ids without special tokens.
        unread_ids: Ids that are no words, such as those of unknown and padding tokens.
    """
    knowledge, config = model.teacher, model.config
    texts, label_rows = train["input_ids"][:], train["labels"][:]
    if config.retrieval == "tf_idf":
        count_words(knowledge.words, train, unread_ids)
    elif config.corpus_digest is not None:
        pass  # its own word embeddings or encoder have been trained since
    elif config.retrieval == "words":
        knowledge.take_word_vectors(model.get_input_embeddings().weight, list(unread_ids))
    else:
        knowledge.encoder.load_state_dict(model.backbone.state_dict())
    vectors = vectors_of_texts(knowledge, texts)

    def tf_idf() -> csr_array:
        words = vectors if isinstance(vectors, WordValues) else _word_values(train, config.vocab_size, unread_ids)
        places = (words.documents.numpy(), words.words.numpy())
        return csr_array((words.values.numpy(), places), shape=(len(texts), config.vocab_size))

    nodes = label_nodes(config.parents, names, label_rows, label_texts, tokenize, tf_idf, config.description_length)
    assignments = [Assignments.of(rows, len(nodes.descriptions)) for rows in (label_rows, nodes.parents)]
    others = names.parent_ids()[1] if nodes.parents_from == "given" else []
    knowledge.store(vectors, *assignments, text_hashes=digests_of(texts), names=[*names.labels, *others])
    model.store_descriptions(nodes.descriptions)
    config.parents_from = nodes.parents_from
    with_parents = sum(map(bool, nodes.parents))
    repeated = len(texts) - len(set(knowledge.text_hashes.tolist()))
    logger.info(
        f"Teacher knowledge: {len(texts):,} training texts; {with_parents:,} of {len(names):,} labels have parents ({nodes.parents_from}), "
        f"of which {config.num_nodes - len(names):,} are no labels. {repeated:,} training texts ({100 * repeated / len(texts):.2f} %) repeat "
        "another one; such texts are not neighbours of each other in training."
    )


def vectors_of_texts(knowledge: TeacherKnowledge, texts: Sequence[list[int]]) -> WordValues | DocumentVectors:
    """What `TeacherKnowledge.vectors_of` gives for texts as token ids, on the CPU."""
    return encode_texts(knowledge.vectors_of, texts, knowledge.config.retrieval == "tf_idf", knowledge.node_ids.device)


def label_nodes(
    kind: str,
    names: LabelNames,
    label_rows: list[list[int]],
    label_texts: list[list[int]],
    tokenize: Callable[[list[str]], list[list[int]]],
    tf_idf: Callable[[], csr_array],
    num_words: int,
) -> LabelNodes:
    """Parents and descriptions.

    Args:
        kind: ``given``, ``containment``, ``tree`` or ``none``; or ``auto``: those of the data, else labels that contain others, where
            these are a tenth of all, else clusters.
        names: The labels with their parents.
        label_rows: Labels of the training texts.
        label_texts: Token ids of each label's text; empty where it has none.
        tokenize: From texts to token ids without special tokens.
        tf_idf: Gives the TF-IDF of the training texts, (N, V), where it is needed.
        num_words: Words of a description that is made of a label's documents.

    Raises:
        ValueError: If there are to be parents of the data, and these have none.
    """
    num_labels, descriptions, others = len(names), list(label_texts), []
    if not all(descriptions):
        features = label_features(tf_idf(), label_rows, num_labels)
        described = [label for label, text in enumerate(descriptions) if not text]
        for label in described:
            row = features[[label]]
            descriptions[label] = row.indices[np.argsort(-row.data, kind="stable")[:num_words]].tolist()
    parents: list[list[int]] = [[] for _ in range(num_labels)]
    if kind in ("auto", "given"):
        parents, of_others = names.parent_ids()
        if kind == "given" and not any(parents):
            raise ValueError(
                "parents='given', but no label of the data has one. Give parents in labels.parquet, or leave parents out to have them found."
            )
        kind, others = ("given", tokenize(of_others) if of_others else []) if any(parents) else (kind, [])
    if kind in ("auto", "containment"):
        parents = containing_labels(label_rows, num_labels)
        if kind == "auto":
            kind = "containment" if sum(map(bool, parents)) >= MIN_CONTAINED * num_labels else "tree"
    if kind == "tree":
        parents, medoids = tree_parents(tf_idf(), label_rows, num_labels)
        others = [descriptions[label] for label in medoids]
    return LabelNodes(parents, descriptions + others, kind)


def _word_values(train: Dataset, num_words: int, unread_ids: Collection[int]) -> WordValues:
    words = TfIdf(num_words, None)
    count_words(words, train, unread_ids)
    return encode_texts(words, train["input_ids"][:], True, torch.device("cpu"))

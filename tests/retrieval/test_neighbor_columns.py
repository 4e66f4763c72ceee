"""Nearest training texts as columns: exact search in blocks, who is nobody's neighbour, and what the teachers know."""

from itertools import combinations

import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset, DatasetDict

import hf_xmtc.retrieval.neighbor_columns as columns_module
import hf_xmtc.retrieval.neighbor_search as search_module
from hf_xmtc import TReaderXMLConfig, TReaderXMLForXMTC
from hf_xmtc.commands.teacher_building import EXPECTED_GAP
from hf_xmtc.data.collator import NEIGHBORS, SIMILARITIES
from hf_xmtc.data.sources import DEMO_FOLDER
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.models.text_index import DocumentVectors, VectorIndex
from hf_xmtc.retrieval.neighbor_columns import add_neighbors, teacher_report
from hf_xmtc.retrieval.neighbor_search import approximate_neighbors, search_neighbors
from hf_xmtc.training.teacher import store_teacher, vectors_of_texts

# Words 2 to 9; rows 0 and 1 are the same text, row 3 is near to them, row 4 has no known word.
TRAIN = [[2, 3], [2, 3], [5, 6], [2, 4], [1]]
LABELS = [[0], [1], [2], [3], [0]]


def splits(labels=LABELS) -> DatasetDict:
    return DatasetDict(
        {
            "train": Dataset.from_dict({"input_ids": TRAIN, "labels": labels}),
            "validation": Dataset.from_dict({"input_ids": [[2, 3], [6]], "labels": [[1, 7], [2]]}),
        }
    )


def model_with_teacher(data: DatasetDict, retrieval="tf_idf", parents="given") -> TReaderXMLForXMTC:
    settings = {"embedding_size": 8, "num_labels": 4, "vocab_size": 10, "num_neighbors": 3, "retrieval": retrieval}
    torch.manual_seed(0)
    model = TReaderXMLForXMTC(TReaderXMLConfig(parents=parents, **settings))
    give_texts(model, data)
    return model


def give_texts(model: TReaderXMLForXMTC, data: DatasetDict) -> None:
    names = LabelNames(["a", "b", "c", "d"], parents=[["top"], ["a"], [], []])
    store_teacher(model, data["train"], names, [[2], [3], [5], [4]], lambda texts: [[7]] * len(texts), [0, 1])


def with_neighbors(data: DatasetDict, retrieval="tf_idf", **options):
    model = model_with_teacher(data, retrieval)
    return add_neighbors(data, model.teacher, lambda texts: vectors_of_texts(model.teacher, texts), **options), model.teacher


@pytest.mark.parametrize("retrieval", ["tf_idf", "words"])
def test_training_text_is_neither_its_own_neighbour_nor_its_likes(retrieval):
    rows, _ = with_neighbors(splits(), retrieval)
    train, validation = rows["train"][NEIGHBORS][:], rows["validation"][NEIGHBORS][:]
    assert all(row not in neighbors for row, neighbors in enumerate(train))
    assert 1 not in train[0] and 0 not in train[1] and train[0][0] == train[1][0] == 3
    assert train[4] == []  # without a known word
    assert validation[0][:2] == [0, 1]  # other splits may have likes in training
    for similarities in (*rows["train"][SIMILARITIES][:], *rows["validation"][SIMILARITIES][:]):
        assert similarities == sorted(similarities, reverse=True) and all(0 < value <= 1.00001 for value in similarities)


def test_a_trained_model_goes_on_finding_texts_by_its_first_word_vectors():
    data = splits()
    model = model_with_teacher(data, "words")
    first = model.teacher.word_vectors.clone()
    torch.nn.init.normal_(model.get_input_embeddings().weight)
    give_texts(model, data)
    assert torch.equal(model.teacher.word_vectors, first)


def inputs_of_row(row: int, texts: list[list[int]], labels: list[list[int]], parents: str) -> list[torch.Tensor]:
    """What a training text is read with: its teacher, the descriptions of this one's labels, and similarities."""
    data = DatasetDict(train=Dataset.from_dict({"input_ids": texts, "labels": labels}))
    model = model_with_teacher(data, parents=parents)
    columns = add_neighbors(data, model.teacher, lambda texts: vectors_of_texts(model.teacher, texts))
    found = columns["train"].with_format("torch")[row]
    teacher = model.teacher.teacher_from(found[NEIGHBORS][None], found[SIMILARITIES][None])
    labels_alone = teacher.node_ids[teacher.node_ids < 4]
    return [*teacher, model.teacher_embedding.descriptions[labels_alone], found[SIMILARITIES]]


@pytest.mark.parametrize("parents", ["given", "containment", "tree"])
def test_own_labels_change_nothing_in_a_texts_teacher(parents):
    # All texts have the word 2, so all are neighbours. Label 1 comes with label 0 nine times in ten, whatever the last text has.
    texts = [[2, *pair] for pair in combinations(range(3, 9), 2)][:14]
    labels = [*[[0, 1]] * 11, [0, 3], [2], [2, 3]]
    first, *others = (inputs_of_row(13, texts, [*labels[:13], own], parents) for own in ([2, 3], [1, 3], [0, 1, 2]))
    assert first[0].shape[1] > 1 and (parents == "containment" or first[2].any())
    assert all(torch.equal(part, of_first) for other in others for part, of_first in zip(other, first, strict=True))


def test_report_counts_labels_of_teachers_and_votes():
    rows, knowledge = with_neighbors(splits())
    report = teacher_report(rows["validation"], knowledge, num_labels=4)
    # The first text's teacher is {a, b, d, top}: it has b, and not label 7, which is unknown; the second one's is {c}.
    assert report["teacher_recall"] == pytest.approx((1 / 2 + 1) / 2) and report["teacher_size"] == (4 + 1) / 2
    assert report["near_duplicates"] == 1 / 2  # the first text is in training too
    assert report["neighbors_P@1"] == pytest.approx(1 / 2)  # a and b have equal votes
    assert teacher_report(rows["validation"], knowledge, num_labels=4, ignore_unseen=True)["teacher_recall"] == 1


def test_real_training_texts_find_as_many_of_their_labels_as_others():
    def as_numbers(rows: list[list[str]], numbers: dict[str, int]) -> list[list[int]]:
        return [[numbers.setdefault(item, len(numbers)) for item in row] for row in rows]

    words, labels, splits = {}, {}, {}
    for split in ("train", "validation"):
        table = pq.read_table(DEMO_FOLDER / f"{split}.parquet")
        table = table.take(list(range(0, table.num_rows, 3)))
        texts = [text.lower().split() for text in table["text"].to_pylist()]
        columns = {"input_ids": as_numbers(texts, words), "labels": as_numbers(table["labels"].to_pylist(), labels)}
        splits[split] = Dataset.from_dict(columns)
    model = TReaderXMLForXMTC(
        TReaderXMLConfig(num_labels=len(labels), vocab_size=len(words), embedding_size=4, num_neighbors=10, parents="none")
    )
    store_teacher(model, splits["train"], LabelNames(list(labels)), [[0]] * len(labels), lambda texts: [], [])
    rows = add_neighbors(DatasetDict(splits), model.teacher, lambda texts: vectors_of_texts(model.teacher, texts))
    recalls = [teacher_report(rows[split], model.teacher, len(labels))["teacher_recall"] for split in rows]
    assert 0.6 < recalls[1] < 0.9 and 100 * abs(recalls[0] - recalls[1]) < EXPECTED_GAP


def test_controls_give_the_neighbours_of_others_and_the_own_row():
    plain = with_neighbors(splits())[0]["train"][NEIGHBORS][:]
    shuffled = with_neighbors(splits(), source="shuffled")[0]["train"][NEIGHBORS][:]
    assert shuffled != plain and all(row not in neighbors for row, neighbors in enumerate(shuffled))
    gold = with_neighbors(splits(), source="gold")[0]
    assert gold["train"][NEIGHBORS][:] == [[0], [1], [2], [3], [4]]
    assert gold["validation"][NEIGHBORS][:] == with_neighbors(splits())[0]["validation"][NEIGHBORS][:]


def test_search_in_blocks_is_that_of_all_at_once(monkeypatch):
    rows = torch.nn.functional.normalize(torch.randn(200, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    index, own = VectorIndex(6, 0), torch.arange(200)
    index.store(DocumentVectors(rows))
    monkeypatch.setattr(search_module, "BLOCK_NUMBERS", 200 * 7)
    found = search_neighbors(index, DocumentVectors(rows), 5, own, own)
    expected = (rows @ rows.t()).fill_diagonal_(-1).sort(dim=1, descending=True, stable=True)
    assert torch.equal(found.rows, expected.indices[:, :5])
    assert torch.allclose(found.similarities, expected.values[:, :5], atol=1e-6)


def test_faiss_sorts_the_texts_once_for_all_batches_of_a_split(monkeypatch):
    pytest.importorskip("faiss")
    calls = []
    monkeypatch.setattr(search_module, "APPROXIMATE_FROM", 1)
    monkeypatch.setattr(columns_module, "_SEARCHED", 1)
    monkeypatch.setattr(columns_module, "faiss_lists", lambda index: calls.append(1) or search_module.faiss_lists(index))
    rows, _ = with_neighbors(splits(), "words")
    assert len(calls) == 2  # of two splits
    assert all(row not in neighbors for row, neighbors in enumerate(rows["train"][NEIGHBORS][:]))


def test_faiss_finds_nearly_the_same():
    pytest.importorskip("faiss")
    rows = torch.nn.functional.normalize(torch.randn(2_000, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    index, own = VectorIndex(6, 0), torch.arange(2_000)
    index.store(DocumentVectors(rows))
    exact, found = (
        search(index, DocumentVectors(rows), 5, own, own) for search in (search_neighbors, approximate_neighbors)
    )
    assert not bool((found.rows == own[:, None]).any())
    assert (exact.rows[:, :, None] == found.rows[:, None]).any(dim=2).float().mean() > 0.95

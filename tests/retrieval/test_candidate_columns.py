"""Candidates as columns of a data set: whose votes they are, their rows, and what their cache depends on."""

import datasets
import numpy as np
import pytest
from datasets import DatasetDict, Value

from hf_xmtc import load_xmtc_dataset
from hf_xmtc.data import label_info_of
from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.retrieval import CandidateGenerator
from hf_xmtc.retrieval.candidate_columns import add_candidates
from small_corpus import write_corpus


@pytest.fixture
def data(tmp_path, monkeypatch) -> DatasetDict:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "caches")
    return load_xmtc_dataset(write_corpus(tmp_path / "corpus"))


def added(data: DatasetDict, num_candidates: int = 2) -> tuple[DatasetDict, CandidateGenerator, dict]:
    numbered = DatasetDict({split: rows.map(lambda _, row: {"row": row}, with_indices=True) for split, rows in data.items()})
    generator = CandidateGenerator.fit(data["train"]["text"], data["train"]["labels"], label_info_of(data).num_labels)
    columns, report = add_candidates(data, numbered, generator, num_candidates)
    return columns, generator, report


def test_the_columns_are_the_generators_and_no_training_text_votes_for_itself(data):
    columns, generator, report = added(data)
    assert set(columns) == {"train", "validation", "test"}
    for split, rows in columns.items():
        texts, labels = data[split]["text"][:], data[split]["labels"][:]
        own = range(len(texts)) if split == "train" else None
        ids, votes = generator.candidates(texts, 2, training_rows=own)
        np.testing.assert_array_equal(rows[CANDIDATES][:], ids)
        np.testing.assert_allclose(rows[VOTES][:], votes, rtol=1e-6)
        assert rows["row"][:] == list(range(len(texts))) and rows["labels"][:] == labels and rows["text"][:] == texts
        found = [len(set(row) & set(truth)) / len(truth) for row, truth in zip(ids.tolist(), labels, strict=True) if truth]
        assert report[split]["candidate_recall"] == pytest.approx(np.mean(found)) and report[split]["num_candidates"] == 2
    with_itself, _ = generator.candidates(data["train"]["text"][:], 2)
    assert not np.array_equal(with_itself, columns["train"][CANDIDATES][:])


@pytest.mark.parametrize("change", ["fewer training texts", "labels", "candidates", "texts in another order"])
def test_candidates_are_looked_for_again_when_what_they_depend_on_changes(data, monkeypatch, change):
    before, _, _ = added(data)
    asked = []
    find = CandidateGenerator.candidates

    def count(self, texts, *args, **kwargs):
        asked.append(len(texts))
        return find(self, texts, *args, **kwargs)

    monkeypatch.setattr(CandidateGenerator, "candidates", count)
    again, _, _ = added(data)
    assert not asked and all(again[split][CANDIDATES][:] == before[split][CANDIDATES][:] for split in before)
    if change == "fewer training texts":
        data["train"] = data["train"].select(range(20))
    elif change == "labels":
        labels = [[1, 3]] + data["train"]["labels"][1:]
        feature = data["train"].features["labels"]
        data["train"] = data["train"].remove_columns("labels").add_column("labels", labels, feature=feature)
    elif change == "texts in another order":
        data["test"] = data["test"].select(range(len(data["test"]) - 1, -1, -1))
    added(data, 3 if change == "candidates" else 2)
    of_all = sum(len(rows) for rows in data.values())
    assert sum(asked) == (len(data["test"]) if change == "texts in another order" else of_all)


def test_the_same_rows_as_training_and_as_test_texts_have_their_own_candidates(data):
    data["test"] = data["train"]
    columns, _, _ = added(data)
    assert columns["test"][CANDIDATES][:] != columns["train"][CANDIDATES][:]


def test_documents_without_labels_in_a_whole_split_are_not_measured(data):
    data["test"] = data["test"].map(lambda row: {"labels": []}, features=data["test"].features)
    assert set(added(data)[2]) == {"train", "validation"}
    assert added(data)[0]["test"].features[CANDIDATES].feature == Value("int32")

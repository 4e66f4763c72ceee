"""Training of `NeighborsForXMTC`: what is stored, and which vote is chosen on validation."""

import pytest
import torch
from datasets import Dataset

from hf_xmtc import NeighborsConfig, NeighborsForXMTC
from hf_xmtc.training.neighbors import VOTE_GRID, choose_vote, store_neighbors

# Words 2 … 13 are those of labels 0 … 11; word 14 is in all documents, and word 15, the name of label 12, in none.
DOCUMENTS = [
    {"input_ids": [2 + label, 14, 2 + (label + row) % 12], "labels": [label]} for row in range(10) for label in range(12)
]


def stored(rows=DOCUMENTS, **settings) -> NeighborsForXMTC:
    model = NeighborsForXMTC(NeighborsConfig(vocab_size=16, num_labels=13, **settings))
    store_neighbors(model, Dataset.from_list(rows), [*([2 + label] for label in range(12)), [15]], unread_ids=(0, 1))
    return model


def test_words_in_most_documents_are_left_out_of_the_search():
    model = stored()
    assert model.words.idf[[0, 1, 14]].tolist() == [0, 0, 0] and (model.words.idf[2:14] > 1).all()
    index = model.label_head.documents
    assert index.offsets[15] == index.offsets[14]
    assert len(index.values) == model.config.num_values and model.config.num_documents == 120
    assert model.label_head.label_texts.num_texts == 13 and model.config.num_assignments == 120
    few = stored(DOCUMENTS[:12])  # too few to tell
    assert few.words.idf[14] > 0


@torch.no_grad()
def test_the_vote_is_chosen_on_validation_where_it_is_not_given():
    validation = Dataset.from_list([{"input_ids": [15, 2 + label], "labels": [12]} for label in range(6)])
    model = stored(label_text_weight=0.0, num_neighbors=3)
    assert model(torch.tensor([[15, 2]]), top_k=1).top_labels.item() == 0
    chosen = choose_vote(model, validation, ["label_text_weight", "similarity_power"])
    assert set(chosen) == {"label_text_weight", "similarity_power"} and chosen["label_text_weight"] > 0
    assert model.config.label_text_weight == chosen["label_text_weight"] and model.config.num_neighbors == 3
    assert 12 in model(torch.tensor([[15, 2]]), top_k=2).top_labels


def test_label_texts_count_where_validation_does_not_tell(monkeypatch):
    # Each document has the word of its label, and so have its neighbours.
    validation = Dataset.from_list([{"input_ids": [2 + label], "labels": [label]} for label in range(6)])
    model = stored(label_text_weight=0.0, num_neighbors=3)
    assert choose_vote(model, validation, ["label_text_weight"]) == {"label_text_weight": 0.05}
    monkeypatch.setattr("hf_xmtc.training.neighbors._ndcg_by_setting", lambda *_: [0.6, *[0.5] * 6])
    assert choose_vote(model, validation, ["label_text_weight"]) == {"label_text_weight": 0.0}


def test_an_encoder_reads_batches_of_equal_lengths_in_the_order_of_the_documents():
    from models.families import FAMILIES

    model = next(family for family in FAMILIES if family.name == "neighbors-on-bert").build()
    rows = [{"input_ids": list(range(5, 5 + length)), "labels": [length % 5]} for length in (7, 3, 0, 9, 5)]
    store_neighbors(model, Dataset.from_list(rows), [[5]] * 5)
    nearest = model.neighbors_of(torch.tensor([rows[3]["input_ids"]]))
    assert nearest.rows[0, 0] == 3 and nearest.similarities[0, 0] == pytest.approx(1, abs=1e-5)
    assert not model.label_head.documents.values[2].any()


@torch.no_grad()
def test_centroids_are_the_mean_directions_of_the_documents_of_a_label_or_its_text():
    from models.families import FAMILIES

    model = next(family for family in FAMILIES if family.name == "neighbors-on-bert").build()
    documents = [[5, 6], [7, 8, 9], [6, 9]]
    rows = [{"input_ids": ids, "labels": labels} for ids, labels in zip(documents, ([0, 2], [2], [1]), strict=True)]
    store_neighbors(model, Dataset.from_list(rows), [[5]] * 5)
    vectors = torch.cat([model.encode(torch.tensor([ids])).values for ids in documents])
    of_text = model.encode(torch.tensor([[5]])).values[0]  # of labels without documents
    expected = torch.stack([vectors[0], vectors[2], vectors[:2].sum(dim=0), of_text, of_text])
    expected = torch.nn.functional.normalize(expected, dim=1)
    assert torch.allclose(model.label_head.centroids.values, expected, atol=1e-5)
    model.config.label_centroid_weight, model.config.label_text_weight = 1.0, 0.0
    text = torch.tensor([[7, 5]])
    scores = model(text).logits.sigmoid()[0]
    assert torch.allclose(scores, (model.encode(text).values @ expected.T)[0].clamp(min=0), atol=1e-5)
    chosen = choose_vote(model, Dataset.from_list(rows), ["label_centroid_weight"])
    assert chosen == {"label_centroid_weight": model.config.label_centroid_weight}
    assert model.config.label_centroid_weight in VOTE_GRID["label_centroid_weight"]  # 1.0 is not


def test_nothing_to_find_neighbors_by_is_refused():
    with pytest.raises(ValueError, match="None of the 2 training documents has a word"):
        stored([{"input_ids": [1], "labels": [0]}, {"input_ids": [], "labels": [1]}])
    model = NeighborsForXMTC(NeighborsConfig(vocab_size=12, num_labels=3))
    with pytest.raises(ValueError, match="There are 1 label texts, but the model has 3 labels"):
        store_neighbors(model, Dataset.from_list(DOCUMENTS), [[2]])

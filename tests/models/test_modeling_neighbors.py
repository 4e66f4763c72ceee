"""`NeighborsForXMTC`: votes by hand and against scikit-learn, labels found by their names, explanations, damaged files."""

import json

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from hf_xmtc import NeighborsConfig, NeighborsForXMTC, train_word_tokenizer
from hf_xmtc.models import neighbor_head, score_head
from models.families import FAMILIES, LONG, NUM_LABELS, SHORT, make_batch
from small_corpus import WORDS, make_documents

BOTH = [family for family in FAMILIES if family.name.startswith("neighbors")]


@pytest.fixture(params=BOTH, ids=lambda family: family.name)
def model(request):
    return request.param.build(label_names=list("abcde"))


@pytest.fixture
def of_words():
    return BOTH[0].build()


def three_documents(**settings) -> NeighborsForXMTC:
    """Documents of the words 1 2, 1 3 and 4 with labels 0; 0 and 1; and 2; all idf are 1. The label texts are 2, 3, 4, and 5."""
    config = NeighborsConfig(vocab_size=6, num_labels=4, **{"similarity_power": 2.0, "label_text_weight": 0.0, **settings})
    model = NeighborsForXMTC(config).eval()
    model.store([[1, 2], [1, 3], [4]], [[0], [1, 0], [2]], [[2], [3], [4], [5]])
    return model


@torch.no_grad()
@pytest.mark.parametrize(("power", "votes"), [(1.0, [1.0, 1 / 3, 0.0, 0.0]), (2.0, [1.0, 1 / 5, 0.0, 0.0])])
def test_votes_are_shares_of_the_similarities(power, votes):
    # The text 1 2 has the cosines 1, 1/2 and 0 with the documents.
    model, text = three_documents(similarity_power=power), torch.tensor([[1, 2]])
    assert model(text).logits.sigmoid()[0].tolist() == pytest.approx(votes, abs=3e-6)
    nearest = model.neighbors_of(text)
    assert nearest.rows.tolist() == [[0, 1, 2]]
    assert nearest.similarities[0].tolist() == pytest.approx([1.0, 0.5, 0.0])


@torch.no_grad()
@pytest.mark.parametrize("power", [32.0, 1000.0])
def test_documents_vote_however_little_they_share_with_a_text(power):
    # The text has one word of the first document among many others: 0.01 to the power is 0 in float32.
    config = NeighborsConfig(vocab_size=600, num_labels=2, similarity_power=power, label_text_weight=0.0)
    model = NeighborsForXMTC(config).eval()
    model.store([[1, *range(10, 110)], [2, *range(110, 210)]], [[0], [1]], [[3], [4]])
    text = torch.tensor([[1, *range(210, 590)]])
    assert 0 < model.neighbors_of(text).similarities[0, 0] < 0.01
    assert model(text).logits.sigmoid()[0].tolist() == pytest.approx([1.0, 0.0], abs=3e-6)


@torch.no_grad()
def test_only_the_nearest_documents_vote():
    model = three_documents(num_neighbors=1)
    assert model(torch.tensor([[1, 3, 3]])).logits.sigmoid()[0].tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0], abs=3e-6)
    assert model.neighbors_of(torch.tensor([[1, 3, 3]])).rows.tolist() == [[1]]


@torch.no_grad()
def test_of_equal_votes_the_more_frequent_label_comes_first():
    model = three_documents()
    model.store([[1, 2], [1, 3], [4]], [[0], [1], [1]], [[2], [3], [4], [5]])
    output = model(torch.tensor([[1]]), top_k=2)  # equally similar to the first two documents
    assert output.top_labels.tolist() == [[1, 0]] and output.top_scores[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-5)
    # A text without known words: by frequency, and nearly 0.
    output = three_documents()(torch.tensor([[0, 0]]), top_k=4)
    assert output.top_labels[0, 0] == 0 and output.top_scores.max() < 1e-5


@torch.no_grad()
def test_a_label_without_documents_is_found_by_its_name():
    model = three_documents(label_text_weight=0.25)
    output = model(torch.tensor([[5, 5]]), top_k=1)
    assert output.top_labels.tolist() == [[3]] and output.top_scores.item() == pytest.approx(0.25)
    # 3/4 of the votes 1, 1/5, and 1/4 of the cosine of the name.
    scores = model(torch.tensor([[1, 2]])).logits.sigmoid()[0]
    assert scores.tolist() == pytest.approx([0.75 + 0.25 * 0.5**0.5, 0.75 / 5, 0.0, 0.0], abs=3e-6)


@torch.no_grad()
def test_votes_are_those_of_scikit_learn():
    texts, labels = zip(*make_documents(60, 0), strict=True)
    queries = [text for text, _ in make_documents(20, 1)]
    tokenizer = train_word_tokenizer(list(texts))
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=r"(?u)\b\w+\b")
    stored, asked = vectorizer.fit_transform(texts), vectorizer.transform(queries)
    names = list(WORDS)
    model = NeighborsForXMTC(
        NeighborsConfig.for_tokenizer(tokenizer, label_names=names, num_neighbors=7, label_text_weight=0.0)
    )
    idf = dict(zip(vectorizer.get_feature_names_out(), vectorizer.idf_, strict=True))
    model.words.idf.copy_(
        torch.tensor([idf.get(word, 0.0) for word in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))])
    )
    read = {"padding": True, "return_tensors": "pt", "return_token_type_ids": False}
    label_ids = [[names.index(label) for label in row] for row in labels]
    model.store(tokenizer(list(texts))["input_ids"], label_ids, tokenizer(names)["input_ids"])
    found = model.eval()(**tokenizer(queries, **read)).logits.sigmoid().numpy()

    similarity, compared = (asked @ stored.T).toarray(), 0
    for row, near in enumerate(np.argsort(-similarity, axis=1, kind="stable")[:, :7]):
        weights = similarity[row, near] ** 2
        votes = np.zeros(len(names))
        for document, weight in zip(near, weights, strict=True):
            votes[label_ids[document]] += weight / weights.sum()
        kept = np.sort(similarity[row])[-8:]
        if kept[1] - kept[0] > 1e-6:  # else rounding decides which documents vote
            compared += 1
            assert found[row] == pytest.approx(votes, abs=1e-5)
    assert compared > 5


@torch.no_grad()
def test_the_product_of_mkl_and_chunks_change_nothing(model, monkeypatch):
    batch, labels = make_batch(model, [SHORT, LONG, [], SHORT[:1]]), torch.tensor([[0], [3], [1], [-100]])
    whole, best = model(**batch, labels=labels), model(**batch, labels=labels, top_k=2)
    monkeypatch.setattr("torch.backends.mkl.is_available", lambda: False)
    monkeypatch.setattr(score_head, "suitable_block_size", lambda *sizes: 3)
    torch.testing.assert_close(model(**batch, labels=labels).logits, whole.logits)
    found = model(**batch, labels=labels, top_k=2)
    assert torch.equal(found.top_labels, best.top_labels)
    for name in ("loss", "top_scores"):
        torch.testing.assert_close(found[name], best[name])


@torch.no_grad()
def test_words_add_up_to_the_score(of_words):
    batch = make_batch(of_words, [SHORT, LONG], left=True)
    labels = torch.tensor([[3, 1], [0, 2]])
    parts = of_words.token_weights(batch["input_ids"], batch["attention_mask"], labels)
    expected = of_words(**batch).logits.sigmoid().gather(1, labels)
    torch.testing.assert_close(parts.sum(dim=-1), expected, rtol=1e-4, atol=2e-5)
    repeated = of_words.token_weights(torch.tensor([[7, 9, 7]]), None, torch.tensor([[2]]))[0, 0]
    assert repeated[0] == repeated[2]


@torch.no_grad()
def test_known_labels_keep_their_scores_wherever_they_move(model, tmp_path):
    batch = make_batch(model, [SHORT, LONG])
    before = model(**batch).logits
    model.resize_labels(["new", "e", "b", "a"])
    after = model(**batch).logits
    torch.testing.assert_close(after[:, 1:], before[:, [4, 1, 0]])
    assert (after[:, 0] < -60).all()
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(type(model).from_pretrained(tmp_path)(**batch).logits, after)


@torch.no_grad()
def test_a_new_model_has_no_neighbors_and_no_scores():
    model = NeighborsForXMTC(NeighborsConfig(vocab_size=10, num_labels=NUM_LABELS))
    output = model(torch.tensor([[3, 4]]), top_k=2)
    assert output.top_labels.tolist() == [[0, 1]] and output.top_scores.max() < 1e-20
    assert model.neighbors_of(torch.tensor([[3, 4]])).rows.shape == (1, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_neighbors": 0}, "num_neighbors=0, but it must be at least 1"),
        ({"similarity_power": 0.0}, "similarity_power=0.0, but nearer documents must weigh more"),
        ({"label_text_weight": 1.5}, "label_text_weight=1.5 and label_centroid_weight=0.0, but they are shares"),
        ({"num_documents": -1}, "num_documents=-1, but it counts what is stored"),
    ],
)
def test_contradictory_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        NeighborsConfig(num_labels=2, **settings)


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("documents.texts", 10_000, "a word is in text 10000, but there are 8"),
        ("label_texts.texts", -1, "a word is in text -1, but there are 5"),
        ("documents.offsets", -1, "the words do not have"),
        ("label_ids", 5, "a document has label id 5 of 5"),
        ("label_offsets", 3, "the documents do not have"),
    ],
)
def test_damaged_documents_are_refused(of_words, tmp_path, name, number, message):
    of_words.label_head.get_buffer(name)[0] = number
    of_words.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"The training documents of .* are damaged: {message}"):
        type(of_words).from_pretrained(tmp_path)


def test_sizes_of_a_damaged_config_are_refused(of_words, tmp_path):
    of_words.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**saved, "num_documents": "many"}))
    with pytest.raises(ValueError, match="num_documents='many', but NeighborsConfig takes"):
        type(of_words).from_pretrained(tmp_path)


@torch.no_grad()
def test_centroids_are_means_of_the_documents_of_a_label_in_blocks_too(monkeypatch):
    monkeypatch.setattr(neighbor_head, "BLOCK_VECTORS", 2)
    head = BOTH[1].build().label_head
    assert len(head.label_ids) > 4
    for label in range(NUM_LABELS):
        rows = head.stored_documents.assignments.rows[head.label_ids == label]
        expected = torch.nn.functional.normalize(head.documents.values[rows].sum(dim=0), dim=0)
        if len(rows):
            torch.testing.assert_close(head.centroids.values[label], expected)


@torch.no_grad()
def test_a_document_that_leaves_itself_out_is_ranked_as_if_it_were_not_held(model):
    model.config.label_text_weight, centroids = 0.2, model.label_head.centroids is not None
    if centroids:
        model.config.label_centroid_weight = 0.3
    documents, labels = [LONG, SHORT, LONG[::-1], SHORT[:2] + LONG[:2]], [[0, 1], [1, 4], [0], [2]]
    names = [[word] for word in LONG[:NUM_LABELS]]
    for row, document in enumerate(documents):
        others = [place for place in range(4) if place != row]
        model.store([documents[place] for place in others], [labels[place] for place in others], names)
        batch = make_batch(model, [document])
        expected = model(**batch, top_k=NUM_LABELS)
        model.store(documents, labels, names)
        model.leaves_own_out = True
        output = model(**batch, top_k=NUM_LABELS)
        by_id = [found.top_scores.gather(1, found.top_labels.argsort(dim=1)) for found in (output, expected)]
        torch.testing.assert_close(*by_id, rtol=0, atol=1e-5)
        model.leaves_own_out = False
        assert (model(**batch, top_k=NUM_LABELS).top_scores - output.top_scores).abs().max() > 0.05
    model.label_head.digests.zero_()  # as older versions stored them
    model.leaves_own_out = True
    with pytest.raises(ValueError, match="stored by an older version, without digests"):
        model(**batch, top_k=3)
    model.leaves_own_out = False
    model.store(documents, labels, names)
    new = make_batch(model, [LONG[:3]])  # a text that is not held
    expected = model(**new, top_k=3)
    model.leaves_own_out = True
    output = model(**new, top_k=3)
    assert torch.equal(output.top_labels, expected.top_labels)
    torch.testing.assert_close(output.top_scores, expected.top_scores, rtol=0, atol=1e-5)

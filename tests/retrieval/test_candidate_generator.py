import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.feature_extraction.text import TfidfVectorizer

from hf_xmtc.retrieval import CandidateGenerator, candidate_recall
from hf_xmtc.retrieval.candidate_generator import VECTORIZER
from small_corpus import WORDS, make_documents

NAMES = list(WORDS)
DOCUMENTS = make_documents(60, seed=3)
TEXTS = [text for text, _ in DOCUMENTS]
LABELS = [[NAMES.index(label) for label in labels] for _, labels in DOCUMENTS]
NEW = [text for text, _ in make_documents(15, seed=9)]


@pytest.fixture(scope="module")
def generator() -> CandidateGenerator:
    return CandidateGenerator.fit(TEXTS, LABELS, num_labels=6, num_neighbors=5)


def votes_one_by_one(texts: list[str], left_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """The same from the definition, and whether a text's last voter is as near as the next one, so that either may vote."""
    vectorizer = TfidfVectorizer(min_df=2, max_df=1.0, max_features=200_000, **VECTORIZER).fit(TEXTS)
    training, queries = vectorizer.transform(TEXTS).toarray(), vectorizer.transform(texts).toarray()
    counts = np.bincount(np.concatenate(LABELS), minlength=6)
    tied, votes = np.zeros(len(texts), dtype=bool), np.zeros((len(texts), 6))
    for row, query in enumerate(queries):
        similarity = training @ query
        if left_out:
            similarity[row] = 0.0
        order = np.argsort(-similarity, kind="stable")
        tied[row] = np.isclose(*similarity[order[4:6]])
        for near in order[:5]:
            votes[row, LABELS[near]] += similarity[near] / similarity[order[:5]].sum()
    return np.minimum(votes + counts / (counts.max() * 1e6), 1.0), tied


@pytest.mark.parametrize("left_out", [False, True])
def test_votes_are_the_similarities_of_the_nearest_texts(generator, left_out):
    texts = TEXTS if left_out else NEW
    ids, votes = generator.candidates(texts, 6, training_rows=range(60) if left_out else None)
    expected, tied = votes_one_by_one(texts, left_out)
    assert tied.mean() < 0.5
    found = np.sort(votes, axis=1)[~tied]
    np.testing.assert_allclose(found, np.sort(expected, axis=1)[~tied], rtol=1e-4, atol=1e-5)
    assert (np.diff(votes, axis=1) <= 0).all()
    assert [set(row) for row in ids.tolist()] == [set(range(6))] * len(texts)


def test_a_text_that_shares_no_word_gets_frequent_labels_and_no_votes_to_speak_of(generator):
    ids, votes = generator.candidates(["", "zzz qqq"], 6)
    counts = np.bincount(np.concatenate(LABELS), minlength=6)
    assert (np.diff(counts[ids], axis=1) <= 0).all() and (votes > 0).all() and votes.max() <= 1e-6
    assert 0.2 < generator.candidates(NEW, 6)[1].max() <= 1.0


def test_a_training_text_does_not_vote_for_itself():
    texts, labels = ["a b c", "a b c", "x y z"], [[0], [1], [2]]
    generator = CandidateGenerator.fit(texts, labels, num_labels=3, num_neighbors=1, min_document_frequency=1)
    assert generator.candidates(texts, 1)[0][2].tolist() == [2]
    left_out, votes = generator.candidates(texts, 3, training_rows=range(3))
    assert left_out[0, 0] == 1 and left_out[1, 0] == 0  # each by the other
    assert votes[2].max() < 1e-5  # nobody else has its words: by frequency


def test_blocks_and_saving_change_nothing(generator, tmp_path, monkeypatch):
    expected = generator.candidates(TEXTS, 4, training_rows=range(60))
    some = generator.candidates([TEXTS[7], TEXTS[3]], 4, training_rows=[7, 3])
    np.testing.assert_array_equal(some[0], expected[0][[7, 3]])
    generator.save_pretrained(tmp_path)
    loaded = CandidateGenerator.from_pretrained(tmp_path)
    assert loaded.digest() == generator.digest()
    monkeypatch.setattr("hf_xmtc.retrieval.candidate_generator.BLOCK_NUMBERS", 60 * 7)
    for found in (generator, loaded):
        ids, votes = found.candidates(TEXTS, 4, training_rows=range(60))
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_allclose(votes, expected[1], rtol=1e-5)
    assert {path.name for path in (tmp_path / "candidates").iterdir()} == {"candidates.safetensors", "candidates.json"}


@pytest.mark.parametrize(
    ("texts", "num_neighbors"), [(["a", "b", "b a", "a"], 2), (["a", "b", "a", "b a"], 1)], ids=["texts", "neighbors"]
)
def test_the_digest_is_of_everything_that_candidates_depend_on(texts, num_neighbors):
    def fitted(texts, num_neighbors):
        return CandidateGenerator.fit(texts, [[0], [1], [0], [1]], 2, num_neighbors, min_document_frequency=1)

    first, other = fitted(["a", "b", "a", "b a"], 2), fitted(texts, num_neighbors)
    # Words, their weights and the labels are the same: which training text has which words, or how many vote, is not.
    assert first._words() == other._words() and np.array_equal(first.vectorizer.idf_, other.vectorizer.idf_)
    assert (first.labels != other.labels).nnz == 0 and first.digest() != other.digest()
    assert first.digest() == fitted(["a", "b", "a", "b a"], 2).digest()


@pytest.mark.parametrize("rows", [[[0], [1]], [0.5, 1.0], [True, False]])
def test_rows_that_are_no_row_numbers_are_refused(generator, rows):
    with pytest.raises(TypeError, match=r"training_rows has the shape .* but it is one row number for each text"):
        generator.candidates(NEW[:2], 3, training_rows=rows)


def test_one_text_is_no_list_of_texts(generator):
    with pytest.raises(TypeError, match=r"texts='cat song' is one text. Give a list of texts, such as \[text\]"):
        generator.candidates("cat song", 3)


def test_a_text_of_unknown_words_gets_the_most_frequent_labels(generator):
    counts = np.bincount(np.concatenate(LABELS), minlength=6)
    ids, _ = generator.candidates(["qwertz", ""], 3)
    expected = np.argsort(-counts, kind="stable")[:3].tolist()
    assert ids.tolist() == [expected, expected]


def test_recall_is_the_share_of_labels_that_are_candidates():
    candidates = np.array([[1, 2, -100], [5, -100, -100], [0, 1, 2]])
    assert candidate_recall(candidates, [[1, 7], [5], []]) == pytest.approx(0.75)
    with pytest.raises(ValueError, match="No document has a label"):
        candidate_recall(candidates, [[], [], []])
    with pytest.raises(ValueError, match="candidates for 3 documents and labels of 1"):
        candidate_recall(candidates, [[1]])


def test_labels_beyond_the_models_are_left_out():
    generator = CandidateGenerator.fit(["a b", "a b"], [[0, 9], [1]], num_labels=2, min_document_frequency=1)
    assert generator.candidates(["a b"], 5)[0].shape == (1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.candidates(NEW, 0), "k=0, but a text gets at least 1 candidate"),
        (
            lambda g: g.candidates(NEW, 3, training_rows=range(60)),
            "holds 60 rows for 15 texts, 0 of them none of the 60",
        ),
        (lambda g: g.candidates(NEW[:2], 3, training_rows=[0, 60]), "1 of them, such as 60, none of the 60"),
        (lambda g: g.candidates(NEW[:1], 3, training_rows=[-1]), "1 of them, such as -1, none of the 60"),
        (lambda g: CandidateGenerator.fit(TEXTS, LABELS[:2], 6), "60 texts and labels of 2"),
        (lambda g: CandidateGenerator.fit(TEXTS, LABELS, 6, num_neighbors=0), "num_neighbors=0"),
    ],
)
def test_what_makes_no_sense_is_refused(generator, call, message):
    with pytest.raises(ValueError, match=message):
        call(generator)


def test_a_folder_without_a_generator_is_said(tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=r"lacks candidates/candidates.safetensors or candidates/candidates.json .* Was the model trained with",
    ):
        CandidateGenerator.from_pretrained(tmp_path)


def test_recall_without_labels_that_training_never_saw():
    candidates = np.array([[1, 2], [0, 1]])
    assert candidate_recall(candidates, [[1, 9], [5]]) == pytest.approx(0.25)
    assert candidate_recall(candidates, [[1, 9], [5]], ignore_unseen=6) == pytest.approx(0.5)
    assert candidate_recall(candidates, [[1, 9], [5]], ignore_unseen=5) == 1.0  # the second document has no label left


def test_texts_without_words_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match="No word of the 2 training texts is left .* Are they empty"):
        CandidateGenerator.fit(["", ""], [[0], [0]], num_labels=1)


def _edited(array: np.ndarray, place: int, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


# What is done to the arrays of a folder of 60 texts and 6 labels → what is said.
DAMAGED_ARRAYS = {
    "label too large": (lambda a: {"labels.indices": _edited(a["labels.indices"], 3, 575)}, "labels.indices holds 575"),
    "label negative": (lambda a: {"labels.indices": _edited(a["labels.indices"], 0, -1)}, "labels.indices holds -1"),
    "word too large": (lambda a: {"documents.indices": _edited(a["documents.indices"], 0, 10**6)}, "holds 1000000"),
    "word negative": (lambda a: {"documents.indices": _edited(a["documents.indices"], 0, -7)}, "documents.indices holds -7"),
    "pointer back": (lambda a: {"labels.indptr": _edited(a["labels.indptr"], 5, 2**40)}, "labels.indptr"),
    "pointer start": (lambda a: {"documents.indptr": _edited(a["documents.indptr"], 0, 1)}, "documents.indptr"),
    "pointer end": (lambda a: {"labels.indptr": _edited(a["labels.indptr"], -1, 10**9)}, "labels.indptr"),
    "no pointer": (lambda a: {"labels.indptr": a["labels.indptr"][:0]}, "labels.indptr"),
    "fewer indices": (lambda a: {"documents.indices": a["documents.indices"][:-1]}, "documents.indices"),
    "fewer values": (lambda a: {"documents.data": a["documents.data"][:-1]}, "documents.data"),
    "fewer rows": (
        lambda a: {"labels.indptr": a["labels.indptr"][:-1], "labels.indices": a["labels.indices"]},
        "labels.indptr",
    ),
    "nan": (lambda a: {"documents.data": _edited(a["documents.data"], 2, np.nan)}, "documents.data"),
    "infinite": (lambda a: {"idf": _edited(a["idf"], 0, np.inf)}, "idf"),
    "negative": (lambda a: {"documents.data": _edited(a["documents.data"], 2, -0.5)}, "documents.data"),
    "idf of others": (lambda a: {"idf": a["idf"][:-1]}, "idf"),
    "table": (lambda a: {"labels.indices": a["labels.indices"][:, None]}, "labels.indices"),
    "floats": (lambda a: {"labels.indices": a["labels.indices"].astype(np.float32)}, "labels.indices"),
    "missing": (lambda a: {"labels.indices": None}, "labels.indices"),
}


@pytest.fixture
def damage(generator, tmp_path):
    """Write a generator's folder, with other arrays and settings, as a stranger could; a setting that is None is left out."""

    def write(arrays: dict | None = None, settings: dict | None = None):
        generator.save_pretrained(tmp_path)
        files = [tmp_path / "candidates" / name for name in ("candidates.safetensors", "candidates.json")]
        saved = {**load_file(files[0]), **(arrays or {})}
        save_file({name: array for name, array in saved.items() if array is not None}, files[0])
        if settings is not None or arrays is not None:
            kept = {**json.loads(files[1].read_text()), "digest": None, **(settings or {})}
            files[1].write_text(json.dumps({name: value for name, value in kept.items() if value is not None}))
        return files

    return write


@pytest.mark.parametrize("kind", DAMAGED_ARRAYS)
def test_arrays_are_checked_before_anything_is_computed(generator, damage, tmp_path, kind):  # AC-70
    change, message = DAMAGED_ARRAYS[kind]
    damage(change(generator._arrays()))
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        CandidateGenerator.from_pretrained(tmp_path)
    assert "candidates.safetensors" in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_labels": 1e12}, "num_labels is 1000000000000.0"),
        ({"num_labels": 10**12}, "num_labels is 1000000000000"),
        ({"num_labels": 5}, "labels.indices holds 5"),
        ({"num_labels": "6"}, "num_labels is '6'"),
        ({"num_labels": True}, "num_labels is True"),
        ({"num_neighbors": 0}, "num_neighbors is 0"),
        ({"num_neighbors": [5]}, r"num_neighbors is \[5\]"),
        ({"words": "cat"}, "words is 'cat'"),
        ({"words": ["cat", 5]}, "words"),
        ({"words": ["cat", "cat"]}, "words"),
        ({"words": []}, "words"),
        ({"words": None}, "lacks words"),
        ({"labels_digest": 5}, "labels_digest is 5"),
    ],
)
def test_settings_are_checked_before_anything_is_computed(damage, tmp_path, settings, message):  # AC-70
    damage(settings=settings)
    with pytest.raises(ValueError, match=message) as refused:
        CandidateGenerator.from_pretrained(tmp_path)
    assert "candidates." in str(refused.value)


def test_the_number_of_labels_is_that_of_the_model_beside_it(damage, tmp_path):  # AC-70
    damage(settings={"num_labels": 2**31 - 1})
    (tmp_path / "config.json").write_text('{"num_labels": 6}')
    with pytest.raises(ValueError, match=r"candidates.json has num_labels=2147483647 but config.json beside it has 6"):
        CandidateGenerator.from_pretrained(tmp_path)


@pytest.mark.parametrize("content", ["", "[1]", '"x"', "null", "{", '{"a"', "[" * 100_000, b"\xff\xfe", "{}"])
def test_settings_that_cannot_be_read_are_said(damage, tmp_path, content):  # AC-70
    _, file = damage()
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        ValueError, match=r"candidates\.json (is not valid JSON .* Copy|lacks num_labels|must hold a JSON object)"
    ):
        CandidateGenerator.from_pretrained(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 200, -1])
def test_a_cut_file_is_said(damage, tmp_path, size):  # AC-70
    file, _ = damage()
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"candidates\.safetensors \(\d+ bytes\) is not a sound safetensors file"):
        CandidateGenerator.from_pretrained(tmp_path)


def test_a_changed_bit_is_noticed_where_every_value_is_possible(damage, generator, tmp_path):
    file, settings = damage()
    halved = generator._arrays()["idf"] / 2
    save_file({**load_file(file), "idf": halved}, file)
    with pytest.raises(ValueError, match=r"candidates.safetensors is not the file that was saved with candidates.json"):
        CandidateGenerator.from_pretrained(tmp_path)
    # Folders of earlier versions say no digest.
    settings.write_text(
        json.dumps({name: value for name, value in json.loads(settings.read_text()).items() if name != "digest"})
    )
    np.testing.assert_array_equal(CandidateGenerator.from_pretrained(tmp_path).vectorizer.idf_, halved)


@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        (None, lambda m: m[:-1], "documents has 60 rows and labels 59"),
        (lambda m: m[:, :-1], None, "but the vectorizer knows"),
        (None, lambda m: m.tocsc(), "labels is a csc_array"),
        (None, lambda m: m.toarray(), "labels is a ndarray"),
        (None, lambda m: _with_indices(m, 9), "labels.indices holds 9"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(generator, documents, labels, message):  # AC-70
    documents, labels = (
        (change or (lambda m: m))(m) for change, m in ((documents, generator.documents), (labels, generator.labels))
    )
    with pytest.raises(ValueError, match=message):
        CandidateGenerator(generator.vectorizer, documents, labels)


def _with_indices(matrix, index: int):
    matrix = matrix.copy()
    matrix.indices[-1] = index
    return matrix

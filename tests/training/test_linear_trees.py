"""Trees that omikuji trains give the scores that omikuji gives."""

import sys
from pathlib import Path

import numpy as np
import omikuji
import pytest
import torch
from datasets import Dataset

from hf_xmtc import BonsaiConfig, BonsaiForXMTC, DiSMECConfig, DiSMECForXMTC, ParabelConfig, ParabelForXMTC
from hf_xmtc.models import linear_tree_head
from hf_xmtc.models.linear_tree_head import ABSENT
from hf_xmtc.models.tf_idf import WordValues
from hf_xmtc.training import linear_trees
from hf_xmtc.training.linear_trees import check_omikuji, train_linear_trees

NUM_WORDS, NUM_LABELS, UNKNOWN = 60, 24, 1
FAMILIES = {
    "parabel": (ParabelForXMTC, ParabelConfig, {"num_clusters": 2, "min_branch_size": 4}),
    "bonsai": (BonsaiForXMTC, BonsaiConfig, {"num_clusters": 4, "min_branch_size": 4}),
    "dismec": (DiSMECForXMTC, DiSMECConfig, {}),
}


def documents(number: int, seed: int) -> Dataset:
    """Each label has a word of its own, between others; every fifth document has no label and every seventh no word."""
    draw = np.random.default_rng(seed)
    rows = {"input_ids": [], "labels": []}
    for row in range(number):
        labels = sorted({int(label) for label in draw.integers(0, NUM_LABELS - 1, draw.integers(1, 4))})
        words = [2 + label for label in labels] * 2 + draw.integers(1, NUM_WORDS, 8).tolist()
        rows["labels"].append(labels if row % 5 else [])
        rows["input_ids"].append(words if row % 7 else [])
    return Dataset.from_dict(rows)


def train(family: str, num_labels: int = NUM_LABELS, data: Dataset | None = None, folder: Path | None = None, **settings):
    model_class, config_class, sizes = FAMILIES[family]
    config = config_class(vocab_size=NUM_WORDS, num_labels=num_labels, **{**sizes, **settings})
    model = model_class(config).eval()
    data = documents(120, 0) if data is None else data
    return model, train_linear_trees(model, data, unread_ids=(0, UNKNOWN), omikuji_folder=folder)


def padded(rows: Dataset) -> dict[str, torch.Tensor]:
    length = max(map(len, rows["input_ids"]))
    ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows["input_ids"]])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def _matrix(model, rows: Dataset) -> np.ndarray:
    words = model.words(**padded(rows))
    matrix = np.zeros((len(rows), NUM_WORDS))
    matrix[words.documents, words.words] = words.values
    return matrix


def _pairs(words: WordValues) -> list[tuple[int, float]]:
    return [(w, v) for w, v in zip(words.words.tolist(), words.values.tolist(), strict=True) if v > 0]


@torch.no_grad()
@pytest.mark.parametrize(
    ("family", "node_loss", "beam_width"),
    [
        ("parabel", "squared_hinge", None),
        ("parabel", "log", None),
        ("bonsai", "squared_hinge", None),
        ("bonsai", "log", None),
        # omikuji scores no more labels of a leaf than the beam is wide, and of equal nodes it takes any: neither happens here.
        ("parabel", "log", 4),
    ],
)
def test_scores_are_those_of_omikuji(tmp_path, family, node_loss, beam_width):
    model, _ = train(family, folder=tmp_path, node_loss=node_loss, beam_width=beam_width)
    original, rows = omikuji.Model.load(str(tmp_path)), documents(20, 1)
    scores = model(**padded(rows)).logits.sigmoid()
    assert model.config.level_sizes and model.config.num_weights == len(model.label_head.weights) > 0
    for ids, row in zip(rows["input_ids"], scores, strict=True):
        words = model.words(torch.tensor([ids], dtype=torch.long))
        expected = np.zeros(NUM_LABELS)
        for label, score in original.predict(_pairs(words), beam_size=beam_width or 1000, top_k=NUM_LABELS):
            expected[label] = score
        assert np.abs(row.numpy() - expected).max() < 1e-5


@torch.no_grad()
def test_one_vs_all_is_the_linear_svm_of_scikit_learn():
    svm = pytest.importorskip("sklearn.svm")
    rows = documents(120, 0).filter(lambda row: row["labels"] and any(word > UNKNOWN for word in row["input_ids"]))
    model, _ = train("dismec", weight_threshold=0.0, node_cost=1.0, data=rows)
    features, head = _matrix(model, rows), model.label_head
    words = torch.arange(NUM_WORDS).repeat_interleave(head.offsets.diff())
    weights = np.zeros((NUM_LABELS, NUM_WORDS))
    weights[head.columns, words] = head.weights
    new = documents(200, 1).filter(lambda row: any(word > UNKNOWN for word in row["input_ids"]))
    margins = []
    for label in range(NUM_LABELS - 1):  # no document has the last one
        exact = svm.LinearSVC(C=model.config.node_cost, tol=1e-8).fit(
            features, [label in labels for labels in rows["labels"]]
        )
        assert np.abs(weights[label] - exact.coef_).max() < 0.1
        margins.append(exact.decision_function(_matrix(model, new)))
    found = model(**padded(new)).logits[:, :-1].numpy() / 4
    assert np.abs(found - np.stack(margins, axis=1)).max() < 0.1
    assert np.mean(found.argmax(axis=1) == np.argmax(margins, axis=0)) > 0.9


def test_small_weights_of_one_vs_all_are_left_out():
    model, _ = train("dismec")
    assert 0 < model.label_head.weights.abs().min() >= model.config.weight_threshold == 0.01
    assert model.config.num_weights < train("dismec", weight_threshold=0.0)[0].config.num_weights


@torch.no_grad()
def test_a_beam_of_equal_nodes_is_that_of_omikuji_where_no_equal_one_is_left_out(tmp_path, monkeypatch):
    model, _ = train("parabel", folder=tmp_path, beam_width=4)
    original, best, left_out = omikuji.Model.load(str(tmp_path)), linear_tree_head._best, []

    def observed(level, k):
        if level.shape[1] > k:
            values = level.topk(k + 1, dim=1).values[0]
            left_out.append(values[k] == values[k - 1])
        return best(level, k)

    monkeypatch.setattr(linear_tree_head, "_best", observed)
    compared = equal = 0
    for ids in filter(None, documents(80, 1)["input_ids"]):
        left_out.clear()
        scores = model(torch.tensor([ids])).logits.sigmoid()[0]
        if any(left_out):
            equal += 1
            continue
        words = model.words(torch.tensor([ids]))
        expected = np.zeros(NUM_LABELS)
        for label, score in original.predict(_pairs(words), beam_size=4, top_k=NUM_LABELS):
            expected[label] = score
        assert np.abs(scores.numpy() - expected).max() < 1e-5
        compared += 1
    assert compared > 10, (compared, equal)


@torch.no_grad()
def test_tf_idf_is_that_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    rows = documents(30, 2)
    model, _ = train("bonsai", data=rows)
    vectorizer = text.TfidfVectorizer(
        token_pattern=r"\d+", sublinear_tf=True, vocabulary=[str(word) for word in range(NUM_WORDS)]
    )
    texts = [" ".join(str(word) for word in ids if word > UNKNOWN) for ids in rows["input_ids"]]
    expected = vectorizer.fit_transform(texts).toarray()
    assert np.abs(_matrix(model, rows) - expected).max() < 1e-6


@torch.no_grad()
def test_a_label_without_documents_is_scored_and_never_predicted():
    model, _ = train("parabel")  # no document has the last label
    assert (model.label_head.bias.view(-1)[[NUM_LABELS * tree - 1 for tree in (0,)]] == ABSENT).all()
    logits = model(**padded(documents(10, 1))).logits
    assert logits.isfinite().all() and (logits[:, -1] < -60).all()
    assert all(
        sorted(set(row)) == sorted(row) for row in model(**padded(documents(10, 1)), top_k=NUM_LABELS).top_labels.tolist()
    )


@torch.no_grad()
@pytest.mark.parametrize("num_labels", [1, 2, 3, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_few_labels_that_look_alike_are_trained(family, num_labels):
    same = Dataset.from_dict({"input_ids": [[2, 3]] * 6, "labels": [list(range(num_labels))] * 6})
    sizes = {} if family == "dismec" else {"min_branch_size": 100}
    model, _ = train(family, num_labels, same, **sizes)
    assert (model(**padded(same)).logits > 0).all()


def test_a_wide_beam_changes_nothing_and_a_narrow_one_leaves_labels_out():
    model, _ = train("parabel")
    batch = padded(documents(10, 1))
    with torch.no_grad():
        exhaustive = model(**batch).logits
        model.label_head.beam_width = 100
        assert torch.equal(model(**batch).logits, exhaustive)
        model.label_head.beam_width = 1
        narrow = model(**batch).logits
    assert (narrow <= exhaustive + 1e-4).all() and (narrow < exhaustive - 1).any()


def test_costs_are_reported_and_data_without_words_refused():
    _, costs = train("bonsai")
    assert set(costs) == {"seconds", "documents_per_second", "parameters"}
    with pytest.raises(ValueError, match="None of the 2 training documents has both a label and a word"):
        train("bonsai", data=Dataset.from_dict({"input_ids": [[1], [2]], "labels": [[0], []]}))


def test_a_failure_of_omikuji_shows_what_it_said(monkeypatch):
    monkeypatch.setattr(linear_trees, "_omikuji_settings", lambda config: {"n_trees": -1})
    with pytest.raises(RuntimeError, match=r"omikuji could not train the trees \(exit status 1\):[\s\S]*OverflowError"):
        train("bonsai")


def test_files_with_the_names_of_libraries_are_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for library in ("json", "omikuji"):
        (tmp_path / f"{library}.py").write_text("raise SystemExit('a stray file was run')")
    train("bonsai")


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "omikuji", None)
    with pytest.raises(ImportError, match=r"trained by `omikuji`: pip install 'hf_xmtc\[tree\]'"):
        check_omikuji()

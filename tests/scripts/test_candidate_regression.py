"""The regression's features are what they are called, and it ranks candidates better than votes that say nothing."""

import json

import numpy as np
import pytest

from candidate_regression import FEATURES, CandidateFeatures, main
from hf_xmtc.commands.train import main as train
from hf_xmtc.models.label_names import LabelNames
from small_corpus import write_corpus

TEXTS = ["cat dog", "dog cat bird", "red blue", "blue green red", "bird red cat"]
LABELS = [[0], [0, 1], [2], [2], [1, 2]]
NAMES = LabelNames(["a", "b", "c"], ["dog", "the bird", "re"])


@pytest.mark.parametrize("leave_out", [False, True])
def test_features_are_those_of_each_text_and_candidate(leave_out):
    features = CandidateFeatures(TEXTS, LABELS, NAMES)
    ids, votes = np.array([[0, 1, 2]] * 5), np.full((5, 3), 0.5)
    found = features.of(TEXTS, ids, votes, np.arange(5) if leave_out else None)
    vectors, names = features.vectorizer.transform(TEXTS).toarray(), features.vectorizer.transform(["dog", "the bird", "re"])
    for row, vector in enumerate(vectors):
        for label in range(3):
            of_label = [text for text in range(5) if label in LABELS[text] and not (leave_out and text == row)]
            mean = vectors[of_label].sum(0)
            expected = [
                np.log(0.5 + 1e-4),
                vector @ mean / max(np.linalg.norm(mean), 1e-6),
                vector @ names.toarray()[label],
                np.log1p(len(of_label)),
                ["dog" in TEXTS[row].split(), False, False][label],
            ]
            np.testing.assert_allclose(found[row, label], expected, atol=1e-5, err_msg=f"{row}, {label}")


def test_it_ranks_the_candidates_of_a_model(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", train=60, validation=20, test=20)
    train(["--model_family", "neighbors", "--dataset", str(corpus), "--output_dir", str(tmp_path / "neighbors")])
    source = ["--dataset", str(corpus), "--candidates_from", str(tmp_path / "neighbors")]
    main([*source, "--num_candidates", "4", "--max_train_documents", "50", "--output_dir", str(tmp_path / "regression")])
    metrics, recipe, generator = (
        json.loads((tmp_path / name).read_text())
        for name in ("regression/metrics.json", "regression/recipe.json", "neighbors/metrics.json")
    )
    assert metrics["test"]["nDCG@5"] > 0.8 and metrics["test"]["R@5"] <= 1
    assert metrics["test"]["nDCG@5"] > generator["test"]["nDCG@5"] - 0.05
    assert recipe["candidates_from"] == "neighbors" and tuple(recipe["coefficients"]) == FEATURES
    with pytest.raises(SystemExit):  # a folder that holds a run is not overwritten by another
        main([*source, "--num_candidates", "3", "--output_dir", str(tmp_path / "neighbors")])

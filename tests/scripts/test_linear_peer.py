"""The linear peer ranks as plain scikit-learn does, and is measured as the neural models are."""

import json
import runpy
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

import linear_peer
from hf_xmtc import label_info_of, load_xmtc_dataset
from hf_xmtc.commands.data_loading import content_digest
from hf_xmtc.commands.output_folder import OutputFolder
from hf_xmtc.metrics import precision_at_k
from linear_peer import LinearPeer, Settings, choose_settings, evaluate, evaluate_sets, main, run

pytestmark = pytest.mark.filterwarnings("ignore:.* occurs only in evaluation data")

TEXTS = [
    "play music",
    "play a game of chess",
    "edit music scores",
    "edit text",
    "play sound and music",
    "chess engine",
    "text tool",
]
POSITIVES = [[0], [1], [0, 2], [2, 3], [0], [1], [3]]
NEW_TEXTS = ["music editor edit music", "a chess game", "text", "nothing known here"]


def _brute_force(settings: Settings, num_labels: int) -> list[list[int]]:
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, settings.ngrams), min_df=settings.min_df)
    features, new = vectorizer.fit_transform(TEXTS), vectorizer.transform(NEW_TEXTS)
    values = np.empty((len(NEW_TEXTS), num_labels))
    for label_id in range(num_labels):
        target = [label_id in ids for ids in POSITIVES]
        values[:, label_id] = LinearSVC(C=settings.C, random_state=0).fit(features, target).decision_function(new)
    return [sorted(range(num_labels), key=lambda label_id: (-row[label_id], label_id)) for row in values]


@pytest.mark.parametrize("settings", [Settings(1, 1, 1.0), Settings(2, 1, 0.5), Settings(1, 2, 2.0)])
def test_ranking_equals_one_svm_at_a_time(settings):
    expected = _brute_force(settings, num_labels=4)
    for block_documents in (1, 3, 100):
        peer = LinearPeer(settings, num_labels=4, block_documents=block_documents).fit(TEXTS, POSITIVES)
        assert peer.top_labels(NEW_TEXTS, k=4).tolist() == expected
    assert peer.top_labels(NEW_TEXTS, k=2).tolist() == [row[:2] for row in expected]
    assert peer.top_labels(NEW_TEXTS, k=9).shape == (4, 4)


def test_a_label_without_documents_comes_last_and_one_of_all_documents_first():
    positives = [[*ids, 5] for ids in POSITIVES]  # 4 has no document, 5 has all; 7 is no label of the model
    positives[0].append(7)
    peer = LinearPeer(Settings(1, 1, 1.0), num_labels=6).fit(TEXTS, positives)
    ranking = peer.top_labels(NEW_TEXTS, k=6)
    assert ranking[:, 0].tolist() == [5] * 4 and ranking[:, -1].tolist() == [4] * 4
    assert ranking[:, 1:5].tolist() == _brute_force(Settings(1, 1, 1.0), num_labels=4)


def test_label_ids_above_255_are_kept_apart():
    positives = [[ids[0] + 300] for ids in POSITIVES]
    peer = LinearPeer(Settings(1, 1, 1.0), num_labels=400).fit(TEXTS, positives)
    assert peer.top_labels(["chess", "music"], k=1).tolist() == [[301], [300]]


def test_parameters_are_a_weight_per_word_and_an_intercept_per_label():
    peer = LinearPeer(Settings(1, 1, 1.0), num_labels=2).fit(["red apple", "green pear"], [[0], [1]])
    assert peer.num_parameters == (4 + 1) * 2


@pytest.fixture
def data(tmp_path):
    """Labels 0 … 3 as strings; the test split has a label that training never saw."""
    names = ["music", "chess", "editing", "text"]
    train = {"text": TEXTS, "labels": [[names[label_id] for label_id in ids] for ids in POSITIVES]}
    validation = {"text": ["music", "chess game"], "labels": [["music"], ["chess"]]}
    test = {"text": ["music", "chess game"], "labels": [["music"], ["chess", "unseen"]]}
    for split, columns in (("train", train), ("validation", validation), ("test", test)):
        pq.write_table(pa.table(columns), tmp_path / f"{split}.parquet")
    return load_xmtc_dataset(tmp_path, cache_dir=tmp_path / "cache")


def test_run_reports_in_the_form_of_the_training_script(data):
    metrics, recipe = run(data, [Settings(1, 1, 1.0)])
    assert metrics["validation"]["P@1"] == 1.0 and metrics["test"]["P@1"] == 1.0
    # Of three test labels one is unseen and counts as missed: recall is 1 and 1/2.
    assert metrics["test"]["R@5"] == pytest.approx(0.75)
    assert 0 < metrics["test"]["PSP@1"] < 1  # the unseen label weighs most in the best possible value
    assert {"seconds", "choosing_seconds", "parameters", "peak_memory_mb", "threads"} <= set(metrics["train"])
    assert recipe["C"] == 1.0 and recipe["ngrams"] == 1 and recipe["dataset"] == label_info_of(data).source


def test_sets_are_the_labels_above_a_threshold_tuned_on_validation(data):
    label_ids = {name: id_ for id_, name in enumerate(label_info_of(data).names.labels)}
    peer = LinearPeer(Settings(1, 1, 1.0), 4)
    peer.decision_values = lambda texts: [  # a text's own label first, none above 0
        np.where(np.arange(4) == label_ids["music" if "music" in text else "chess"], -0.2, -0.8)[None] for text in texts
    ]
    reports = evaluate_sets(peer, data, np.ones(4))
    assert reports["validation"]["micro_f1"] == 1.0
    assert reports["test"]["micro_recall"] == pytest.approx(2 / 3)  # the label that training never saw is missed
    metrics, recipe = run(data, [Settings(1, 1, 1.0)], measure_sets=True)
    assert metrics["validation"]["micro_f1"] == 1.0 and recipe["tune_threshold"] == "global"


def test_settings_are_chosen_on_validation_and_the_first_of_equals_stays(data):
    weights = np.ones(5)
    # Only "play" and "music" occur in 3 documents, so the first setting cannot see chess.
    blind, seeing, also_seeing = Settings(1, 3, 1.0), Settings(1, 1, 1.0), Settings(1, 1, 2.0)
    assert choose_settings(data, 4, weights, [blind, seeing, also_seeing]) == seeing
    peer = LinearPeer(seeing, 4).fit(data["train"]["text"][:], data["train"]["labels"][:])
    top_labels = peer.top_labels(data["validation"]["text"][:], k=1)
    expected = precision_at_k(top_labels, data["validation"]["labels"][:], 1)
    assert evaluate(peer, data["validation"], weights)["P@1"] == expected


def test_labels_that_are_left_out_are_no_predictions(data):
    peer = LinearPeer(Settings(1, 1, 1.0), 4).fit(data["train"]["text"][:], data["train"]["labels"][:])
    music, chess = (data["validation"]["labels"][row][0] for row in (0, 1))
    documents = data["validation"].remove_columns("labels").add_column("labels", [[chess], [music]])
    assert evaluate(peer, documents, np.ones(5))["P@1"] == 0.0
    ranked = peer.top_labels(documents["text"][:], 4).tolist()
    before = [row[: row.index(gold)] for row, gold in zip(ranked, (chess, music), strict=True)]
    assert evaluate(peer, documents.add_column("filter_labels", before), np.ones(5))["P@1"] == 1.0


@pytest.fixture
def small_run(data, monkeypatch):
    """The command on the small data with one setting; afterwards, how often it was run."""
    runs = []
    monkeypatch.setattr(linear_peer, "load_xmtc_dataset", lambda name: runs.append(name) or data)
    monkeypatch.setattr(linear_peer, "GRID", [Settings(1, 1, 1.0)])
    return runs


def test_the_command_writes_metrics_and_recipe_and_never_over_a_finished_folder(small_run, data, tmp_path):
    folder = tmp_path / "out" / "svm"
    main(["--output_dir", str(folder)])
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.json", "recipe.json"]
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    assert recipe["model_family"] == "linear_svm" and recipe["data_digest"] == content_digest(data, label_info_of(data))
    assert json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["test"]["P@1"] == 1.0
    with pytest.raises(SystemExit, match="FileExistsError: .*svm holds a finished model. Choose another --output_dir"):
        main(["--output_dir", str(folder)])
    assert small_run == ["demo"]


def test_the_command_leaves_an_unfinished_neural_run_alone(small_run, tmp_path):
    folder = OutputFolder(tmp_path / "run")
    folder.begin({"model_family": "bertxml"})
    (folder.checkpoints / "checkpoint-1").mkdir(parents=True)
    (folder.checkpoints / "checkpoint-1" / "trainer_state.json").write_text("{}")
    with pytest.raises(SystemExit, match="model_family was 'bertxml' and is now 'linear_svm'"):
        main(["--output_dir", str(folder.path)])
    assert small_run == [] and not (folder.path / "metrics.json").exists()


def test_the_script_opens_where_there_is_no_resource_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert runpy.run_path(linear_peer.__file__)["CHOOSE_BY"] == "nDCG@5"

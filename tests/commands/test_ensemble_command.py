"""`hf-xmtc ensemble`: two trained models become one folder, two prediction files one file."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from predicted import rows_of
from transformers import pipeline

from hf_xmtc.cli import main as cli
from hf_xmtc.commands import ensemble, export_check
from hf_xmtc.commands.ensemble import ensemble_files, ensemble_folders
from hf_xmtc.commands.predict import PredictArguments, predict_file
from hf_xmtc.hub import check_model_folder


@pytest.fixture(scope="module")
def parts(train, tmp_path_factory):
    """Two models of the small corpus with tokenizers of other limits."""
    root = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_check, "check_reopens", lambda *args, **settings: 0.0)
        train(root / "bert", cornet_num_blocks=0)
        sizes = "embedding_size=8,num_filters=4,bottleneck_size=8"
        of_bert = {"cornet_context_size": None, "num_cls_tokens": None}
        cnn = {"model_family": "xmlcnn", "config_overrides": sizes, "max_length_tokens": 12, "cornet_num_blocks": 0}
        train(root / "cnn", **of_bert, **cnn)
    return [root / "bert", root / "cnn"]


@pytest.fixture
def unopened(monkeypatch):
    """Leave out opening the folder in a fresh process, which takes seconds."""
    monkeypatch.setattr(ensemble, "check_reopens", lambda *args, **settings: 0.0)


def test_two_models_become_one_folder(parts, tmp_path, capsys):
    folder = tmp_path / "together"
    assert cli(["ensemble", *map(str, parts), "--output_dir", str(folder), "--num_trials", "20"]) == 0
    said = capsys.readouterr().out
    assert "tuned" in said and "labels in common" in said and f"hf-xmtc predict --model {folder} " in said
    chosen = json.loads((folder / "config.json").read_text())["parts"]
    shown = [f"{name} {part['weight']:.2f} (exponent {part['exponent']:g})" for name, part in chosen.items()]
    assert f"Weights: {', '.join(shown)}." in said
    report = check_model_folder(folder)
    assert report.problems == [] and report.left_out == []
    metrics = json.loads((folder / "metrics.json").read_text())
    validation, test = metrics["comparison"]["validation"], metrics["comparison"]["test"]
    assert list(validation) == ["bert", "cnn", "consensus", "mean_score", "mean_rank", "tuned"]
    assert list(test) == ["bert", "cnn", "tuned"] and "PSP@5" in test["tuned"]
    assert validation["tuned"]["nDCG@5"] >= max(validation[name]["nDCG@5"] for name in ("bert", "cnn", "mean_score"))
    # The parts' own metrics are those that their training has measured.
    for name, path in zip(("bert", "cnn"), parts, strict=True):
        own = json.loads((path / "metrics.json").read_text())
        for split, table in metrics["comparison"].items():
            assert {key: own[split][key] for key in table[name]} == pytest.approx(table[name])
    assert metrics["test"]["nDCG@5"] == pytest.approx(test["tuned"]["nDCG@5"])
    assert metrics["by_frequency"]["split"] == "test"
    card = (folder / "README.md").read_text()
    assert "## Frequent and rare labels" in card and "| torso |" in card
    assert "An ensemble of 2 models (`bertxml`, `xmlcnn`)" in card and "| tuned |" in card and "| bert, cnn |" in card
    stored = pq.read_table(folder / "predictions" / "test.parquet").to_pylist()
    assert (
        len(stored) == 7
        and len(stored[0]["labels"]) == 6
        and stored[0]["scores"] == sorted(stored[0]["scores"], reverse=True)
    )


def test_the_folder_answers_what_was_measured(parts, corpus_folder, tmp_path, unopened):
    folder = tmp_path / "together"
    ensemble_folders(parts, folder, "consensus")
    texts = pq.read_table(next(corpus_folder.glob("test*.parquet")))["text"].to_pylist()
    pq.write_table(pa.table({"text": texts}), tmp_path / "texts.parquet")
    output = tmp_path / "tags.parquet"
    predict_file(
        PredictArguments(model=str(folder), input=str(tmp_path / "texts.parquet"), output=str(output), device="cpu", top_k=6)
    )
    stored = pq.read_table(folder / "predictions" / "test.parquet").to_pylist()
    for row, found in zip(stored, rows_of(output), strict=True):
        assert row["labels"] == found["labels"]
        np.testing.assert_allclose(row["scores"], found["scores"], atol=1e-5)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, device="cpu")
    assert [entry["label"] for entry in tagger(texts[0])] == stored[0]["labels"][:5]
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["method"] == "consensus" and "metric" not in recipe and "weight" not in recipe["parts"]["bert"]


def test_prediction_files_become_one(parts, tmp_path, capsys):
    files = [str(part / "predictions" / "test.parquet") for part in parts]
    cli(["ensemble", "--predictions", *files, "--output_dir", str(tmp_path / "e"), "--method", "mean_score"])
    assert "% of their first 5 labels in common" in capsys.readouterr().out
    rows = pq.read_table(tmp_path / "e" / "predictions.parquet").to_pylist()
    own = [rows_of(file) for file in files]
    for row, first, second in zip(rows, *own, strict=True):
        scores = [dict(zip(entry["labels"], entry["scores"], strict=True)) for entry in (first, second)]
        expected = {label: (scores[0][label] + scores[1][label]) / 2 for label in scores[0]}
        assert dict(zip(row["labels"], row["scores"], strict=True)) == pytest.approx(expected, abs=1e-6)
        assert set(row["gold"]) == set(first["gold"])
    metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
    assert list(metrics["comparison"]["documents"]) == ["bert", "cnn", "mean_score"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["x/bonsai-2", "y/bonsai", "z/bonsai"], ["bonsai-2", "bonsai", "bonsai-3"]),
        (["x/a", "y/A", "z/a", "z/a-2"], ["a", "A-2", "a-3", "a-2-2"]),  # which some file systems do not tell apart
        (["x/consensus", "y/tuned", "z/..."], ["consensus-2", "tuned-2", "part"]),  # rows of the comparison have these names
    ],
)
def test_names_of_parts_are_distinct(paths, names):
    assert ensemble._part_names([Path(path) for path in paths]) == names


def test_folders_with_like_names_are_all_combined(parts, tmp_path, unopened):
    folders = [copy_of(part, tmp_path / name) for part, name in zip(parts, ("x/bonsai-2", "y/bonsai"), strict=True)]
    ensemble_folders(folders, tmp_path / "e", "consensus")
    config = json.loads((tmp_path / "e" / "config.json").read_text())
    assert {name: part["model_type"] for name, part in config["parts"].items()} == {
        "bonsai-2": "bertxml",
        "bonsai": "xmlcnn",
    }


def cut_predictions(folder, k):
    """Leave the best k labels of each document in a model folder."""
    for split in ("validation", "test"):
        path = folder / "predictions" / f"{split}.parquet"
        rows = pq.read_table(path).to_pylist()
        columns = {name: [row[name][:k] if name in ("labels", "scores") else row[name] for row in rows] for name in rows[0]}
        pq.write_table(pa.table(columns), path)


def test_a_part_with_few_candidates_does_not_cut_the_others(parts, tmp_path, unopened):
    narrow = copy_of(parts[1], tmp_path / "narrow")  # as of a label tree
    cut_predictions(narrow, 3)
    ensemble_folders([parts[0], narrow], tmp_path / "e", "mean_rank")
    assert json.loads((tmp_path / "e" / "config.json").read_text())["depth"] == 6
    stored = pq.read_table(tmp_path / "e" / "predictions" / "test.parquet").to_pylist()
    assert {len(row["labels"]) for row in stored} == {6}
    # The last label of the whole ranking gets 1/6 and 0.
    best = pq.read_table(parts[0] / "predictions" / "test.parquet").to_pylist()
    for row, of_part in zip(stored, best, strict=True):
        scores = dict(zip(row["labels"], row["scores"], strict=True))
        assert min(scores.values()) >= 1 / 12 - 1e-6 and scores[of_part["labels"][0]] >= 0.5


def test_what_a_part_did_not_keep_is_not_combined(parts, tmp_path, unopened):
    shorter = copy_of(parts[1], tmp_path / "shorter")
    cut_predictions(shorter, 5)
    recipe = json.loads((shorter / "recipe.json").read_text())
    (shorter / "recipe.json").write_text(json.dumps({**recipe, "eval_top_k": 5}))
    ensemble_folders([parts[0], shorter], tmp_path / "e", "consensus")
    assert json.loads((tmp_path / "e" / "config.json").read_text())["depth"] == 5


def test_a_folder_that_lacks_a_part_is_not_finished(parts, tmp_path, unopened, monkeypatch):
    save = ensemble._save

    def lose_a_part(model, output, *settings):
        save(model, output, *settings)
        shutil.rmtree(output / "parts" / "cnn")

    monkeypatch.setattr(ensemble, "_save", lose_a_part)
    with pytest.raises(RuntimeError, match="2 model folders were given, but .* has 1 part"):
        ensemble_folders(parts, tmp_path / "e", "consensus")
    assert not (tmp_path / "e" / "metrics.json").exists()


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def rows_with_gold(rng, num_documents):
    """Random rankings of 20 labels, and true labels that have nothing to do with them."""
    rows = []
    for row in range(num_documents):
        labels, scores = [f"l{i}" for i in rng.permutation(20)[:10]], np.sort(rng.random(10))[::-1]
        rows.append(
            {"row": row, "labels": labels, "scores": scores.tolist(), "gold": [f"l{i}" for i in rng.permutation(20)[:3]]}
        )
    return rows


def noise_files(folder):
    """Prediction files of two parts of noise for validation and test documents."""
    rng, files = np.random.default_rng(0), {}
    for split in ("validation", "test"):
        rows = rows_with_gold(rng, 40)
        other = [{**row, "labels": own["labels"]} for row, own in zip(rows, rows_with_gold(rng, 40), strict=True)]
        for part, content in (("a", rows), ("b", other)):
            path = folder / part / "predictions" / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            files[part, split] = write_rows(path, content)
    return ([files[part, split] for part in "ab"] for split in ("validation", "test"))


def test_prediction_files_are_tuned_on_other_documents(tmp_path, capsys):
    validation, test = noise_files(tmp_path)
    cli(
        [
            "ensemble",
            "--predictions",
            *test,
            "--tune_on",
            *validation,
            "--output_dir",
            str(tmp_path / "e"),
            "--num_trials",
            "30",
        ]
    )
    assert "consensus, because" not in capsys.readouterr().out
    metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
    assert metrics["method"] == "tuned" and metrics["tuned_on"] == dict(zip("ab", validation, strict=True))
    assert metrics["metric"] == "nDCG@5" and metrics["num_trials"] == 30 and set(metrics["weights"]) == {"a", "b"}
    assert list(metrics["comparison"]["documents"]) == ["a", "b", "tuned"]
    tuned_on = metrics["comparison"]["tuned_on"]
    assert tuned_on["tuned"]["nDCG@5"] >= max(tuned_on[name]["nDCG@5"] for name in ("a", "b", "mean_score"))
    # The true labels of the documents change nothing of how they are ranked.
    rows = pq.read_table(tmp_path / "e" / "predictions.parquet").to_pylist()
    for path in map(Path, test):
        path.write_text(
            "".join(json.dumps({**json.loads(line), "gold": ["l1"]}) + "\n" for line in path.read_text().splitlines())
        )
    ensemble_files(test, tmp_path / "f", "tuned", validation, num_trials=30)
    again = pq.read_table(tmp_path / "f" / "predictions.parquet").to_pylist()
    assert [row["labels"] for row in again] == [row["labels"] for row in rows]


def test_prediction_files_without_files_to_tune_on_give_the_consensus(tmp_path, capsys):
    _, test = noise_files(tmp_path)
    cli(["ensemble", "--predictions", *test, "--output_dir", str(tmp_path / "e")])
    assert "consensus, because there is no --tune_on" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
    assert metrics["method"] == "consensus" and "tuned_on" not in metrics and "weights" not in metrics
    assert list(metrics["comparison"]["documents"]) == ["a", "b", "consensus"]


def test_files_to_tune_on_need_true_labels_and_the_same_documents(tmp_path):
    validation, test = noise_files(tmp_path)
    first, *others = [json.loads(line) for line in Path(validation[1]).read_text().splitlines()]
    with pytest.raises(ValueError, match="method tuned.* 0 files to tune on.*--tune_on .*--method consensus"):
        ensemble_files(test, tmp_path / "e1", "tuned")
    fewer = write_rows(tmp_path / "fewer.jsonl", others)
    with pytest.raises(ValueError, match="have 40 and 39 documents"):
        ensemble_files(test, tmp_path / "e2", "tuned", [validation[0], fewer])
    bare = write_rows(tmp_path / "bare.jsonl", [{key: first[key] for key in ("row", "labels", "scores")}])
    with pytest.raises(ValueError, match="bare.jsonl has no column gold with the true labels to tune on"):
        ensemble_files(test, tmp_path / "e3", "tuned", [bare, bare])


def test_files_without_true_labels_are_combined_by_names_of_labels(tmp_path):
    one = write_rows(tmp_path / "one.jsonl", [{"row": 0, "id": "x", "label_ids": [0], "labels": ["a"], "scores": [0.5]}])
    other = write_rows(
        tmp_path / "other.jsonl", [{"row": 0, "id": "x", "label_ids": [0, 1], "labels": ["b", "a"], "scores": [0.6, 0.5]}]
    )
    cli(["ensemble", "--predictions", one, other, "--output_dir", str(tmp_path / "e"), "--method", "consensus"])
    again = str(tmp_path / "e" / "predictions.parquet")
    cli(["ensemble", "--predictions", again, other, "--output_dir", str(tmp_path / "again"), "--method", "consensus"])
    (row,) = pq.read_table(tmp_path / "e" / "predictions.parquet").to_pylist()
    assert row["id"] == "x" and row["labels"] == ["a", "b"] and row["scores"] == pytest.approx([0.75, 0.6])
    (tmp_path / "third.jsonl").write_text(json.dumps({"row": 0, "id": "y", "labels": ["a"], "scores": [0.5]}) + "\n")
    with pytest.raises(SystemExit, match="the documents 'x' and 'y' in place 0, but only predictions of the same documents"):
        cli(["ensemble", "--predictions", one, str(tmp_path / "third.jsonl"), "--output_dir", str(tmp_path / "g")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"row": 0, "labels": ["a"], "scores": [-2.5]}', "holds the score -2.5, but scores lie between 0 and 1"),
        ('{"row": 0, "labels": ["a"]}', "has the columns row, labels and lacks scores"),
        ('{"row": 7, "labels": ["a", "b"], "scores": [0.5]}', "row 7 has 2 labels and 1 scores"),
        ('{"row": 0, "labels": ["a", null], "scores": [0.5, 0.4]}', "labels has null in a list"),
        ('{"row": 0, "labels": ["a"], "scores": [null]}', "scores has null in a list"),
        ('{"row": 0, "labels": "a", "scores": 0.5}', "labels holds string, but needs a list for each document"),
        ('{"row": 0, "labels": ["a"', "is no readable parquet or JSON lines file"),
    ],
)
def test_files_that_are_no_predictions_are_refused(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content + "\n")
    with pytest.raises(SystemExit, match=message):
        cli(["ensemble", "--predictions", *[str(tmp_path / "a.jsonl")] * 2, "--output_dir", str(tmp_path / "e")])


def copy_of(part, target):
    shutil.copytree(part, target)
    return target


def test_parts_that_do_not_belong_together_are_refused(parts, tmp_path, unopened):
    other = copy_of(parts[1], tmp_path / "other")
    labels = json.loads((other / "labels.json").read_text())
    (other / "labels.json").write_text(json.dumps([*labels[:-1], "another"]))
    with pytest.raises(
        ValueError, match=r"has 6 labels and .* has 6; label id 5 is '.*' and 'another'. Parts need the same labels"
    ):
        ensemble_folders([parts[0], other], tmp_path / "e1")
    fewer = copy_of(parts[1], tmp_path / "fewer")
    path = fewer / "predictions" / "test.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(ValueError, match="have 7 and 6 documents, but only predictions of the same documents"):
        ensemble_folders([parts[0], fewer], tmp_path / "e2")
    (fewer / "predictions" / "validation.parquet").unlink()
    with pytest.raises(
        FileNotFoundError, match="validation.parquet is missing, but other parts have predictions of validation"
    ):
        ensemble_folders([parts[0], fewer], tmp_path / "e3")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    with pytest.raises(FileExistsError, match="is not an empty folder"):
        ensemble_folders(parts, tmp_path / "taken")


def test_true_labels_that_differ_are_shown(parts, tmp_path, unopened):
    other = copy_of(parts[1], tmp_path / "other")
    path = other / "predictions" / "test.parquet"
    table = pq.read_table(path)
    gold = table["gold"].to_pylist()
    gold[2] = gold[2][1:]
    pq.write_table(table.set_column(table.column_names.index("gold"), "gold", pa.array(gold, pa.list_(pa.string()))), path)
    with pytest.raises(ValueError, match="the true label ids .* in place 2"):
        ensemble_folders([parts[0], other], tmp_path / "e")


def test_folders_of_older_versions_have_no_psp(parts, tmp_path, unopened, caplog):
    older = [copy_of(part, tmp_path / part.name) for part in parts]
    (older[0] / "predictions" / "label_counts.parquet").unlink()
    ensemble_folders(older, tmp_path / "e", "mean_rank")
    assert "PSP is left out" in caplog.text
    assert "PSP@5" not in json.loads((tmp_path / "e" / "metrics.json").read_text())["test"]
    with pytest.raises(ValueError, match="PSP@5 needs the training documents of each label"):
        ensemble_folders(older, tmp_path / "f", metric="PSP@5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either model folders or --predictions"),
        (["a"], "at least two"),
        (["a", "--predictions", "b"], "give either"),
        (
            ["--predictions", "a", "b", "--method", "tuned"],
            "--method tuned was given 2 --predictions and 0 files to tune on",
        ),
        (["--predictions", "a", "b", "--tune_on", "c"], "2 --predictions and 1 files to tune on"),
        (["--predictions", "a", "b", "--tune_on", "c", "./b"], "b is among both --predictions and --tune_on"),
        (["--predictions", "a", "b", "--tune_on", "c", "d", "--method", "mean_rank"], "--method mean_rank is not tuned"),
        (["a", "b", "--tune_on", "c", "d"], "--tune_on is for --predictions"),
        (["a", "b", "--num_trials", "-1"], "must be at least 0"),
        (["a", "b", "--method", "vote"], "invalid choice: 'vote'"),
    ],
)
def test_options_that_cannot_be_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        cli(["ensemble", "--output_dir", "e", *arguments])
    assert message in capsys.readouterr().err

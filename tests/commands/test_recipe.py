"""From command line and recipe file to settings."""

import json
import os

import pytest
import torch

from hf_xmtc.commands.gradient_free_families import GRADIENT_FREE
from hf_xmtc.commands.recipe import ModelArguments
from hf_xmtc.commands.recipe_checks import check_model_settings
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.models import FAMILIES


@pytest.fixture
def write(tmp_path):
    def to_file(text: str, name: str = "recipe.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return to_file


def test_families_without_gradients_are_listed():
    assert tuple(name for name, model in FAMILIES.items() if not model.is_trained_by_gradient) == GRADIENT_FREE


def test_without_arguments_the_demo_model_is_trained():
    recipe = parse_recipe([])
    assert (recipe.model.model_family, recipe.data.dataset, recipe.model.cornet_num_blocks) == ("bertxml", "demo", 0)
    assert recipe.training.output_dir == "outputs/demo-bertxml"
    # Processes join on a machine without accelerator only if training is told to use the CPU.
    assert recipe.training.use_cpu == (not torch.accelerator.is_available())


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["--model_family", "bonsai"], "outputs/demo-bonsai"),
        (["--dataset", "some/where/mydata/"], "outputs/mydata-bertxml"),
        (["--dataset", "user/news", "--model_family=laco"], "outputs/news-laco"),
        (["--dataset", "newdata", "--model", "outputs/mine"], "outputs/newdata-mine"),
        (["--model_family", "bonsai", "--output_dir", "here"], "here"),
    ],
)
def test_the_output_folder_is_named_after_data_and_model(arguments, folder):
    assert parse_recipe(arguments).training.output_dir == folder


def test_a_recipe_file_sets_defaults_and_the_command_line_wins(write):
    path = write("dataset: reviews\nlearning_rate: 1e-3\nnum_train_epochs: 7\nbf16: true\nseed: 5\nlabel_file: null\n")
    recipe = parse_recipe(["--config", path, "--num_train_epochs", "2", "--seed=9"])
    assert (recipe.data.dataset, recipe.data.label_file) == ("reviews", None)
    assert recipe.training.learning_rate == 0.001  # which YAML reads as text
    assert recipe.training.bf16 is True
    assert (recipe.training.num_train_epochs, recipe.training.seed) == (2.0, 9)
    assert parse_recipe([f"--config={path}"]).training.num_train_epochs == 7.0


def test_a_recipe_can_be_json_and_hold_overrides_as_an_object(write):
    path = write(
        json.dumps({"dataset": "demo", "seed": 3, "config_overrides": {"hidden_size": 8, "layer_norm": "none"}}),
        "recipe.json",
    )
    recipe = parse_recipe(["--config", path])
    assert recipe.training.seed == 3
    assert recipe.model.config_settings()["hidden_size"] == 8


def test_overrides_on_the_command_line_are_added_to_those_of_the_recipe(write):
    path = write(
        json.dumps({"dataset": "demo", "config_overrides": {"hidden_size": 8, "layer_norm": "none"}}), "recipe.json"
    )
    arguments = [
        "--config",
        path,
        "--config_overrides",
        "hidden_size=12,hidden_act=relu",
        '--config_overrides={"pooler": true}',
    ]
    found = parse_recipe(arguments).model.config_settings()
    wanted = {"hidden_size": 12, "layer_norm": "none", "hidden_act": "relu", "pooler": True}
    assert {name: found[name] for name in wanted} == wanted


def test_a_recipe_without_a_data_set_is_not_one_of_the_demo_data(write):
    path = write("seed: 3\n")
    with pytest.raises(ValueError, match="names no data set, and neither does the command line. Add --dataset"):
        parse_recipe(["--config", path])
    assert parse_recipe(["--config", path, "--dataset", "demo"]).data.dataset == "demo"
    assert parse_recipe([]).data.dataset == "demo"


def test_families_have_cornet_as_is_usual_for_them():
    found = {
        name: parse_recipe(["--model_family", name]).model.cornet_num_blocks
        for name in ("bertxml", "xmlcnn", "laco", "seqtag")
    }
    assert found == {"bertxml": 0, "xmlcnn": 2, "laco": 0, "seqtag": 0}


def test_layers_of_a_backbone_that_was_not_named_are_refused():
    with pytest.raises(ValueError, match="backbone_num_layers=3 with backbone=None: add --backbone"):
        parse_recipe(["--backbone_num_layers", "3"]).check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: 0.1\ndataset: x\n", "names learning_rat, which hf-xmtc train does not know"),
        ("config: other.yaml\n", "names config, which"),
        ("- a\n- b\n", "must hold settings as 'name: value' lines, found a list"),
        ("a: [1, 2\n", "is not valid YAML"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused(write, text, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(["--config", write(text)])


def test_values_of_the_wrong_kind_are_refused_as_on_the_command_line(write, capsys):
    with pytest.raises(SystemExit):
        parse_recipe(["--config", write("max_length_tokens: 12.5\n")])
    assert "invalid int value: '12.5'" in capsys.readouterr().err


def test_unknown_arguments_are_named():
    with pytest.raises(ValueError, match=r"hf-xmtc train does not know --no_such_argument 1\. See hf-xmtc train --help"):
        parse_recipe(["--no_such_argument", "1"])
    with pytest.raises(ValueError, match="does not know --learning_rte 1. Did you mean 'learning_rate'"):
        parse_recipe(["--learning_rte", "1"])
    with pytest.raises(ValueError, match="does not know --batch_size 8. Did you mean 'per_device_train_batch_size'"):
        parse_recipe(["--batch_size", "8"])
    with pytest.raises(ValueError, match=r"It is a field of the model's config: --config_overrides auxiliary_task=…\."):
        parse_recipe(["--model_family", "laco", "--auxiliary_task", "clcp"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["--metric_for_best_model", "micro_f1"],
            "metric_for_best_model='micro_f1', but it is a metric of predicted sets.* Add --set_metrics",
        ),
        (
            ["--metric_for_best_model", "ndcg@5"],
            "metric_for_best_model='ndcg@5', but it is not measured. Did you mean 'nDCG@5'",
        ),
        *(
            (["--metric_for_best_model", "micro_f1", "--load_best_model_at_end", "false", *readers], "Add --set_metrics")
            for readers in (["--early_stopping_patience", "2"], ["--lr_scheduler_type", "reduce_lr_on_plateau"])
        ),
    ],
)
def test_a_metric_that_will_not_be_measured_is_refused_before_training(settings, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(settings).check()
    for metric in ("eval_micro_f1", "num_cut_sets"):
        parse_recipe(["--metric_for_best_model", metric, "--set_metrics", "true"]).check()
    parse_recipe(["--metric_for_best_model", "micro_f1", "--load_best_model_at_end", "false"]).check()


def test_families_without_thresholds_have_none_to_tune():
    with pytest.raises(
        ValueError, match="tune_threshold='global' with has_thresholds=False: the predicted set of SeqTagForXMTC has no"
    ):
        parse_recipe(["--model_family", "seqtag", "--tune_threshold", "global"]).check()


def test_a_start_of_label_tokens_that_there_is_not_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse_recipe(["--model_family", "laco", "--label_embedding_start", "words"])
    assert "invalid choice: 'words' (choose from 'text', 'random', 'unused')" in capsys.readouterr().err


def test_labels_are_no_settings():
    with pytest.raises(ValueError, match=r"does not know --num_labels 3\. The labels are those of the training documents"):
        parse_recipe(["--num_labels", "3"])
    with pytest.raises(ValueError, match=r"names 'num_labels'\. The labels are those of the training documents"):
        ModelArguments(config_overrides="num_labels=3").config_settings()


def test_config_fields_are_read_as_they_are_written():
    model = ModelArguments(
        model_family="laco", config_overrides="joint_embedding=False,cross_attention_channels=None,label_loss=bce"
    )
    settings = model.config_settings()
    assert settings["joint_embedding"] is False and settings["cross_attention_channels"] is None
    assert settings["label_loss"] == "bce"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--resume_from_checkpoint=run/checkpoint-5",
            "resume_from_checkpoint=run/checkpoint-5 cannot be used here. Repeat the same command to resume",
        ),
        ("--do_train=False", "do_train=False cannot be used here. This command always trains; hf-xmtc predict"),
        ("--do_eval=False", "do_eval=False cannot be used here. .* --eval_strategy no leaves it out during training"),
        ("--do_predict=False", "do_predict=False cannot be used here. Predictions for the evaluated splits"),
        ("--prediction_loss_only=True", "prediction_loss_only=True cannot be used here. The metrics and predictions"),
        ("--label_smoothing_factor=0.1", "label_smoothing_factor=0.1 cannot be used here. .* config.label_loss chooses"),
        ("--batch_eval_metrics=True", "batch_eval_metrics=True cannot be used here. The metrics of this command"),
        ("--hub_strategy=checkpoint", "hub_strategy=checkpoint cannot be used here. push_to_hub publishes the finished"),
        ("--hub_always_push=True", "hub_always_push=True cannot be used here"),
        ("--bf16_full_eval=True", "bf16_full_eval=True cannot be used here. .* weights in half precision; --bf16 True"),
        ("--skip_memory_metrics=False", "skip_memory_metrics=False cannot be used here. .*peak_memory_mb"),
    ],
)
def test_arguments_that_would_not_be_heeded_are_refused(write, argument, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe([argument])
    with pytest.raises(ValueError, match=message):
        parse_recipe(["--config", write(argument.removeprefix("--").replace("=", ": "))])


def test_arguments_that_ask_for_what_is_done_anyway_are_taken():
    without_evaluation = ["--eval_strategy", "no", "--load_best_model_at_end", "False"]
    for arguments in ([], without_evaluation):
        recipe = parse_recipe(["--do_train", "--do_eval", "True", "--do_predict", *arguments]).to_dict()
        assert not {"do_train", "do_eval", "do_predict"} & set(recipe)


def test_only_a_data_set_of_the_hub_has_a_repo_id(tmp_path, monkeypatch):
    (tmp_path / "me" / "reviews").mkdir(parents=True)
    for dataset, expected in (("demo", None), (str(tmp_path), None), ("me/reviews", "me/reviews")):
        assert parse_recipe(["--dataset", dataset]).data.dataset_repo_id == expected
    monkeypatch.chdir(tmp_path)  # where a folder of that name goes before the Hub
    assert parse_recipe(["--dataset", "me/reviews"]).data.dataset_repo_id is None


def test_a_missing_recipe_file_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="no recipe file .*gone.yaml. Recipes of this project lie in scripts/recipes"
    ):
        parse_recipe(["--config", str(tmp_path / "gone.yaml")])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (None, {}),
        ("hidden_size=300, layer_norm=none,pooler=true,bottleneck_size=null", None),
        ('{"hidden_size": 300, "layer_norm": "none", "pooler": true, "bottleneck_size": null}', None),
    ],
)
def test_overrides_are_read_from_pairs_and_from_json(overrides, expected):
    if expected is None:
        expected = {"hidden_size": 300, "layer_norm": "none", "pooler": True, "bottleneck_size": None}
    settings = ModelArguments(config_overrides=overrides, cornet_num_blocks=1).config_settings()
    assert settings == {"cornet_num_blocks": 1, "cornet_context_size": None, "num_cls_tokens": 5, **expected}


def test_a_family_without_cls_tokens_has_no_setting_for_them_and_no_backbone():
    arguments = ModelArguments(model_family="xmlcnn")
    assert "num_cls_tokens" not in arguments.config_settings()
    assert "num_cls_tokens" in ModelArguments().config_settings()
    for family in ("xmlcnn", "bonsai"):
        with pytest.raises(ValueError, match=f"backbone='bert' with model_family='{family}': it reads words") as refusal:
            parse_recipe(["--model_family", family, "--backbone", "bert"]).check()
        families = str(refusal.value).rpartition(": ")[2].removesuffix(".").split(", ")
        assert {"bertxml", "neighbors"} <= set(families) and "bonsai" not in families
    with pytest.raises(
        ValueError, match="num_cls_tokens=3 with model_family='xmlcnn': it reads no CLS tokens. Leave it out"
    ):
        parse_recipe(["--model_family", "xmlcnn", "--num_cls_tokens", "3"]).check()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("hidden_size", "'hidden_size' has no '='"),
        ('{"hidden_size": }', "is not valid JSON"),
        ("hiden_size=3", r"names 'hiden_size', which BertXMLConfig does not have. Did you mean 'hidden_size'\? It has: "),
        ("backbone_config={}", "has a bracket, .* Write all of it as JSON"),
        (
            {"backbone_config": {"hidden_sise": 3}},
            "backbone_config names 'hidden_sise', which the config of 'bert' does not have",
        ),
        ("num_hidden_layers=two", "has num_hidden_layers='two', but num_hidden_layers is of the type int, such as"),
        ("[1]", r"has a bracket, .* --config_overrides '{\"field\": …}'"),
        (
            {"backbone_config": {"model_type": "bart2"}},
            "the model_type 'bart2', which transformers does not have. Did you mean 'bart'",
        ),
    ],
)
def test_overrides_that_cannot_be_used_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        ModelArguments(config_overrides=overrides).config_settings()


def test_a_word_for_a_number_or_nothing_is_said_to_be_none():
    with pytest.raises(ValueError, match=r"cross_attention_channels='none', but .* is of the type int \| None, such as 64"):
        ModelArguments(model_family="laco", config_overrides="cross_attention_channels=none").config_settings()


def test_sizes_of_an_encoder_are_said_to_go_into_its_config():
    with pytest.raises(ValueError, match="Sizes of the encoder go into backbone_config"):
        ModelArguments(model_family="laco", config_overrides="hidden_size=3").config_settings()


def test_the_recipe_lists_choices_without_paths_and_secrets(tmp_path):
    (tmp_path / "corpus").mkdir()
    arguments = ["--dataset", str(tmp_path / "corpus"), "--output_dir", str(tmp_path / "out"), "--optim", "sgd"]
    hub = ["--push_to_hub", "--hub_model_id", "me/secret", "--hub_revision", "branch", "--hub_token", "hf_secret"]
    settings = parse_recipe([*arguments, *hub, "--logging_steps", "3"]).to_dict()
    assert (settings["dataset"], settings["optim"], settings["learning_rate"]) == ("corpus", "sgd", 0.002)
    text = json.dumps(settings)
    assert str(tmp_path) not in text and "secret" not in text and "hub" not in text
    # What follows from other arguments, or says nothing about the result, is not listed.
    assert not {"output_dir", "logging_steps", "use_cpu", "do_eval", "greater_is_better", "accelerator_config"} & set(
        settings
    )


def test_a_strategy_is_listed_and_what_follows_from_it_is_not():
    arguments = [
        "--eval_strategy",
        "steps",
        "--save_strategy",
        "steps",
        "--save_steps",
        "20",
        "--metric_for_best_model",
        "loss",
    ]
    settings = parse_recipe(arguments).to_dict()
    assert (settings["eval_strategy"], settings["metric_for_best_model"]) == ("steps", "loss")
    assert "do_eval" not in settings and "greater_is_better" not in settings
    assert "eval_strategy" not in parse_recipe([]).to_dict()


def test_a_file_named_after_the_script_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "train.args").write_text("--seed 7")
    monkeypatch.setattr("sys.argv", [os.path.join(tmp_path, "train.py")])
    assert parse_recipe().training.seed == 42


def test_the_recipe_json_of_a_model_folder_is_a_recipe(tmp_path):
    recorded = {**parse_recipe(["--learning_rate", "0.01"]).to_dict(), "dataset_fingerprint": "ab", "processes": 1}
    recorded["document_sample"] = "text_hash"
    (tmp_path / "recipe.json").write_text(json.dumps(recorded))
    assert parse_recipe(["--config", str(tmp_path / "recipe.json")]).training.learning_rate == 0.01


def test_settings_of_candidates_that_are_gone_are_refused_in_a_published_recipe(tmp_path):
    recorded = {"dataset": "demo", "injection_share": 0.4, "tune_generator_share": True}
    (tmp_path / "recipe.json").write_text(json.dumps(recorded))
    with pytest.raises(ValueError, match="names injection_share, tune_generator_share, which is gone: .* Leave it out"):
        parse_recipe(["--config", str(tmp_path / "recipe.json")])


def test_former_fields_in_the_config_overrides_of_a_published_recipe_are_read(tmp_path):
    recipe, overrides = tmp_path / "recipe.json", {"num_candidates": 8, "label_term": False, "auxiliary_units": 1}
    recipe.write_text(json.dumps({"dataset": "demo", "model_family": "laco", "config_overrides": overrides}))
    assert parse_recipe(["--config", str(recipe)]).model.config_settings()["num_candidates"] == 8
    recipe.write_text(json.dumps({"dataset": "demo", "model_family": "laco", "config_overrides": {"auxiliary_units": 2}}))
    with pytest.raises(ValueError, match="auxiliary_units=2, but this setting was removed"):
        parse_recipe(["--config", str(recipe)])


def test_a_label_tree_for_a_trained_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="label_tree='tree' with model='old': a trained model keeps its tree"):
        check_model_settings({"label_tree": "tree", "model": "old", "model_family": "lightattention"}, ModelArguments)


@pytest.mark.parametrize("name", ["max_train_documents", "max_validation_documents", "max_eval_documents"])
@pytest.mark.parametrize("limit", ["0", "-5"])
def test_limits_that_leave_no_document_are_refused(name, limit):
    with pytest.raises(ValueError, match=f"{name}={limit}, but .* at least 1 document. Leave it out to take all"):
        parse_recipe([f"--{name}", limit])


def test_bertxml_from_scratch_has_defaults_of_its_own():
    def settings(*options):
        recipe = parse_recipe([*options])
        training = recipe.training
        return (
            recipe.model.cornet_num_blocks,
            recipe.data.max_length_tokens,
            training.learning_rate,
            training.num_train_epochs,
            training.averaging_start_epoch,
        )

    assert settings() == (0, 200, 2e-3, 8.0, 2)
    assert settings("--learning_rate", "0.001", "--cornet_num_blocks", "2") == (2, 200, 1e-3, 8.0, 2)
    # What is chosen beside them decides with them.
    assert settings("--eval_strategy", "no", "--load_best_model_at_end", "False") == (0, 200, 2e-3, 8.0, None)
    assert settings("--num_train_epochs", "1") == (0, 200, 2e-3, 1.0, None)
    assert settings("--cornet_context_size", "8") == (2, 200, 2e-3, 8.0, 2)
    assert settings("--config_overrides", "hidden_size=768") == (2, 128, 1e-3, 7.0, None)
    for others in (["--model_family", "xmlcnn"], ["--backbone", "encoder"]):
        assert settings(*others) == (2, 128, 1e-3, 7.0, None)


def test_a_recipe_file_says_all_of_its_run(tmp_path):
    (tmp_path / "recipe.yaml").write_text("dataset: demo\n")
    recipe = parse_recipe(["--config", str(tmp_path / "recipe.yaml")])
    assert (recipe.training.learning_rate, recipe.data.max_length_tokens) == (1e-3, 128)

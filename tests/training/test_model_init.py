"""Models that `model_init` makes: one for the constructor and a new one for every training."""

import copy

import pytest
import torch

from hf_xmtc import XMTCTrainer, XMTCTrainingArguments


@pytest.fixture
def make_searcher(tmp_path, corpus, tokenizer):
    """A trainer with ``model_init`` alone."""

    def make(model_init, **args):
        settings = {
            "per_device_train_batch_size": 4,
            "num_train_epochs": 1,
            "learning_rate": 0.01,
            "use_cpu": True,
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            "save_strategy": "no",
            "load_best_model_at_end": False,
        }
        return XMTCTrainer(
            model_init=model_init,
            args=XMTCTrainingArguments(output_dir=str(tmp_path / "search"), **{**settings, **args}),
            train_dataset=corpus["train"],
            eval_dataset=corpus["validation"],
            processing_class=tokenizer,
        )

    return make


def test_what_model_init_makes_is_trained(make_searcher, make_model):  # AC-41
    made = []

    def model_init():
        made.append(make_model())
        return made[-1]

    trainer = make_searcher(model_init)
    trainer.train()
    assert len(made) == 2 and trainer.model is made[1]
    fresh = make_model().state_dict()
    assert all(torch.equal(weight, fresh[name]) for name, weight in made[0].state_dict().items())
    assert any(not torch.equal(weight, fresh[name]) for name, weight in made[1].state_dict().items())
    once = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.train()  # anew, from a new model
    assert len(made) == 3 and all(torch.equal(weight, once[name]) for name, weight in trainer.model.state_dict().items())


def test_a_model_of_none_is_as_none_given(make_trainer, make_model, corpus, tokenizer, tmp_path):
    arguments = XMTCTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, eval_strategy="no", load_best_model_at_end=False
    )
    trainer = XMTCTrainer(None, arguments, processing_class=tokenizer, model_init=lambda: make_model())
    assert trainer.model.config.num_labels == 6
    with pytest.raises(RuntimeError, match="requires either a `model` or `model_init`"):
        XMTCTrainer(None, arguments, processing_class=tokenizer)
    with pytest.raises(ValueError, match="but not both"):
        make_trainer(model=make_model(), trainer={"model_init": lambda: make_model()})


def test_arguments_of_transformers_are_refused_by_name(make_model, tokenizer, tmp_path):
    from transformers import TrainingArguments

    with pytest.raises(TypeError, match="args is a TrainingArguments, but XMTCTrainer needs XMTCTrainingArguments"):
        XMTCTrainer(make_model(), TrainingArguments(output_dir=str(tmp_path)), processing_class=tokenizer)


def test_options_follow_the_model_of_each_training(make_searcher, make_model, make_trainer):
    options = {
        "label_optimizer": "adam_in_backward",
        "averaging_start_epoch": 0,
        "sparse_embeddings": True,
        "adaptive_gradient_clipping": True,
        "max_steps": 3,
        "eval_strategy": "steps",
        "eval_steps": 2,
    }
    without_dropout = dict.fromkeys(("classifier_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    trainer = make_searcher(lambda: make_model(**without_dropout), **options)
    trainer.train()
    trainer.train()
    plain = make_trainer(
        model=make_model(**without_dropout), save_strategy="no", load_best_model_at_end=False, num_train_epochs=1, **options
    )
    plain.train()
    expected = plain.model.state_dict()
    different = [name for name, weight in trainer.model.state_dict().items() if not torch.equal(weight, expected[name])]
    assert not different
    assert trainer.model.label_head.updates is None
    assert trainer.averaging.model is trainer.model and trainer.averaging.count == plain.averaging.count


def test_each_model_gets_label_weights(make_searcher, make_model):
    models = []

    def model_init():
        models.append(make_model(label_loss="propensity_bce"))
        return models[-1]

    trainer = make_searcher(model_init)
    trainer.train()
    weights = [model.label_head.positive_weight for model in models]
    assert len(weights) == 2 and all((weight > 0).all() for weight in weights) and torch.equal(*weights)


def test_a_model_with_another_label_space_or_tokenizer_is_refused(make_searcher, make_model):
    models = iter([make_model(), make_model(num_labels=7)])
    trainer = make_searcher(lambda: next(models))
    with pytest.raises(ValueError, match="model_init made a model of 7 labels, but the trainer began with one of 6"):
        trainer.train()
    assert not trainer.is_in_train


def test_a_search_trains_a_model_for_each_trial(make_searcher, make_model):  # AC-41
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seen = []

    def hp_space(trial):
        return {
            "label_optimizer": trial.suggest_categorical("label_optimizer", ["adamw", "sgd_in_backward"]),
            "averaging_start_epoch": trial.suggest_categorical("averaging_start_epoch", [0]),
        }

    def objective(metrics):
        seen.append(
            (trainer.args.label_optimizer, trainer.averaging.model is trainer.model, trainer.built_with["label_optimizer"])
        )
        return metrics["eval_nDCG@5"]

    trainer = make_searcher(lambda trial: make_model(), max_steps=2, eval_strategy="steps", eval_steps=2)
    best = trainer.hyperparameter_search(
        hp_space=hp_space, compute_objective=objective, n_trials=2, direction="maximize",
        sampler=optuna.samplers.GridSampler({"label_optimizer": ["adamw", "sgd_in_backward"], "averaging_start_epoch": [0]}),
    )  # fmt: skip
    assert sorted(seen) == [("adamw", True, "adamw"), ("sgd_in_backward", True, "sgd_in_backward")]
    assert 0 <= best.objective <= 1 and best.hyperparameters["label_optimizer"] in ("adamw", "sgd_in_backward")


def test_options_that_a_trial_sets_are_checked(make_searcher, make_model):
    """Without optuna: the arguments of a trial arrive between the model and its training."""
    trainer = make_searcher(lambda: make_model())
    before = copy.copy(trainer.args)
    trainer.args.label_optimizer, trainer.args.gradient_accumulation_steps = "sgd_in_backward", 2
    with pytest.raises(ValueError, match="gradient_accumulation_steps=2"):
        trainer.train()
    trainer.args = before
    trainer.train()

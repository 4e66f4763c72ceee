"""Every label_optimizer, and sparse embeddings, through the Trainer."""

import math

import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, Interrupted, Recorder, largest_difference
from label_options import ALL_OPTIONS, NOTHING_ELSE, label_parameters
from transformers import TrainerCallback

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC
from hf_xmtc.training.arguments import IN_BACKWARD, LABEL_OPTIMIZERS


class Gradients(TrainerCallback):
    """Keeps what gradients there are before each step of the optimizer, and the rate of each of its groups."""

    def __init__(self):
        self.labels, self.embedding, self.rates, self.sparse = [], [], [], []

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        self.labels.append([parameter.grad is not None for parameter in label_parameters(model)])
        gradient = model.get_input_embeddings().weight.grad
        self.sparse.append(gradient.is_sparse)
        self.embedding.append(gradient.to_dense().clone() if gradient.is_sparse else gradient.clone())
        self.rates.append({round(group["lr"], 9) for group in optimizer.param_groups})


# ---- learning, and what becomes of the model -----------------------------------------------------------------------------


@ALL_OPTIONS
def test_every_option_learns_the_small_corpus(make_trainer, settings):
    trainer = make_trainer(num_train_epochs=20, **settings, **NOTHING_ELSE)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_nDCG@5"] > before["eval_nDCG@5"] + 0.25
    assert after["eval_loss"] < 0.65 * before["eval_loss"]


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS)
def test_labels_that_read_tokens_are_learnt_with_every_option(make_trainer, words_alone, name):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "embedding_size": 16, "linear_sizes": [16], "cornet_context_size": 3}
    quiet = {"embedding_dropout": 0.0, "hidden_dropout_prob": 0.0, "loss_reduction": "sum_labels"}
    model = AttentionXMLForXMTC(AttentionXMLConfig.for_tokenizer(words_alone, num_labels=6, **sizes, **quiet))
    before = model.label_head.attention.weight.detach().clone()
    rate = {"label_learning_rate": 0.05} if name == "sgd_in_backward" else {}
    used = {"processing_class": words_alone}
    trainer = make_trainer(model=model, num_train_epochs=20, label_optimizer=name, trainer=used, **rate, **NOTHING_ELSE)
    first = trainer.evaluate(trainer.train_dataset)
    trainer.train()
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] < 0.8 * first["eval_loss"]
    assert not torch.equal(model.label_head.attention.weight, before)
    assert (model.label_head.attention.weight.grad is None) or name in ("adamw", "rowwise")


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS)
def test_only_in_backward_updates_store_no_gradients(make_trainer, make_model, name):
    gradients, model = Gradients(), make_model()
    trainer = make_trainer(
        model=model, max_steps=2, label_optimizer=name, trainer={"callbacks": [gradients]}, **NOTHING_ELSE
    )
    before = [parameter.detach().clone() for parameter in label_parameters(model)]
    trainer.train()
    assert gradients.labels == [[name not in IN_BACKWARD] * len(before)] * 2
    assert all(not torch.equal(old, new) for old, new in zip(before, label_parameters(model), strict=True))


@pytest.mark.parametrize("name", IN_BACKWARD)
def test_after_training_the_model_is_an_ordinary_one(make_trainer, make_model, name):
    model = make_model()
    make_trainer(model=model, max_steps=1, label_optimizer=name, **NOTHING_ELSE).train()
    before = [parameter.detach().clone() for parameter in label_parameters(model)]
    batch = {"input_ids": torch.tensor([[3, 4, 5, 6]]), "labels": torch.tensor([[0]])}
    for top_k in (None, 0):
        model.zero_grad()
        model(**batch, top_k=top_k).loss.backward()
        assert all(parameter.grad is not None for parameter in label_parameters(model))
        assert all(torch.equal(old, new) for old, new in zip(before, label_parameters(model), strict=True))


def test_a_first_step_of_plain_descent_is_the_gradient_times_rate_and_labels(make_trainer, make_model, corpus):
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
    model, twin = make_model(**quiet), make_model(**quiet)
    trainer = make_trainer(
        model=model,
        max_steps=1,
        label_optimizer="sgd_in_backward",
        label_learning_rate=0.2,
        lr_scheduler_type="constant",
        warmup_steps=0,
        train_dataset=corpus["train"].select(range(4)),
        **NOTHING_ELSE,
    )
    batch = trainer.data_collator([trainer.train_dataset[index] for index in range(4)])
    twin(**batch).loss.backward()
    trainer.train()
    for ours, theirs in zip(label_parameters(model), label_parameters(twin), strict=True):
        expected = theirs - 0.2 * twin.config.num_labels * theirs.grad  # the loss is a mean over labels
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "everything"),
    [*((name, False) for name in LABEL_OPTIMIZERS[1:]), ("adamw", True)],
)
def test_results_do_not_depend_on_the_reduction_of_the_loss(make_trainer, make_model, name, everything):
    models = []
    for reduction in ("mean", "sum_labels"):
        model = make_model(loss_reduction=reduction)
        chosen = {id(parameter) for parameter in label_parameters(model)}
        for parameter in model.parameters():
            parameter.requires_grad_(everything or id(parameter) in chosen)
        # A large epsilon, so that it would show.
        settings = {"label_optimizer": name, "adam_epsilon": 0.1, "max_grad_norm": 0.0}
        make_trainer(model=model, num_train_epochs=1, **settings, **NOTHING_ELSE).train()
        models.append(model)
    assert largest_difference(*models) < 1e-5
    assert largest_difference(models[0], make_model()) > 0.01


def test_rates_follow_the_schedule(make_trainer):
    gradients = Gradients()
    make_trainer(
        max_steps=4,
        learning_rate=0.01,
        label_learning_rate=0.1,
        label_optimizer="adam_in_backward",
        warmup_steps=0,
        trainer={"callbacks": [gradients]},
        **NOTHING_ELSE,
    ).train()
    assert gradients.rates == [{0.01, 0.1}, {0.0075, 0.075}, {0.005, 0.05}, {0.0025, 0.025}]


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS)
def test_cornet_alone_is_trained_at_its_own_rate(make_trainer, make_model, name):
    settings = {"label_optimizer": name, "learning_rate": 0.0, "label_learning_rate": 0.0, "warmup_steps": 0}
    model, start = make_model(), make_model()
    make_trainer(model=model, max_steps=2, cornet_learning_rate=0.1, **settings, **NOTHING_ELSE).train()
    moved = {name: not torch.equal(parameter, start.get_parameter(name)) for name, parameter in model.named_parameters()}
    assert moved == {name: name.startswith("cornet.") for name in moved} and any(moved.values())


def test_weights_decay_and_biases_do_not(make_trainer, make_model):
    def trained(weight_decay: float):
        model = make_model()
        settings = {"label_optimizer": "sgd_in_backward", "label_learning_rate": 1e-3, "learning_rate": 0.0}
        make_trainer(model=model, max_steps=1, warmup_steps=0, weight_decay=weight_decay, **settings, **NOTHING_ELSE).train()
        return model.label_head.output

    plain, decayed, start = trained(0.0), trained(100.0), make_model().label_head.output
    torch.testing.assert_close(decayed.weight, plain.weight - 0.1 * start.weight)
    assert torch.equal(decayed.bias, plain.bias)


# ---- stopping, resuming, averaging ---------------------------------------------------------------------------------------


@ALL_OPTIONS
def test_a_resumed_run_equals_an_uninterrupted_one(corpus, make_trainer, settings):  # AC-21
    settings = {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **EVERY_THREE_STEPS, **settings}
    settings |= {"load_best_model_at_end": False}
    whole = make_trainer("whole", **{**settings, "save_strategy": "no"})
    whole.train()
    with pytest.raises(Interrupted):
        make_trainer("parts", trainer={"callbacks": [InterruptAt(7)]}, **settings).train()
    resumed = make_trainer("parts", **{**settings, "save_strategy": "no"})
    resumed.train(resume_from_checkpoint=True)
    assert largest_difference(whole.model, resumed.model) <= 1e-6
    losses = [[entry["eval_loss"] for entry in run.state.log_history if "eval_loss" in entry] for run in (whole, resumed)]
    assert len(losses[0]) == 4 and losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (
            {},
            {"label_optimizer": "rowwise"},
            "trained with label_optimizer='adamw', but this run has label_optimizer='rowwise'",
        ),
        ({"label_optimizer": "adam_in_backward"}, {}, "'adam_in_backward', but this run has label_optimizer='adamw'"),
        ({"sparse_embeddings": True}, {}, "sparse_embeddings=True, but this run has sparse_embeddings=False"),
        ({"adam_epsilon_uncorrected": True}, {}, "uncorrected=True, but this run has adam_epsilon_uncorrected=False"),
    ],
)
def test_resuming_with_other_options_is_refused(make_trainer, tmp_path, first, then, message):
    make_trainer(max_steps=1, **first).train()
    with pytest.raises(ValueError, match=message):
        make_trainer(max_steps=2, **then).train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))


@pytest.mark.parametrize("name", IN_BACKWARD)
def test_weight_averaging_averages_what_the_backward_pass_has_made(make_trainer, name):
    recorder = Recorder()
    trainer = make_trainer(
        num_train_epochs=3,
        averaging_start_epoch=1,
        load_best_model_at_end=False,
        label_optimizer=name,
        trainer={"callbacks": [recorder]},
    )
    trainer.train()
    torch.testing.assert_close(recorder.begin[2], recorder.end[1], rtol=0, atol=0)  # goes on with the live weights
    assert not torch.equal(recorder.begin[2], recorder.end[2])
    average = (recorder.begin[1] + recorder.end[1] + recorder.end[2]) / 3
    torch.testing.assert_close(trainer.model.label_head.output.weight.detach(), average)


def test_the_best_model_is_loaded_at_the_end(make_trainer):
    trainer = make_trainer(num_train_epochs=4, label_optimizer="rowwise_in_backward", averaging_start_epoch=1)
    trainer.train()
    assert trainer.evaluate()["eval_nDCG@5"] == pytest.approx(trainer.state.best_metric)


def test_a_second_training_goes_on_with_updates(make_trainer):
    trainer = make_trainer(num_train_epochs=1, label_optimizer="rowwise_in_backward", **NOTHING_ELSE)
    trainer.train()
    between = trainer.model.label_head.output.weight.detach().clone()
    trainer.train()
    assert not torch.equal(between, trainer.model.label_head.output.weight)
    assert trainer.label_updates["label_head.output"].state["step"] == 12


@pytest.mark.parametrize("name", IN_BACKWARD)
def test_a_loss_that_is_not_finite_changes_nothing(make_trainer, make_model, name):
    class Poison(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **kwargs):
            if state.global_step == 1:
                with torch.no_grad():
                    model.get_input_embeddings().weight.fill_(math.nan)
                self.before = {key: value.clone() for key, value in model.state_dict().items()}

    poison, model = Poison(), make_model()
    trainer = make_trainer(model=model, max_steps=3, label_optimizer=name, trainer={"callbacks": [poison]}, **NOTHING_ELSE)
    with pytest.raises(
        FloatingPointError, match="(?s)stopped in step 2, before anything was changed.*Lower the learning rate"
    ):
        trainer.train()
    after = model.state_dict()
    assert all(torch.equal(value.nan_to_num(), after[key].nan_to_num()) for key, value in poison.before.items())
    assert model.label_head.updates is None


# ---- clipping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "clipping"),
    [({}, "max_grad_norm=1.0"), ({"adaptive_gradient_clipping": True}, "adaptive_gradient_clipping=True")],
)
def test_clipping_says_once_that_it_leaves_the_labels_out(make_trainer, monkeypatch, settings, clipping):
    said = []
    monkeypatch.setattr("hf_xmtc.training.optimizer_options.logger.warning", said.append)
    settings = {**settings, **NOTHING_ELSE, "max_steps": 3}
    make_trainer(label_optimizer="rowwise_in_backward", **settings).train()
    assert len(said) == 1
    assert f"Gradient clipping ({clipping})" in said[0] and "leave the label matrices out" in said[0]
    make_trainer(label_optimizer="rowwise", **settings).train()
    make_trainer(
        label_optimizer="rowwise_in_backward", **{**settings, "max_grad_norm": 0.0, "adaptive_gradient_clipping": False}
    ).train()
    assert len(said) == 1


# ---- sparse embeddings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clipping", [{"max_grad_norm": 0.05}, {"max_grad_norm": 0.0}, {"adaptive_gradient_clipping": True}])
def test_sparse_gradients_are_clipped_and_measured_as_dense_ones(make_trainer, clipping):
    seen = []
    for sparse in (False, True):
        gradients = Gradients()
        trainer = make_trainer(
            max_steps=1,
            logging_steps=1,
            sparse_embeddings=sparse,
            trainer={"callbacks": [gradients]},
            **clipping,
            **NOTHING_ELSE,
        )
        trainer.train()
        assert gradients.sparse == [sparse]
        assert trainer.model.get_input_embeddings().sparse is False  # as before
        seen.append((gradients.embedding[0], trainer.state.log_history[0]["grad_norm"]))
    (dense, dense_norm), (sparse, sparse_norm) = seen
    torch.testing.assert_close(sparse, dense)
    assert sparse_norm == pytest.approx(dense_norm, rel=1e-5)
    assert dense_norm > 0.05


def test_words_outside_the_batches_and_padding_keep_their_embedding(make_trainer, make_model, corpus):
    model = make_model()
    trainer = make_trainer(
        model=model,
        num_train_epochs=3,
        sparse_embeddings=True,
        weight_decay=0.1,
        train_dataset=corpus["train"].select(range(4)),
        **NOTHING_ELSE,
    )
    before = model.get_input_embeddings().weight.detach().clone()
    trainer.train()
    words = sorted({word for row in trainer.train_dataset["input_ids"] for word in row})
    moved = (model.get_input_embeddings().weight != before).any(dim=1).nonzero().flatten().tolist()
    assert model.config.pad_token_id not in moved
    assert moved == [word for word in words if word != model.config.pad_token_id]

"""Every label_optimizer, and sparse embeddings, through the Trainer."""

import math

import pytest
import torch
from interrupted_runs import EIGHT, EVERY_THREE_STEPS, InterruptAt, Interrupted, Recorder, largest_difference
from transformers import TrainerCallback

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.arguments import IN_BACKWARD, LABEL_OPTIMIZERS

# Each name with settings under which the small corpus is learnt in a few epochs.
OPTIONS = {
    **{name: {"label_optimizer": name} for name in LABEL_OPTIMIZERS},
    "sgd_in_backward": {"label_optimizer": "sgd_in_backward", "label_learning_rate": 0.2},
    "adamw-own-rate": {"label_learning_rate": 0.02},
    "sparse": {"sparse_embeddings": True},
    "sparse-rowwise_in_backward": {"sparse_embeddings": True, "label_optimizer": "rowwise_in_backward"},
}
ALL_OPTIONS = pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS.keys())
NOTHING_ELSE = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def label_parameters(model) -> list[torch.nn.Parameter]:
    return [parameter for matrix in model.label_matrices().values() for parameter in matrix.parameters]


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
    trainer = make_trainer(num_train_epochs=12, **settings)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_nDCG@5"] > before["eval_nDCG@5"] + 0.25
    assert after["eval_loss"] < 0.65 * before["eval_loss"]


@pytest.fixture
def words_alone(corpus):
    """A tokenizer that adds nothing to a text."""
    return train_word_tokenizer(corpus["train"]["text"], max_length=16, min_document_frequency=1)


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS)
def test_labels_that_read_tokens_are_learnt_with_every_option(make_trainer, words_alone, name):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "embedding_size": 16, "linear_sizes": [16], "cornet_context_size": 3}
    quiet = {"embedding_dropout": 0.0, "hidden_dropout_prob": 0.0, "loss_reduction": "sum_labels"}
    model = AttentionXMLForXMTC(AttentionXMLConfig.for_tokenizer(words_alone, num_labels=6, **sizes, **quiet))
    before = model.label_head.attention.weight.detach().clone()
    rate = {"label_learning_rate": 0.05} if name == "sgd_in_backward" else {}
    used = {"processing_class": words_alone}
    trainer = make_trainer(model=model, num_train_epochs=20, label_optimizer=name, trainer=used, **rate)
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


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS[1:])
def test_results_do_not_depend_on_the_reduction_of_the_loss(make_trainer, make_model, name):
    models = []
    for reduction in ("mean", "sum_labels"):
        model = make_model(loss_reduction=reduction)
        chosen = {id(parameter) for parameter in label_parameters(model)}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in chosen)
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
def test_ac21_a_resumed_run_equals_an_uninterrupted_one(corpus, make_trainer, settings):
    settings = {"train_dataset": corpus["train"].select(range(8)), **EIGHT, **EVERY_THREE_STEPS, **settings}
    whole = make_trainer("whole", **settings)
    whole.train()
    with pytest.raises(Interrupted):
        make_trainer("parts", trainer={"callbacks": [InterruptAt(7)]}, **settings).train()
    resumed = make_trainer("parts", **settings)
    resumed.train(resume_from_checkpoint=True)
    assert largest_difference(whole.model, resumed.model) <= 1e-6
    assert resumed.state.best_metric == whole.state.best_metric


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


# ---- what does not go together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_optimizer": "adam"}, "label_optimizer='adam' is none of adamw, rowwise, sgd_in_backward"),
        ({"label_learning_rate": -1.0}, "label_learning_rate=-1.0, but a rate cannot be negative"),
        (
            {"label_optimizer": "adam_in_backward", "gradient_accumulation_steps": 2},
            "'adam_in_backward' with gradient_accumulation_steps=2: .* use label_optimizer='rowwise'",
        ),
        ({"label_optimizer": "rowwise", "optim": "adafactor"}, "label_optimizer='rowwise' with optim='adafactor'"),
        ({"sparse_embeddings": True, "optim": "sgd"}, "sparse_embeddings=True with optim='sgd'"),
        ({"label_optimizer": "sgd_in_backward", "fp16": True}, "'sgd_in_backward' with fp16=True: .* Use bf16=True"),
        ({"label_optimizer": "sgd_in_backward", "fsdp": True}, "'sgd_in_backward' with fsdp=.*which shards the matrices"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(make_trainer, settings, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**settings)


@pytest.mark.parametrize(("engine", "name"), [("is_fsdp_enabled", "FSDP"), ("is_deepspeed_enabled", "DeepSpeed")])
def test_engines_that_shard_are_refused_before_training(make_trainer, engine, name):
    trainer = make_trainer(label_optimizer="rowwise_in_backward", max_steps=1)
    setattr(trainer, engine, True)
    with pytest.raises(ValueError, match=f"'rowwise_in_backward', but accelerate was started with {name}"):
        trainer.train()


def test_accumulation_that_accelerate_asks_for_is_refused(make_trainer):
    settings = {"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 2}}}
    trainer = make_trainer(label_optimizer="sgd_in_backward", max_steps=1, **settings)
    with pytest.raises(ValueError, match="'sgd_in_backward' with gradient_accumulation_steps=2"):
        trainer.train()


def test_arguments_changed_later_are_refused(make_trainer):
    trainer = make_trainer(label_optimizer="sgd_in_backward", max_steps=1)
    trainer.args.gradient_accumulation_steps = 4
    with pytest.raises(ValueError, match="'sgd_in_backward' with gradient_accumulation_steps=4"):
        trainer.train()


@pytest.mark.parametrize("name", ["label_smoother", "compute_loss_func"])
def test_a_loss_of_all_logits_is_refused_with_updates_in_the_backward_pass(make_trainer, name):
    trainer = make_trainer(label_optimizer="sgd_in_backward", max_steps=1)
    setattr(trainer, name, lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match=f"'sgd_in_backward' with a {name}, which wants the logits of all labels"):
        trainer.train()


@pytest.mark.parametrize(
    "settings",
    [
        {"label_optimizer": "sgd_in_backward"},
        {"label_optimizer": "rowwise"},
        {"label_learning_rate": 0.1},
        {"sparse_embeddings": True},
    ],
    ids=str,
)
def test_an_optimizer_of_ones_own_is_not_mixed_with_the_label_options(make_trainer, make_model, settings):
    model = make_model()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = make_trainer(model=model, max_steps=1, trainer={"optimizers": (own, None)}, **settings)
    with pytest.raises(ValueError, match="the trainer has an optimizer of your own .SGD."):
        trainer.train()


@pytest.mark.parametrize("way", ["set later", "create_optimizer overridden"])
def test_an_optimizer_of_ones_own_is_found_wherever_it_comes_from(make_trainer, make_model, way, monkeypatch):
    model = make_model()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = make_trainer(model=model, max_steps=1, label_optimizer="sgd_in_backward")
    if way == "set later":
        trainer.optimizer = own
    else:
        monkeypatch.setattr(trainer, "create_optimizer", lambda model=None: setattr(trainer, "optimizer", own))
    with pytest.raises(ValueError, match="label_optimizer='sgd_in_backward', but the trainer has an optimizer of your own"):
        trainer.train()


def test_other_options_after_a_training_want_a_new_trainer(make_trainer):
    trainer = make_trainer(max_steps=1, **NOTHING_ELSE)
    trainer.train()
    trainer.train()
    trainer.args.label_optimizer = "sgd_in_backward"
    with pytest.raises(ValueError, match="built with label_optimizer='adamw', but it is 'sgd_in_backward' now"):
        trainer.train()


@pytest.mark.parametrize("how", ["penalty", "other loss"])
def test_a_loss_that_does_not_train_the_labels_is_refused(make_trainer, make_model, how, monkeypatch):
    model = make_model()
    trainer = make_trainer(model=model, max_steps=2, label_optimizer="sgd_in_backward", **NOTHING_ELSE)
    own_loss = trainer.compute_loss

    def loss_of(model, inputs, **kwargs):
        if how == "penalty":
            return own_loss(model, inputs, **kwargs) + 0.1 * model.label_head.output.weight.square().sum()
        return model.get_input_embeddings().weight.square().sum()

    monkeypatch.setattr(trainer, "compute_loss", loss_of)
    cause = "a gradient has reached label_head.output" if how == "penalty" else "nothing has updated them"
    with pytest.raises(RuntimeError, match=f"in this step {cause}.*Use label_optimizer='adamw' or 'rowwise'"):
        trainer.train()


@pytest.mark.parametrize("name", IN_BACKWARD)
def test_nothing_but_the_rest_is_trained_where_all_label_matrices_are_frozen(make_trainer, make_model, name):
    model = make_model()
    for parameter in label_parameters(model):
        parameter.requires_grad_(False)
    before = [parameter.clone() for parameter in label_parameters(model)]
    make_trainer(model=model, label_optimizer=name, sparse_embeddings=True, max_steps=2, **NOTHING_ELSE).train()
    assert all(torch.equal(old, new) for old, new in zip(before, label_parameters(model), strict=True))


@pytest.mark.parametrize("name", ["adamw", "rowwise", "sgd_in_backward"])
def test_a_class_of_optimizer_trains_what_the_label_optimizer_does_not(make_trainer, make_model, name):
    given = {"optimizer_cls_and_kwargs": (torch.optim.SGD, {"lr": 0.0, "momentum": 0.9})}
    model = make_model()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    trainer = make_trainer(model=model, max_steps=1, label_optimizer=name, warmup_steps=0, trainer=given, **NOTHING_ELSE)
    trainer.train()
    moved = {key for key, tensor in model.state_dict().items() if not torch.equal(tensor, before[key])}
    labels = {key for key in before if key.startswith(("label_head.output", "cornet.")) and "to_context.bias" not in key}
    assert moved == (labels if name != "adamw" else set())


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS[1:])
def test_narrow_label_weights_are_refused(make_trainer, make_model, name):
    model = make_model().bfloat16()
    with pytest.raises(
        ValueError, match="held in torch.bfloat16, where updates .* are lost in rounding.*dtype=torch.float32"
    ):
        make_trainer(model=model, label_optimizer=name, max_steps=1).train()


def test_labels_that_read_tokens_are_not_updated_in_the_backward_pass_of_several_processes(
    make_trainer, words_alone, monkeypatch
):
    config = AttentionXMLConfig.for_tokenizer(
        words_alone, num_labels=6, hidden_size=4, embedding_size=4, cornet_context_size=3
    )
    options = {"label_optimizer": "sgd_in_backward", "max_steps": 1, "trainer": {"processing_class": words_alone}}
    trainer = make_trainer(model=AttentionXMLForXMTC(config), **options)
    monkeypatch.setattr(type(trainer.args), "world_size", 2)
    with pytest.raises(ValueError, match="2 processes: the labels of AttentionXMLForXMTC read all tokens"):
        trainer.train()


def test_tied_embeddings_cannot_be_sparse(make_trainer, make_model):
    model = make_model()
    model.copy = torch.nn.Linear(16, model.get_input_embeddings().num_embeddings, bias=False)
    model.copy.weight = model.get_input_embeddings().weight
    with pytest.raises(ValueError, match="encoder.token_embedding.weight and copy.weight are one tensor"):
        make_trainer(model=model, sparse_embeddings=True, max_steps=1).train()


def test_an_embedding_with_a_norm_limit_cannot_be_sparse(make_trainer, make_model):
    model = make_model()
    model.get_input_embeddings().max_norm = 1.0
    with pytest.raises(ValueError, match="word embedding is Embedding.*only a plain nn.Embedding"):
        make_trainer(model=model, sparse_embeddings=True, max_steps=1).train()


def test_half_frozen_label_rows_are_refused(make_trainer, make_model):
    model = make_model()
    model.label_head.output.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="Of label_head.output only a part is frozen"):
        make_trainer(model=model, label_optimizer="rowwise", max_steps=1).train()


@pytest.mark.parametrize("name", LABEL_OPTIMIZERS[1:])
def test_frozen_label_rows_stay(make_trainer, make_model, name):
    model = make_model()
    model.label_head.output.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in label_parameters(model)]
    make_trainer(model=model, label_optimizer=name, max_steps=2, **NOTHING_ELSE).train()
    same = [torch.equal(old, new) for old, new in zip(before, label_parameters(model), strict=True)]
    assert same == [True, True] + [False] * (len(same) - 2)

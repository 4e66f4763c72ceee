"""Label options and sparse embeddings: what does not go together, and what is frozen."""

import pytest
import torch
from label_options import NOTHING_ELSE, label_parameters

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC
from hf_xmtc.training.arguments import IN_BACKWARD, LABEL_OPTIMIZERS

# ---- what does not go together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_optimizer": "adam"}, "label_optimizer='adam' is none of adamw, rowwise, sgd_in_backward"),
        ({"label_learning_rate": -1.0}, "label_learning_rate=-1.0, but a rate cannot be negative"),
        ({"cornet_learning_rate": -1.0}, "cornet_learning_rate=-1.0, but a rate cannot be negative"),
        (
            {"label_optimizer": "adam_in_backward", "gradient_accumulation_steps": 2},
            "'adam_in_backward' with gradient_accumulation_steps=2: .* use label_optimizer='rowwise'",
        ),
        ({"label_optimizer": "rowwise", "optim": "adafactor"}, "label_optimizer='rowwise' with optim='adafactor'"),
        ({"sparse_embeddings": True, "optim": "sgd"}, "sparse_embeddings=True with optim='sgd'"),
        ({"adam_epsilon_uncorrected": True, "optim": "adamw_8bit"}, "uncorrected=True with optim='adamw_8bit'"),
        ({"adam_epsilon_uncorrected": True, "adam_epsilon": 0.0}, "adam_epsilon=0.0: it places the epsilon"),
        ({"label_optimizer": "sgd_in_backward", "fp16": True}, "'sgd_in_backward' with fp16=True: .* Use bf16=True"),
        ({"label_optimizer": "sgd_in_backward", "fsdp": True}, "'sgd_in_backward' with fsdp=True: it shards the weights"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(make_trainer, settings, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**settings)


@pytest.mark.parametrize(("engine", "name"), [("is_fsdp_enabled", "fsdp"), ("is_deepspeed_enabled", "deepspeed")])
def test_engines_that_shard_are_refused_before_training(make_trainer, engine, name):
    trainer = make_trainer(label_optimizer="rowwise_in_backward", max_steps=1)
    setattr(trainer, engine, True)
    with pytest.raises(ValueError, match=f"'rowwise_in_backward' with {name}=True"):
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
    with pytest.raises(ValueError, match=f"'sgd_in_backward' with {name}: it needs a gradient of all logits"):
        trainer.train()


@pytest.mark.parametrize(
    "settings",
    [
        {"label_optimizer": "sgd_in_backward"},
        {"label_optimizer": "rowwise"},
        {"label_learning_rate": 0.1},
        {"sparse_embeddings": True},
        {"adam_epsilon_uncorrected": True},
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


def test_where_epsilon_stands_is_no_matter_of_another_class_of_optimizer(make_trainer):
    given = {"optimizer_cls_and_kwargs": (torch.optim.SGD, {"lr": 0.1})}
    with pytest.raises(ValueError, match="adam_epsilon_uncorrected=True, but the optimizer is SGD, from optimizer_cls"):
        make_trainer(max_steps=1, adam_epsilon_uncorrected=True, trainer=given, **NOTHING_ELSE).train()


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
    monkeypatch.setattr(
        trainer, "_checkpoint_to_resume", lambda given: None
    )  # where the processes would wait for each other
    with pytest.raises(ValueError, match="world_size=2: the labels of AttentionXMLForXMTC read all tokens"):
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


def test_a_rate_for_cornet_without_cornet_is_refused(make_trainer, make_model):
    with pytest.raises(ValueError, match="cornet_learning_rate=0.1 with cornet_num_blocks=0: there is no CorNet to train"):
        make_trainer(model=make_model(cornet_num_blocks=0), cornet_learning_rate=0.1, max_steps=1).train()

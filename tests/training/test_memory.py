"""The estimate is compared with what is counted without it: weights, optimizer state, and what autograd keeps."""

import psutil
import pytest
import torch
from transformers import BertConfig

from hf_xmtc import (
    AttentionXMLConfig,
    AttentionXMLForXMTC,
    BertXMLConfig,
    BertXMLForXMTC,
    LACOForXMTC,
    MeSHProbeNetConfig,
    MeSHProbeNetForXMTC,
    SeqTagForXMTC,
    XMLCNNConfig,
    XMLCNNForXMTC,
    XMLRNNConfig,
    XMLRNNForXMTC,
    XMTCTrainer,
    XMTCTrainingArguments,
)
from hf_xmtc.training import MemoryEstimate, estimate_memory
from hf_xmtc.training.arguments import LABEL_OPTIMIZERS
from hf_xmtc.training.optimizer_options import build_optimizer, prepared_for_training

MIB = 2**20
FIELDS = {
    "parameters": 100.0,
    "gradients": 100.0,
    "optimizer": 200.0,
    "averaging": 0.0,
    "activations": 50.0,
    "evaluation": 20.0,
    "device": "cpu",
}


def make_model(**settings) -> BertXMLForXMTC:
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return BertXMLForXMTC(BertXMLConfig(**{**sizes, "num_cls_tokens": 2, "cornet_context_size": 4, **settings}))


def on_meta(**settings) -> BertXMLForXMTC:
    with torch.device("meta"):
        return make_model(**{"num_labels": 100, **settings})


@pytest.fixture
def make_args(tmp_path):
    def make(**settings) -> XMTCTrainingArguments:
        sizes = {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4}
        return XMTCTrainingArguments(str(tmp_path), use_cpu=True, **{**sizes, **settings})

    return make


def test_weights_and_optimizer_are_counted_exactly(make_args):
    model = on_meta(num_labels=100_000, cornet_num_blocks=0)
    estimate = estimate_memory(model, make_args(averaging_start_epoch=0), num_tokens=32)
    mib = 4 * sum(parameter.numel() for parameter in model.parameters()) / MIB
    assert estimate.parameters == estimate.gradients == estimate.averaging == pytest.approx(mib)
    assert estimate.optimizer == pytest.approx(2 * mib)
    assert estimate.total == pytest.approx(5 * mib + estimate.activations)
    assert estimate_memory(model, make_args(), num_tokens=32).averaging == 0


@pytest.mark.parametrize("optim", ["adamw_torch", "sgd", "sgd momentum=0.9", "adagrad", "rmsprop", "adafactor"])
def test_optimizer_state_is_what_the_optimizer_allocates(make_args, optim):
    name, _, optim_args = optim.partition(" ")
    args = make_args(optim=name, optim_args=optim_args or None)
    model = make_model(num_labels=300)
    optimizer_class, settings = XMTCTrainer.get_optimizer_cls_and_kwargs(args, model)
    optimizer = optimizer_class(model.parameters(), **settings)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    tensors = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    allocated = sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.dim()) / MIB
    assert estimate_memory(model, args, num_tokens=32).optimizer == pytest.approx(allocated)


def test_gradients_have_the_type_of_their_weights(make_args):
    full, half = (estimate_memory(on_meta().to(dtype), make_args(), 32) for dtype in (torch.float32, torch.bfloat16))
    assert (half.parameters, half.gradients) == (full.parameters / 2, full.gradients / 2)


def test_frozen_weights_need_no_gradient_and_no_optimizer_state(make_args):
    model = on_meta(num_labels=5)
    model.encoder.requires_grad_(False)
    estimate = estimate_memory(model, make_args(), 32)
    assert estimate.gradients < estimate.parameters
    assert estimate.optimizer == 2 * estimate.gradients


def kept_by_the_scorer(output) -> int:
    """Bytes of logits that the node of the label loss holds for its backward pass; none where a family has another loss."""
    node = output.loss.grad_fn
    while not hasattr(node, "scorer"):
        if not node.next_functions:
            return 0
        node = node.next_functions[0][0]
    return sum(4 * logits.numel() for block in node.scorer.memory.values() for logits in block)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"last_layer_cls_only": False, "attention_probs_dropout_prob": 0.0},
        {"num_labels": 5_000, "cornet_num_blocks": 3},
        {"num_labels": 5_000, "cornet_num_blocks": 3, "label_memory_mib": 0.5},
        {"num_attention_heads": 8},
    ],
)
def test_activations_are_at_least_what_autograd_keeps_and_not_much_more(make_args, settings):
    settings = {"num_labels": 50, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, **settings}
    model = make_model(**settings, label_block_size=512).train()
    input_ids = torch.randint(1, 48, (8, 40))
    input_ids[:, :2] = torch.tensor([48, 49])
    bytes_kept = kept_by_a_step(model, input_ids)
    estimate = estimate_memory(model, make_args(per_device_train_batch_size=8), num_tokens=40)
    assert bytes_kept < estimate.activations * MIB < 1.6 * bytes_kept
    # What is advised where memory does not suffice is believed to help.
    checkpointed = estimate_memory(model, make_args(per_device_train_batch_size=8, activation_checkpointing=True), 40)
    assert checkpointed.activations < 0.9 * estimate.activations


WORDS = {"vocab_size": 50, "embedding_size": 64, "num_labels": 50, "cornet_context_size": 4}


@pytest.mark.parametrize(
    ("model_class", "config"),
    [
        (XMLCNNForXMTC, XMLCNNConfig(**WORDS, num_filters=32, bottleneck_size=16)),
        (XMLRNNForXMTC, XMLRNNConfig(**WORDS, hidden_size=64)),
        (MeSHProbeNetForXMTC, MeSHProbeNetConfig(**WORDS, hidden_size=64)),
        (AttentionXMLForXMTC, AttentionXMLConfig(**WORDS, hidden_size=64)),
    ],
    ids=["xmlcnn", "xmlrnn", "meshprobenet", "attentionxml"],
)
def test_activations_of_families_of_words_are_about_what_autograd_keeps(make_args, model_class, config):
    model = model_class(config).train()
    bytes_kept = kept_by_a_step(model, torch.randint(1, 48, (8, 40)))
    estimate = estimate_memory(model, make_args(per_device_train_batch_size=8), num_tokens=40)
    assert bytes_kept < estimate.activations * MIB < 3 * bytes_kept


ENCODER = {
    "vocab_size": 50,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 200,
}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        (LACOForXMTC, {}),
        (LACOForXMTC, {"joint_embedding": False}),
        (LACOForXMTC, {"cross_attention": False}),
        (LACOForXMTC, {"auxiliary_task": "both"}),
        (LACOForXMTC, {"cross_attention_kernel": (10, 10), "cross_attention_channels": None}),
        (SeqTagForXMTC, {}),
    ],
    ids=["laco", "without-je", "without-ca", "both-tasks", "kernel-of-the-authors", "seqtag"],
)
def test_activations_of_families_that_read_labels_are_about_what_autograd_keeps(make_args, family, settings):
    encoder = BertConfig(**ENCODER)
    config = family.config_class(backbone_config=encoder, num_labels=100, cls_token_id=48, sep_token_id=49, **settings)
    model = family(config).train()
    bytes_kept = kept_by_a_step(model, torch.randint(1, 48, (8, 40)))
    estimate = estimate_memory(model, make_args(per_device_train_batch_size=8), num_tokens=40)
    attention = getattr(model, "cross_attention", None)
    at_work = 0 if attention is None else attention.working_bytes(8, 40, 100, "cpu")
    assert bytes_kept < estimate.activations * MIB < 2.5 * bytes_kept + at_work
    assert estimate.evaluation < estimate.activations


def kept_by_a_step(model, input_ids) -> int:
    """Bytes that autograd and the label scorer keep for the backward pass of a step on ``input_ids``, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = []
    labels = torch.zeros(8, 1, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        output = model(input_ids, attention_mask=torch.ones_like(input_ids), labels=labels, top_k=0)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}
    return sum(size for address, size in storages.items() if address not in weights) + kept_by_the_scorer(output)


def test_activations_grow_with_batch_tokens_and_labels(make_args):
    def activations(batch_size=4, num_tokens=32, **settings):
        return estimate_memory(
            on_meta(**settings), make_args(per_device_train_batch_size=batch_size), num_tokens
        ).activations

    assert activations(batch_size=8) == pytest.approx(2 * activations())
    assert activations(num_tokens=64) > 1.5 * activations()
    assert activations(num_labels=10_000) > activations()
    assert activations(cornet_num_blocks=3) > activations(cornet_num_blocks=0)


def test_attention_is_bounded_however_many_labels(make_args):
    def activations(num_labels, **settings):
        with torch.device("meta"):
            model = AttentionXMLForXMTC(
                AttentionXMLConfig(vocab_size=50, num_labels=num_labels, cornet_num_blocks=0, **settings)
            )
        return estimate_memory(model, make_args(per_device_train_batch_size=8), 500).activations

    logits = 4 * 8 * 13_330 / MIB
    tight = {"label_memory_mib": 0.0, "label_block_size": 100}
    assert activations(2 * 13_330, **tight) - activations(13_330, **tight) < 4 * logits
    # Scores and attention of all labels over 500 tokens are a thousand times the logits.
    assert activations(13_330, label_memory_mib=1e6) > activations(13_330, **tight) + 1_000 * logits


@pytest.mark.parametrize("num_blocks", [0, 2])
def test_the_label_scorer_is_bounded_however_many_labels(make_args, num_blocks):
    args = make_args(per_device_train_batch_size=512, per_device_eval_batch_size=512)

    def estimate(num_labels, **settings):
        return estimate_memory(on_meta(num_labels=num_labels, cornet_num_blocks=num_blocks, **settings), args, 32)

    many, more = estimate(200_000), estimate(1_000_000)
    assert (many.activations, many.evaluation) == (more.activations, more.evaluation)
    tight = estimate(200_000, label_memory_mib=0.0)
    assert many.activations - tight.activations == many.evaluation - tight.evaluation == pytest.approx(64)
    logits = 4 * 512 * 100 / MIB  # of 100 labels
    assert estimate(200_000, label_block_size=100, label_memory_mib=0.0).evaluation < tight.evaluation - 10 * logits


# ---- label optimizers and sparse embeddings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, torch.float32) for name in LABEL_OPTIMIZERS), ("adamw", torch.bfloat16)], ids=str
)
def test_gradients_and_state_are_what_a_step_allocates(make_args, name, dtype):
    args, model = make_args(label_optimizer=name, sparse_embeddings=True), make_model(num_labels=300).to(dtype)
    settings = XMTCTrainer.get_optimizer_cls_and_kwargs(args, model)
    optimizer, updates = build_optimizer(model, args, *settings)
    batch = {"input_ids": torch.randint(1, 48, (4, 32)), "labels": torch.zeros(4, 1, dtype=torch.long)}
    batch["input_ids"][:, :2] = torch.tensor([48, 49])
    with prepared_for_training(model, args):
        model.update_labels_in_backward(updates)
        model(**batch, attention_mask=torch.ones_like(batch["input_ids"]), top_k=0).loss.backward()
        embedding = model.get_input_embeddings().weight.grad
        values = [embedding._values()] + [p.grad for p in model.parameters() if p.grad is not None and not p.grad.is_sparse]
        gradients = sum(value.numel() * value.element_size() for value in values)
        optimizer.step()
    state = [
        4 * value.numel()  # as if float32: torch's AdamW keeps the type of narrow weights, which the estimate leaves out
        for kept in optimizer.state.values()
        for value in kept.values()
        if isinstance(value, torch.Tensor) and value.dim()
    ]
    estimate = estimate_memory(model, args, num_tokens=32)
    assert estimate.gradients * MIB == pytest.approx(gradients)
    assert estimate.optimizer * MIB == pytest.approx(sum(state))


def test_processes_share_the_machine_and_exchange_gradients(make_args, monkeypatch):
    free = psutil.virtual_memory()._replace(available=300 * MIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    args = make_args()
    alone = estimate_memory(on_meta(), args, 32)
    assert alone.available == 300 and alone.describe().endswith("300 MiB are free on cpu.")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(XMTCTrainingArguments, "world_size", 3)
    shared = estimate_memory(on_meta(), args, 32)
    assert shared.available == 100 and shared.describe().endswith("100 MiB are free on cpu for each of 3 processes.")
    assert (shared.gradients, shared.parameters) == (2 * alone.gradients, alone.parameters)


def test_sharded_labels_are_divided_by_the_processes(make_args, monkeypatch):
    model = on_meta(num_labels=100_001, cornet_context_size=8, label_memory_mib=0, label_block_size=64)
    alone = estimate_memory(model, make_args(), 32)
    monkeypatch.setattr(XMTCTrainingArguments, "world_size", 4)
    part = estimate_memory(model, make_args(shard_labels=True), 32)
    per_label = (2 * 16 + 1) + 2 * (2 * 8 + 1)  # two concatenated CLS states; W1, W2 and b2 of two CorNet blocks
    saved = 4 * (100_001 - 25_001) * per_label / MIB
    assert alone.parameters - part.parameters == pytest.approx(saved)
    assert alone.optimizer - part.optimizer == pytest.approx(2 * saved)
    # Gradients of the own labels are not exchanged, the others are.
    encoder = alone.parameters - 4 * 100_001 * per_label / MIB
    assert part.gradients == pytest.approx(part.parameters + encoder)
    assert part.gathering == alone.parameters and alone.gathering == 0
    assert part.total >= part.parameters + part.optimizer + part.gathering  # when a checkpoint is written
    assert model.label_head.output.weight.shape == (100_001, 32)
    # The documents of all four are scored.
    assert part.activations > alone.activations


def test_what_cannot_fit_is_refused_with_the_options_that_help():
    MemoryEstimate(**FIELDS, available=451.0).check_available()
    with pytest.raises(MemoryError, match=r"about 450 MiB .* 449 MiB are free on cpu. Lower per_device_train_batch_size"):
        MemoryEstimate(**FIELDS, available=449.0).check_available()
    with pytest.raises(
        MemoryError,
        match=r"about 700 MiB .* 400 in evaluation.*\(vocab_size\), or use label_optimizer=sgd or shard_labels=True\.",
    ):
        remedies = ("label_optimizer=sgd", "shard_labels=True")
        MemoryEstimate(**{**FIELDS, "evaluation": 400.0}, available=500.0, remedies=remedies).check_available()


CHECKPOINTING = "activation" if hasattr(XMTCTrainingArguments("unused"), "activation_checkpointing") else "gradient"
WIDE = {"num_labels": 20_000, "cornet_num_blocks": 0}
DEEP = {"num_labels": 10, "cornet_num_blocks": 0, "num_hidden_layers": 12}


@pytest.mark.parametrize(
    ("sizes", "settings", "processes", "remedies"),
    [
        (WIDE, {}, 1, {"label_optimizer=rowwise_in_backward", "optim=adafactor"}),
        (WIDE, {"label_optimizer": "sgd_in_backward"}, 1, set()),
        (WIDE, {"gradient_accumulation_steps": 2}, 1, {"optim=adafactor"}),
        (WIDE, {"optim": "adafactor"}, 1, set()),
        (WIDE, {}, 2, {"label_optimizer=rowwise_in_backward", "optim=adafactor", "shard_labels=True"}),
        (DEEP, {}, 1, {f"{CHECKPOINTING}_checkpointing=True"}),
    ],
)
def test_only_options_that_can_be_set_and_help_are_named(make_args, monkeypatch, sizes, settings, processes, remedies):
    monkeypatch.setattr(XMTCTrainingArguments, "world_size", processes)
    args = make_args(**settings, per_device_train_batch_size=64 if sizes is DEEP else 1)
    assert set(estimate_memory(on_meta(**sizes), args, 16).remedies) == remedies


def test_labels_that_read_tokens_are_not_told_to_spread_over_processes(make_args, monkeypatch):
    monkeypatch.setattr(XMTCTrainingArguments, "world_size", 2)
    with torch.device("meta"):
        model = AttentionXMLForXMTC(AttentionXMLConfig(vocab_size=50, num_labels=20_000, cornet_num_blocks=0))
    assert set(estimate_memory(model, make_args(), 16).remedies) == {"optim=adafactor"}

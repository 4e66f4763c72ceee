"""Estimate of the memory of a training run, reported before anything is allocated."""

import copy
import math
import os
from dataclasses import dataclass, replace

import psutil
import torch
from torch import nn
from transformers import PreTrainedConfig

from hf_xmtc.models.label_scorer import suitable_block_size

from .arguments import XMTCTrainingArguments
from .optimizer_options import sparse_embedding, sparse_label_vectors, trained_label_matrices
from .option_conflicts import check_model_options
from .sharded_label_head import label_dimensions

__all__ = ["MemoryEstimate", "estimate_memory"]

MIB = 2**20

# Bytes of optimizer state per weight, by the name in ``optim``; all others are taken to hold two elements, as AdamW does.
STATE_BYTES = {"sgd": 0, "adagrad": 4, "rmsprop": 4, "lion_32bit": 4, "adamw_torch_8bit": 2, "adamw_bnb_8bit": 2}
ADAMW_STATE_BYTES = 8


@dataclass(frozen=True)
class MemoryEstimate:
    """Expected memory of one process of a training run in MiB, and what it can have of the device's free memory.

    Attributes:
        parameters: The weights.
        gradients: Their gradients, twice where several processes exchange them.
        optimizer: State of the optimizer.
        averaging: The averaged copy of the weights.
        activations: What a training step keeps for its backward pass.
        evaluation: What scoring a batch takes in evaluation, when there are no gradients and activations.
        available: Free memory, divided by the processes that share it.
        device: Where training will run.
        processes: Processes that share the free memory.
        gathering: The weights of the whole model, which pass through a process with a part of the labels when models are built,
            saved and read.
        remedies: Options that would lower it and are not set yet.
    """

    parameters: float
    gradients: float
    optimizer: float
    averaging: float
    activations: float
    evaluation: float
    available: float
    device: str
    processes: int = 1
    gathering: float = 0.0
    remedies: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        constant = self.parameters + self.optimizer + self.averaging
        return constant + max(self.gradients + self.activations, self.evaluation, self.gathering)

    def describe(self) -> str:
        """One line for the log."""
        parts = f"{self.parameters:,.0f} parameters + {self.optimizer:,.0f} optimizer"
        if self.averaging:
            parts += f" + {self.averaging:,.0f} weight averaging"
        share = f" for each of {self.processes} processes" if self.processes > 1 else ""
        return (
            f"Expected memory: about {self.total:,.0f} MiB ({parts} + {self.gradients:,.0f} gradients and "
            f"{self.activations:,.0f} activations in training, {self.evaluation:,.0f} in evaluation); "
            f"{self.available:,.0f} MiB are free on {self.device}{share}."
        )

    def check_available(self) -> None:
        """Stop before allocating what cannot fit.

        Raises:
            MemoryError: If the estimate exceeds the free memory; the message names the options that lower it.
        """
        if self.total > self.available:
            remedies = f", or use {' or '.join(self.remedies)}" if self.remedies else ""
            raise MemoryError(
                f"{self.describe()} Lower per_device_train_batch_size, per_device_eval_batch_size or max_length_tokens, the "
                "model's sizes (hidden_size, cornet_context_size, bottleneck_size) or the vocabulary (vocab_size)"
                f"{remedies}."
            )


def estimate_memory(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> MemoryEstimate:
    """Estimate what training ``model`` will take beyond what the process holds already.

    Counted from shapes and data types: weights, gradients (none of label matrices that are updated in the backward pass),
    averaged weights, and the state of every ``label_optimizer``, of lazy Adam, AdamW, SGD, Adagrad, RMSprop and Adafactor (other
    optimizers are taken to need as much as AdamW). Estimated: what autograd keeps of transformer layers with a full batch of
    documents of ``num_tokens`` tokens, less with ``activation_checkpointing``, bf16 or fp16; and what the label scorer keeps and
    works on, in training and in evaluation, which the config's ``label_memory_mib`` and a block of labels limit. With
    ``shard_labels`` it is what the process with the largest part of the labels needs. Not counted:
    the data, working memory of the optimizer and of kernels, what the allocator keeps for later, and sharding (FSDP,
    DeepSpeed), under which a process holds less.

    Runs on a CPU (the demo model with 572 and 10,000 labels; AdamW, Adafactor, bf16, checkpointing) took between as much as
    estimated and a third more, so a run that just fits by this estimate may not fit.

    Args:
        model: The model, which may live on the meta device.
        args: Batch sizes, optimizer, precision, checkpointing, averaging, device and processes.
        num_tokens: Tokens of the longest documents, special tokens included.
    """
    estimate = _estimate(model, args, num_tokens)
    return replace(estimate, remedies=_remedies(model, args, num_tokens, estimate.total))


def _estimate(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> MemoryEstimate:
    gathered = 0
    if args.shard_labels:
        gathered = sum(_num_bytes(parameter) for parameter in model.parameters()) if args.device.type == "cpu" else 0
        model = _part_of(model, args.world_size)
    weights = sum(_num_bytes(parameter) for parameter in model.parameters())
    gradients, state = _training_state_bytes(model, args, num_tokens)
    exchanged = gradients if args.world_size > 1 else 0
    if args.shard_labels and not args.updates_in_backward:
        labels = [parameter for matrix in model.label_matrices().values() for parameter in matrix.parameters]
        exchanged -= sum(_num_bytes(parameter) for parameter in labels if parameter.requires_grad)
    if args.device.type == "cuda":
        available, processes = torch.cuda.mem_get_info(args.device)[0], 1
    else:
        # Processes on one machine share its memory, which none of them has used yet.
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        available = psutil.virtual_memory().available / processes
    return MemoryEstimate(
        parameters=weights / MIB,
        # DistributedDataParallel exchanges gradients in buffers of its own.
        gradients=(gradients + exchanged) / MIB,
        optimizer=state / MIB,
        averaging=weights / MIB if args.averaging_start_epoch is not None else 0.0,
        activations=_training_bytes(model, args, num_tokens) / MIB,
        evaluation=_evaluation_bytes(model, args, num_tokens) / MIB,
        available=available / MIB,
        device=str(args.device),
        processes=processes,
        gathering=gathered / MIB,
    )


# Options that lower memory; which of them a run can take is tried.
REMEDIES = (
    ("label_optimizer", "rowwise_in_backward"),
    ("activation_checkpointing", True),
    ("gradient_checkpointing", True),  # the name of the one before in older releases of transformers
    ("optim", "adafactor"),
    ("shard_labels", True),
)


def _remedies(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int, total: float) -> tuple[str, ...]:
    """The options that can be set beside the others and lower the estimate by a twentieth at least."""
    remedies = []
    for name, value in REMEDIES:
        if not hasattr(args, name) or (name == "gradient_checkpointing" and hasattr(args, "activation_checkpointing")):
            continue
        changed = copy.copy(args)
        setattr(changed, name, value)
        try:
            changed.check_conflicts()
            check_model_options(changed, model)
            lower = _estimate(model, changed, num_tokens).total
        except ValueError:
            continue
        if lower < 0.95 * total:
            remedies.append(f"{name}={value}")
    return tuple(remedies)


def _checkpoints_activations(args: XMTCTrainingArguments) -> bool:
    # The first name is that of transformers 5.24, the second that of earlier versions.
    return bool(getattr(args, "activation_checkpointing", None) or getattr(args, "gradient_checkpointing", None))


def _part_of(model: nn.Module, processes: int) -> nn.Module:
    """The model with the largest part of its labels that a process gets, on the meta device."""
    dimensions, parts = label_dimensions(model), {}
    for name, parameter in model.named_parameters():
        shape = list(parameter.shape)
        if name in dimensions:
            shape[dimensions[name]] = math.ceil(shape[dimensions[name]] / processes)
        part = torch.empty(shape, dtype=parameter.dtype, device="meta")
        parts[id(parameter)] = nn.Parameter(part, parameter.requires_grad)
    return copy.deepcopy(model, parts)


def _num_bytes(parameter: nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()


def _training_state_bytes(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> tuple[int, int]:
    """Gradients that are stored, and state of all optimizers."""
    matrices, documents = trained_label_matrices(model, args), args.per_device_train_batch_size
    labels = [parameter for matrix in matrices.values() for parameter in matrix.parameters]
    tables: dict[nn.Parameter, int] = {}  # and the rows of them that a batch reads
    if (embedding := sparse_embedding(model, args)) is not None:
        tables[embedding.weight] = documents * num_tokens
    if (vectors := sparse_label_vectors(model, args)) is not None:
        tables[vectors] = min(len(vectors), documents * model.candidates_of(len(model.upper_levels), training=True))
    elsewhere = {id(parameter) for parameter in [*labels, *tables]}
    rest = [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) not in elsewhere]
    gradients, state = sum(_num_bytes(parameter) for parameter in rest), _optimizer_bytes(rest, args)
    if not args.updates_in_backward:
        gradients += sum(_num_bytes(parameter) for parameter in labels)
    if args.label_optimizer.startswith("rowwise"):
        state += 4 * sum(len(matrix.rows) for matrix in matrices.values())
    elif args.label_optimizer == "adam_in_backward":
        state += 8 * sum(parameter.numel() for parameter in labels)
    for table, rows in tables.items():
        gradients += rows * table.shape[1] * table.element_size()
        state += 8 * table.numel()
    return gradients, state


def _optimizer_bytes(parameters: list[nn.Parameter], args: XMTCTrainingArguments) -> int:
    name = str(getattr(args.optim, "value", args.optim))
    if name == "adafactor":
        # One number per row and one per column of a matrix.
        return 4 * sum(sum(p.shape[-2:]) * p.shape[:-2].numel() if p.dim() > 1 else p.numel() for p in parameters)
    state = STATE_BYTES.get(name, ADAMW_STATE_BYTES)
    if name == "sgd" and "momentum" in (args.optim_args or ""):
        state = 4
    return state * sum(parameter.numel() for parameter in parameters)


@dataclass(frozen=True)
class _EncoderSizes:
    """Sizes that an encoder's activations depend on, by whatever names its config uses."""

    layers: float
    width: int
    inner: int
    heads: int
    attention_dropout: float
    is_eager: bool

    @classmethod
    def of(cls, config: PreTrainedConfig) -> "_EncoderSizes":
        encoder = getattr(config, "backbone_config", None) or config

        def first(*names: str, default: float) -> float:
            return next((value for name in names if (value := getattr(encoder, name, None)) is not None), default)

        width = first("hidden_size", "dim", default=0)
        layers = first("num_hidden_layers", "n_layers", default=1)
        # A last layer in which only the CLS tokens are queries keeps little more than keys and values.
        cls_only = encoder is config and getattr(config, "last_layer_cls_only", False)
        return cls(
            layers=layers - 0.7 if cls_only else layers,
            width=width,
            inner=first("intermediate_size", "hidden_dim", default=4 * width),
            heads=first("num_attention_heads", "n_heads", default=1),
            attention_dropout=first("attention_probs_dropout_prob", "attention_dropout", default=0.0),
            is_eager=getattr(config, "_attn_implementation", None) == "eager",
        )


def _training_bytes(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> float:
    documents, sizes = args.per_device_train_batch_size, _EncoderSizes.of(model.config)
    half = args.bf16 or args.fp16
    counted = getattr(model.config, "activation_elements_per_token", None)
    if counted is not None:
        hidden = 1.5 * documents * num_tokens * counted  # half as much again for gradients on their way
        return (
            hidden * (3.2 if half else 4)
            + _scorer_bytes(model, args, documents, num_tokens, gradients=True)
            + _half_copies(model, half)
        )
    beside = _elements_beside_encoder(model, documents, num_tokens, args.device.type)
    num_tokens += getattr(model.config, "num_label_tokens", 0)
    # A layer keeps its input, query, key, value, what attention gives, residual sums, norms and dropout masks: about 11 H a
    # token; and its feed-forward layer before and after the activation.
    layer = documents * num_tokens * (11 * sizes.width + 2 * sizes.inner)
    # Attention weights are kept before and after dropout where no fast kernel is at work; the one of CPUs has no dropout.
    if sizes.is_eager or (args.device.type == "cpu" and sizes.attention_dropout > 0):
        layer += 3 * documents * sizes.heads * num_tokens**2
    hidden = sizes.layers * layer
    if _checkpoints_activations(args):
        # The input of each layer, and all of one layer at a time.
        hidden = min(hidden, sizes.layers * documents * num_tokens * sizes.width + layer)
    hidden += layer  # gradients on their way through a layer
    hidden += beside
    labels = _scorer_bytes(model, args, documents, num_tokens, gradients=True)
    # Autocast keeps norms, softmax and the loss in full precision.
    return hidden * (3.2 if half else 4) + labels + _half_copies(model, half)


def _elements_beside_encoder(model: nn.Module, documents: int, num_tokens: int, device: str) -> int:
    """Elements that a family whose encoder reads text and labels keeps and works on beside the encoder's layers."""
    counted = getattr(model.config, "activation_elements_beside_encoder", None)
    elements = documents * counted(num_tokens) if counted is not None else 0
    if (attention := getattr(model, "cross_attention", None)) is not None:
        elements += attention.working_bytes(documents, num_tokens, model.config.num_read_labels, device) // 4
    return elements


def _half_copies(model: nn.Module, half: bool) -> int:
    """Copies of the weights that autocast makes."""
    return 2 * sum(parameter.numel() for parameter in model.parameters() if parameter.dim() > 1) if half else 0


def _scorer_bytes(model: nn.Module, args: XMTCTrainingArguments, documents: int, num_tokens: int, gradients: bool) -> float:
    """Memory of the label scorer: logits it holds for its next pass, and its work on one block of labels."""
    config, head = model.config, model.label_head
    if getattr(model, "label_tree", None) is not None:
        return model.scoring_bytes(documents, num_tokens, gradients)
    rows = [matrix.rows for matrix in head.matrices().values()]
    num_labels, row_width = rows[0].shape if rows else (head.num_labels, 1)
    if args.shard_labels:
        documents *= args.world_size  # of all processes
    num_logits = config.cornet_num_blocks + 1
    memory = min(config.label_memory_mib * MIB, 4 * num_logits * documents * num_labels)
    width = max([row_width] + ([config.cornet_context_size] if model.cornet is not None else []))
    block = min(head.block_size or suitable_block_size(width, args.device.type), num_labels)
    # The logits in front of and behind CorNet's blocks, their gradients, and what the loss and its derivative need beside them.
    work = 4 * block * documents * (2 * num_logits + 3 if gradients else num_logits + 2)
    # Adam forms the gradient of a block of weights and the root of its second moment, the row-wise rule the gradient alone.
    formed = {"adam_in_backward": 3, "rowwise_in_backward": 1}.get(args.label_optimizer, 0)
    if gradients:
        work += 4 * formed * block * max((matrix.rows.shape[1] for matrix in model.label_matrices().values()), default=0)
    return memory + work + head.scoring_bytes(documents, num_tokens, gradients)


def _evaluation_bytes(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> float:
    documents, sizes = args.per_device_eval_batch_size, _EncoderSizes.of(model.config)
    beside = _elements_beside_encoder(model, documents, num_tokens, args.device.type)
    # The families of words say themselves what they keep in training; more than that is not alive without gradients.
    num_tokens += getattr(model.config, "num_label_tokens", 0)
    per_token = getattr(model.config, "activation_elements_per_token", None) or 12 * sizes.width + 2 * sizes.inner
    hidden = documents * num_tokens * per_token + beside
    if sizes.is_eager:
        hidden += 2 * documents * sizes.heads * num_tokens**2
    return 4 * hidden + _scorer_bytes(model, args, documents, num_tokens, gradients=False)

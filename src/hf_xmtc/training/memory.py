"""What a training run will need, said before anything is allocated."""

import os
from dataclasses import dataclass

import psutil
import torch
from torch import nn
from transformers import PreTrainedConfig

from .arguments import XMTCTrainingArguments

__all__ = ["MemoryEstimate", "estimate_memory"]

MIB = 2**20

# Bytes of optimizer state per weight, by the name in ``optim``; all others are taken to keep two numbers, as AdamW does.
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

    @property
    def total(self) -> float:
        kept = self.parameters + self.optimizer + self.averaging
        return kept + max(self.gradients + self.activations, self.evaluation)

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

    def refuse_if_too_large(self) -> None:
        """Stop before allocating what cannot fit.

        Raises:
            MemoryError: If the estimate exceeds the free memory; the message names the options that lower it.
        """
        if self.total > self.available:
            raise MemoryError(
                f"{self.describe()} Lower per_device_train_batch_size, per_device_eval_batch_size or max_length_tokens, the "
                "model's sizes (hidden_size, cornet_context_size, bottleneck_size) or the vocabulary (vocab_size), or use "
                "activation_checkpointing=True or optim=adafactor."
            )


def estimate_memory(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> MemoryEstimate:
    """Estimate what training ``model`` will take beyond what the process holds already.

    Counted from shapes and data types: weights, gradients, averaged weights, and the state of AdamW, SGD, Adagrad, RMSprop
    and Adafactor (other optimizers are taken to need as much as AdamW). Estimated: what autograd keeps of transformer layers
    with a full batch of documents of ``num_tokens`` tokens, less with ``activation_checkpointing``, bf16 or fp16; and the
    (B, L) matrices of the label scorer, in training and in evaluation. Not counted: the data, working memory of the optimizer
    and of kernels, what the allocator keeps for later, and sharding (FSDP, DeepSpeed), under which a process holds less.

    Runs on a CPU (the demo model with 572 and 10,000 labels; AdamW, Adafactor, bf16, checkpointing) took between as much as
    estimated and a third more, so a run that just fits by this estimate may not fit.

    Args:
        model: The model, which may live on the meta device.
        args: Batch sizes, optimizer, precision, checkpointing, averaging, device and processes.
        num_tokens: Tokens of the longest documents, special tokens included.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights = sum(_num_bytes(parameter) for parameter in model.parameters())
    gradients = sum(_num_bytes(parameter) for parameter in trainable)
    if args.device.type == "cuda":
        available, processes = torch.cuda.mem_get_info(args.device)[0], 1
    else:
        # Processes on one machine share its memory, which none of them has used yet.
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        available = psutil.virtual_memory().available / processes
    return MemoryEstimate(
        parameters=weights / MIB,
        # DistributedDataParallel exchanges gradients in buffers of its own.
        gradients=gradients * (2 if args.world_size > 1 else 1) / MIB,
        optimizer=_optimizer_bytes(trainable, args) / MIB,
        averaging=weights / MIB if args.averaging_start_epoch is not None else 0.0,
        activations=_training_bytes(model, args, num_tokens) / MIB,
        evaluation=_evaluation_bytes(model, args, num_tokens) / MIB,
        available=available / MIB,
        device=str(args.device),
        processes=processes,
    )


def _num_bytes(parameter: nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()


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
    """What decides the size of an encoder's activations, by whatever names its config uses."""

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
    config, documents, sizes = model.config, args.per_device_train_batch_size, _EncoderSizes.of(model.config)
    half = args.bf16 or args.fp16
    # A layer keeps its input, query, key, value, what attention gives, residual sums, norms and dropout masks: about 11 H a
    # token; and its feed-forward layer before and after the activation.
    layer = documents * num_tokens * (11 * sizes.width + 2 * sizes.inner)
    # Attention weights are kept before and after dropout where no fast kernel is at work; the one of CPUs has no dropout.
    if sizes.is_eager or (args.device.type == "cpu" and sizes.attention_dropout > 0):
        layer += 3 * documents * sizes.heads * num_tokens**2
    hidden = sizes.layers * layer
    # The first name is that of transformers 5.24, the second that of earlier versions.
    if getattr(args, "activation_checkpointing", None) or getattr(args, "gradient_checkpointing", None):
        # The input of each layer, and all of one layer at a time.
        hidden = min(hidden, sizes.layers * documents * num_tokens * sizes.width + layer)
    hidden += layer  # gradients on their way through a layer
    # The logits, their softplus and the gradients of both; each CorNet block keeps its activations.
    logits = (4 + config.cornet_num_blocks) * documents * config.num_labels
    # Autocast keeps norms, softmax and the loss in full precision, and copies of the weights in half.
    copies = 2 * sum(parameter.numel() for parameter in model.parameters() if parameter.dim() > 1) if half else 0
    return hidden * (3.2 if half else 4) + 4 * logits + copies


def _evaluation_bytes(model: nn.Module, args: XMTCTrainingArguments, num_tokens: int) -> float:
    config, documents, sizes = model.config, args.per_device_eval_batch_size, _EncoderSizes.of(model.config)
    hidden = documents * num_tokens * (12 * sizes.width + 2 * sizes.inner)
    if sizes.is_eager:
        hidden += 2 * documents * sizes.heads * num_tokens**2
    # CorNet needs the logits of all labels: its input, the correction and their sum. Without it they come in blocks.
    columns = config.num_labels if config.cornet_num_blocks else min(config.num_labels, model.label_head.block_size)
    return 4 * (hidden + 3 * documents * columns)

"""How much memory one training step of AttentionXML takes, in label blocks and without; `training_speed.py` asks for it.

Every measurement runs in a new process, so that its peak is its own.
"""

import multiprocessing
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from authors_structure import dense_logits, dense_loss
from hf_xmtc.commands.families import family_named
from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.training.arguments import XMTCTrainingArguments
from hf_xmtc.training.optimizer_options import build_optimizer, prepared_for_training
from hf_xmtc.training.trainer import XMTCTrainer
from machine import in_new_process
from training_cases import OURS

__all__ = ["StepSizes", "measure_memory", "measure_memory_in_new_process"]

MIB = 2**20
POSITIVES = 5  # per document; AmazonCat-13K has 5.04
RATE = 1e-6


@dataclass(frozen=True)
class StepSizes:
    """A training step.

    Attributes:
        family: The model's family.
        num_labels: Labels L.
        tokens: Words T of each document.
        documents: Documents B.
        steps: Steps to take.
        settings: Fields of the config. The default are the sizes that AttentionXML's authors have for AmazonCat-13K.
    """

    family: str = "attentionxml"
    num_labels: int = 13_330
    tokens: int = 500
    documents: int = 8
    steps: int = 2
    settings: dict[str, Any] = field(default_factory=lambda: {"hidden_size": 512, "linear_sizes": [512, 256]})


def measure_memory_in_new_process(way: str, sizes: StepSizes, threads: int) -> dict[str, Any]:
    """`measure_memory` in a process of its own.

    Raises:
        MemoryError: If the process was killed, as happens where memory runs out.
    """
    try:
        return in_new_process(measure_memory, way, sizes, threads)
    except BrokenProcessPool as error:
        raise MemoryError(
            f"The process with a step of {sizes.documents} documents × {sizes.num_labels:,} labels × {sizes.tokens} tokens was "
            "killed, which is what comes of too little memory. Measure on a machine with more, or choose smaller sizes."
        ) from error


def measure_memory(way: str, sizes: StepSizes, threads: int) -> dict[str, Any]:
    """Take training steps, and see by how much this process grows.

    Args:
        way: ``ours`` for label blocks, ``authors`` for autograd on (B, L, T) attention weights.
        sizes: The step.
        threads: Threads of torch.

    Returns:
        Milliseconds of each step, MiB of the weights, and MiB by which the process's peak exceeds what it held with the weights in
        place: activations, gradients and the optimizer's state. ``first_loss`` is the same for both ways but for rounding.
    """
    adjustment = Path("/proc/self/oom_score_adj")
    if adjustment.exists() and multiprocessing.parent_process() is not None:
        adjustment.write_text("1000")  # should memory run out, this process goes and no other
    torch.set_num_threads(threads)
    # A tiny step brings in the code of torch and its kernels, which is no memory that a way needs.
    tiny = StepSizes(sizes.family, 16, 4, 2, 1, {**sizes.settings, "vocab_size": 100})
    _take_steps(way, _new_model(tiny), tiny)
    model = _new_model(sizes)
    before = psutil.Process().memory_info().rss / MIB
    milliseconds, first_loss = _take_steps(way, model, sizes)
    return {
        "step_ms": milliseconds,
        "first_loss": first_loss,
        "weights_mib": sum(parameter.nbytes for parameter in model.parameters()) / MIB,
        "growth_mib": max(peak_memory_mb() - before, 0.0),
    }


def _new_model(sizes: StepSizes) -> XMTCPreTrainedModel:
    torch.manual_seed(0)
    config_class, model_class = family_named(sizes.family)
    config = config_class(**{"num_labels": sizes.num_labels, "cornet_num_blocks": 0, **sizes.settings})
    return model_class(config).train()


def _take_steps(way: str, model: XMTCPreTrainedModel, sizes: StepSizes) -> tuple[list[float], float]:
    args = XMTCTrainingArguments(
        output_dir="outputs/benchmark_training",  # nothing is written
        learning_rate=RATE,
        sparse_embeddings=True,
        use_cpu=True,
    )
    optimizer, _ = build_optimizer(model, args, *XMTCTrainer.get_optimizer_cls_and_kwargs(args, model))
    ids = torch.randint(1, model.config.vocab_size, (sizes.documents, sizes.tokens))
    labels = torch.stack([torch.randperm(sizes.num_labels)[:POSITIVES] for _ in ids])
    milliseconds, losses = [], []
    with prepared_for_training(model, args):
        for _ in range(sizes.steps):
            start = time.perf_counter()
            loss = _loss(way, model, ids, labels)
            loss.backward()
            optimizer.step()
            model.zero_grad()
            milliseconds.append(1000 * (time.perf_counter() - start))
            losses.append(loss.item())
    return milliseconds, losses[0]


def _loss(way: str, model: XMTCPreTrainedModel, ids: Tensor, labels: Tensor) -> Tensor:
    mask = torch.ones_like(ids)
    if way == OURS:
        return model(input_ids=ids, attention_mask=mask, labels=labels, top_k=0).loss
    return dense_loss(dense_logits(model, ids, mask), labels, model.config.loss_reduction)

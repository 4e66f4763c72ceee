"""Measurements of one process of ``label_head_speed.py``: a training step, top-k, the machine, or a model with many names.

All measurements return plain numbers. A step's weights are those of a new model, the same for every method, so that the losses of
the first step can be compared; the learning rate is next to nothing, so that all steps are alike.
"""

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, Pipeline, TextClassificationPipeline

from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.models.configuration_bertxml import BertXMLConfig
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.label_products import add_outer_product, product, transposed_product
from hf_xmtc.models.label_scorer import suitable_block_size
from hf_xmtc.models.modeling_bertxml import BertXMLForXMTC
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.models.pipeline_xmtc import XMTCPipeline
from hf_xmtc.tokenization.word_level import train_word_tokenizer
from hf_xmtc.training.arguments import XMTCTrainingArguments
from hf_xmtc.training.optimizer_options import build_optimizer
from hf_xmtc.training.trainer import XMTCTrainer

__all__ = ["METHODS", "OURS", "TOP_K", "TOP_K_BATCH", "Case", "Effort", "HeadOnly", "measure", "needed_gib"]

MIB, GIB = 2**20, 2**30

# Titles of the methods, in the order of the tables.
METHODS = {
    "usual": "usual, Adam",
    "fused": "usual, fused Adam",
    "sgd": "SGD in backward",
    "rowwise": "row-wise in backward",
    "adam": "Adam in backward",
    "stored": "stored gradients, fused Adam",
}
OURS = {"sgd": "sgd_in_backward", "rowwise": "rowwise_in_backward", "adam": "adam_in_backward", "stored": "adamw"}
POSITIVES = 5  # per document
RATE = 1e-6
WARM_UP_DOCUMENTS = 2
TOP_K, TOP_K_BATCH = 10, 32


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        kind: ``step``, ``topk``, ``machine`` or ``named``.
        num_labels: Labels L.
        width: Width d of what the labels are scored from.
        batch_size: Documents B.
        method: Key of `METHODS`, for steps.
        cornet_num_blocks: CorNet blocks behind the head.
        cornet_context_size: Their width R.
    """

    kind: str
    num_labels: int
    width: int = 0
    batch_size: int = 0
    method: str = ""
    cornet_num_blocks: int = 0
    cornet_context_size: int = 0

    @property
    def name(self) -> str:
        """Such as ``step/131073/512/32/sgd``, ``cornet/131073/512/32/2x1000/sgd`` or ``topk/131073/512``."""
        cornet = f"{self.cornet_num_blocks}x{self.cornet_context_size}" if self.cornet_num_blocks else ""
        kind = "cornet" if cornet and self.kind == "step" else self.kind
        parts = (kind, self.num_labels, self.width, self.batch_size, cornet, self.method)
        return "/".join(str(part) for part in parts if part)

    @property
    def weight_bytes(self) -> int:
        """Weights and biases of head and CorNet."""
        cornet = self.cornet_num_blocks * (2 * self.num_labels * self.cornet_context_size + self.num_labels)
        return 4 * (self.num_labels * (self.width + 1) + cornet)

    @property
    def largest_matrix_bytes(self) -> int:
        return 4 * self.num_labels * max(self.width, self.cornet_context_size)


@dataclass(frozen=True)
class Effort:
    """How long a process measures: until ``seconds`` are over, but at least ``least`` and at most ``most`` times."""

    seconds: float
    least: int = 1
    most: int = 200

    def is_enough(self, milliseconds: list[float]) -> bool:
        return len(milliseconds) >= self.most or (
            len(milliseconds) >= self.least and sum(milliseconds) >= 1000 * self.seconds
        )


class HeadOnly(XMTCPreTrainedModel):
    """Label head and CorNet without an encoder: its input are the features of documents."""

    def __init__(self, config: XMTCConfig, width: int):
        super().__init__(config)
        self.build_label_scorer(width)

    def forward(self, features: Tensor, labels: Tensor | None = None, top_k: int | None = None):
        return self.compute_output(features, labels, top_k)


def needed_gib(case: Case) -> float:
    """About how much memory a case takes, the interpreter with its libraries included."""
    weights, logits = case.weight_bytes, 4 * case.batch_size * case.num_labels
    needed: float = weights
    if case.kind == "topk":
        needed += 3 * 4 * TOP_K_BATCH * case.num_labels
    elif case.kind == "named":
        needed = 2 * GIB
    elif case.kind == "machine":
        needed = GIB
    elif case.method in ("usual", "fused"):
        # Beside weights and two moments: what is kept for the backward pass; then the gradients of weights and logits, with the
        # targets; then, in the plain Adam, two temporaries of a matrix.
        forward = (4 + 5 * case.cornet_num_blocks) * logits
        backward = weights + (2 + 6 * case.cornet_num_blocks) * logits
        update = weights + logits + (2 * case.largest_matrix_bytes if case.method == "usual" else 0)
        needed = 3 * weights + max(forward, backward, update)
    else:
        needed = {"sgd": 1, "rowwise": 1, "adam": 3, "stored": 4}[case.method] * weights
        needed += 0.25 * GIB + 0.02 * weights
    return needed / GIB + 0.5


def measure(case: Case, effort: Effort, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Measure a case in this process, which should be a new one: its peak of memory is that of the case."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    kinds = {"step": _measure_step, "topk": _measure_topk, "machine": _measure_machine, "named": _measure_named_labels}
    return kinds[case.kind](case, effort, torch.device(device))


def _new_model(case: Case, device: torch.device) -> HeadOnly:
    config = XMTCConfig(
        num_labels=case.num_labels,
        cornet_num_blocks=case.cornet_num_blocks,
        cornet_context_size=case.cornet_context_size or 1,
    )
    # By way of the meta device the weights are filled in once, and nothing else is ever allocated.
    with torch.device("meta"):
        model = HeadOnly(config, case.width)
    model.to_empty(device=device)
    model.label_head.reset_parameters()
    for block in model.cornet.blocks if model.cornet is not None else ():
        block.reset_parameters()
    return model.train()


def _milliseconds(work: Callable[[], Any], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1000 * (time.perf_counter() - start)


# ---- training step ---------------------------------------------------------------------------------------------------------


def _measure_step(case: Case, effort: Effort, device: torch.device) -> dict[str, Any]:
    # A step of a tiny head brings in the code of torch and its kernels, which is no memory that a method needs.
    tiny = dataclasses.replace(case, num_labels=128, cornet_context_size=min(case.cornet_context_size, 8))
    _make_step(tiny, _new_model(tiny, device), *_batch(tiny, device))(WARM_UP_DOCUMENTS)
    model = _new_model(case, device)
    batch = _batch(case, device)
    before = psutil.Process().memory_info().rss / MIB
    step = _make_step(case, model, *batch)
    # The first step makes the optimizer's state. A few documents do for that, and show that all methods have the same loss.
    first_loss = step(WARM_UP_DOCUMENTS)
    found: list[float] = []
    while not effort.is_enough(found):
        found.append(_milliseconds(lambda: step(case.batch_size), device))
    peak = peak_memory_mb()
    weights = case.weight_bytes / MIB
    result = {
        "ms": found,
        "first_loss": first_loss,
        "weights_mib": weights,
        "extra_mib": max(peak - before, 0.0),
        "process_mib": peak,
    }
    if device.type == "cuda":
        result["extra_cuda_mib"] = peak_memory_mb(device) - weights
    return result


def _batch(case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """Features (B, d), which need a gradient as those of an encoder do, and distinct positives (B, P) from all over the labels."""
    features = torch.randn(case.batch_size, case.width, device=device, requires_grad=True)
    stride = case.num_labels // POSITIVES
    labels = torch.randint(stride, (case.batch_size, POSITIVES)) + stride * torch.arange(POSITIVES)
    return features, labels.to(device)


def _make_step(case: Case, model: HeadOnly, features: Tensor, labels: Tensor) -> Callable[[int], float]:
    """A training step on the first few documents of a batch, from its features to the changed weights; gives the loss."""
    return (_our_step if case.method in OURS else _usual_step)(case, model, features, labels)


def _usual_step(case: Case, model: HeadOnly, features: Tensor, labels: Tensor) -> Callable[[int], float]:
    """`nn.Linear`, and the plain CorNet module; dense targets, in one tensor that is never made anew."""
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True if case.method == "fused" else None)
    targets = torch.zeros(case.batch_size, case.num_labels, device=features.device)
    rows = torch.arange(case.batch_size, device=features.device)[:, None]

    def loss_of(count: int) -> Tensor:
        logits = model.label_head.output(features[:count])
        if model.cornet is not None:
            logits = model.cornet(logits)
        return criterion(logits, targets[:count])

    def step(count: int) -> float:
        targets[rows[:count], labels[:count]] = 1.0
        loss = loss_of(count)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        targets[rows[:count], labels[:count]] = 0.0
        features.grad = None
        return loss.item()

    return step


def _our_step(case: Case, model: HeadOnly, features: Tensor, labels: Tensor) -> Callable[[int], float]:
    """A step as `XMTCTrainer` does it; gradient clipping, which the usual way leaves out too, is off."""
    args = XMTCTrainingArguments(
        output_dir="outputs/benchmark_label_head",  # nothing is written
        label_optimizer=OURS[case.method],
        learning_rate=RATE,
        label_learning_rate=RATE,
        max_grad_norm=0.0,
        use_cpu=features.device.type == "cpu",
    )
    optimizer, updates = build_optimizer(model, args, *XMTCTrainer.get_optimizer_cls_and_kwargs(args, model))
    model.update_labels_in_backward(updates)

    def step(count: int) -> float:
        loss = model(features[:count], labels[:count], top_k=0).loss
        loss.backward()
        optimizer.step()
        model.zero_grad()
        features.grad = None
        return loss.item()

    return step


# ---- top-k -----------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _measure_topk(case: Case, effort: Effort, device: torch.device) -> dict[str, Any]:
    model = _new_model(case, device).eval()
    weight, bias = model.label_head.output.weight, model.label_head.output.bias
    documents = torch.randn(TOP_K_BATCH, case.width, device=device)
    k = min(TOP_K, case.num_labels)

    def plain(features: Tensor) -> tuple[Tensor, Tensor]:
        return nn.functional.linear(features, weight, bias).topk(k)

    work = {
        "plain_one": lambda: plain(documents[:1]),
        "ours_one": lambda: model.label_head.topk(documents[:1], k),
        "plain_batch": lambda: plain(documents),
        "ours_batch": lambda: model.label_head.topk(documents, k),
        "read": weight.sum,
    }
    found: dict[str, list[float]] = {name: [] for name in work}
    for run in work.values():
        run()
    while not effort.is_enough([sum(times) for times in zip(*found.values(), strict=True)]):
        for name, run in work.items():
            found[name].append(_milliseconds(run, device))
    rows_one, gap_one = _rows_that_differ(
        plain(documents[:1]), model.label_head.topk(documents[:1], k)[1], documents[:1], model
    )
    rows_batch, gap_batch = _rows_that_differ(plain(documents), model.label_head.topk(documents, k)[1], documents, model)
    return {
        **{f"{name}_ms": times for name, times in found.items()},
        "rows_compared": 1 + len(documents),
        "rows_that_differ": rows_one + rows_batch,
        "largest_logit_gap": max(gap_one, gap_batch),
        "weights_mib": case.weight_bytes / MIB,
    }


def _rows_that_differ(plain: tuple[Tensor, Tensor], ids: Tensor, features: Tensor, model: HeadOnly) -> tuple[int, float]:
    """Documents with another id somewhere among the best, and by how much the logits of such places differ at most."""
    values, expected = plain
    differing = (expected != ids).any(dim=1)
    if not bool(differing.any()):
        return 0, 0.0
    output = model.label_head.output
    logits = nn.functional.linear(features[differing], output.weight, output.bias).gather(1, ids[differing])
    return int(differing.sum()), float((values[differing] - logits).abs().max())


# ---- the machine -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _measure_machine(case: Case, effort: Effort, device: torch.device) -> dict[str, Any]:
    """GFLOP/s of square and of the head's products, by torch's BLAS and by ours, and GB/s of reading memory.

    The head's are those of one block of n labels as the head would take it: logits, gradient of the features and update.
    """
    width, documents = case.width, case.batch_size
    labels = min(suitable_block_size(width, device.type), case.num_labels)
    square = torch.randn(1024, 1024, device=device)
    weight = torch.randn(labels, width, device=device)
    features = torch.randn(documents, width, device=device)
    gradient = torch.randn(labels, documents, device=device) * 1e-6
    long = torch.ones(2**26 if case.num_labels > 1000 else 2**16, device=device)
    work = {
        "square": lambda: square @ square,
        "linear": lambda: nn.functional.linear(features, weight),
        "linear_ours": lambda: product(weight, features.t()),
        "transposed": lambda: weight.t() @ gradient,
        "transposed_ours": lambda: transposed_product(weight, gradient),
        "outer": lambda: weight.addmm_(gradient, features, alpha=-RATE),
        "outer_ours": lambda: add_outer_product(weight, gradient, features, alpha=-RATE),
        "read": long.sum,
    }
    operations = {"square": 2 * 1024**3, "read": long.numel() * long.element_size()}
    rates = {}
    for name, run in work.items():
        run()
        found: list[float] = []
        while not effort.is_enough(found):
            found.append(_milliseconds(run, device))
        rates[name] = operations.get(name, 2 * labels * width * documents) / statistics.median(found) / 1e6
    bandwidth = rates.pop("read")
    return {"gflops": rates, "gb_per_second": bandwidth, "block_labels": labels}


# ---- a model with many named labels ----------------------------------------------------------------------------------------


def _measure_named_labels(case: Case, effort: Effort, device: torch.device) -> dict[str, Any]:
    """Save a small BertXML with many named labels; open it, and answer with our pipeline and with the library's."""
    from safetensors.torch import load_file

    names = [f"concept/{label_id:07d}" for label_id in range(case.num_labels)]
    text = "edit a plain text file"
    tokenizer = train_word_tokenizer([text, "play music"], max_length=16, num_cls_tokens=2)
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128}
    config = BertXMLConfig.for_tokenizer(tokenizer, label_names=names, cornet_num_blocks=0, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        BertXMLForXMTC(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        weights = Path(folder) / "model.safetensors"
        reading, opening = [], []
        while len(reading) < 3:
            reading.append(_milliseconds(lambda: [tensor.sum() for tensor in load_file(weights).values()], device))
            opening.append(_milliseconds(lambda: BertXMLForXMTC.from_pretrained(folder), device))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        answers: dict[type, list[str]] = {}

        def answer(tagger: Pipeline) -> None:
            answers[type(tagger)] = [entry["label"] for entry in tagger(text, top_k=TOP_K)]

        first = {}
        for kind in (XMTCPipeline, TextClassificationPipeline):
            tagger = kind(model=BertXMLForXMTC.from_pretrained(folder), tokenizer=tokenizer)
            first[kind] = _milliseconds(lambda tagger=tagger: answer(tagger), device)
        return {
            "config_bytes": (Path(folder) / "config.json").stat().st_size,
            "weights_mib": weights.stat().st_size / MIB,
            "read_weights_ms": reading,
            "open_ms": opening,
            "first_answer_ms": first[XMTCPipeline],
            "stock_first_answer_ms": first[TextClassificationPipeline],
            "stock_answers_alike": answers[XMTCPipeline] == answers[TextClassificationPipeline],
        }

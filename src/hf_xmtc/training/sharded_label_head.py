"""`ShardedLabelHead`: the labels of a model spread over processes; each holds its own rows and scores the documents of all.

These are plain collectives on plain tensors and not DTensor: the rows are changed in place, block by block, in the middle of a
backward pass, and the loss is an autograd function on local rows, so a DTensor would be unwrapped wherever it is used.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hf_xmtc.models.cornet import CorNet
from hf_xmtc.models.label_block_loss import block_loss
from hf_xmtc.models.label_head import LabelHead, loss_divisor
from hf_xmtc.models.label_scorer import BlockSettings, LabelLayers
from hf_xmtc.models.label_topk import block_topk, exact_topk

__all__ = ["LabelShard", "ShardedLabelHead", "full_state_dict", "label_dimensions", "own_labels", "shard_labels", "shard_of"]


class LabelShard:
    """Labels ``start`` … ``stop - 1`` of a model; the other processes of a group hold the others, in the order of their ranks.

    Every process has its own documents, also different numbers of them. `join` brings the documents of all together, each
    process scores its own labels for all of them, and what concerns a document is sent back to its process. All processes have
    to score, train and save at the same time: each of these waits for the others.

    Args:
        num_labels: Labels L of the whole model.
        group: Processes that share them, by default all.

    Raises:
        ValueError: If there are fewer labels than processes.
    """

    def __init__(self, num_labels: int, group: dist.ProcessGroup | None = None):
        self.num_labels, self.group = num_labels, group
        self.rank, self.world_size = dist.get_rank(group), dist.get_world_size(group)
        if num_labels < self.world_size:
            raise ValueError(
                f"{num_labels} labels cannot be spread over {self.world_size} processes: some would hold none. Start at most "
                f"{num_labels}, or leave the labels in one piece (shard_labels=False)."
            )
        bounds = [num_labels * rank // self.world_size for rank in range(self.world_size + 1)]
        self.sizes = [stop - start for start, stop in zip(bounds, bounds[1:], strict=False)]
        self.start, self.stop = bounds[self.rank], bounds[self.rank + 1]

    def __deepcopy__(self, memo: dict) -> "LabelShard":
        return self  # a copy of a model, such as an average of its weights, is spread over the same processes

    def own(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """The part of a tensor with one entry per label that belongs to this process's labels, a view."""
        return tensor.narrow(dim, self.start, self.stop - self.start)

    def reduce(self, tensor: Tensor) -> None:
        """Add up a tensor over the processes, in place."""
        dist.all_reduce(tensor, group=self.group)

    def join(self, features: Tensor, label_ids: Tensor | None = None) -> tuple[Tensor, Tensor | None, slice]:
        """Bring the documents of all processes together.

        The gradient of the joined features, of which every process has the part that comes from its labels, is added up for
        each process's own documents and multiplied by the number of processes: DistributedDataParallel then averages the
        gradients of the encoder over the processes, and so would anyone else, since those of biases such as CorNet's contexts
        are complete in every process.

        Args:
            features: Of this process's documents, (B_r, d).
            label_ids: Label ids, (B_r, P_r), padded with -100.

        Returns:
            Features (B, d) of all documents; their label ids (B, P) counted from this process's first label, -100 for labels
            of other processes; and where this process's documents are among them.
        """
        shape = torch.tensor([len(features), 0 if label_ids is None else label_ids.shape[1]], device=features.device)
        shapes = [torch.empty_like(shape) for _ in range(self.world_size)]
        dist.all_gather(shapes, shape, group=self.group)
        counts, widths = torch.stack(shapes).t().tolist()
        first = sum(counts[: self.rank])
        own = slice(first, first + len(features))
        if label_ids is not None:
            label_ids = nn.functional.pad(label_ids, (0, max(widths) - label_ids.shape[1]), value=-100)
            label_ids = torch.cat(self.gather(label_ids, [(count, max(widths)) for count in counts]))
            label_ids = (label_ids - self.start).masked_fill((label_ids < self.start) | (label_ids >= self.stop), -100)
        return _JoinedFeatures.apply(features, self, counts, own), label_ids, own

    def split(self, tensor: Tensor, widths: list[int], own: slice) -> Tensor:
        """Send the columns that each process has computed for all documents to the processes of these documents.

        Args:
            tensor: (B, n), n being this process's entry of ``widths``.
            widths: Columns of every process.
            own: Where this process's documents are among all (see `join`).

        Returns:
            For this process's documents the columns of all processes, (B_r, Σ n).
        """
        parts = self.gather(tensor, [(len(tensor), width) for width in widths])
        return torch.cat([part[own] for part in parts], dim=1)

    def gather(self, matrix: Tensor, shapes: list[tuple[int, int]], to_rank: int | None = None) -> list[Tensor] | None:
        """The matrices of all processes, whose shapes may differ, in all processes or in one (then None in the others)."""
        most = [max(sizes) for sizes in zip(*shapes, strict=True)]
        padded = matrix.contiguous()
        if list(matrix.shape) != most:  # collectives want equal shapes
            padded = matrix.new_zeros(most)
            padded[: matrix.shape[0], : matrix.shape[1]] = matrix
        parts = [torch.empty_like(padded) for _ in shapes] if to_rank in (None, self.rank) else None
        if padded.numel() and to_rank is None:
            dist.all_gather(parts, padded, group=self.group)
        elif padded.numel():
            dist.gather(padded, parts, group=self.group, group_dst=to_rank)
        return parts and [part[:rows, :columns] for part, (rows, columns) in zip(parts, shapes, strict=True)]


class _JoinedFeatures(torch.autograd.Function):
    """Forward: the features of all processes. Backward: see `LabelShard.join`."""

    @staticmethod
    def forward(ctx, features: Tensor, shard: LabelShard, counts: list[int], own: slice) -> Tensor:
        ctx.shard, ctx.own = shard, own
        return torch.cat(shard.gather(features, [(count, features.shape[1]) for count in counts]))

    @staticmethod
    def backward(ctx, gradient: Tensor):
        # Every process needs the sum only for its own documents, but not every backend scatters sums, and this is a small matrix.
        total = gradient.clone(memory_format=torch.contiguous_format)
        ctx.shard.reduce(total)
        return total[ctx.own] * ctx.shard.world_size, None, None, None


class ShardedLabelHead(LabelHead):
    """A `LabelHead` whose matrices, and those of CorNet, hold only the rows of this process's labels; `shard_labels` makes it.

    It takes and returns each process's own documents, as a whole head does, but its loss is that of all processes' documents.
    """

    shard: LabelShard

    def logits(self, hidden: Tensor, cornet: CorNet | None = None) -> Tensor:
        self._check_no_gradient("the logits of all labels")
        with torch.no_grad():
            features, _, own = self.shard.join(self.features(hidden))
            scorer = self._scorer(self._linear_logits(features), cornet)
            scorer.compute_contexts()
            blocks = [scorer.logits(start, stop) for start, stop in scorer.blocks()]
            return self.shard.split(torch.cat(blocks).t(), self.shard.sizes, own)

    def logits_and_loss(
        self, hidden: Tensor, labels: Tensor | None, reduction: str = "mean", cornet: CorNet | None = None
    ) -> tuple[Tensor, Tensor | None]:
        logits = self.logits(hidden, cornet)
        return logits, self.loss(hidden, labels, reduction, cornet) if labels is not None else None

    def loss(self, hidden: Tensor, labels: Tensor, reduction: str = "mean", cornet: CorNet | None = None) -> Tensor:
        features = self.features(hidden)
        features, positives, _ = self.shard.join(features, self.positives(labels, len(features)))
        layers, settings = LabelLayers.of(self._linear_logits(features), cornet), self._block_settings()
        total = block_loss(layers, settings, self.label_loss, positives, self.positive_weight, self.updates)
        return total / loss_divisor(len(positives), self.num_labels, reduction)

    @torch.no_grad()
    def topk_and_loss(
        self, hidden: Tensor, k: int, labels: Tensor | None = None, reduction: str = "mean", cornet: CorNet | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        features = self.features(hidden)
        positives = self.positives(labels, len(features)) if labels is not None else None
        features, positives, own = self.shard.join(features, positives)
        scorer = self._scorer(self._linear_logits(features), cornet, positives)
        logits, label_ids, loss = block_topk(scorer, k)
        if loss is not None:
            loss = loss.to(scorer.dtype) / loss_divisor(len(features), self.num_labels, reduction)
        widths = [min(k, size) for size in self.shard.sizes]
        logits = self.shard.split(logits, widths, own)
        label_ids = self.shard.split(label_ids + self.shard.start, widths, own)
        # Lower ranks hold lower ids, so a tie by position is a tie by id.
        logits, places = exact_topk(logits, k)
        return logits.sigmoid(), label_ids.gather(1, places), loss

    def scores_for(self, hidden: Tensor, label_ids: Tensor, cornet: CorNet | None = None) -> Tensor:
        self._check_no_gradient("the scores of candidates")
        self.check_label_ids("label_ids", label_ids)
        with torch.no_grad():
            features, joined_ids, own = self.shard.join(self.features(hidden), label_ids)
            # Scores are 0 for labels of other processes.
            scores = self._scores_of(self._logits_of(features, joined_ids.clamp(min=0)), joined_ids, cornet)
            self.shard.reduce(scores)
        return scores[own, : label_ids.shape[1]]

    def resize_labels(self, old_ids: Tensor) -> None:
        raise ValueError(
            f"The labels are spread over {self.shard.world_size} processes. Save the model and open it in one process to change its "
            "label space."
        )

    def check_complete(self) -> None:
        raise ValueError(
            f"This process holds 1 of {self.shard.world_size} parts of the labels. Call full_state_dict(model) of "
            "hf_xmtc.training.sharded_label_head in all processes and give its result as state_dict=…; XMTCTrainer.save_model does both."
        )

    def _block_settings(self) -> BlockSettings:
        return BlockSettings(self.block_size, self.memory_mib, self.shard.reduce)

    def _check_no_gradient(self, output: str) -> None:
        if torch.is_grad_enabled():
            self._check_gradient(output, "are spread over processes")


def shard_of(model: nn.Module) -> LabelShard | None:
    """This process's part of the labels, None where it holds them all."""
    return getattr(model.label_head, "shard", None)


def own_labels(model: nn.Module) -> slice:
    """The labels whose rows this process holds."""
    shard = shard_of(model)
    return slice(None) if shard is None else slice(shard.start, shard.stop)


def label_dimensions(model: nn.Module) -> dict[str, int]:
    """The tensors of a model that have one entry per label along some dimension, and that dimension, by their names."""
    dimensions = {}
    for name in model.state_dict():
        if name.startswith("label_head.output.") or name == "label_head.positive_weight":
            dimensions[name] = 0
        elif name.startswith("cornet.blocks."):
            if ".to_labels." in name:
                dimensions[name] = 0
            elif name.endswith(".to_context.weight"):  # (R, L)
                dimensions[name] = 1
    return dimensions


@torch.no_grad()
def shard_labels(model: nn.Module, group: dist.ProcessGroup | None = None) -> LabelShard:
    """Leave of a model's label matrices only the rows of this process's labels, in place; all else stays in every process.

    The rows are those of the group's first process, so that the model need not be the same in all of them. From here on the model
    takes and returns each process's own documents as before, but the loss is that of all processes' documents, and the gradients
    of all parameters are those for it once DistributedDataParallel has averaged what is not sharded; it leaves the
    shards alone. Make optimizers afterwards. `load_state_dict` takes the weights of a whole model as well as those of the part.

    Args:
        model: A whole `XMTCPreTrainedModel`.
        group: Processes to spread the labels over, by default all. DistributedDataParallel must work on the same ones.

    Returns:
        This process's part.

    Raises:
        ValueError: If the model is sharded already, has fewer labels than there are processes, or labels that read tokens.
    """
    head, shard = model.label_head, shard_of(model)
    if shard is not None:
        raise ValueError(
            f"The model's labels are spread over {shard.world_size} processes already. Open or build the whole model again to spread "
            "it anew."
        )
    if not head.is_linear:
        raise ValueError(
            f"The labels of {type(model).__name__} cannot be spread over processes: every label reads all tokens of the documents, "
            "which each process has for its own ones only. Train without shard_labels (memory is bounded by label blocks anyway)."
        )
    if not isinstance(head, LabelHead):
        raise ValueError(
            f"The model's class is that of a copied folder ({type(model).__module__}), whose labels cannot be spread over processes. Open the "
            f"model with the class of the package: hf_xmtc.{type(model).__name__}.from_pretrained(…)."
        )
    shard, names = LabelShard(head.num_labels, group), label_dimensions(model)
    for name, dim in names.items():
        owner, _, attribute = name.rpartition(".")
        tensor = getattr(model.get_submodule(owner), attribute)
        whole = tensor.data.contiguous().to(_device_of(group, tensor))
        dist.broadcast(whole, group=group, group_src=0)
        tensor.data = shard.own(whole, dim).clone(memory_format=torch.contiguous_format).to(tensor.device)
        tensor.grad = None
    # The way that torch's own sharded embeddings take; it has no public one.
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(names))
    model.register_load_state_dict_pre_hook(_take_own_part)
    # The same module with the same parameters, as torch's fully_shard changes a class too.
    head.__class__, head.shard = ShardedLabelHead, shard
    return shard


def _take_own_part(model: nn.Module, state: dict[str, Tensor], prefix: str, *_) -> None:
    """Let `load_state_dict` of a sharded model read the weights of a whole one too."""
    shard = shard_of(model)
    for name, dim in label_dimensions(model).items():
        tensor = state.get(prefix + name)
        if tensor is not None and tensor.shape[dim] == shard.num_labels:
            state[prefix + name] = shard.own(tensor, dim)


def _device_of(group: dist.ProcessGroup | None, tensor: Tensor) -> torch.device:
    # NCCL knows no tensors outside of GPUs.
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else tensor.device


@torch.no_grad()
def full_state_dict(model: nn.Module, to_rank: int | None = None) -> dict[str, Tensor] | None:
    """The state dict of the whole model, on the CPU; call it in all processes.

    Args:
        model: A model, sharded or not.
        to_rank: The process of the group that gets it (None is returned in the others), by default all.
    """
    shard, state = shard_of(model), model.state_dict()
    dimensions = label_dimensions(model) if shard is not None else {}
    is_receiver = shard is None or to_rank in (None, shard.rank)
    for name, tensor in state.items():
        if name in dimensions:
            dim = dimensions[name]
            rows = tensor.movedim(dim, 0).reshape(shard.stop - shard.start, -1)
            parts = shard.gather(rows, [(size, rows.shape[1]) for size in shard.sizes], to_rank)
            if is_receiver:
                rest = [*tensor.shape[:dim], *tensor.shape[dim + 1 :]]
                tensor = torch.cat(parts).reshape(shard.num_labels, *rest).movedim(0, dim).contiguous()
        state[name] = tensor.cpu() if is_receiver else None
    return state if is_receiver else None

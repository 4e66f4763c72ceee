"""Rules that change a label matrix during the backward pass, block of labels by block of labels, without storing its gradient.

The gradient of a block comes as two thin factors, ``left`` (n, B) and ``right`` (B, d), whose product it is (`RowUpdate` in
`models/label_block_loss.py`). Plain descent and the row-wise rule never form that product; Adam forms it for one block at a time.

The factor of all rules: ``loss_reduction="mean"`` divides a loss by the number of labels and with it every gradient. With
``gradient_factor`` = L plain descent multiplies its rate by it, the others divide their epsilon by it, so that a run does not
depend on the reduction.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.adamw import adamw

from hf_xmtc.models.label_block_loss import LabelMatrix, RowUpdate
from hf_xmtc.models.label_products import add_outer_product, product

__all__ = ["AdamUpdate", "GatheredUpdate", "LabelUpdate", "RowwiseUpdate", "SGDUpdate", "rowwise_step"]

# Elements in a tile of strided weights: 1 MiB, of which Adam has five at work.
TILE_ELEMENTS = 2**18
# Where torch has a kernel that does a whole Adam step.
FUSED_DEVICES = ("cpu", "cuda")
# Documents per width of a matrix from which the row-wise rule forms gradients. At d = 512 a block of 4,096 labels took, on a busy
# machine with 2 threads, without and with the gradient: 2.2 and 2.4 ms for 32 documents, 8 and 6 for 64, 22 and 8 for 128, 32
# and 18 for 256.
FORMED = 1 / 8


class LabelUpdate:
    """Base of the rules: the matrix, read anew in every backward pass, and the learning rate, read from ``group``.

    Weight decay is decoupled from the gradient (Loshchilov & Hutter, 2019) and leaves biases alone. State is held in float32, in
    float64 for float64 weights, whatever narrower type the weights have.

    Args:
        find: Gives the matrix. It is asked in every backward pass, because weight averaging exchanges the storage of weights.
        group: ``lr`` and ``weight_decay``, and what the rule adds; a parameter group of an optimizer, so that schedulers act.
        gradient_factor: What gradients are to be multiplied by, see above.

    Attributes:
        state: What a checkpoint has to keep: tensors, and ``step``, the number of updates so far.
    """

    def __init__(self, find: Callable[[], LabelMatrix], group: dict[str, Any], gradient_factor: float = 1.0):
        self.find, self.group, self.gradient_factor = find, group, gradient_factor
        self.state: dict[str, Tensor | int] = {}
        self._matrix: LabelMatrix | None = None

    def __deepcopy__(self, memo: dict) -> "LabelUpdate":
        # A copy of a model, such as an average of its weights, is not trained by it and needs no copy of its state.
        return self

    def agree(self, finite: Tensor) -> Tensor:
        return finite

    def begin(self) -> None:
        self._matrix = self.find()
        self.state["step"] = self.state.get("step", 0) + 1
        if len(self.state) == 1:
            self._make_state()

    @torch.no_grad()
    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None:
        bias = self._matrix.bias
        self._update(start, stop, self._matrix.rows[start:stop], None if bias is None else bias[start:stop], left, right)

    def _make_state(self) -> None:
        pass

    def _update(self, start: int, stop: int, rows: Tensor, bias: Tensor | None, left: Tensor, right: Tensor) -> None:
        raise NotImplementedError

    @property
    def _decay_factor(self) -> float:
        """Factor of a weight in a step: 1 less its decay."""
        return 1.0 - self.group["lr"] * self.group["weight_decay"]


def _state_type(weight: Tensor) -> torch.dtype:
    return torch.promote_types(weight.dtype, torch.float32)


class SGDUpdate(LabelUpdate):
    """w ← w - lr · g: plain gradient descent, without any state."""

    def _update(self, start, stop, rows, bias, left, right):
        rate = self.group["lr"] * self.gradient_factor
        add_outer_product(rows, left.to(rows.dtype), right.to(rows.dtype), alpha=-rate, beta=self._decay_factor)
        if bias is not None:
            bias.sub_((left.sum(1) * rate).to(bias.dtype))


class RowwiseUpdate(LabelUpdate):
    """w_l ← w_l - lr · g_l / (√v̂_l + eps): one adaptive rate per label, from one number of state.

    v_l ← β2 · v_l + (1 - β2) · mean(g_l²), the mean over the weights of label l and its bias as one row of d + 1; v̂ is v with
    Adam's bias correction. There is no first moment. For small batches the mean comes from the factors alone, without the
    gradient: with x̃ = ``right`` (and a one where there is a bias), |g_l|² = left_l · (x̃ x̃ᵀ) · left_lᵀ. That takes B / d of the
    work of a gradient; from `FORMED` on forming the gradient of one block is faster.

    ``group`` holds ``beta2`` and ``eps`` too.

    Source: Adam (Kingma & Ba, 2015) with the second moment averaged over a row, as the row-wise Adagrad of recommender systems
    (Naumov et al., 2019, "Deep learning recommendation model", whose code keeps one number per embedding row).
    """

    def begin(self):
        super().begin()
        self._products: Tensor | None = None  # x̃ x̃ᵀ, (B, B)
        self._squares: Tensor | None = None  # its diagonal

    def _make_state(self):
        rows = self._matrix.rows
        self.state["exp_avg_sq"] = torch.zeros(len(rows), dtype=_state_type(rows), device=rows.device)

    def _update(self, start, stop, rows, bias, left, right):
        exp_avg_sq = self.state["exp_avg_sq"][start:stop]
        left, right = left.to(exp_avg_sq.dtype), right.to(exp_avg_sq.dtype)
        if len(right) >= FORMED * rows.shape[1]:
            gradient = _block_gradient(rows, left, right)
            sums = None if bias is None else left.sum(1)
            rowwise_step(rows, bias, gradient, sums, exp_avg_sq, self.state["step"], self.group, self.gradient_factor)
            return
        if self._products is None:
            self._products = right @ right.t() + (bias is not None)
            self._squares = self._products.diagonal().clone()
        square = (product(left, self._products) * left).sum(1)
        # Where the documents' shares in a gradient cancel out, rounding is all that is left of the square, even less than
        # nothing. What rounding can amount to is a lower limit, or a first step would be divided by next to nothing.
        rounding = torch.mv(left.square(), self._squares).mul_(torch.finfo(left.dtype).eps)
        mean_square = torch.maximum(square, rounding).div_(rows.shape[1] + (bias is not None))
        rates = _rowwise_rates(mean_square, exp_avg_sq, self.state["step"], self.group, self.gradient_factor)
        scaled = left * rates[:, None]  # (n, B)
        add_outer_product(rows, scaled.to(rows.dtype), right.to(rows.dtype), alpha=-1.0, beta=self._decay_factor)
        if bias is not None:
            bias.sub_(scaled.sum(1).to(bias.dtype))


def rowwise_step(
    rows: Tensor,
    bias: Tensor | None,
    gradient: Tensor,
    bias_gradient: Tensor | None,
    exp_avg_sq: Tensor,
    step: int,
    group: dict,
    gradient_factor: float,
) -> None:
    """The rule of `RowwiseUpdate` with a gradient that exists.

    Args:
        rows: Weights (n, d), changed in place.
        bias: (n,), changed in place, or None.
        gradient: Gradient of the rows, (n, d).
        bias_gradient: Gradient of the bias, (n,), or None.
        exp_avg_sq: Running average of the mean squares, (n,), changed in place.
        step: Number of this step, from 1 on.
        group: ``lr``, ``weight_decay``, ``beta2`` and ``eps``.
        gradient_factor: As for `LabelUpdate`.
    """
    mean_square = torch.linalg.vector_norm(gradient, dim=1, dtype=exp_avg_sq.dtype).square_()
    if bias is not None:
        mean_square += bias_gradient.to(mean_square.dtype).square()
    mean_square /= rows.shape[1] + (bias is not None)
    rates = _rowwise_rates(mean_square, exp_avg_sq, step, group, gradient_factor)
    if group["weight_decay"]:
        rows.mul_(1.0 - group["lr"] * group["weight_decay"])
    if rows.dtype == gradient.dtype == rates.dtype:
        rows.addcmul_(gradient, rates[:, None], value=-1.0)
    else:
        rows.sub_((gradient * rates[:, None]).to(rows.dtype))
    if bias is not None:
        bias.sub_((bias_gradient * rates).to(bias.dtype))


def _rowwise_rates(mean_square: Tensor, exp_avg_sq: Tensor, step: int, group: dict, gradient_factor: float) -> Tensor:
    exp_avg_sq.lerp_(mean_square, 1.0 - group["beta2"])
    root = (exp_avg_sq / (1.0 - group["beta2"] ** step)).sqrt_()
    return group["lr"] / root.add_(group["eps"] / gradient_factor)


def _block_gradient(rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``left @ right``, in the order in which ``rows`` lie in memory."""
    return product(left, right) if rows.is_contiguous() else product(right.t().contiguous(), left.t()).t()


class AdamUpdate(LabelUpdate):
    """Adam (AdamW where there is weight decay), the gradient of one block existing at a time; two numbers of state per weight.

    Dense rows go through torch's fused step. Strided ones, CorNet's ``to_context``, go through its element-wise step in place, in
    tiles that stay in the cache from one of its passes to the next.

    ``group`` holds ``betas`` and ``eps`` too.
    """

    def _make_state(self):
        rows, bias, _ = self._matrix
        for name in ("exp_avg", "exp_avg_sq"):
            self.state[name] = torch.zeros_like(rows, dtype=_state_type(rows))  # strided as the rows are
            if bias is not None:
                self.state[f"bias_{name}"] = torch.zeros_like(bias, dtype=_state_type(bias))

    def _update(self, start, stop, rows, bias, left, right):
        left, right = left.to(_state_type(rows)), right.to(_state_type(rows))
        gradient = _block_gradient(rows, left, right)
        moments = [self.state[name][start:stop] for name in ("exp_avg", "exp_avg_sq")]
        decay = self.group["weight_decay"]
        if rows.is_contiguous():
            self._step(rows, gradient, moments, decay, dense=True)
        else:
            width = max(1, TILE_ELEMENTS // len(rows))
            for tile in zip(*(tensor.split(width, dim=1) for tensor in (rows, gradient, *moments)), strict=True):
                self._step(tile[0], tile[1], list(tile[2:]), decay, dense=False)
        if bias is not None:
            moments = [self.state[f"bias_{name}"][start:stop] for name in ("exp_avg", "exp_avg_sq")]
            self._step(bias, left.sum(1), moments, 0.0, dense=True)

    def _step(self, weight: Tensor, gradient: Tensor, moments: list[Tensor], weight_decay: float, dense: bool) -> None:
        wide = weight.to(gradient.dtype)  # the weight itself unless it is of a narrower type
        fused = dense and wide.device.type in FUSED_DEVICES
        beta1, beta2 = self.group["betas"]
        # torch counts the step up before it uses it; a fused step wants the count where the weights are.
        count = torch.tensor(self.state["step"] - 1.0, device=wide.device if fused else "cpu")
        adamw(
            [wide],
            [gradient],
            [moments[0]],
            [moments[1]],
            [],
            [count],
            foreach=False,
            fused=fused,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=float(self.group["lr"]),
            weight_decay=weight_decay,
            eps=self.group["eps"] / self.gradient_factor,
            maximize=False,
        )
        if wide is not weight:
            weight.copy_(wide)
        elif fused:
            # The fused step does not tell autograd that it has changed its tensors.
            torch.autograd.graph.increment_version(weight)


class GatheredUpdate:
    """Feeds a rule the documents of all processes, each of which holds a replica of the matrix and its own documents.

    The factors are gathered, ``right`` once per backward pass and ``left`` block by block, instead of reducing a gradient that
    is nowhere stored; all replicas stay equal. As DistributedDataParallel does, it averages over the processes.

    Args:
        update: The rule.
    """

    def __init__(self, update: RowUpdate):
        self.update = update
        self._right: Tensor | None = None

    def agree(self, finite: Tensor) -> Tensor:
        flag = finite.to(torch.int32)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        return flag.bool()

    def begin(self) -> None:
        self.update.begin()
        self._right = None

    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None:
        if self._right is None:
            _check_equal_batches(right)
            self._right = torch.cat(_gather(right))  # (B of all processes, d)
        gathered = torch.cat(_gather(left), dim=1)
        self.update(start, stop, gathered.div_(dist.get_world_size()), self._right)


def _gather(tensor: Tensor) -> list[Tensor]:
    tensor = tensor.detach().contiguous()
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def _check_equal_batches(right: Tensor) -> None:
    sizes = [int(size) for size in _gather(torch.tensor([len(right)], device=right.device))]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"The processes have {', '.join(map(str, sizes))} documents in this step, but an in-backward update of the labels needs "
            "the same number in each. Set dataloader_drop_last=True, or leave accelerator_config's even_batches at True."
        )

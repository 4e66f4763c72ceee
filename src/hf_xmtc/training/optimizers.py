"""Optimizers that torch does not have: several as one, the row-wise rule, Adam of the papers' authors, in-backward updates."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, SparseAdam

from hf_xmtc.models.label_block_loss import LabelMatrix

from .label_updates import LabelUpdate, rowwise_step

__all__ = ["CompositeOptimizer", "InBackwardOptimizer", "LazyAdam", "RowwiseAdam", "UncorrectedEpsilonAdam"]


def _loss_of(closure: Any) -> Any:
    """The loss that a closure computes, with gradients, as torch's optimizers do it in ``step``; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class CompositeOptimizer(Optimizer):
    """Several optimizers, each with its own parameters, seen as one by Trainer, accelerate and learning rate schedulers.

    Its ``param_groups`` are those of its parts, the very same dicts, in the order of the parts.

    Args:
        parts: The optimizers by name; a checkpoint keeps each one's state under its name.
    """

    def __init__(self, parts: dict[str, Optimizer]):
        self.parts = parts
        super().__init__(self._groups(), {})

    def _groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts.values() for group in part.param_groups]

    @property
    def state(self) -> dict[Tensor, Any]:
        """State of all parts by parameter; to be read, not to be changed."""
        return {parameter: state for part in self.parts.values() for parameter, state in part.state.items()}

    @state.setter
    def state(self, value: Any) -> None:
        pass  # torch's constructor sets an empty one; the parts have their own

    def step(self, closure: Any = None) -> Any:
        loss = _loss_of(closure)
        for part in self.parts.values():
            part.step()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts.values():
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"parts": {name: part.state_dict() for name, part in self.parts.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of all parts.

        Raises:
            ValueError: If the state was made by other optimizers.
        """
        saved = state_dict.get("parts", {})
        if saved.keys() != self.parts.keys():
            names = ", ".join(saved) or "a single optimizer"
            raise ValueError(
                f"The saved optimizer state is that of {names}, but this run trains with {', '.join(self.parts)}. Resume with the "
                "label_optimizer and sparse_embeddings of the first run, or start in a new output folder."
            )
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])
        self.param_groups = self._groups()  # torch's optimizers make new dicts when they load


class InBackwardOptimizer(Optimizer):
    """The view of Trainer and schedulers on updates that happen in the backward pass: groups and state, but no step.

    Args:
        updates: The rules by the name of their matrix; each one's group becomes a parameter group.
    """

    def __init__(self, updates: dict[str, LabelUpdate]):
        self.updates = updates
        self._updates_seen = 0
        super().__init__([update.group for update in updates.values()], {})
        for update in updates.values():
            self.state[update.group["params"][0]] = update.state

    def step(self, closure: Any = None) -> Any:
        """Nothing is left to do: the backward pass has changed the weights.

        Raises:
            RuntimeError: If it has not, or there is a gradient of them besides, which would be lost.
        """
        loss = closure() if closure is not None else None
        done = sum(update.state.get("step", 0) for update in self.updates.values())
        others = [name for name, update in self.updates.items() if any(p.grad is not None for p in update.group["params"])]
        if done == self._updates_seen or others:
            cause = f"a gradient has reached {', '.join(others)} by another way" if others else "nothing has updated them"
            raise RuntimeError(
                f"The label matrices are updated in the backward pass of the model's own loss, but in this step {cause}: a loss or penalty "
                "of your own does not train them. Use label_optimizer='adamw' or 'rowwise' with it."
            )
        self._updates_seen = done
        return loss

    def state_dict(self) -> dict[str, Any]:
        groups = {name: dict(update.group) for name, update in self.updates.items()}
        for group in groups.values():
            del group["params"]
        return {"groups": groups, "state": {name: dict(update.state) for name, update in self.updates.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore rates and state, in the dicts that rules and schedulers hold.

        Raises:
            ValueError: If the state is that of other matrices.
        """
        saved = state_dict.get("state", {})
        if saved.keys() != self.updates.keys():
            raise ValueError(
                f"The saved state is that of the label matrices {', '.join(saved) or 'none'}, but the model has "
                f"{', '.join(self.updates)}. Was cornet_num_blocks changed? Start in a new output folder."
            )
        for name, update in self.updates.items():
            update.group.update(state_dict["groups"][name])
            device = update.group["params"][0].device
            update.state.clear()
            for key, value in saved[name].items():
                update.state[key] = value.to(device) if isinstance(value, Tensor) else value
        self._updates_seen = sum(update.state.get("step", 0) for update in self.updates.values())


class RowwiseAdam(Optimizer):
    """The rule of `RowwiseUpdate` on stored gradients: for gradient accumulation, clipping, and fp16's scaled losses.

    Args:
        matrices: The label matrices; of a transposed one, CorNet's ``to_context``, every column of the parameter is a label.
        lr: Learning rate, or that of each matrix by its name.
        beta2: Decay of the running average.
        eps: Added to its root.
        weight_decay: Decoupled; not applied to biases.
        gradient_factor: As for `LabelUpdate`.
    """

    def __init__(
        self,
        matrices: dict[str, LabelMatrix],
        lr: float | Mapping[str, float],
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        gradient_factor: float = 1.0,
    ):
        groups = [
            {
                "params": list(matrix.parameters),
                "by_column": _is_turned(matrix),
                "lr": lr[name] if isinstance(lr, Mapping) else lr,
            }
            for name, matrix in matrices.items()
        ]
        self.gradient_factor = gradient_factor
        super().__init__(groups, {"beta2": beta2, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = _loss_of(closure)
        for group in self.param_groups:
            if group["params"][0].grad is not None:
                self._step_matrix(group)
        return loss

    def _step_matrix(self, group: dict[str, Any]) -> None:
        weight, *bias = group["params"]
        rows, gradient = (weight.t(), weight.grad.t()) if group["by_column"] else (weight, weight.grad)  # (L, d)
        state = self.state[weight]
        if not state:
            state["step"] = 0
            state["exp_avg_sq"] = torch.zeros(
                len(rows), dtype=torch.promote_types(rows.dtype, torch.float32), device=rows.device
            )
        state["step"] += 1
        offset, its_gradient = (bias[0], bias[0].grad) if bias else (None, None)
        rowwise_step(rows, offset, gradient, its_gradient, state["exp_avg_sq"], state["step"], group, self.gradient_factor)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            # torch gives state the type of its weights, which may be too narrow for it.
            weight, saved = group["params"][0], state_dict["state"].get(self._position(group["params"][0]))
            if saved is not None:
                self.state[weight]["exp_avg_sq"] = saved["exp_avg_sq"].to(weight.device)

    def _position(self, parameter: nn.Parameter) -> int:
        parameters = [id(other) for group in self.param_groups for other in group["params"]]
        return parameters.index(id(parameter))


def _is_turned(matrix: LabelMatrix) -> bool:
    rows, weight = matrix.rows, matrix.parameters[0]
    return (rows.shape, rows.stride()) != (weight.shape, weight.stride())


class LazyAdam(SparseAdam):
    """Adam for tables with sparse gradients, of words or labels: rows that no document of the batch uses stay as they are.

    As `torch.optim.SparseAdam`, whose formula is that of AttentionXML's authors, with their decoupled weight decay of the rows
    in the batch, after the step. Both rows and moments rest while a token is absent; in Adam they would go on moving. Rows of
    zeros are absent from a gradient that is dense after all, as that of a loss of all labels.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Decay of the two moments.
        eps: Added to the root of the second moment before its bias correction, so that it counts for more in early steps.
        weight_decay: Decoupled weight decay.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, lr=lr, betas=betas, eps=eps)
        for group in self.param_groups:
            group.setdefault("weight_decay", weight_decay)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = _loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.to_sparse(1).coalesce()
        super().step()
        for group in self.param_groups:
            for parameter in group["params"]:
                if group["weight_decay"] and parameter.grad is not None:
                    rows = parameter.grad.indices()[0]
                    parameter.index_copy_(0, rows, parameter[rows] * (1.0 - group["lr"] * group["weight_decay"]))
        return loss


class UncorrectedEpsilonAdam(Optimizer):
    """Adam with epsilon beside the root of the second moment before its bias correction: m̂ · √(1 - β2ᵗ) / (√v + eps).

    torch's AdamW adds epsilon after the correction, so there it counts for less in early steps, by √(1 - β2ᵗ): 1/32 of this
    one's in the first step. The two differ where gradients are near epsilon, as under a mean over very many labels. `LazyAdam` is
    the same for sparse gradients.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Decay of the two moments.
        eps: Added to the root of the second moment.
        weight_decay: Decoupled weight decay, after the step.

    Source: the optimizer in the code of AttentionXML (You et al., 2019) and CorNet (Xun et al., 2020), as Adam's paper has it in §2.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = _loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_parameter(parameter, group)
        return loss

    def _step_parameter(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        state["exp_avg"].lerp_(parameter.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        parameter.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])

"""Stochastic weight averaging as CorNet's and AttentionXML's authors do it: over evaluations, not over epochs."""

import contextlib
import os
from collections.abc import Iterator

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_file, save_model
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from hf_xmtc.file_checks import check_setting, read_json_object
from hf_xmtc.strict_json import json_text

__all__ = ["WeightAveraging"]

WEIGHTS_FILE = "averaged_model.safetensors"
STATE_FILE = "averaging.json"


class WeightAveraging:
    """An equal average of a model's weights, started at the beginning of an epoch and extended at every evaluation.

    At the start of `start_epoch` the average is the current weights (count 1). At each later evaluation
    avg ← avg · (1 - 1/n) + w / n. Evaluation, the best model and the final model use the average; training goes on with the
    live weights.

    Args:
        model: The model in training.
        start_epoch: Epoch (0-based) at whose beginning the average starts.

    Source: Izmailov et al. (2018), as in the training loop of the AttentionXML repository (CorNet §5.1 uses it too).
    """

    def __init__(self, model: nn.Module, start_epoch: int):
        self.model = model
        self.start_epoch = start_epoch
        self.average: AveragedModel | None = None

    @property
    def count(self) -> int:
        """Weights averaged so far, 0 before the start."""
        return 0 if self.average is None else int(self.average.n_averaged)

    def begin_epoch(self, epoch: int) -> None:
        """Start the average if this is the epoch for it, or if a resumed run is past it and has none yet."""
        if self.average is None and epoch >= self.start_epoch:
            self.average = AveragedModel(self.model)
            self.update()

    def update(self) -> None:
        """Take the current weights into the average, if it has started."""
        if self.average is not None:
            self.average.update_parameters(self.model)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within this context the model holds the average; afterwards it holds its live weights again."""
        if self.average is None:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        # Only the storages change places: nothing is copied.
        averaged = self.average.module
        for live, average in zip(
            [*self.model.parameters(), *self.model.buffers()], [*averaged.parameters(), *averaged.buffers()], strict=True
        ):
            live.data, average.data = average.data, live.data

    @torch.no_grad()
    def finish(self) -> None:
        """Leave the average in the model, if there is one."""
        if self.average is not None:
            self.model.load_state_dict(self.average.module.state_dict())

    def save(self, folder: str | os.PathLike, weights: dict[str, Tensor] | None = None) -> None:
        """Write the average and its count into a checkpoint folder; nothing before the average has started.

        Args:
            folder: The folder.
            weights: Those of the whole average, where this process holds only a part of it.
        """
        if self.average is not None:
            path = os.path.join(folder, WEIGHTS_FILE)
            if weights is None:
                save_model(self.average.module, path)
            else:
                save_file(weights, path)
            with open(os.path.join(folder, STATE_FILE), "w", encoding="utf-8") as file:
                file.write(json_text({"count": self.count, "start_epoch": self.start_epoch}))

    def load(self, folder: str | os.PathLike) -> bool:
        """Restore the average of a checkpoint folder; False where it has none."""
        path = os.path.join(folder, STATE_FILE)
        if not os.path.exists(path):
            self.average = None
            return False
        count = check_setting(read_json_object(path), "count", int, path)
        self.average = AveragedModel(self.model)
        _load_weights(self.average.module, os.path.join(folder, WEIGHTS_FILE))
        self.average.n_averaged.fill_(count)
        return True

    def load_best(self, folder: str | os.PathLike) -> bool:
        """Put the average of a checkpoint folder into the model itself; False where it has none."""
        path = os.path.join(folder, WEIGHTS_FILE)
        if os.path.exists(path):
            _load_weights(self.model, path)
            return True
        return False


def _load_weights(model: nn.Module, path: str) -> None:
    try:
        load_model(model, path)
    except (SafetensorError, RuntimeError) as error:  # damaged, or of other shapes
        raise ValueError(
            f"{path} cannot be read into the model ({str(error):.300}). Was the disk full, or is the checkpoint of another model? Delete "
            "this checkpoint to resume from an earlier one."
        ) from error

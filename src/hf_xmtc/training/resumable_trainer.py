"""Training that goes on after an interruption: transformers' Trainer with checkpoints of all its parts."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import nested_gather
from transformers.trainer_utils import rotate_checkpoints
from transformers.training_args import ParallelMode

from hf_xmtc.disk import disk_error
from hf_xmtc.file_checks import read_json_object
from hf_xmtc.strict_json import json_text

from .arguments import public_arguments
from .checkpoint_files import (
    UNFINISHED,
    best_checkpoint,
    check_resumed_labels,
    checkpoints_in,
    clear_unfinished,
    damage_of,
    seal,
    set_damaged_aside,
)
from .finite_trainer import FiniteTrainer
from .gradient_clipping import AdaptiveGradientClipping
from .label_sharding import check_resumed_processes, gathered_weights, optimizer_folder, save_optimizer_part
from .label_trees import candidate_recall
from .optimizer_checks import check_resumed_optimizer
from .sharded_label_head import shard_of
from .weight_averaging import WeightAveraging

__all__ = ["ResumableTrainer"]

logger = logging.getLogger(__name__)

CLIPPING_FILE = "gradient_clipping.json"
ARGUMENTS_FILE = "training_args.json"
PROGRESS_FILE = "progress.json"


class ResumableTrainer(FiniteTrainer):
    """Writes and reads checkpoints that hold everything a run needs to equal an uninterrupted one.

    Beside what transformers' Trainer keeps these are the average of the weights, the gradient norms of adaptive clipping, and the
    loss and time so far. A checkpoint appears under its name only when it is complete, and is checked before it is used; the
    newest one stays beside the best when training ends.
    """

    _weights_to_save: dict[str, Tensor] | None = None
    _writes_checkpoint = False
    _resumed_from: str | None = None
    _started, _steps_before = 0.0, 0
    training_seconds = 0.0

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any):
        """Train; ``resume_from_checkpoint=True`` goes on from the newest whole checkpoint, and anew where all are damaged.

        Raises:
            ValueError: If the checkpoint that is named is damaged, or the best one beside it that is needed, or there is none.
            FloatingPointError: If the loss, the gradient or the weights are no longer finite.
            OSError: If a checkpoint cannot be written, for instance because the disk is full.
        """
        self._resumed_from = self._checkpoint_to_resume(resume_from_checkpoint)
        self._started, self.training_seconds = time.monotonic(), 0.0
        self._steps_before = 0  # steps of which no loss is known
        return super().train(self._resumed_from, *args, **kwargs)

    def _start_anew(self) -> None:
        """Forget the average and the gradient norms of an earlier `train`; a checkpoint brings its own."""
        start = self.args.averaging_start_epoch
        self.averaging = WeightAveraging(self.model, start) if start is not None else None
        self.adaptive_clipping = AdaptiveGradientClipping() if self.args.adaptive_gradient_clipping else None

    def _checkpoint_to_resume(self, given: str | bool | None) -> str | None:
        """The checkpoint to go on from, after a look at its files by the process that wrote them."""
        with self.args.main_process_first(local=self.args.save_on_each_node, desc="looking at the checkpoints"):
            if self.args.should_save:
                clear_unfinished(self.args.output_dir)
            if not given or not isinstance(given, bool):
                return self._check_undamaged(given or None)
            if self.args.should_save:
                return self._newest_whole_checkpoint()
            newest = next(iter(checkpoints_in(self.args.output_dir)), None)
            return newest and str(newest)

    def _check_undamaged(self, checkpoint: str | None) -> str | None:
        looks = checkpoint and os.path.isdir(checkpoint) and self.args.should_save
        if looks and (damage := damage_of(checkpoint, needs_best=self.args.load_best_model_at_end)):
            raise ValueError(
                f"The checkpoint {checkpoint} cannot be used: {damage}. Name another one, or use resume_from_checkpoint=True, "
                "which takes the newest whole one."
            )
        return checkpoint

    def _newest_whole_checkpoint(self) -> str | None:
        if not checkpoints_in(self.args.output_dir):
            raise ValueError(f"There is no checkpoint in {self.args.output_dir} to resume from.")
        damages = set_damaged_aside(self.args.output_dir, needs_best=self.args.load_best_model_at_end)
        newest = next(iter(checkpoints_in(self.args.output_dir)), None)
        for damage in damages:
            logger.warning(damage)
        if newest is None:
            logger.warning(f"No whole checkpoint is left in {self.args.output_dir}, so training starts anew.")
            return None
        logger.info(f"Resuming from {newest.name}.")
        return str(newest)

    # ---- writing ---------------------------------------------------------------------------------------------------------

    def _get_output_dir(self, trial: Any) -> str:
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, UNFINISHED) if self._writes_checkpoint else folder

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self._check_weights_finite()
        run, name = self._get_output_dir(trial), f"checkpoint-{self.state.global_step}"
        written = os.path.join(run, UNFINISHED, name)
        with self._in_unfinished_folder(written):
            average = self.averaging.average if self.averaging is not None else None
            weights = gathered_weights(average.module, self.args) if average is not None else None
            loss = nested_gather(self._tr_loss, self.args.parallel_mode).mean().item()
            if self.args.should_save:
                os.makedirs(written, exist_ok=True)
                self._save_own_parts(written, weights, loss)
            super()._save_checkpoint(model, trial)
            best = self.state.best_model_checkpoint
            if best is not None and Path(best).parent.name == UNFINISHED:
                self.state.best_model_checkpoint = os.path.join(run, name)
            if self.args.parallel_mode == ParallelMode.DISTRIBUTED:
                torch.distributed.barrier()  # all have written their parts
            if self.args.should_save:
                self._save_state(os.path.join(written, TRAINER_STATE_NAME))
                seal(Path(written), Path(run, name))
                clear_unfinished(run)
        if self.args.push_to_hub:
            self._push_from_checkpoint(os.path.join(run, name))
        if self.args.should_save:
            rotate_checkpoints(run, self.args.save_total_limit, self.state.best_model_checkpoint, use_mtime=True)
        if self.args.parallel_mode == ParallelMode.DISTRIBUTED:
            torch.distributed.barrier()

    @contextlib.contextmanager
    def _in_unfinished_folder(self, written: str) -> Iterator[None]:
        """Let the Trainer write there; what it could not complete is removed, so that it fills no disk."""
        self._writes_checkpoint = True
        try:
            yield
        except Exception as error:
            told = disk_error(error, written)
            if self.args.should_save:
                clear_unfinished(Path(written).parent.parent)
            if told is None:
                raise
            raise told from error
        finally:
            self._writes_checkpoint = False

    def _save_own_parts(self, folder: str, average: dict[str, Tensor] | None, loss: float) -> None:
        if self.averaging is not None:
            self.averaging.save(folder, average)
        if self.adaptive_clipping is not None:
            with open(os.path.join(folder, CLIPPING_FILE), "w", encoding="utf-8") as file:
                file.write(json_text(self.adaptive_clipping.state_dict()))
        progress = {
            "seconds": self.training_seconds + time.monotonic() - self._started,
            "loss_since_logged": loss,
            "loss_before": self._total_loss_scalar,
            "logged_at_step": self._globalstep_last_logged,
            "steps_without_loss": self._steps_before,
        }
        with open(os.path.join(folder, PROGRESS_FILE), "w", encoding="utf-8") as file:
            file.write(json_text(progress))

    def _save_state(self, path: str) -> None:
        """Write the Trainer's state anew, the best checkpoint by its name alone: the folder may be moved."""
        best = self.state.best_model_checkpoint
        try:
            self.state.best_model_checkpoint = best and os.path.basename(best)
            self.state.save_to_json(path)
        finally:
            self.state.best_model_checkpoint = best

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if not self._writes_checkpoint:  # later, under its name
            super()._push_from_checkpoint(checkpoint_folder)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model, tokenizer and arguments; with sharded labels all processes have to call it."""
        # Here and not in _save, which older releases of transformers call in one process only.
        self._weights_to_save = gathered_weights(self.model, self.args)
        try:
            super().save_model(output_dir, _internal_call)
        finally:
            self._weights_to_save = None

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, self._weights_to_save if state_dict is None else state_dict)
        if not self.args.should_save:
            return
        folder = output_dir if output_dir is not None else self.args.output_dir
        # The Trainer writes its arguments as a pickle, which the Hub flags; the same as JSON is readable and safe.
        pickled = os.path.join(folder, "training_args.bin")
        if os.path.exists(pickled):
            os.remove(pickled)
        with open(os.path.join(folder, ARGUMENTS_FILE), "w", encoding="utf-8") as file:
            file.write(json_text(public_arguments(self.args), indent=2, sort_keys=True))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if (shard := shard_of(self.model)) is None:
            super()._save_optimizer_and_scheduler(output_dir)
        else:
            save_optimizer_part(self.optimizer, self.lr_scheduler, output_dir, shard)

    # ---- reading ---------------------------------------------------------------------------------------------------------

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        check_resumed_labels(resume_from_checkpoint, self.model)
        check_resumed_optimizer(os.path.join(resume_from_checkpoint, ARGUMENTS_FILE), self.args)
        check_resumed_processes(resume_from_checkpoint, shard_of(self.model))
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if self.averaging is not None:
            self.averaging.load(resume_from_checkpoint)
        path = os.path.join(resume_from_checkpoint, CLIPPING_FILE)
        if self.adaptive_clipping is not None and os.path.exists(path):
            self.adaptive_clipping.load_state_dict(read_json_object(path))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint and optimizer_folder(checkpoint, shard_of(self.model)))

    def _init_training_state(self, *args: Any, **kwargs: Any):
        # The Trainer looks for the best checkpoint under the name of the folder at that time, and warns.
        with _without("The best checkpoint"):
            start = super()._init_training_state(*args, **kwargs)
        if self._resumed_from is not None:
            best = best_checkpoint(self._resumed_from)
            self.state.best_model_checkpoint = str(best) if best is not None and best.is_dir() else None
        return start

    def continue_progress(self) -> None:
        """Go on with loss and time of the checkpoint; the Trainer starts both at zero."""
        if self._resumed_from is None:
            return
        path = os.path.join(self._resumed_from, PROGRESS_FILE)
        if not os.path.exists(path):  # a checkpoint of an earlier version or of another program
            self._steps_before = self.state.global_step
            return
        progress = read_json_object(path)
        self._tr_loss += progress["loss_since_logged"]
        self._total_loss_scalar = progress["loss_before"]
        self._globalstep_last_logged = progress["logged_at_step"]
        self._steps_before, self.training_seconds = progress["steps_without_loss"], progress["seconds"]

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "train_loss" in logs:
            logs["train_loss"] = self._total_loss_scalar / max(self.state.global_step - self._steps_before, 1)
        if "loss" in logs:
            logs |= candidate_recall(self, training=True)
        super().log(logs, *args, **kwargs)

    # ---- the end ---------------------------------------------------------------------------------------------------------

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # A checkpoint may be that of the end, from which the Trainer would train on.
        stops = [call for call in self.callback_handler.callbacks if isinstance(call, EarlyStoppingCallback)]
        stopped = any(call.early_stopping_patience_counter >= call.early_stopping_patience for call in stops)
        if stopped or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def _finalize_training(self, *args: Any, **kwargs: Any):
        self._check_weights_finite()
        # With a limit of 1 the Trainer deletes all but the best checkpoint, so that a repeated run would train the rest again.
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            result = super()._finalize_training(*args, **kwargs)
        finally:
            self.args.save_total_limit = limit
        self.training_seconds += time.monotonic() - self._started
        return result._replace(training_loss=result.metrics["train_loss"])

    def _load_best_model(self) -> None:
        best = self.state.best_model_checkpoint
        if self.args.should_save and (damage := damage_of(best)):
            raise OSError(
                f"Training has ended, but {best}, the best checkpoint, is damaged: {damage}. Put the file back and repeat, or train "
                "anew."
            )
        super()._load_best_model()
        if self.averaging is not None:
            self.averaging.load_best(best)


@contextlib.contextmanager
def _without(beginning: str) -> Iterator[None]:
    """Keep the Trainer from logging messages with this beginning."""
    trainer_logger = logging.getLogger("transformers.trainer")

    def other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(beginning)

    trainer_logger.addFilter(other)
    try:
        yield
    finally:
        trainer_logger.removeFilter(other)

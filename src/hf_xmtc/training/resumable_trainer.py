"""What a training run has to remember to go on after an interruption: transformers' Trainer with checkpoints of all its parts."""

import json
import os
from typing import Any

from torch import Tensor, nn
from transformers import Trainer

from .arguments import public_arguments
from .gradient_clipping import AdaptiveGradientClipping
from .label_sharding import gathered_weights, optimizer_folder, refuse_other_processes, save_optimizer_part
from .option_refusals import refuse_other_labels, refuse_other_optimizer
from .weight_averaging import WeightAveraging

__all__ = ["ResumableTrainer"]

CLIPPING_FILE = "gradient_clipping.json"
ARGUMENTS_FILE = "training_args.json"


class ResumableTrainer(Trainer):
    """Writes and reads checkpoints that hold everything a run needs to equal an uninterrupted one.

    Beside what transformers' Trainer keeps these are the average of the weights and the gradient norms of adaptive clipping.
    """

    _weights_to_save: dict[str, Tensor] | None = None

    def _start_anew(self) -> None:
        """Forget the average and the gradient norms of an earlier `train`; a checkpoint brings its own."""
        start = self.args.averaging_start_epoch
        self.averaging = WeightAveraging(self.model, start) if start is not None else None
        self.adaptive_clipping = AdaptiveGradientClipping() if self.args.adaptive_gradient_clipping else None

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.model.label_head.shard is None:
            super()._save_optimizer_and_scheduler(output_dir)
        else:
            save_optimizer_part(self.optimizer, self.lr_scheduler, output_dir, self.model.label_head.shard)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint and optimizer_folder(checkpoint, self.model.label_head.shard))

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
            json.dump(public_arguments(self.args), file, indent=2, sort_keys=True)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        average = self.averaging.average if self.averaging is not None else None
        weights = gathered_weights(average.module, self.args) if average is not None else None
        # Before the rest: the Trainer's state is written last and tells that a checkpoint is complete.
        if self.args.should_save:
            folder = os.path.join(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
            os.makedirs(folder, exist_ok=True)
            if self.averaging is not None:
                self.averaging.save(folder, weights)
            if self.adaptive_clipping is not None:
                with open(os.path.join(folder, CLIPPING_FILE), "w", encoding="utf-8") as file:
                    json.dump(self.adaptive_clipping.state_dict(), file)
        super()._save_checkpoint(model, trial)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        refuse_other_labels(resume_from_checkpoint, self.model)
        refuse_other_optimizer(os.path.join(resume_from_checkpoint, ARGUMENTS_FILE), self.args)
        refuse_other_processes(resume_from_checkpoint, self.model.label_head.shard)
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if self.averaging is not None:
            self.averaging.load(resume_from_checkpoint)
        path = os.path.join(resume_from_checkpoint, CLIPPING_FILE)
        if self.adaptive_clipping is not None and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.adaptive_clipping.load_state_dict(json.load(file))

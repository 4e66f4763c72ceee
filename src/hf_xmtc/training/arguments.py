"""`XMTCTrainingArguments`: transformers' training arguments with this field's defaults and a few of its own."""

from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments

__all__ = ["XMTCTrainingArguments"]

# Largest cut-off of the metrics in evaluation; with fewer labels kept per document they would come out too low.
LARGEST_K = 5


@dataclass
class XMTCTrainingArguments(TrainingArguments):
    """Arguments of `XMTCTrainer`.

    Everything of `transformers.TrainingArguments` works. Changed defaults: evaluation and a checkpoint after every epoch,
    the best model by nDCG@5 is kept, batches are bucketed by length, a resumed run goes on counting for early stopping,
    batch size and learning rate suit models trained from scratch (CorNet's authors: batch 40, Adam, learning rate 1e-3).
    """

    per_device_train_batch_size: int = field(default=40, metadata={"help": "Documents per device and step."})
    per_device_eval_batch_size: int = field(default=128, metadata={"help": "Documents per device in evaluation."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Initial learning rate of AdamW."})
    num_train_epochs: float = field(default=7.0, metadata={"help": "Training epochs."})
    warmup_steps: float = field(default=0.1, metadata={"help": "Steps of linear warm-up; below 1 a share of all steps."})
    eval_strategy: str = field(default="epoch", metadata={"help": "When to evaluate: no, steps or epoch."})
    save_strategy: str = field(default="epoch", metadata={"help": "When to save a checkpoint: no, steps, epoch or best."})
    save_total_limit: int | None = field(default=1, metadata={"help": "Checkpoints kept beside the best one."})
    load_best_model_at_end: bool = field(default=True, metadata={"help": "End with the best model, not the last."})
    metric_for_best_model: str | None = field(default="nDCG@5", metadata={"help": "Metric on the validation split."})
    greater_is_better: bool | None = field(
        default=None, metadata={"help": "Whether a larger metric is better; by default for all but losses."}
    )
    restore_callback_states_from_checkpoint: bool = field(
        default=True, metadata={"help": "Let a resumed run remember what early stopping has counted."}
    )
    train_sampling_strategy: str = field(
        default="group_by_length",
        metadata={"help": "group_by_length puts similarly long documents into a batch; or random."},
    )
    logging_steps: float = field(default=20, metadata={"help": "Steps between two log lines."})
    use_cpu: bool = field(
        default_factory=lambda: not torch.accelerator.is_available(),
        metadata={"help": "Train on the CPU; set where there is no accelerator, or several processes would not join."},
    )
    dataloader_pin_memory: bool = field(
        default_factory=torch.accelerator.is_available, metadata={"help": "Pin host memory for copies to an accelerator."}
    )
    eval_top_k: int = field(
        default=10, metadata={"help": "Labels kept per document in evaluation and predictions, at least 5."}
    )
    propensity_a: float = field(default=0.55, metadata={"help": "Propensity constant A (0.6 Amazon, 0.5 Wikipedia sets)."})
    propensity_b: float = field(default=1.5, metadata={"help": "Propensity constant B (2.6 Amazon, 0.4 Wikipedia sets)."})
    ignore_unseen_labels: bool = field(
        default=False,
        metadata={"help": "Leave labels that training never saw out of the metrics; else they count as missed."},
    )
    early_stopping_patience: int | None = field(
        default=None, metadata={"help": "Stop after this many evaluations in a row without a better metric_for_best_model."}
    )
    averaging_start_epoch: int | None = field(
        default=None,
        metadata={"help": "Average the weights from this epoch (0-based) on, at every evaluation; evaluate and keep that."},
    )
    adaptive_gradient_clipping: bool = field(
        default=False,
        metadata={"help": "Clip at 5 times the largest of the last 5 norms (AttentionXML's authors), not at max_grad_norm."},
    )

    def __post_init__(self):
        super().__post_init__()
        if self.eval_top_k < LARGEST_K:
            raise ValueError(
                f"eval_top_k={self.eval_top_k}, but P@{LARGEST_K} and the other metrics look at {LARGEST_K} labels per "
                f"document. Use eval_top_k={LARGEST_K} or more."
            )
        if self.averaging_start_epoch is not None and self.averaging_start_epoch < 0:
            raise ValueError(f"averaging_start_epoch={self.averaging_start_epoch}; epochs count from 0.")
        if self.early_stopping_patience is not None and self.early_stopping_patience < 1:
            raise ValueError(f"early_stopping_patience={self.early_stopping_patience}, but it must be at least 1.")
        for name in ("averaging_start_epoch", "early_stopping_patience"):
            if getattr(self, name) is not None and self.eval_strategy == "no":
                raise ValueError(
                    f"{name}={getattr(self, name)} with eval_strategy='no': it acts at each evaluation, so it would "
                    "never do anything. Set eval_strategy='epoch' or 'steps'."
                )
        if not self.eval_do_concat_batches:
            raise ValueError(
                "eval_do_concat_batches=False, but the ranking metrics and predict need the predictions of all documents in one "
                "array; only the best labels of each are kept, so this takes little memory. Leave it out."
            )
        if self.adaptive_gradient_clipping and self.max_grad_norm <= 0:
            raise ValueError(
                f"adaptive_gradient_clipping=True with max_grad_norm={self.max_grad_norm}, which switches all clipping off. "
                "Leave max_grad_norm out; adaptive clipping sets its own threshold."
            )

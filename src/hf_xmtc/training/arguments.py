"""`XMTCTrainingArguments`: transformers' training arguments with this field's defaults and a few of its own."""

import os
from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments

from .option_conflicts import (
    CONFLICTS,
    IN_BACKWARD,
    IN_TRAINER,
    check_conflicts,
    check_ranges,
    check_unused_arguments,
    option_settings,
)

__all__ = ["IN_BACKWARD", "LABEL_OPTIMIZERS", "SGD_LEARNING_RATE", "XMTCTrainingArguments"]

LABEL_OPTIMIZERS = ("adamw", "rowwise", *IN_BACKWARD)
# Of plain gradient descent on the label matrices, where no rate is given: a rate for Adam says nothing about it.
SGD_LEARNING_RATE = 0.05

THRESHOLDS = ("none", "global", "per_label")


@dataclass
class XMTCTrainingArguments(TrainingArguments):
    """Arguments of `XMTCTrainer`.

    They take all arguments of `transformers.TrainingArguments` and refuse those that do nothing here or exclude each other (`option_conflicts`). Changed
    defaults: evaluation and a checkpoint after every epoch, the best model by nDCG@5 is kept, a resumed run goes on counting for early stopping,
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
        default="random",
        metadata={
            "help": "random: batches are drawn at random, and their documents encoded in chunks of similar lengths. group_by_length puts "
            "similarly long documents into a batch: a little less padding, but batches that are not like the data."
        },
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
        default=100,
        metadata={
            "help": "Labels kept per document in evaluation and predictions, at least 5; ensembles are tuned on them."
        },
    )
    propensity_a: float = field(default=0.55, metadata={"help": "Propensity constant A (0.6 Amazon, 0.5 Wikipedia sets)."})
    propensity_b: float = field(default=1.5, metadata={"help": "Propensity constant B (2.6 Amazon, 0.4 Wikipedia sets)."})
    ignore_unseen_labels: bool = field(
        default=False,
        metadata={"help": "Leave labels that training never saw out of the metrics; else they count as missed."},
    )
    set_metrics: bool = field(
        default=False,
        metadata={
            "help": "Also measure predicted label sets: F1, Hamming loss, subset accuracy, label dependency, F1 by frequency."
        },
    )
    measure_training_split: bool = field(
        default=False,
        metadata={
            "help": "hf-xmtc train: also measure the training documents after training, how well they are fitted (LACO table 5)."
        },
    )
    set_top_k: int = field(
        default=100,
        metadata={"help": "Labels kept per document where sets are measured or thresholds tuned; sets beyond are cut."},
    )
    tune_threshold: str = field(
        default="none",
        metadata={
            "help": "Score that a label of a predicted set must exceed, found on the validation split after training and saved with the "
            "model. none: 0.5. global: one, by micro F1. per_label: one for each label, by its F1.",
            "choices": THRESHOLDS,
        },
    )
    tune_encoder: bool = field(
        default=False,
        metadata={
            "help": "hf-xmtc train: for neighbors with --backbone, first train the encoder contrastively, so that training texts with a label "
            "in common, and a label's own text, come near each other. learning_rate, num_train_epochs and the like are those of this training."
        },
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
    adam_epsilon_uncorrected: bool = field(
        default=False,
        metadata={
            "help": "Add adam_epsilon before the bias correction of the second moment, as the authors of AttentionXML and CorNet do, not "
            "after it, as torch's AdamW. In early steps it counts for more then, where gradients are small, as with very many labels."
        },
    )
    label_optimizer: str = field(
        default="adamw",
        metadata={
            "help": "Of the matrices with a row per label (output layer, CorNet). adamw: as for the rest. rowwise: one number of "
            "state per label. …_in_backward: updated during the backward pass, without stored gradients; sgd_in_backward has no "
            "state, rowwise_in_backward one number per label, adam_in_backward that of Adam. Results do not depend on the config's "
            "loss_reduction: with 'mean' sgd multiplies its rate by the number of labels and all others divide adam_epsilon by it "
            "(but not with adam_epsilon_uncorrected).",
            "choices": LABEL_OPTIMIZERS,
        },
    )
    label_learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "Initial learning rate of these matrices; by default learning_rate, for sgd_in_backward "
            f"{SGD_LEARNING_RATE}. It follows the same schedule."
        },
    )
    cornet_learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "Initial learning rate of CorNet; by default that of the label matrices. It follows the same schedule."
        },
    )
    sparse_embeddings: bool = field(
        default=False,
        metadata={
            "help": "Sparse gradients and lazy Adam for the word embeddings and, over a label tree, the label vectors: rows of absent "
            "words and of labels that are no candidates cost nothing and rest. For large vocabularies and many labels."
        },
    )
    shard_labels: bool = field(
        default=False,
        metadata={
            "help": "Spread the label matrices over the processes: each holds and trains its own part of the labels, on the documents "
            "of all. For label sets whose matrices and optimizer state are too large for one process."
        },
    )

    def __post_init__(self):
        if self.greater_is_better is None and str(self.metric_for_best_model).endswith("_kl"):
            self.greater_is_better = False  # a distance, which its name does not tell transformers
        super().__post_init__()
        check_unused_arguments(self, IN_TRAINER)
        for name, choices in (("tune_threshold", THRESHOLDS), ("label_optimizer", LABEL_OPTIMIZERS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {', '.join(choices)}.")
        check_ranges(self)
        self.check_conflicts()

    @property
    def measures_sets(self) -> bool:
        """True if evaluation needs the labels of whole sets."""
        return self.set_metrics or self.tune_threshold != "none"

    @property
    def updates_in_backward(self) -> bool:
        """True if the label matrices are updated during the backward pass."""
        return self.label_optimizer in IN_BACKWARD

    def check_conflicts(self) -> None:
        """Refuse options that exclude each other; `XMTCTrainer.train` asks again, because arguments may change.

        Raises:
            ValueError: If there are any.
        """
        check_conflicts(CONFLICTS, option_settings(self), type(self))


def public_arguments(args: XMTCTrainingArguments) -> dict:
    """The training arguments as plain JSON values, without tokens and without paths of this machine."""
    hidden = {"output_dir", "hub_token", "push_to_hub_token", "resume_from_checkpoint", "logging_dir", "run_name"}
    plain = (str, int, float, bool, type(None), list, dict)
    return {
        key: os.path.basename(value) if isinstance(value, str) and os.path.isabs(value) else value
        for key, value in args.to_dict().items()
        if key not in hidden and isinstance(value, plain)
    }

"""`XMTCTrainingArguments`: transformers' training arguments with this field's defaults and a few of its own."""

import os
from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments

from .unused_arguments import IN_TRAINER, refuse_unused_arguments

__all__ = ["IN_BACKWARD", "LABEL_OPTIMIZERS", "SGD_LEARNING_RATE", "XMTCTrainingArguments"]

LABEL_OPTIMIZERS = ("adamw", "rowwise", "sgd_in_backward", "rowwise_in_backward", "adam_in_backward")
IN_BACKWARD = LABEL_OPTIMIZERS[2:]
# Of plain gradient descent on the label matrices, where no rate is given: a rate for Adam says nothing about it.
SGD_LEARNING_RATE = 0.05

THRESHOLDS = ("none", "global", "per_label")

# Optimizers that treat every weight by itself; others would do something else to a part of a matrix than to the whole.
BY_WEIGHT = ("adamw", "sgd", "rmsprop", "adagrad", "lion")

# Largest cut-off of the metrics in evaluation; with fewer labels kept per document they would come out too low.
LARGEST_K = 5


@dataclass
class XMTCTrainingArguments(TrainingArguments):
    """Arguments of `XMTCTrainer`.

    They take all arguments of `transformers.TrainingArguments` and refuse those that do nothing here (`unused_arguments`). Changed
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
    num_random_candidates: int = field(
        default=8,
        metadata={"help": "Random labels among a training document's candidates, for models that score candidates."},
    )
    injection_share: float = field(
        default=0.6,
        metadata={
            "help": "Share of the training over which labels that candidates lack are put in with a falling chance, from 1 to 0."
        },
    )
    tune_generator_share: bool = field(
        default=False,
        metadata={
            "help": "hf-xmtc train: count the generator's votes in the scores of candidates, by the share that is best on the validation "
            "split (nDCG@5); it is saved with the model. Scores then rank and are no probabilities: for sets use tune_threshold too."
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
            "loss_reduction (but those of adamw do, by its epsilon): with 'mean' sgd multiplies its rate by the number of labels "
            "and the others divide epsilon by it.",
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
    layer_learning_rate_decay: float = field(
        default=1.0,
        metadata={
            "help": "Factor on the learning rate from each layer of the encoder to the one below it; 0.8 in LACO's code. The embeddings come "
            "below the first layer, and what is no part of the encoder keeps the full rate."
        },
    )
    freeze_heads: bool = field(
        default=False,
        metadata={
            "help": "Train the encoder and its label tokens alone and leave all that stands on it as it starts, as LACO's code does; for "
            "comparison."
        },
    )
    sparse_embeddings: bool = field(
        default=False,
        metadata={
            "help": "Sparse gradients and lazy Adam for the word embeddings: rows of absent words cost nothing and rest. For large "
            "vocabularies."
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
        refuse_unused_arguments(self, IN_TRAINER)
        if self.eval_top_k < LARGEST_K:
            raise ValueError(
                f"eval_top_k={self.eval_top_k}, but P@{LARGEST_K} and the other metrics look at {LARGEST_K} labels per "
                f"document. Use eval_top_k={LARGEST_K} or more."
            )
        if self.tune_threshold not in THRESHOLDS:
            raise ValueError(f"tune_threshold={self.tune_threshold!r} is none of {', '.join(THRESHOLDS)}.")
        if self.num_random_candidates < 0 or not 0 <= self.injection_share <= 1:
            raise ValueError(
                f"num_random_candidates={self.num_random_candidates} must be at least 0 and injection_share={self.injection_share} "
                "from 0 to 1."
            )
        if self.set_top_k < 1:
            raise ValueError(f"set_top_k={self.set_top_k}, but a set is looked for among at least 1 label.")
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
        if not 0 < self.layer_learning_rate_decay <= 1:
            raise ValueError(
                f"layer_learning_rate_decay={self.layer_learning_rate_decay}, but the factor is more than 0 and at most 1, which is none."
            )
        if self.layer_learning_rate_decay != 1 and self.sparse_embeddings:
            raise ValueError(
                f"layer_learning_rate_decay={self.layer_learning_rate_decay} with sparse_embeddings=True: the embeddings of an encoder that "
                "is fine-tuned are small beside it, and their lazy rule has one rate. Leave sparse_embeddings out."
            )
        for name, idle in (("label_optimizer", "adamw"), ("label_learning_rate", None), ("shard_labels", False)):
            if self.freeze_heads and getattr(self, name) != idle:
                raise ValueError(
                    f"freeze_heads=True with {name}={getattr(self, name)!r}, but frozen label matrices are not trained. Leave one of them out."
                )
        optim = str(getattr(self.optim, "value", self.optim))
        if self.adam_epsilon_uncorrected and (optim not in ("adamw_torch", "adamw_torch_fused") or not self.adam_epsilon):
            raise ValueError(
                f"adam_epsilon_uncorrected=True with optim={optim!r} and adam_epsilon={self.adam_epsilon}: it places the epsilon of torch's "
                "AdamW. Leave optim out and adam_epsilon above 0, or leave it out."
            )
        self.check_label_options()
        if self.adaptive_gradient_clipping and self.max_grad_norm <= 0:
            raise ValueError(
                f"adaptive_gradient_clipping=True with max_grad_norm={self.max_grad_norm}, which switches all clipping off. "
                "Leave max_grad_norm out; adaptive clipping sets its own threshold."
            )

    @property
    def measures_sets(self) -> bool:
        """Whether evaluation needs the labels of whole sets."""
        return self.set_metrics or self.tune_threshold != "none"

    @property
    def updates_in_backward(self) -> bool:
        """Whether the label matrices are updated during the backward pass."""
        return self.label_optimizer in IN_BACKWARD

    def check_label_options(self) -> None:
        """Refuse label options that do not go with the other arguments; `XMTCTrainer.train` asks again, for arguments may change."""
        self._check_label_optimizer()
        self._check_sharding()

    def _check_label_optimizer(self) -> None:
        if self.label_optimizer not in LABEL_OPTIMIZERS:
            raise ValueError(f"label_optimizer={self.label_optimizer!r} is none of {', '.join(LABEL_OPTIMIZERS)}.")
        if self.label_learning_rate is not None and self.label_learning_rate < 0:
            raise ValueError(f"label_learning_rate={self.label_learning_rate}, but a rate cannot be negative.")
        optim = str(getattr(self.optim, "value", self.optim))
        for name, idle in (("label_optimizer", "adamw"), ("sparse_embeddings", False)):
            if getattr(self, name) != idle and not optim.startswith("adamw"):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} with optim={optim!r}: it goes with AdamW for the rest of the model. Leave one "
                    "of them out."
                )
        if not self.updates_in_backward:
            return
        chosen = f"label_optimizer={self.label_optimizer!r}"
        if self.gradient_accumulation_steps > 1:
            raise ValueError(
                f"{chosen} with gradient_accumulation_steps={self.gradient_accumulation_steps}: it updates in every backward pass, so "
                "there is nothing to accumulate. Raise per_device_train_batch_size instead, or use label_optimizer='rowwise'."
            )
        if self.fp16:
            raise ValueError(
                f"{chosen} with fp16=True: fp16 scales the loss and leaves out steps that overflow, which is known only after the "
                "backward pass. Use bf16=True, or label_optimizer='rowwise'."
            )
        if self.world_size > 1 and not self.accelerator_config.even_batches:
            raise ValueError(
                f"{chosen} with even_batches=False in {self.world_size} processes: each update takes the documents of all, so all need as many "
                "batches. Leave even_batches at True."
            )
        for name in ("fsdp", "deepspeed"):
            if getattr(self, name):
                raise ValueError(
                    f"{chosen} with {name}={getattr(self, name)!r}, which shards the matrices and updates them itself. Use plain "
                    "data parallelism (leave it out), or label_optimizer='adamw'."
                )

    def _check_sharding(self) -> None:
        if not self.shard_labels:
            return
        for name in ("fsdp", "deepspeed"):
            if getattr(self, name):
                raise ValueError(
                    f"shard_labels=True with {name}={getattr(self, name)!r}, which shards all matrices in its own way. Leave one of them out."
                )
        if self.world_size == 1:
            raise ValueError(
                "shard_labels=True in one process, which would hold all labels anyway. Start several with `torchrun --nproc_per_node N "
                "scripts/train.py …` or `accelerate launch --multi_gpu --num_processes N --num_machines 1 scripts/train.py …`, or leave "
                "shard_labels out."
            )
        if self.fp16:
            raise ValueError(
                "shard_labels=True with fp16=True: fp16 leaves out steps whose gradients overflow, which each process would decide by its "
                "own labels. Use bf16=True."
            )
        optim = str(getattr(self.optim, "value", self.optim))
        if not optim.startswith(BY_WEIGHT):
            raise ValueError(
                f"shard_labels=True with optim={optim!r}, which looks at whole matrices, and a process has a part of them. Choose "
                f"one that treats every weight by itself ({', '.join(BY_WEIGHT)})."
            )
        if not self.accelerator_config.even_batches:
            raise ValueError(
                "shard_labels=True with even_batches=False: every process scores the documents of all, so all need as many batches. "
                "Leave even_batches at True."
            )


def public_arguments(args: XMTCTrainingArguments) -> dict:
    """The training arguments as plain JSON values, without tokens and without paths of this machine."""
    hidden = {"output_dir", "hub_token", "push_to_hub_token", "resume_from_checkpoint", "logging_dir", "run_name"}
    plain = (str, int, float, bool, type(None), list, dict)
    return {
        key: os.path.basename(value) if isinstance(value, str) and os.path.isabs(value) else value
        for key, value in args.to_dict().items()
        if key not in hidden and isinstance(value, plain)
    }

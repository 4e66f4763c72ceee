"""What `hf-xmtc train` can be told: dataclasses that the command line, a YAML recipe and JSON all parse into."""

import argparse
import dataclasses
import os
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hf_xmtc.models.modeling_joint import JointModel
from hf_xmtc.training import XMTCTrainingArguments, public_arguments
from hf_xmtc.training.label_texts import LABEL_EMBEDDING_STARTS
from hf_xmtc.training.unused_arguments import IN_COMMAND, IN_TRAINER, refuse_unused_arguments

from .config_overrides import SAID_BY_DATA, USUAL_NAMES, field_names, hint, read_overrides, refuse_unknown_overrides
from .families import FAMILIES, FROM_SCRATCH, SIZES, default_recipe, family_named
from .gradient_options import check_gradient_options, without_gradient_options
from .recipe_checks import check_compatibility
from .recipe_file import read_recipe_file
from .starting_model import TOKENIZER_OPTIONS, StartingModel
from .train_options import option_parser

__all__ = ["SAID_ELSEWHERE", "DataArguments", "ModelArguments", "Recipe", "parse_recipe"]

# Training arguments that every recipe names, and those that say nothing about the result.
ALWAYS_LISTED = (
    "learning_rate",
    "label_optimizer",
    "label_learning_rate",
    "sparse_embeddings",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "adaptive_gradient_clipping",
    "per_device_train_batch_size",
    "train_sampling_strategy",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "averaging_start_epoch",
    "early_stopping_patience",
    "bf16",
    "fp16",
    "seed",
)
SAID_ELSEWHERE = (
    "use_cpu",
    "dataloader_pin_memory",
    "output_dir",
    "logging_steps",
    "disable_tqdm",
    "report_to",
    "dataloader_num_workers",
    "do_train",
    "do_eval",
    "do_predict",
    "push_to_hub",
    "hub_model_id",
    "hub_private_repo",
    "hub_revision",
    "hub_strategy",
    "hub_always_push",
)


@dataclass
class ModelArguments:
    """Which model to train.

    Attributes:
        start: What ``model`` names, once it is opened (`with_starting_model`).
    """

    start: ClassVar[StartingModel | None] = None

    model: str | None = field(
        default=None,
        metadata={
            "help": "Go on from a trained model (folder or Hub id), with the labels of the data: those it knows keep what it has learnt."
        },
    )
    model_revision: str | None = field(default=None, metadata={"help": "Revision of that model on the Hub."})
    model_family: str = field(
        default="bertxml",
        metadata={
            "help": f"Model family: {', '.join(sorted(FAMILIES))}. Without --config and --backbone bertxml has other defaults: "
            f"{', '.join(f'{name} {value:g}' for name, value in FROM_SCRATCH['bertxml'].items())}."
        },
    )
    backbone: str | None = field(
        default=None,
        metadata={"help": "Pretrained encoder (Hub id or folder); without it the family's own encoder is trained."},
    )
    backbone_revision: str | None = field(default=None, metadata={"help": "Revision of the encoder on the Hub."})
    backbone_num_layers: int | None = field(default=None, metadata={"help": "Keep only the encoder's first layers."})
    cornet_num_blocks: int | None = field(
        default=None,
        metadata={
            "help": "CorNet blocks, 0 for none; by default 2, and 0 for LACO, SeqTag and bertxml without --config and --backbone."
        },
    )
    cornet_context_size: int = field(default=1000, metadata={"help": "Width of a CorNet block."})
    num_cls_tokens: int = field(default=5, metadata={"help": "CLS tokens in front of every text."})
    label_embedding_start: str | None = field(
        default=None,
        metadata={
            "help": "What label tokens start from (LACO, SeqTag): text (the words of the labels' names, the default), random, or unused "
            "(unused tokens of the backbone).",
            "choices": LABEL_EMBEDDING_STARTS,
        },
    )
    label_bias_from_frequency: bool = field(
        default=True, metadata={"help": "Start each label's bias at the log-odds of its frequency in training."}
    )
    config_overrides: str | None = field(
        default=None,
        metadata={
            "help": 'Other fields of the family\'s config: "hidden_size=300,layer_norm=none" or a JSON object. They are added to those of '
            "the recipe; the option may be given several times."
        },
    )

    def __post_init__(self):
        if self.cornet_num_blocks is None and self.model_family in FAMILIES:
            self.cornet_num_blocks = FAMILIES[self.model_family][0].cornet_num_blocks

    def check(self) -> None:
        """Refuse what the chosen family has no place for.

        Raises:
            ValueError: If there is no such family, or it takes no backbone or no CLS tokens and they were asked for.
        """
        if self.backbone and not self.takes_backbone:
            raise ValueError(
                f"backbone={self.backbone!r}, but a model of the family {self.model_family} reads words through an embedding of its own "
                "and has no place for a pretrained encoder. Leave backbone out, or use --model_family bertxml."
            )
        if self.backbone_num_layers is not None and not self.backbone:
            raise ValueError(
                f"backbone_num_layers={self.backbone_num_layers}, but no backbone was named. Add --backbone FOLDER_OR_HUB_ID, or leave it out."
            )
        if self.label_embedding_start is not None and not self.reads_labels:
            raise ValueError(
                f"label_embedding_start={self.label_embedding_start!r}, but a model of the family {self.model_family} reads no labels. "
                "Leave it out."
            )
        if not self.reads_cls_tokens and self.num_cls_tokens not in (0, type(self).num_cls_tokens):
            raise ValueError(
                f"num_cls_tokens={self.num_cls_tokens}, but a model of the family {self.model_family} reads no CLS tokens. Leave it out."
            )

    @property
    def reads_cls_tokens(self) -> bool:
        """Whether the family's documents begin with CLS tokens."""
        config_class, _ = family_named(self.model_family)
        return "num_cls_tokens" in field_names(config_class)

    @property
    def num_candidates(self) -> int:
        """Labels that the model scores for each document; 0 for all."""
        return int(self.config_settings().get("num_candidates", 0))

    @property
    def reads_labels(self) -> bool:
        """Whether the family has an embedding for each label."""
        return issubclass(family_named(self.model_family)[1], JointModel)

    @property
    def takes_backbone(self) -> bool:
        """Whether the family has a place for a pretrained encoder."""
        return hasattr(family_named(self.model_family)[1], "from_backbone")

    def config_settings(self) -> dict[str, Any]:
        """Fields for the family's config.

        Raises:
            ValueError: If ``config_overrides`` cannot be read or names a field the config does not have.
        """
        config_class, _ = family_named(self.model_family)
        overrides = read_overrides(self.config_overrides)
        refuse_unknown_overrides(overrides, config_class)
        if self.start is not None:
            return {**self.start.settings, **overrides}
        settings = {"cornet_num_blocks": self.cornet_num_blocks, "cornet_context_size": self.cornet_context_size}
        if self.reads_cls_tokens:
            settings["num_cls_tokens"] = self.num_cls_tokens
        return {**settings, **overrides}


@dataclass
class DataArguments:
    """Which data to train on, and how texts become tokens."""

    dataset: str = field(default="demo", metadata={"help": '"demo", a folder with parquet files, or a Hub data set id.'})
    dataset_revision: str | None = field(default=None, metadata={"help": "Revision of a data set on the Hub."})
    language: str | None = field(
        default=None,
        metadata={
            "help": "Language of the texts for the model's card, such as fi or fi,sv (default: what the data's card names)."
        },
    )
    text_column: str = field(default="text", metadata={"help": "Column with the texts."})
    label_column: str = field(default="labels", metadata={"help": "Column with the labels of each text."})
    label_space: str = field(
        default="train", metadata={"help": "train: the labels of the training split; file: label_file's."}
    )
    label_file: str | None = field(
        default=None, metadata={"help": "labels.json or labels.parquet that fixes order and names."}
    )
    label_format: str = field(default="ids", metadata={"help": "What integer labels are: ids or multi_hot."})
    validation_fraction: float = field(
        default=0.1, metadata={"help": "Part of train held out where there is no validation split."}
    )
    max_length_tokens: int = field(
        default=128,
        metadata={
            "help": "Tokens after which a text is cut, CLS tokens included (default: 128; with --model that model's)."
        },
    )
    vocab_size: int = field(default=500_000, metadata={"help": "Largest vocabulary of the word tokenizer."})
    min_document_frequency: int = field(
        default=2, metadata={"help": "Documents a word must occur in to enter the vocabulary."}
    )
    word_splitting: str = field(
        default="alphanumeric",
        metadata={
            "help": "What a word is: alphanumeric runs; nltk's words, which GloVe knows (compounds, clitics); or what whitespace divides, as it "
            "is written, for texts that are tokenized already."
        },
    )
    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe or word2vec text file (.gz too) to start the word embeddings from."}
    )
    max_train_documents: int | None = field(
        default=None, metadata={"help": "Train on N documents only, a sample by a hash of their texts."}
    )
    max_eval_documents: int | None = field(
        default=None, metadata={"help": "Evaluate on N documents of each split only, sampled in the same way."}
    )
    max_validation_documents: int | None = field(
        default=None, metadata={"help": "Validate on N documents only, and test on all (default: max_eval_documents)."}
    )

    def __post_init__(self):
        for name in ("max_train_documents", "max_eval_documents", "max_validation_documents"):
            if (limit := getattr(self, name)) is not None and limit < 1:
                raise ValueError(f"{name}={limit}, but a split needs at least 1 document. Leave it out to take all.")

    @property
    def document_limits(self) -> dict[str, int]:
        """Documents of each split that is limited."""
        limits = {
            "train": self.max_train_documents,
            "validation": self.max_validation_documents or self.max_eval_documents,
            "test": self.max_eval_documents,
        }
        return {split: limit for split, limit in limits.items() if limit is not None}

    @property
    def dataset_repo_id(self) -> str | None:
        """The data set's id on the Hub; None for the demo data and for a folder (the order in which the loader looks)."""
        return None if self.dataset == "demo" or os.path.isdir(self.dataset) else self.dataset


@dataclass
class Recipe:
    """Everything that decides a run.

    Attributes:
        choices: Names of the settings that command line and recipe file name; None where nobody knows.
    """

    model: ModelArguments
    data: DataArguments
    training: XMTCTrainingArguments
    choices: frozenset[str] | None = None

    def check(self) -> None:
        """Refuse settings of the model and of the training that do not go together.

        Raises:
            ValueError: If there are any.
        """
        self.model.check()
        check_gradient_options(self)
        check_compatibility(self.model.model_family, self.model.config_settings(), self.training)

    def to_dict(self) -> dict[str, Any]:
        """The settings as one flat JSON object; local paths are reduced to their last part.

        Of the training arguments those are listed that matter in every run or differ from their defaults; all of them are in
        ``training_args.json``.
        """
        settings = {**dataclasses.asdict(self.model), **dataclasses.asdict(self.data)}
        if not self.model.reads_cls_tokens:
            del settings["num_cls_tokens"]
        if self.model.model:
            settings = {key: value for key, value in settings.items() if key not in TOKENIZER_OPTIONS}
        if self.data.document_limits:
            settings["document_sample"] = "text_hash"
        for key, value in settings.items():
            if isinstance(value, str) and os.path.exists(value):
                settings[key] = os.path.basename(os.path.abspath(value))
        # Defaults are taken from arguments with the same strategy, so that what follows from it is not listed as a choice.
        given = self.training
        followed = {
            key: getattr(given, key)
            for key in ("use_cpu", "dataloader_pin_memory", "eval_strategy", "metric_for_best_model")
        }
        defaults = public_arguments(type(given)(output_dir="", load_best_model_at_end=False, **followed))
        for entry in dataclasses.fields(given):
            if entry.name in (*followed, "load_best_model_at_end"):
                defaults[entry.name] = entry.default
        for key, value in public_arguments(given).items():
            if key in ALWAYS_LISTED or (value != defaults[key] and key not in SAID_ELSEWHERE):
                settings[key] = value
        return without_gradient_options(settings, self.model.model_family)


def parse_recipe(argv: list[str] | None = None) -> Recipe:
    """Read the command line; ``--config FILE`` takes a YAML or JSON recipe whose values the command line may override.

    Raises:
        SystemExit: If a value cannot be read, as argparse does.
        FileNotFoundError: If there is no such recipe file.
        ValueError: If command line or recipe file name unknown settings, or settings contradict each other.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser, defaults = option_parser(ModelArguments, DataArguments, XMTCTrainingArguments), {}
    path, from_file = next(iter(_values_of("--config", argv)), None), {}
    known = {action.dest for action in parser._actions} - {"help", "help_all", "config"}
    if path is not None:
        from_file = read_recipe_file(path, known)
        defaults.update(from_file)
    parser.set_defaults(**defaults)
    chosen, unknown = parser.parse_known_args(argv)
    if overrides := _values_of("--config_overrides", argv):
        # Field by field, so that one of them does not undo what the recipe says of the others.
        merged = read_overrides(defaults.get("config_overrides"))
        for text in overrides:
            merged = {**merged, **read_overrides(text)}
        chosen.config_overrides = merged
    if unknown:
        options = [option.lstrip("-") for option in parser._option_string_actions if option.startswith("--")]
        raise ValueError(
            f"hf-xmtc train does not know {' '.join(unknown)}.{_hint_at_option(unknown[0], chosen.model_family, options)} See hf-xmtc "
            "train --help."
        )
    _refuse_idle_options(chosen)
    # What is not given stays as it is in the namespace.
    seen = vars(parser.parse_known_args(argv, argparse.Namespace(**dict.fromkeys(known, parser)))[0])
    choices = {name for name in known if from_file.get(name) is not None or seen[name] is not parser}
    if (path or chosen.model) and "dataset" not in choices:
        where = (
            f"{path} names no data set, and neither does the command line"
            if path
            else f"--model {chosen.model} without a data set"
        )
        raise ValueError(f"{where}. Add --dataset FOLDER_OR_HUB_ID, or --dataset demo for the shipped one.")
    other_sizes = not SIZES.isdisjoint(read_overrides(chosen.config_overrides))
    if not (path or chosen.backbone or chosen.model or other_sizes):
        vars(chosen).update(default_recipe(chosen.model_family, choices))
    return Recipe(*parser.parse_dict(vars(chosen), allow_extra_keys=True), choices=frozenset(choices))


def _hint_at_option(option: str, family: str, options: list[str]) -> str:
    name = option.lstrip("-").partition("=")[0]
    if name in SAID_BY_DATA:
        return f" {SAID_BY_DATA[name]}"
    if name in USUAL_NAMES:
        return f" Did you mean {USUAL_NAMES[name]!r}?"
    if family in FAMILIES and name in field_names(FAMILIES[family][0]):
        return f" It is a field of the model's config: --config_overrides {name}=…."
    return hint(name, options)


def _refuse_idle_options(chosen: argparse.Namespace) -> None:
    """Refuse training arguments that only other scripts heed, instead of doing something else than was asked for."""
    if chosen.resume_from_checkpoint is not None:
        raise ValueError(
            f"resume_from_checkpoint={chosen.resume_from_checkpoint!r} is not needed: repeat the same command to resume; it goes "
            "on from the last checkpoint in its output_dir. Leave the option out."
        )
    refuse_unused_arguments(chosen, {**IN_TRAINER, **IN_COMMAND})


def _values_of(option: str, argv: list[str]) -> list[str]:
    """All values that the command line gives to an option, in order."""
    values = []
    for position, argument in enumerate(argv):
        if argument.startswith(f"{option}="):
            values.append(argument.partition("=")[2])
        elif argument == option and position + 1 < len(argv):
            values.append(argv[position + 1])
    return values

"""Settings of `hf-xmtc train`: dataclasses that the command line, a YAML recipe and JSON all parse into."""

import dataclasses
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hf_xmtc.training import XMTCTrainingArguments, public_arguments
from hf_xmtc.training.label_texts import LABEL_EMBEDDING_STARTS

from .config_overrides import check_overrides, read_overrides
from .families import FAMILIES, FROM_SCRATCH, family_named, reads_cls_tokens
from .gradient_options import check_gradient_options, without_gradient_options
from .recipe_checks import check_model_settings, check_training_settings
from .starting_model import TOKENIZER_OPTIONS, StartingModel

if TYPE_CHECKING:
    from hf_xmtc.label_tree import LabelTree

__all__ = ["SAID_ELSEWHERE", "DataArguments", "ModelArguments", "Recipe"]

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
    """The model to train.

    Attributes:
        start: The model that ``model`` names, once it is opened (`with_starting_model`).
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
            "help": "CorNet blocks, 0 for none; by default 2 for families of words, and 0 for others and for bertxml without --config and --backbone."
        },
    )
    cornet_context_size: int | None = field(
        default=None, metadata={"help": "Width of a CorNet block (default: the number of labels, at most 1000)."}
    )
    num_cls_tokens: int = field(default=5, metadata={"help": "CLS tokens in front of every text."})
    label_embedding_start: str | None = field(
        default=None,
        metadata={
            "help": "What label tokens start from (LACO, SeqTag): text (the words of the labels' names, the default), random, or unused "
            "(unused tokens of the backbone).",
            "choices": LABEL_EMBEDDING_STARTS,
        },
    )
    label_tree: str | None = field(
        default=None, metadata={"help": "Folder of a label tree from hf-xmtc tree, for lightattention and attentionxml."}
    )
    candidates_from: str | None = field(
        default=None,
        metadata={
            "help": "Model (folder or Hub id) whose best labels are the candidates of LACO with num_candidates: a linear tree, an ensemble "
            "or another. Labels are matched by name. Default: the labels of the nearest training texts; with --model what finds that model's."
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

    @cached_property
    def tree(self) -> "LabelTree | None":
        """The tree in the folder ``label_tree``, read once; None without."""
        if self.label_tree is None:
            return None
        from hf_xmtc.label_tree import LabelTree  # not at the top: other models do without scipy

        return LabelTree.load(self.label_tree)

    @property
    def num_candidates(self) -> int:
        """Labels that the model scores for each document; 0 for all."""
        return int(self.config_settings().get("num_candidates", 0))

    def config_settings(self) -> dict[str, Any]:
        """Fields for the family's config.

        Raises:
            ValueError: If ``config_overrides`` cannot be read or names a field the config does not have.
        """
        config_class, _ = family_named(self.model_family)
        overrides = read_overrides(self.config_overrides)
        check_overrides(overrides, config_class)
        if self.start is not None:
            return {**self.start.settings, **overrides}
        settings = {"cornet_num_blocks": self.cornet_num_blocks, "cornet_context_size": self.cornet_context_size}
        if reads_cls_tokens(self.model_family):
            settings["num_cls_tokens"] = self.num_cls_tokens
        return {**settings, **overrides}


@dataclass
class DataArguments:
    """The data to train on, and how texts become tokens."""

    dataset: str = field(
        default="demo", metadata={"help": '"demo", a folder or file of any format of docs/data.md, or a Hub data set id.'}
    )
    format: str | None = field(
        default=None, metadata={"help": "Format of the files, such as csv or xmc-raw (default: recognised)."}
    )
    encoding: str | None = field(
        default=None, metadata={"help": "Encoding of text files (default: UTF-8; UTF-16 is recognised)."}
    )
    label_separator: str | None = field(
        default=None, metadata={"help": "Separator of labels in a cell of a table; '' where a cell is one label."}
    )
    one_based: bool = field(default=False, metadata={"help": "Integer label ids in text files count from 1."})
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
        default=None, metadata={"help": "labels.json, labels.parquet or SKOS vocabulary that fixes order and names."}
    )
    label_format: str = field(default="ids", metadata={"help": "What integer labels are: ids or multi_hot."})
    validation_fraction: float = field(
        default=0.1, metadata={"help": "Part of train held out where there is no validation split."}
    )
    test_fraction: float = field(default=0.0, metadata={"help": "Part of train held out where there is no test split."})
    split_by: str = field(
        default="hash",
        metadata={
            "help": "How these documents are chosen: hash (of the text), stratified (each label has its share in each split) or group (of "
            "group_column)."
        },
    )
    group_column: str | None = field(
        default=None,
        metadata={
            "help": "Column whose equal values stay in one split, such as the book of a chapter; with split_by group."
        },
    )
    normalize_labels: bool = field(
        default=False,
        metadata={"help": "Join labels that differ only by case, blanks, final punctuation or Unicode form."},
    )
    drop_unlabeled: bool = field(
        default=False, metadata={"help": "Leave out documents without labels, and report how many."}
    )
    named: str | None = field(
        default=None,
        metadata={
            "help": "Benchmark that the data are, such as eurlex-4k: sizes are checked and its propensity constants used (default: the one with "
            "the name of the folder); none for none."
        },
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
        """The data set's id on the Hub; None for the demo data and for a folder or file (the order in which the loader looks)."""
        return None if self.dataset == "demo" or os.path.exists(self.dataset) else self.dataset


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
        """Refuse settings of the model and of the training that exclude each other.

        Raises:
            ValueError: If there are any.
        """
        model_class = family_named(self.model.model_family)[1]
        check_model_settings({**vars(self.model), "num_candidates": self.model.num_candidates}, ModelArguments)
        check_gradient_options(self)
        facts = {
            "model": model_class.__name__,
            "backbone": self.model.backbone,
            "has_thresholds": model_class.has_thresholds,
            **self.model.config_settings(),
        }
        check_training_settings(facts, self.training)

    def to_dict(self) -> dict[str, Any]:
        """The settings as one flat JSON object; local paths are reduced to their last part.

        Of the training arguments those are listed that matter in every run or differ from their defaults; all of them are in
        ``training_args.json``.
        """
        settings = {**dataclasses.asdict(self.model), **dataclasses.asdict(self.data)}
        if not reads_cls_tokens(self.model.model_family):
            del settings["num_cls_tokens"]
        if self.model.model:
            settings = {key: value for key, value in settings.items() if key not in TOKENIZER_OPTIONS}
        if self.model.start is not None and self.model.candidates_from == self.model.start.generating_model:
            settings.pop("candidates_from", None)  # of the model, in its folder
        if self.data.document_limits:
            settings["document_sample"] = "text_hash"
        for key, value in settings.items():
            if isinstance(value, str) and os.path.exists(value):
                settings[key] = os.path.basename(os.path.abspath(value))
        # Defaults are taken from arguments with the same strategy, so that what follows from it is not listed as a choice.
        args = self.training
        context = {
            key: getattr(args, key) for key in ("use_cpu", "dataloader_pin_memory", "eval_strategy", "metric_for_best_model")
        }
        defaults = public_arguments(type(args)(output_dir="", load_best_model_at_end=False, **context))
        for entry in dataclasses.fields(args):
            if entry.name in (*context, "load_best_model_at_end"):
                defaults[entry.name] = entry.default
        for key, value in public_arguments(args).items():
            if key in ALWAYS_LISTED or (value != defaults[key] and key not in SAID_ELSEWHERE):
                settings[key] = value
        return without_gradient_options(settings, self.model.model_family)

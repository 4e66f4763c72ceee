"""Options of `hf-xmtc train` in groups, and their help: a page for those that matter here, and all of them with --help_all.

The page is a file, because the options themselves come from a class of transformers that takes seconds to import. It is written from
them by ``python -m hf_xmtc.commands.write_train_help``, and a test compares both.
"""

import argparse
import dataclasses
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["PAGE", "check_options", "check_recipe_file", "help_page", "option_parser", "values_of"]

PAGE = Path(__file__).parent / "train_help.txt"

# Training arguments of transformers that people give, in the order of the page; with a text where transformers' own says something
# else than what happens here, or is long.
_IN_USE = {
    "output_dir": "Folder for the trained model, its card, metrics and predictions. The same command again resumes a run. (default: outputs/DATASET-FAMILY, or outputs/DATASET-MODEL with --model)",
    "num_train_epochs": None,
    "max_steps": "Training steps, instead of num_train_epochs; -1 for none.",
    "per_device_train_batch_size": None,
    "gradient_accumulation_steps": "Batches whose gradients are added up for one step.",
    "per_device_eval_batch_size": None,
    "learning_rate": None,
    "lr_scheduler_type": "Course of the learning rate: linear, cosine, constant, constant_with_warmup, reduce_lr_on_plateau and others.",
    "warmup_steps": None,
    "weight_decay": "Weight decay, of all but biases and layer norms.",
    "max_grad_norm": "Gradients are clipped to this norm; 0 for no clipping.",
    "train_sampling_strategy": None,
    "bf16": "Mixed precision with bfloat16.",
    "fp16": "Mixed precision with float16, for accelerators without bfloat16.",
    "use_cpu": None,
    "dataloader_num_workers": "Processes that prepare batches; 0 for none beside the training itself.",
    "seed": "Seed of the first weights, the order of documents and dropout.",
    "eval_strategy": None,
    "eval_steps": "Steps between two evaluations with --eval_strategy steps; by default logging_steps.",
    "save_strategy": None,
    "save_steps": "Steps between two checkpoints with --save_strategy steps.",
    "save_total_limit": None,
    "load_best_model_at_end": None,
    "metric_for_best_model": None,
    "greater_is_better": None,
    "logging_steps": None,
    "log_level": "passive, debug (with the traceback of every error), info, warning or error.",
    "report_to": "Where the curves go: none, tensorboard, wandb and others that are installed.",
    "push_to_hub": "Publish the finished model on the Hub.",
    "hub_model_id": "Its repo, user/name; by default the name of the folder.",
    "hub_private_repo": "Make a new repo private.",
}
_OTHERS = "training, more from transformers"
_KINDS = {"int": "INT", "float": "NUMBER", "string_to_bool": "BOOL"}
_USAGE = "hf-xmtc train [--dataset DATASET] [--output_dir FOLDER] [options]"
_WIDTH, _COLUMN = 80, 30


def check_options(argv: Sequence[str]) -> None:
    """Print the page of help where it is asked for, and refuse a recipe file that is not there; `option_parser` checks the options.

    Raises:
        SystemExit: In both cases.
    """
    if not {"-h", "--help"}.isdisjoint(argv):
        print(PAGE.read_text(encoding="utf-8"), end="")
        raise SystemExit(0)
    try:
        for path in values_of("--config", argv):
            check_recipe_file(path)
    except FileNotFoundError as error:
        raise SystemExit(f"FileNotFoundError: {error}") from error


def check_recipe_file(path: str) -> None:
    """Refuse a recipe file that is not there.

    Raises:
        FileNotFoundError: With its name.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no recipe file {path}. Recipes of this project lie in scripts/recipes/.")


def values_of(option: str, argv: Sequence[str]) -> list[str]:
    """All values that the command line gives to an option, in order."""
    values = []
    for position, argument in enumerate(argv):
        if argument.startswith(f"{option}="):
            values.append(argument.partition("=")[2])
        elif argument == option and position + 1 < len(argv):
            values.append(argv[position + 1])
    return values


class _ShowPage(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        check_options([option_string])


def option_parser(*settings_classes: type) -> argparse.ArgumentParser:
    """The command line's parser, with the defaults of this command.

    Args:
        settings_classes: Dataclasses of the options on model, data and training, the last a subclass of transformers' arguments.
    """
    # Not at the top: the page is shown without them.
    import torch
    from transformers import HfArgumentParser

    parser = HfArgumentParser(settings_classes, prog="hf-xmtc train", usage=_USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="YAML or JSON recipe; arguments on the command line win.")
    parser.add_argument(
        "-h", "--help", action=_ShowPage, nargs=0, default=argparse.SUPPRESS, help="Show the options in use."
    )
    parser.add_argument("--help_all", action="help", dest="help", help="Show all options, transformers' others too.")
    # The parser does not know the defaults that a bool computes for itself, here from whether there is an accelerator.
    accelerator = torch.accelerator.is_available()
    parser.set_defaults(use_cpu=not accelerator, dataloader_pin_memory=accelerator)
    # What this command does in any case; transformers' defaults would make a False that somebody gives look like none.
    parser.set_defaults(do_train=True, do_eval=True, do_predict=True)
    _group(parser, *settings_classes)
    return parser


def _group(parser: argparse.ArgumentParser, model: type, data: type, training: type) -> None:
    """Move the options into groups and give those in use their text."""
    names = {kind: [entry.name for entry in dataclasses.fields(kind)] for kind in (model, data, training, training.__base__)}
    own = [name for name in names[training] if name not in names[training.__base__]]
    groups = {
        "data": names[data],
        "model": names[model],
        "training": own,
        "training, from transformers": list(_IN_USE),
        _OTHERS: [name for name in names[training.__base__] if name not in _IN_USE],
    }
    actions: dict[str, list[argparse.Action]] = {}
    for action in parser._actions:
        action.help = _IN_USE.get(action.dest) or action.help
        actions.setdefault(action.dest, []).append(action)
    for title, members in groups.items():
        parser.add_argument_group(title)._group_actions.extend(action for name in members for action in actions.pop(name))
    parser._optionals._group_actions[:] = [action for rest in actions.values() for action in rest]


def help_page(parser: argparse.ArgumentParser, computed: Sequence[str]) -> str:
    """The page: every option in use, in one line or more, by groups.

    Args:
        parser: From `option_parser`.
        computed: Options whose default depends on the machine, so that the page does not name it.
    """
    paragraphs = [
        f"usage: {_USAGE}",
        "Train a tagger, evaluate it and write a model folder; without options, on the\nshipped demo data.",
    ]
    for group in parser._action_groups:
        if group._group_actions and group.title != _OTHERS:
            options = [action for action in group._group_actions if not action.option_strings[0].startswith("--no_")]
            lines = [line for action in options for line in _option_lines(action, action.dest not in computed)]
            paragraphs.append("\n".join([f"{group.title}:", *lines]))
    paragraphs.append("transformers has more options of training: hf-xmtc train --help_all shows them.")
    return "\n\n".join(paragraphs) + "\n"


def _option_lines(action: argparse.Action, has_default: bool) -> Iterator[str]:
    names = [name for name in action.option_strings if "_" in name or "-" not in name[2:]]
    kind = action.metavar or _KINDS.get(getattr(action.type, "__name__", ""), "TEXT")
    value = {0: "", "?": f" [{kind}]"}.get(action.nargs, f" {kind}")
    left = f"  {', '.join(names)}{value}"
    text = (action.help or "").replace("%%", "%")
    missing = [choice for choice in action.choices or () if choice not in text]
    if missing and action.dest not in _IN_USE:
        text += f" One of {', '.join(action.choices)}."
    if has_default and action.default not in (None, argparse.SUPPRESS) and "(default" not in text:
        text += f" (default: {action.default})"
    lines = textwrap.wrap(text, _WIDTH - _COLUMN, break_on_hyphens=False)
    if len(left) > _COLUMN - 2:
        yield left
        left = ""
    for line in lines:
        yield f"{left:<{_COLUMN}}{line}"
        left = ""

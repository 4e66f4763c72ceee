import argparse
import dataclasses
import re

import pytest
from transformers import TrainingArguments

from hf_xmtc.commands import train_options
from hf_xmtc.commands.recipe import DataArguments, ModelArguments
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.train import main
from hf_xmtc.commands.train_options import PAGE, option_parser
from hf_xmtc.commands.write_train_help import page_of_options
from hf_xmtc.training import XMTCTrainingArguments

GROUPS = ["options", "data", "model", "training", "training, from transformers"]


def names_of(settings_class) -> list[str]:
    return [entry.name for entry in dataclasses.fields(settings_class)]


def sections(text: str) -> dict[str, list[str]]:
    """Options of a help text by the title of their group."""
    parts = re.split(r"^(\S.*):$", text, flags=re.MULTILINE)
    return {
        title: re.findall(r"^  --([a-z]\w*)", part, flags=re.MULTILINE)
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return option_parser(ModelArguments, DataArguments, XMTCTrainingArguments)


def options_of(text: str) -> dict[str, str]:
    """What a help page says of each option, without line breaks."""
    return {part.split()[0]: " ".join(part.split()) for part in re.split(r"^  --", text, flags=re.MULTILINE)[1:]}


def test_the_page_of_help_is_that_of_the_options():
    ours = {name for kind in (ModelArguments, DataArguments, XMTCTrainingArguments) for name in kind.__annotations__}
    page, today = options_of(PAGE.read_text(encoding="utf-8")), options_of(page_of_options())
    assert page.keys() == today.keys()
    for name, text in page.items():
        # A default of transformers' own may be another in its next release.
        compared = (text, today[name]) if name in ours else (said.partition(" (default")[0] for said in (text, today[name]))
        assert len(set(compared)) == 1, f"--{name}: run python -m hf_xmtc.commands.write_train_help"


def test_the_page_has_every_option_of_ours_in_groups_and_few_of_transformers():
    found = sections(PAGE.read_text(encoding="utf-8"))
    of_transformers = set(names_of(TrainingArguments))
    assert list(found) == GROUPS
    assert found["data"] == names_of(DataArguments)
    assert found["model"] == names_of(ModelArguments)
    assert found["training"] == [name for name in names_of(XMTCTrainingArguments) if name not in of_transformers]
    in_use = found["training, from transformers"]
    assert {"output_dir", "num_train_epochs", "learning_rate", "seed", "bf16"} <= set(in_use) < of_transformers
    assert len(in_use) < 40


def test_the_page_fits_a_terminal_and_names_the_way_to_the_rest():
    text = PAGE.read_text(encoding="utf-8")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.splitlines()[-1].endswith("hf-xmtc train --help_all shows them.")
    assert "%%" not in text


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_the_page(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--seed", "3", option])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == PAGE.read_text(encoding="utf-8")


def test_help_all_has_every_option_of_the_parser(parser, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help_all"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert list(sections(said)) == [*GROUPS, "training, more from transformers"]
    options = {option for action in parser._actions for option in action.option_strings}
    assert {"--config", "--deepspeed", "--no_load_best_model_at_end", "--eval-top-k"} <= options
    assert options <= set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))


def test_options_have_one_text_on_the_page_and_among_all(parser):
    texts = {action.dest: action.help for action in parser._actions}
    assert texts["push_to_hub"] == "Publish the finished model on the Hub."
    assert texts["learning_rate"] == XMTCTrainingArguments.__dataclass_fields__["learning_rate"].metadata["help"]


def test_an_option_in_use_that_transformers_no_longer_has_is_noticed(monkeypatch):
    monkeypatch.setitem(train_options._IN_USE, "gone", "Nothing.")
    with pytest.raises(KeyError, match="gone"):
        option_parser(ModelArguments, DataArguments, XMTCTrainingArguments)


def test_the_beginning_of_an_option_is_not_taken_for_it():
    with pytest.raises(ValueError, match="does not know --num_train_epoch 1. Did you mean 'num_train_epochs'"):
        parse_recipe(["--num_train_epoch", "1"])

import argparse

import pytest
from transformers import HfArgumentParser

from hf_xmtc.commands.predict_options import PredictArguments, check_options, option_parser

REQUIRED = ["--model", "m", "--input", "a.txt", "--output", "b.jsonl"]


def described(parser: argparse.ArgumentParser) -> dict:
    return {
        action.dest: (action.option_strings, action.nargs, action.const, action.default, action.required, action.help)
        for action in parser._actions
    }


def test_the_options_are_those_that_transformers_makes_of_the_dataclass():
    usual = HfArgumentParser(PredictArguments)
    assert described(option_parser()) == described(usual)
    given = ["--top-k", "3", "--min_score", "0.5", "--with_names", "--overwrite", "no", "--threshold", "model"]
    assert option_parser().parse_args([*REQUIRED, *given]) == usual.parse_args([*REQUIRED, *given])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "m"], "the following arguments are required: --input, --output"),
        ([*REQUIRED, "--top_k", "many"], "argument --top_k/--top-k: invalid int value: 'many'"),
        ([*REQUIRED, "--with_names", "perhaps"], "argument --with_names/--with-names: 'perhaps' is neither true nor false."),
    ],
)
def test_wrong_options_are_refused(options, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        option_parser().parse_args(options)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--output", "tags.docx"], "The output tags.docx ends in '.docx'; give a name ending in .parquet, .jsonl or .csv"),
        (["--top_k", "0"], "--top_k is 0 but must be at least 1"),
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_heavy_is_imported(option, message):
    with pytest.raises(SystemExit, match=message):
        check_options(["--model", "m", "--input", "texts.txt", "--output", "tags.jsonl", *option])

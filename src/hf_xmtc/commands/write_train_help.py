"""``python -m hf_xmtc.commands.write_train_help`` writes the page of ``hf-xmtc train --help`` from the options of today."""

import dataclasses

from hf_xmtc.training import XMTCTrainingArguments

from .recipe import DataArguments, ModelArguments
from .train_options import PAGE, help_page, option_parser

__all__ = ["page_of_options"]


def page_of_options() -> str:
    """The page as the options of today say."""
    classes = (ModelArguments, DataArguments, XMTCTrainingArguments)
    entries = [entry for kind in classes for entry in dataclasses.fields(kind)]
    computed = [entry.name for entry in entries if entry.default_factory is not dataclasses.MISSING]
    return help_page(option_parser(*classes), computed)


if __name__ == "__main__":
    PAGE.write_text(page_of_options(), encoding="utf-8")

"""Names of others in Markdown: shown letter by letter, whatever they hold.

Names of labels and data sets come from strangers. A line break, a pipe or a link in one must not become part of a card.
"""

import re
from urllib.parse import quote

from hf_xmtc.strict_json import json_text

__all__ = ["code", "escaped", "hub_link", "python_string"]

# Control characters, halves of characters, and marks that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
# What begins markup within a line. An underscore within a word and a bracket that no other follows mean nothing.
_MARKUP = re.compile(
    r"[\\`*<|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[])|&(?=#?\w+;)|:(?=//)|(?<=www)\.|#(?=#*$)", flags=re.IGNORECASE
)
# What begins a mention of a user, or a mail address. Both are looked for in what Markdown has made of the text, so no escape keeps them
# away; an empty comment between the two halves does.
_MENTION = re.compile(r"(?<!\w)@(?=\\?\w)|@(?=[\w-]+\.\w)")


def escaped(text: object, max_length: int = 200) -> str:
    """Text that Markdown shows as it is, on one line; cut with … where it is longer than ``max_length`` characters."""
    return _MENTION.sub("@<!-- -->", _MARKUP.sub(r"\\\g<0>", _one_line(text, max_length)))


def code(text: object, max_length: int = 200) -> str:
    """Text as code within a line."""
    line = _one_line(text, max_length)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def hub_link(text: object, repo_id: str, kind: str = "datasets") -> str:
    """Text that leads to a repository on the Hub."""
    shown = re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", escaped(text))
    return f"[{shown}](https://huggingface.co/{kind}/{quote(repo_id, safe='/')})"


def python_string(text: object) -> str:
    """Text as a string of Python code in an example."""
    return json_text(_one_line(text, 500))


def _one_line(text: object, max_length: int) -> str:
    line = " ".join(_UNSEEN.sub("\ufffd", str(text)).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"

"""The program ``hf-xmtc``, beside the package so that its help need not wait for torch and transformers.

`import hf_xmtc` makes the models known to transformers' Auto classes, which takes seconds. A process that starts here leaves that to the
command that needs a model, so this module is for the program alone: whoever imports it in Python has no Auto classes before the first
model module is imported.
"""

import warnings
from collections.abc import Sequence

from hf_xmtc import cli

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """`hf_xmtc.cli.main` as a program: of a warning it prints the sentence, without the line of source that gave it."""
    warnings.formatwarning = lambda message, *_, **__: f"{message}\n"
    return cli.main(argv)

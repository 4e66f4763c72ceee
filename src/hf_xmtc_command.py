"""The program ``hf-xmtc``, beside the package so that its help need not wait for torch and transformers.

`import hf_xmtc` makes the models known to transformers' Auto classes, which takes seconds. A process that starts here leaves that to the
command that needs a model, so this module is for the program alone: whoever imports it in Python has no Auto classes before the first
model module is imported.
"""

from hf_xmtc.cli import main

__all__ = ["main"]

"""The scripts as one command after a wheel install; `hf-xmtc --help` lists the commands."""

import difflib
import importlib
import sys
from collections.abc import Sequence

__all__ = ["main"]

# Command → its module, the extra it needs, and what it does. The module runs it by `main`; the one of the same name with ``_options``
# checks its options and prints its help without torch.
_COMMANDS = {
    "train": ("hf_xmtc.commands.train", "train", "train a tagger, evaluate it and write a model folder"),
    "predict": ("hf_xmtc.commands.predict", "train", "tag a file of texts with a trained model"),
    "ensemble": ("hf_xmtc.commands.ensemble", "train", "combine trained models, or prediction files, into one"),
    "compare": ("hf_xmtc.commands.compare", "train,retrieval", "tell which of several models is better, beyond chance"),
    "extend": ("hf_xmtc.commands.extend", "train", "add documents and labels to a model that grows without training"),
    "convert": ("hf_xmtc.commands.convert", "train", "write a data set of any format as parquet files"),
    "describe": ("hf_xmtc.commands.describe", "train", "count what is in a data set, and write its card"),
    "tree": ("hf_xmtc.commands.tree", "train,tree", "build a label tree from the training texts of a data set"),
    "push": ("hf_xmtc.commands.push", None, "publish a model folder on the Hugging Face Hub"),
}

# Modules of the package's extras; another module that cannot be imported is a fault, not a missing extra.
_OPTIONAL_MODULES = (
    "accelerate",
    "datasets",
    "evaluate",
    "matplotlib",
    "psutil",
    "pyarrow",
    "rdflib",
    "scipy",
    "sklearn",
    "yaml",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        Exit status; 2 for a command that does not exist.

    Raises:
        SystemExit: If the command refuses its arguments, or an extra is missing.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    command, *rest = arguments
    if command == "--version":
        from hf_xmtc import __version__

        print(f"hf_xmtc {__version__}")
        return 0
    if command not in _COMMANDS:
        close = difflib.get_close_matches(command, _COMMANDS, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        print(f"hf-xmtc has no command {command!r}.{hint}\n\n{_usage()}", file=sys.stderr)
        return 2
    module, extra, _ = _COMMANDS[command]
    importlib.import_module(f"{module}_options").check_options(rest)
    try:
        return importlib.import_module(module).main(rest) or 0
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if extra is None or missing not in _OPTIONAL_MODULES:
            raise
        raise SystemExit(f"`hf-xmtc {command}` needs `{missing}`: pip install 'hf_xmtc[{extra}]'") from error


def _usage() -> str:
    commands = "\n".join(f"  {name:<10}{description}" for name, (*_, description) in _COMMANDS.items())
    return (
        f"usage: hf-xmtc COMMAND [options]\n       hf-xmtc COMMAND --help\n       hf-xmtc --version\n\ncommands:\n{commands}"
    )

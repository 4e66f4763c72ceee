"""Start of a process in which only the standard library, torch, transformers and what those two need can be imported.

`hf_xmtc`, and every optional package that happens to be installed beside it, are invisible: `importlib` finds no spec of
them and `importlib.metadata` no distribution, as on a machine where they were never installed.
"""

import importlib.machinery
import importlib.metadata
import re
import sys

__all__ = ["hide_everything_else"]

REQUIRED = ("torch", "transformers", "numpy", "tokenizers", "safetensors")


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _needed_distributions() -> set[str]:
    """`REQUIRED` and their own dependencies, without extras."""
    needed: set[str] = set()
    waiting = list(REQUIRED)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            try:
                requirements = importlib.metadata.requires(name) or ()
            except importlib.metadata.PackageNotFoundError:
                continue  # for another platform
            waiting += [_name(requirement) for requirement in requirements if "extra ==" not in requirement]
    return needed


class _OnlyFinder:
    """Finds the allowed modules where Python would, and no other."""

    def __init__(self, modules: set[str], distributions: set[str]):
        self.modules, self.distributions = modules, distributions

    def find_spec(self, name, path=None, target=None):
        # `_sysconfigdata_…` is the standard library's, under a name that depends on the platform.
        if name.partition(".")[0] in self.modules or name.startswith("_sysconfigdata"):
            return importlib.machinery.PathFinder.find_spec(name, path, target)
        return None

    def find_distributions(self, *arguments):
        for distribution in importlib.metadata.MetadataPathFinder.find_distributions(*arguments):
            if _name(distribution.metadata["Name"]) in self.distributions:
                yield distribution


def hide_everything_else() -> None:
    needed = _needed_distributions()
    owners = importlib.metadata.packages_distributions()
    modules = {module for module, names in owners.items() if any(_name(name) in needed for name in names)}
    allowed = modules | set(sys.stdlib_module_names) | {"transformers_modules"}
    allowed -= {"hf_xmtc", "accelerate", "datasets", "evaluate"}
    builtin = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]
    sys.meta_path[:] = [*builtin, _OnlyFinder(allowed, needed)]
    for name in [name for name in sys.modules if name.partition(".")[0] not in allowed | {"__main__"}]:
        del sys.modules[name]

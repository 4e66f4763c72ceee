"""Modules for the `evaluate` library that wrap `hf_xmtc.metrics`; load one with ``evaluate.load(module_path(name))``.

Finding a module is cheap: `evaluate` itself is imported only by the module that is loaded.
"""

from pathlib import Path

__all__ = ["available_modules", "module_path"]


def available_modules() -> list[str]:
    """Names of the evaluate modules in this package, sorted."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*/*.py") if path.stem == path.parent.name)


def module_path(name: str) -> str:
    """Folder of an evaluate module, to be loaded offline with ``evaluate.load``.

    Args:
        name: One of `available_modules`, for example ``"xmtc_ranking"``.

    Returns:
        The folder's path.

    Raises:
        ValueError: If there is no such module.
    """
    if name not in available_modules():
        raise ValueError(f"There is no evaluate module {name!r}; available are {', '.join(available_modules())}.")
    return str(Path(__file__).parent / name)

"""Publishing on the Hugging Face Hub: check a model folder, write its card, push it.

Names are imported when they are first used, so that the options of `hf-xmtc push` need nothing of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model_card import build_model_card, card_from_folder
    from .push import push_folder, push_main
    from .verify import ModelFolderReport, check_model_folder

__all__ = ["ModelFolderReport", "build_model_card", "card_from_folder", "check_model_folder", "push_folder", "push_main"]

_MODULES = {
    "ModelFolderReport": "verify",
    "build_model_card": "model_card",
    "card_from_folder": "model_card",
    "check_model_folder": "verify",
    "push_folder": "push",
    "push_main": "push",
}


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

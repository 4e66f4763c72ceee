"""Publishing on the Hugging Face Hub: check a model folder, write its card, push it."""

from .model_card import build_model_card, card_from_folder
from .push import push_folder
from .verify import ModelFolderReport, check_model_folder

__all__ = ["ModelFolderReport", "build_model_card", "card_from_folder", "check_model_folder", "push_folder"]

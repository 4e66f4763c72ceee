"""Open whichever generator of candidates lies beside a model."""

import os
from typing import TYPE_CHECKING

from hf_xmtc.inference.model_opening import GENERATOR_FOLDER
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .candidate_files import SETTINGS_FILE, local_folder
from .model_candidates import ModelCandidates

if TYPE_CHECKING:
    from .candidate_generator import CandidateGenerator

__all__ = ["generator_for", "open_generator"]


def open_generator(
    name_or_path: str | os.PathLike[str], revision: str | None = None, token: str | bool | None = None
) -> "CandidateGenerator | ModelCandidates":
    """Open the generator of candidates that a model was trained with.

    Args:
        name_or_path: Model folder, or id on the Hub.
        revision: Branch, tag or commit on the Hub.
        token: Hub token.

    Raises:
        FileNotFoundError: If there is none beside the model.
        ImportError: If it needs scikit-learn, which is missing.
        ValueError: If a file is damaged, or there are two generators.
        OSError: If there is no such model on the Hub, or the Hub cannot be reached.
    """
    folder = local_folder(name_or_path, revision, token) / GENERATOR_FOLDER
    is_model, is_index = ((folder / name).is_file() for name in ("config.json", SETTINGS_FILE))
    if is_model and is_index:
        raise ValueError(
            f"{folder} holds a model (config.json) and an index of training texts ({SETTINGS_FILE}), but one of them finds the candidates. "
            "Delete the folder and save the right one with its save_pretrained."
        )
    if is_model:
        return ModelCandidates.from_pretrained(name_or_path, revision, token)
    from .candidate_generator import CandidateGenerator  # not at the top: models find candidates without scikit-learn

    return CandidateGenerator.from_pretrained(name_or_path, revision, token)


def generator_for(
    model: XMTCPreTrainedModel, name_or_path: str, revision: str | None = None
) -> "CandidateGenerator | ModelCandidates | None":
    """Open the generator of a model that scores candidates, on the model's device; None for a model that scores all labels.

    Raises:
        OSError: If it is not beside the model.
        ImportError: If it needs scikit-learn, which is missing.
        ValueError: If it belongs to another model.
    """
    if not getattr(model.config, "num_candidates", 0):
        return None
    generator = open_generator(name_or_path, revision)
    # Code that came with an older model has another name for it.
    check = getattr(model.config, "check_generator", None) or model.config.refuse_generator_of_others
    check(generator)
    if isinstance(generator, ModelCandidates):
        generator.model.to(model.device)
    return generator

"""Open a model for prediction: is the folder complete, which device, how many tokens."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.configuration_ensemble import EnsembleConfig
from hf_xmtc.models.modeling_ensemble import PARTS_FOLDER
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.tokenization import check_max_length

__all__ = [
    "GENERATOR_FOLDER",
    "MODEL_FILES",
    "WEIGHTS_FILES",
    "check_readable",
    "choose_device",
    "choose_max_length",
    "open_model",
    "parts_of",
    "readable_errors",
]

# What prediction reads of a model folder: all of the first, one of the second.
MODEL_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
WEIGHTS_FILES = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)
# Where a model folder keeps what finds the model's candidates; a model folder itself, or files of `hf_xmtc.retrieval`.
GENERATOR_FOLDER = "candidates"


def open_model(
    name_or_path: str, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[XMTCPreTrainedModel, PreTrainedTokenizerFast]:
    """Open a model and its tokenizer, ready to predict.

    Args:
        name_or_path: Model folder, or id on the Hub.
        revision: Branch, tag or commit on the Hub.
        trust_remote_code: Run the code that comes with the model.

    Raises:
        FileNotFoundError: If the folder is not there or not complete.
        ValueError: If a file is damaged or weights are missing, or it is no hf_xmtc model, or its tokenizer belongs to another model.
    """
    check_readable(name_or_path)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    with readable_errors(name_or_path, "config.json or the weights"):
        model, loading = AutoModelForSequenceClassification.from_pretrained(
            name_or_path, output_loading_info=True, **options
        )
    # A class that came with the model is not a subclass of ours, so it is known by what it can do.
    if not hasattr(model, "check_tokenizer"):
        raise ValueError(
            f"{name_or_path} is a {type(model).__name__}, not a model of hf_xmtc. Train one with hf-xmtc train; a "
            "pretrained encoder goes into it with BertXMLForXMTC.from_backbone."
        )
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(
            f"The weights of {name_or_path} lack {len(missing)} tensors, such as {missing[0]}, which would be random numbers. Were weights "
            "or config.json replaced? Copy both from where the model came."
        )
    with readable_errors(name_or_path, "tokenizer.json or tokenizer_config.json"):
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **options)
    model.check_tokenizer(tokenizer)
    return model.eval(), tokenizer


@contextlib.contextmanager
def readable_errors(name_or_path: str, files: str) -> Iterator[None]:
    """Name the model and its files in what the libraries raise on damaged ones, which may be anything from KeyError to RecursionError."""
    try:
        yield
    except (OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError | UnicodeError):
            raise  # a sentence of ours or of transformers
        raise ValueError(
            f"{name_or_path} cannot be opened ({type(error).__name__}: {str(error):.300}). Are {files} damaged or changed? Copy them again "
            "from where the model came."
        ) from error


def choose_device(name: str | None) -> torch.device:
    """The device of that name; without a name a GPU (or whatever accelerator there is) before the CPU.

    Raises:
        ValueError: If this machine has no such device.
    """
    if name is None:
        return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name} cannot be used: {error}. Leave it out to take what there is.") from error
    return device


def check_readable(name_or_path: str) -> None:
    """Refuse a model folder that prediction cannot open; an id on the Hub is not looked at.

    Raises:
        FileNotFoundError: If the folder is not there, or files are missing; the message names all of them.
    """
    folder = Path(name_or_path)
    if not folder.is_dir():
        beside_others = folder.parent != Path() and folder.parent.is_dir()
        if folder.is_absolute() or name_or_path.startswith(".") or name_or_path.count("/") > 1 or beside_others:
            raise FileNotFoundError(f"There is no model folder {name_or_path}. Give the folder that hf-xmtc train wrote.")
        return
    missing = [name for name in MODEL_FILES if not (folder / name).is_file()]
    parts = [] if "config.json" in missing else parts_of(read_json_object(folder / "config.json"))
    if not parts and not any((folder / name).is_file() for name in WEIGHTS_FILES):
        missing.append(WEIGHTS_FILES[0])
    for part in parts:
        check_readable(str(folder / PARTS_FOLDER / part))
    if (folder / GENERATOR_FOLDER / "config.json").is_file():
        check_readable(str(folder / GENERATOR_FOLDER))
    if missing:
        inside = sorted(str(path.parent) for path in folder.glob("*/config.json") if path.parent.name != GENERATOR_FOLDER)
        if "config.json" in missing and inside:
            raise FileNotFoundError(
                f"{name_or_path} is no model folder, but holds some: {', '.join(inside[:10])}. Give one of them."
            )
        raise FileNotFoundError(
            f"The model folder {name_or_path} is not complete: {', '.join(missing)} missing. Was the training stopped "
            "before it ended? Run hf-xmtc train again with the same settings, or copy the folder again."
        )


def parts_of(config: dict) -> list[str]:
    """Names of the parts of an ensemble, by what its config.json holds; none for another model.

    Raises:
        ValueError: If a part's name is not that of a folder.
    """
    if config.get("model_type") != EnsembleConfig.model_type:
        return []
    return list(EnsembleConfig.from_dict(config).parts or {})


def choose_max_length(model: XMTCPreTrainedModel, tokenizer: PreTrainedTokenizerFast, max_length: int | None) -> int | None:
    """Tokens after which texts are cut: the requested number, else what the model takes; None where nothing limits it.

    Raises:
        ValueError: If the model does not take so many, or they leave no room for text beside the special tokens.
    """
    if getattr(model, "reads_texts", False):  # each part of an ensemble has its own limit
        for own in model.tokenizers if max_length is not None else ():
            check_max_length(own, max_length)
        return max_length
    # A tokenizer without a limit answers 1e30.
    limits = [limit for limit in (model.max_input_tokens, tokenizer.model_max_length) if limit is not None and limit < 1e9]
    limit = min(limits, default=None)
    if max_length is None:
        return limit
    if limit is not None and max_length > limit:
        raise ValueError(f"--max_length is {max_length} but the model takes {limit} tokens. Lower it or leave it out.")
    check_max_length(tokenizer, max_length)
    return max_length

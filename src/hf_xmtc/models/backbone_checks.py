"""Inputs that a pretrained encoder takes, found by looking at it and by trying it."""

import copy
import re
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, MODEL_MAPPING, PreTrainedConfig

__all__ = ["Positions", "check_model_type", "positions_of", "try_backbone"]

# Where the encoders of transformers keep the positions of a text; other tables of positions are those of boxes or entities.
POSITION_TABLE = re.compile(r"((embeddings|encoder)\.)?(position_embeddings|embed_positions)")

# Rounding moves the states of a text by less, in float32 and for states of size 1.
ROUNDING = 1e-4
# Words of the trial text, and the length that it is padded to.
TRIAL_WORDS, TRIAL_LENGTH = 8, 24

SUGGESTION = "Choose a BERT, DistilBERT, RoBERTa, MPNet, DeBERTa or similar model."


class Positions(NamedTuple):
    """The positions that an encoder tells apart.

    Attributes:
        first: Id of the first one; the rows before it belong to padding.
        count: Their number, the longest input; None where nothing limits it.
    """

    first: int
    count: int | None


def check_model_type(config: PreTrainedConfig) -> None:
    """Refuse what is no bidirectional encoder, or one whose attention depends on the length of a batch.

    Raises:
        ValueError: If it is such a model.
    """
    if hasattr(config, "labels_digest"):
        raise ValueError(
            f"The backbone is a trained model of the type {config.model_type!r} and no bare encoder. To go on from it, give it as --model to "
            "hf-xmtc train, or open it with from_pretrained and call resize_labels."
        )
    # Masked language models see both ways; in a causal one a token would see nothing of what follows it.
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING or config.is_encoder_decoder or getattr(config, "is_decoder", False):
        raise ValueError(
            f"The backbone's model type is {config.model_type!r}, which is no bidirectional encoder of transformers. {SUGGESTION}"
        )
    if getattr(config, "attention_type", None) == "block_sparse":
        raise ValueError(
            f"A {config.model_type!r} model with attention_type='block_sparse' reads a text otherwise when a longer one stands beside it, "
            "and never attends sparsely again after a batch of short ones. Set attention_type='original_full' in a copy of its config.json."
        )


_KNOWN_POSITIONS: dict[tuple[type, str], Positions] = {}


def positions_of(config: PreTrainedConfig) -> Positions:
    """Positions of the encoder that a config describes, read off its modules, which are built without weights.

    An encoder without a table of positions (rotary or relative ones) has no hard limit, but was trained up to its
    ``max_position_embeddings``.

    Raises:
        ValueError: If the encoder's type is none that this can be said of.
    """
    known = (type(config), repr(vars(config)))
    if known not in _KNOWN_POSITIONS:
        check_model_type(config)
        try:
            with torch.device("meta"):
                encoder = MODEL_MAPPING[type(config)](copy.deepcopy(config))
        except Exception as error:  # whatever a class of transformers says to settings that it cannot take
            raise ValueError(f"No {config.model_type!r} model can be built from backbone_config: {error}") from error
        _KNOWN_POSITIONS[known] = _positions_in(encoder)
    return _KNOWN_POSITIONS[known]


def _positions_in(encoder: nn.Module) -> Positions:
    config = encoder.config
    for name, table in encoder.named_modules():
        if not POSITION_TABLE.fullmatch(name):
            continue
        rows, padding = getattr(table, "num_embeddings", None), getattr(table, "padding_idx", None)
        if not isinstance(getattr(table, "weight", None), Tensor):
            raise ValueError(
                f"The backbone's model type is {config.model_type!r}, whose positions ({type(table).__name__}) cannot be counted. {SUGGESTION}"
            )
        rows = rows or len(table.weight)
        if padding is not None:  # positions start behind it
            return Positions(padding + 1, rows - padding - 1)
        # Some leave the first rows out without naming a padding row; their list of positions is as much shorter.
        listed = encoder.get_submodule(name.rpartition(".")[0])._buffers.get("position_ids")
        first = 0 if listed is None else rows - listed.shape[-1]
        return Positions(first, rows - first)
    return Positions(0, getattr(config, "max_position_embeddings", None))


@torch.no_grad()
def try_backbone(backbone: nn.Module) -> None:
    """Refuse an encoder that does not read a text alone and whole: trial texts are read with and without padding.

    Encoders in other types than float32 or elsewhere than on the CPU are not tried, nor those without weights yet.

    Raises:
        ValueError: If padding moves the states of a text, words do not see what follows, or more than a text is needed.
    """
    config, weight = backbone.config, next(backbone.parameters())
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or not weight.numel():
        return
    length = min(_positions_in(backbone).count or TRIAL_LENGTH, TRIAL_LENGTH)
    words, padding = min(TRIAL_WORDS, length - 1), config.pad_token_id or 0
    vocabulary = torch.arange(config.vocab_size)
    vocabulary = vocabulary[vocabulary != padding]
    if words < 2 or len(vocabulary) < 2:
        return
    ids = vocabulary[torch.linspace(0, len(vocabulary) - 1, words).long()]
    other = ids.clone()
    other[1] = vocabulary[vocabulary != ids[1]][0]
    padded = nn.functional.pad(ids, (0, length - words), value=padding)
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            alone, changed, beside = (_states_of(backbone, text, words) for text in (ids, other, padded))
    except Exception as error:  # whatever a class of transformers says where something is missing
        raise ValueError(
            f"A {config.model_type!r} model cannot read token ids and their mask alone: {error} {SUGGESTION}"
        ) from error
    finally:
        backbone.train(was_training)
    moved, size = float((alone - beside[:words]).abs().max()), max(1.0, float(alone.abs().max()))
    if not moved <= ROUNDING * size:
        raise ValueError(
            f"Padding behind a text moves its states in a {config.model_type!r} model by {moved:.2g}, where rounding explains "
            f"{ROUNDING * size:.1g}, so a text's labels would depend on the texts beside it. {SUGGESTION}"
        )
    if torch.equal(alone[0], changed[0]):
        raise ValueError(
            f"In a {config.model_type!r} model with these settings a word does not see the one behind it. {SUGGESTION}"
        )


def _states_of(backbone: nn.Module, text: Tensor, words: int) -> Tensor:
    mask = (torch.arange(len(text)) < words).long()
    states = backbone(input_ids=text[None], attention_mask=mask[None], return_dict=True).last_hidden_state
    if states.shape != (1, len(text), backbone.config.hidden_size):
        raise ValueError(
            f"its states of {len(text)} tokens have the shape {tuple(states.shape)} with hidden_size={backbone.config.hidden_size}."
        )
    return states[0]

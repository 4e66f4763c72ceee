"""Several CLS tokens before every text, for any fast tokenizer."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils import logging

__all__ = ["add_cls_tokens", "check_max_length", "cls_token_ids", "num_cls_tokens_of"]

logger = logging.get_logger(__name__)

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "mask_token")


def add_cls_tokens(
    tokenizer: PreTrainedTokenizerFast, num_cls_tokens: int, max_length: int | None = None
) -> PreTrainedTokenizerFast:
    """Return a tokenizer that puts ``[CLS_1] … [CLS_M]`` before every text.

    Whatever else the tokenizer adds (separators, the layout of pairs) stays, its own CLS token is no longer put in. All
    M tokens are new and take the last ids of the vocabulary, so a pretrained ``[CLS]`` keeps its row and a model can
    start ``[CLS_1]`` from it. The given tokenizer is left as it is.

    The result is a plain `PreTrainedTokenizerFast`: a ``BertTokenizer`` would rebuild its own single ``[CLS]`` on
    reload. It gives ``token_type_ids`` only on request. What looks like a special token in a text is read as text; a marker
    that texts do hold, such as ``<title>``, belongs among the ordinary tokens (``tokenizer.add_tokens``).

    Args:
        tokenizer: Any fast tokenizer with a padding token, word-level or pretrained.
        num_cls_tokens: CLS tokens M, at least 1.
        max_length: Tokens the model takes, CLS tokens included; stored as ``model_max_length``. Needed where the
            tokenizer states no limit, wins where it does.

    Returns:
        The tokenizer with M CLS tokens; the same object if it has them already and nothing else changes.

    Raises:
        ValueError: If the tokenizer is not a fast one, states no limit, has no padding token, has another number of CLS
            tokens already or words of their names, or if ``max_length`` leaves no room for text.

    Source: BertXML in CorNet (Xun et al., 2020), section 4.2 and code: rows V to V+M-1 of one embedding table.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, so its special tokens cannot be changed for good. "
            "Open it with AutoTokenizer.from_pretrained(...) from a folder that has a tokenizer.json."
        )
    if num_cls_tokens < 1:
        raise ValueError(
            f"num_cls_tokens={num_cls_tokens} must be at least 1; without CLS tokens use the tokenizer as it is."
        )
    if tokenizer.pad_token is None:
        raise ValueError(
            "The tokenizer has no padding token, so batches cannot be made. "
            "Set one first, for example tokenizer.pad_token = tokenizer.eos_token."
        )
    limit = _length_limit(tokenizer, max_length)

    present = num_cls_tokens_of(tokenizer)
    if present not in (0, num_cls_tokens):
        raise ValueError(
            f"The tokenizer already has {present} CLS tokens but num_cls_tokens={num_cls_tokens} was asked for. "
            "Start from the tokenizer they were added to, or use the model's num_cls_tokens."
        )
    is_plain = type(tokenizer) is PreTrainedTokenizerFast and tokenizer.split_special_tokens
    if present and is_plain and limit == tokenizer.model_max_length:
        return tokenizer

    names = _cls_names(num_cls_tokens)
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["truncation"] = state["padding"] = None  # settings of somebody's last call, applied by whoever loads the file
    if not present:
        _append_tokens(state, tokenizer, names)
        state["post_processor"] = _post_processor(state, tokenizer, names)
    wrapped = _wrap(tokenizer, Tokenizer.from_str(json.dumps(state)), names, limit)
    last_id = max(wrapped.get_vocab().values())
    if cls_token_ids(wrapped) != list(range(last_id - num_cls_tokens + 1, last_id + 1)) or last_id + 1 != len(wrapped):
        raise ValueError(
            f"The CLS tokens got the ids {cls_token_ids(wrapped)}, not the last of a vocabulary of {len(wrapped)} tokens "
            f"whose largest id is {last_id}. Some ids are unused, or tokens were added after the CLS tokens: do that before."
        )
    check_max_length(wrapped, limit)
    named = {getattr(tokenizer, name) for name in (*_NAMED_TOKENS, "cls_token")}
    if markers := [token for token in tokenizer.all_special_tokens if token not in {*named, *names}]:
        logger.warning(
            f"{', '.join(markers[:3])}{' …' if len(markers) > 3 else ''} {'is a special token' if len(markers) == 1 else 'are special tokens'} "
            "of the tokenizer, and special tokens are not looked for in texts. If texts hold such markers, add them as ordinary tokens: "
            "tokenizer.add_tokens([…])."
        )
    return wrapped


def num_cls_tokens_of(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return how many CLS tokens M of `add_cls_tokens` the tokenizer puts before a text; 0 if none."""
    tokens = tokenizer("", padding=False, truncation=False).tokens()
    count = 0
    while count < len(tokens) and tokens[count] == _cls_name(count + 1):
        count += 1
    return count


def cls_token_ids(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the ids of ``[CLS_1] … [CLS_M]``, (M,), in the order they stand before a text."""
    return [tokenizer.convert_tokens_to_ids(name) for name in _cls_names(num_cls_tokens_of(tokenizer))]


def check_max_length(tokenizer: PreTrainedTokenizerFast, max_length: int, *, pair: bool = False) -> None:
    """Refuse a length that leaves no room for text or that the model cannot take.

    Truncation to fewer tokens than the special ones does not fail, it silently truncates nothing. Call this before
    tokenizing a data set.

    Args:
        tokenizer: The tokenizer the texts will go through.
        max_length: Tokens a document will be cut to, special tokens included.
        pair: Whether documents are pairs of texts, which may take more special tokens.

    Raises:
        ValueError: If ``max_length`` does not exceed the special tokens or exceeds ``tokenizer.model_max_length``.
    """
    num_special_tokens = tokenizer.num_special_tokens_to_add(pair=pair)
    if max_length <= num_special_tokens:
        raise ValueError(
            f"max_length={max_length} leaves no room for text beside the {num_special_tokens} special tokens of each "
            f"document ({num_cls_tokens_of(tokenizer)} of them CLS tokens). Raise max_length or lower num_cls_tokens."
        )
    if max_length > tokenizer.model_max_length:
        raise ValueError(
            f"max_length={max_length} exceeds the limit of {tokenizer.model_max_length} tokens saved with the tokenizer. "
            "Lower it, or, if the model has the positions, set tokenizer.model_max_length."
        )


def _cls_name(number: int) -> str:
    return f"[CLS_{number}]"


def _cls_names(num_cls_tokens: int) -> list[str]:
    return [_cls_name(number) for number in range(1, num_cls_tokens + 1)]


def _length_limit(tokenizer: PreTrainedTokenizerFast, max_length: int | None) -> int:
    """Return the limit to store, from the argument or else from the tokenizer."""
    limit = tokenizer.model_max_length if max_length is None else max_length
    if limit > LARGE_INTEGER:  # what a tokenizer without a limit answers is 1e30
        raise ValueError(
            f"The tokenizer states no limit (model_max_length={tokenizer.model_max_length:.0e}), max_length={max_length}. "
            "Pass max_length, the positions of the model (config.max_position_embeddings; 2 less for RoBERTa types)."
        )
    return int(limit)


def _append_tokens(state: dict[str, Any], tokenizer: PreTrainedTokenizerFast, names: list[str]) -> None:
    """Add the names as special tokens with the next ids to the serialised tokenizer, in place."""
    taken = [name for name in names if tokenizer.backend_tokenizer.token_to_id(name) is not None]
    if taken:
        raise ValueError(
            f"The vocabulary already has {taken[0]} (id {tokenizer.convert_tokens_to_ids(taken[0])}) as another token, but "
            f"{len(names)} CLS tokens of such names were to be added. Rename it in the vocabulary."
        )
    next_id = max(tokenizer.get_vocab().values()) + 1
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    state["added_tokens"] += [{"id": next_id + i, "content": name, **flags} for i, name in enumerate(names)]


def _post_processor(state: dict[str, Any], tokenizer: PreTrainedTokenizerFast, names: list[str]) -> dict[str, Any]:
    """Return the serialised post-processor: the CLS tokens, then the tokenizer's own layout without its CLS."""
    cls_pieces = [_special_piece(name, 0) for name in names]
    text = _text_with_a_token(tokenizer)
    layouts = {"single": _layout(tokenizer, text), "pair": _layout(tokenizer, text, text)}
    ids = {token["content"]: token["id"] for token in state["added_tokens"]}
    used = {piece["SpecialToken"]["id"] for pieces in layouts.values() for piece in pieces if "SpecialToken" in piece}
    for token in used - ids.keys():  # a special token of the post-processor that is an ordinary vocabulary entry
        ids[token] = tokenizer.convert_tokens_to_ids(token)
    template = {
        "type": "TemplateProcessing",
        **{name: cls_pieces + pieces for name, pieces in layouts.items()},
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in [*names, *sorted(used)]
        },
    }
    kept = _kept_processors(state["post_processor"])
    return {"type": "Sequence", "processors": [*kept, template]} if kept else template


def _text_with_a_token(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return a text that is not empty after tokenization; a vocabulary without Latin letters may drop the usual one."""
    special = set(tokenizer.all_special_tokens)
    words = (token for token in tokenizer.get_vocab() if token not in special)
    return next(text for text in chain(["a"], words) if tokenizer.tokenize(text))


def _layout(tokenizer: PreTrainedTokenizerFast, *texts: str) -> list[dict[str, Any]]:
    """Return the template pieces of what the tokenizer makes of one text or a pair, its own CLS token left out."""
    encoding = tokenizer(*texts, padding=False, truncation=False).encodings[0]
    pieces: list[dict[str, Any]] = []
    for token, sequence, type_id in zip(encoding.tokens, encoding.sequence_ids, encoding.type_ids, strict=True):
        if sequence is None:
            if token != tokenizer.cls_token:
                pieces.append(_special_piece(token, type_id))
        else:
            piece = {"Sequence": {"id": "AB"[sequence], "type_id": type_id}}
            if piece not in pieces:  # one piece however many tokens the probe text has
                pieces.append(piece)
    return pieces


def _special_piece(token: str, type_id: int) -> dict[str, Any]:
    return {"SpecialToken": {"id": token, "type_id": type_id}}


def _kept_processors(processor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a serialised post-processor that do something else than adding special tokens."""
    if processor is None or processor["type"] in ("TemplateProcessing", "BertProcessing"):
        return []
    if processor["type"] == "Sequence":
        return [kept for part in processor["processors"] for kept in _kept_processors(part)]
    if processor["type"] == "RobertaProcessing":  # also cuts the blank in front of a word off its offsets
        trims = {name: processor[name] for name in ("add_prefix_space", "trim_offsets")}
        return [{"type": "ByteLevel", **trims, "use_regex": True}] if processor["trim_offsets"] else []
    return [processor]


def _wrap(tokenizer: PreTrainedTokenizerFast, backend: Tokenizer, names: list[str], limit: int) -> PreTrainedTokenizerFast:
    """Wrap the backend as a plain fast tokenizer that keeps the special tokens and habits of ``tokenizer``."""
    named = {name: getattr(tokenizer, name) for name in _NAMED_TOKENS if getattr(tokenizer, name, None) is not None}
    special = [*tokenizer.all_special_tokens]
    special += [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    special += names[1:]
    extra = [token for token in dict.fromkeys(special) if token not in (*named.values(), names[0])]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **named,
        cls_token=names[0],
        extra_special_tokens=extra,
        model_max_length=limit,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        split_special_tokens=True,
        clean_up_tokenization_spaces=tokenizer.clean_up_tokenization_spaces,
        model_input_names=[name for name in tokenizer.model_input_names if name != "token_type_ids"],
    )

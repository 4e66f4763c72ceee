"""The content of a tokenizer, for keys of what was computed with it."""

import json
from typing import Any

from transformers import PreTrainedTokenizerBase

__all__ = ["tokenizer_content"]


def tokenizer_content(tokenizer: PreTrainedTokenizerBase) -> list[Any]:
    """Everything that decides which tokens a text has, but the length at which it is cut, as JSON values.

    The library's own key changes with the first use of a tokenizer, because cutting and padding are settings inside it.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.update(truncation=None, padding=None)
    return [content, tokenizer.truncation_side, sorted(tokenizer.all_special_ids), tokenizer.unk_token_id]

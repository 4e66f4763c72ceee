"""Documents as token ids: texts from whatever holds them, read no further than the tokens that are kept."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from transformers.utils import logging

__all__ = ["DocumentTokens", "list_texts", "replace_surrogates", "split_special_tokens", "tokenize_documents"]

logger = logging.get_logger(__name__)

# Characters of a long text that are read first, for each token that is kept; then four times as many, until they suffice.
CHARACTERS_PER_TOKEN, GROWTH = 12, 4
# A word that ends so many characters before the cut is a word of the whole text: tokenizers look less far ahead.
LOOK_AHEAD = 256
# Characters tokenized together: enough for all cores, and some 30 MB of tokens.
CHARACTERS_TOGETHER = 1 << 20


class DocumentTokens(NamedTuple):
    """The tokens of a text that a model reads.

    Attributes:
        ids: Token ids, T of them, special tokens included.
        is_cut: Whether the text has more tokens.
        places: For each token its first character and the one after its last, None for special tokens; empty where not asked for.
    """

    ids: list[int]
    is_cut: bool
    places: list[tuple[int, int] | None]


class _Limits(NamedTuple):
    """The tokens of an encoding to keep, and the replacement of special tokens in the text."""

    max_length: int | None
    truncation_side: str
    special: set[int]
    unknown: int | None
    with_places: bool


def tokenize_documents(
    tokenizer: Any, texts: Iterable[str], max_length: int | None = None, with_places: bool = False
) -> list[DocumentTokens]:
    """Turn texts into token ids, the same as ``tokenizer(text, truncation=True, max_length=…)`` with three differences.

    What looks like a special token in a text (``[SEP]``) is read as text. A long text is tokenized only as far as the tokens that
    are kept reach. The settings inside the tokenizer are not changed, so threads with other lengths may share it.

    Args:
        tokenizer: A fast tokenizer.
        texts: N texts. Lone surrogates, which are not valid Unicode, are read as U+FFFD, with a warning.
        max_length: Tokens after which a text is cut, more than there are special tokens; None cuts nothing.
        with_places: Also say where the tokens stand in the texts.

    Returns:
        The tokens of each text.

    Raises:
        TypeError: If the tokenizer is not a fast one, or a text is no string.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise TypeError(f"{type(tokenizer).__name__} is not a fast tokenizer. Load it with AutoTokenizer, which gives one.")
    texts = _valid_texts(texts)
    num_read = [len(text) for text in texts]
    if max_length is not None and tokenizer.truncation_side == "right":
        first = CHARACTERS_PER_TOKEN * max_length + LOOK_AHEAD
        num_read = [min(length, first) for length in num_read]
    unknown = tokenizer.unk_token_id
    limits = _Limits(max_length, tokenizer.truncation_side, set(tokenizer.all_special_ids) - {unknown}, unknown, with_places)
    documents: list[DocumentTokens | None] = [None] * len(texts)
    pending = list(range(len(texts)))
    while pending:
        for group in _groups(pending, num_read):
            encodings = tokenizer(
                [texts[i][: num_read[i]] for i in group],
                padding=False,
                truncation=False,
                split_special_tokens=True,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            ).encodings
            for i, encoding in zip(group, encodings, strict=True):
                if num_read[i] == len(texts[i]) or _reaches(encoding, max_length, num_read[i] - LOOK_AHEAD):
                    documents[i] = _document_tokens(encoding, limits)
        pending = [i for i in pending if documents[i] is None]
        for i in pending:
            num_read[i] = min(GROWTH * num_read[i], len(texts[i]))
    return documents


def split_special_tokens(tokenizer: Any) -> None:
    """Let the tokenizer itself, and what is saved of it, read what looks like a special token in a text as text."""
    tokenizer.split_special_tokens = True
    tokenizer.init_kwargs["split_special_tokens"] = True  # only what is there is saved


def list_texts(texts: Iterable[str]) -> list[str]:
    """Texts as a list, from whatever holds them: a tuple, an array, a generator, a column of a table.

    Raises:
        TypeError: If it is a single text, a whole table, or holds nothing.
    """
    if isinstance(texts, list):
        return texts
    if isinstance(texts, str):
        raise TypeError(f"The texts are the one string {texts!r:.80}. Pass a list: [{texts!r:.80}].")
    is_table = any(hasattr(texts, name) for name in ("columns", "column_names"))
    if isinstance(texts, bytes | Mapping) or is_table or not isinstance(texts, Iterable):
        raise TypeError(
            f"A text must be a string, got {type(texts).__name__}: {texts!r:.80}. Pass a list of strings, or one column of a table."
        )
    return list(texts)


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate, which JSON and Python can spell but UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode(
            "utf-16", "replace"
        )  # two that make a pair become its character
    return text


def _valid_texts(texts: Iterable[str]) -> list[str]:
    results = []
    num_replaced = 0
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"A text must be a string, got {type(text).__name__}: {text!r:.80}. Pass a string or a list of strings."
            )
        results.append(replace_surrogates(text))
        num_replaced += results[-1] is not text
    if num_replaced:
        logger.warning(
            f"{num_replaced} of {len(results)} texts are not valid Unicode: they hold lone surrogates, each of which is read as U+FFFD."
        )
    return results


def _groups(rows: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """The rows in groups of bounded size together, at least one in each."""
    group, together = [], 0
    for row in rows:
        if group and together + sizes[row] > CHARACTERS_TOGETHER:
            yield group
            group, together = [], 0
        group.append(row)
        together += sizes[row]
    yield group


def _reaches(encoding: Any, max_length: int, border: int) -> bool:
    """True if the words that end before the border have more tokens than are kept, so that what follows does not matter."""
    words, ends = encoding.word_ids, [end for _, end in encoding.offsets]
    places = [place for place, word in enumerate(words) if word is not None]  # special tokens belong to no word
    if len(words) <= max_length or not places:
        return False
    # The first word that reaches over the border may go on, and its tokens with it; so may the last, where none does.
    crossing = words[next((place for place in places if ends[place] > border), places[-1])]
    return len(words) - sum(words[place] >= crossing for place in places) > max_length


def _document_tokens(encoding: Any, limits: _Limits) -> DocumentTokens:
    ids, is_special = encoding.ids, encoding.special_tokens_mask
    start = is_special.index(0) if 0 in is_special else len(ids)
    stop = start + len(ids) - sum(is_special)
    num_cut = 0 if limits.max_length is None else max(0, len(ids) - limits.max_length)
    left = num_cut if limits.truncation_side == "left" else 0
    text = range(start + left, stop - num_cut + left)
    if not limits.special.isdisjoint(ids[text.start : text.stop]):
        # Some vocabularies (words between blanks, Unigram) know special tokens as words of a text too.
        if limits.unknown is None:
            text = [place for place in text if ids[place] not in limits.special]
        else:
            ids[start:stop] = [limits.unknown if token in limits.special else token for token in ids[start:stop]]
    places = []
    if limits.with_places:
        offsets = encoding.offsets
        places = [*[None] * start, *(offsets[place] for place in text), *[None] * (len(ids) - stop)]
    return DocumentTokens([*ids[:start], *(ids[place] for place in text), *ids[stop:]], num_cut > 0, places)

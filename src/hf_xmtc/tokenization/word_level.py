"""A word-level tokenizer trained from the training texts, as a plain fast tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .multi_cls import add_cls_tokens

__all__ = ["PAD_TOKEN", "SEPARATOR", "UNK_TOKEN", "WORD_PATTERNS", "train_word_tokenizer"]

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
# Between the title and the description of a document, in the files of AttentionXML's authors for AmazonCat, Wiki-500K and others.
SEPARATOR = "/SEP/"

# The words of NLTK's tokenizer, alternative by alternative (`\w` of the Unicode tables: letters, marks, digits, underscore):
_NLTK_WORD = (
    rf"(?<!\S){SEPARATOR}(?!\S)"  # the authors' marker
    r"|n't\b|'(?:s|re|ve|ll|d|m)\b"  # English clitics are words of their own, as in GloVe: it 's, do n't
    r"|(?:(?!n't\b)\w)+"  # a run of word characters, and
    r"(?:(?:[-.]"  # after an inner hyphen or full stop more of it: state-of-the-art, u.s, libc.so
    r"|'(?!(?:s|re|ve|ll|d|m|t)\b)"  # after an inner apostrophe too: aujourd'hui, o'brien
    r"|(?<=\d)[,:](?=\d)"  # and after the comma or colon of a number: 1,000 and 10:30
    r")\w+)*"
    r"\+*"  # c++, gtk+
)

# A character of the scripts that put no blanks between words, with its marks; each is a word of its own.
_CHARACTER = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"

# What a word is, by the name that `word_splitting` takes.
WORD_PATTERNS = {
    "alphanumeric": r"[^\W_]+\+*",  # a run of letters and digits: libfoo-dev is libfoo and dev
    "nltk": _NLTK_WORD,
    "whitespace": r"\S+",  # what white space divides
}


def train_word_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int = 500_000,
    min_document_frequency: int = 1,
    max_length: int = 512,
    num_cls_tokens: int = 0,
    lowercase: bool | None = None,
    word_splitting: str = "alphanumeric",
    frequent_first: Collection[str] | None = None,
) -> PreTrainedTokenizerFast:
    """Build the vocabulary of the training texts and wrap it as a fast tokenizer.

    Ids: ``[PAD]`` 0, ``[UNK]`` 1, then the words by document frequency, ties in the order of their characters, so
    the same texts in any order give the same tokenizer; the CLS tokens take the last ids. An empty document becomes the
    CLS tokens alone, or no token at all without them.

    Args:
        texts: The training texts; read once and one at a time, so a generator over a large file will do.
        vocab_size: Entries of the vocabulary at most, ``[PAD]`` and ``[UNK]`` included, CLS tokens not.
        min_document_frequency: Documents a word must occur in to get an id.
        max_length: Tokens a document is cut to, CLS tokens included; stored as ``model_max_length``.
        num_cls_tokens: CLS tokens M put before every text, see `add_cls_tokens`.
        lowercase: Whether upper and lower case are one word; by default so, but not with ``whitespace``.
        word_splitting: ``alphanumeric`` takes every run of letters and digits for a word, so that the parts of ``libfoo-dev``
            are known where the whole is new; ``nltk`` keeps compounds and splits clitics (``do n't``) as the authors do, which
            is what pretrained word vectors such as GloVe know; ``whitespace`` is for texts that are tokenized already, whose words
            it takes as they are. With the last two ``/SEP/`` is one word in its own case, as with the authors.
        frequent_first: Words that go first among those of equal document frequency: the ones with a pretrained
            vector, see `read_vector_words`.

    Returns:
        The tokenizer, padding on the right, with at most ``vocab_size + num_cls_tokens`` tokens.

    Raises:
        TypeError: If ``texts`` is a single string or holds something else than strings.
        ValueError: If a setting leaves no room for words or for text, or if no word is found.

    Source: the code of AttentionXML (You et al., 2019) and CorNet (Xun et al., 2020): vocabulary of 500,000 by document
    frequency, words with a GloVe vector first among equals. They tokenize with NLTK's ``word_tokenize``, drop tokens without a
    word character and lower-case all but ``/SEP/``; EUR-Lex they split at white space alone. ``nltk`` is the nearest to that which a tokenizer.json can hold: over 99 % of the tokens of
    English news, questions and abstracts are the same, 98.5 % of software descriptions; it differs at a slash (``and/or`` is
    two words here), in abbreviations (``e.g`` for ``e.g.``) and in the few that NLTK takes apart (``cannot``). In scripts without
    blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is a word, as BERT has it for Chinese, except with
    ``whitespace``: segment such texts before, or read them with a pretrained encoder, for better ones.
    """
    if vocab_size < 3:
        raise ValueError(
            f"vocab_size={vocab_size} leaves no room for words: {PAD_TOKEN} and {UNK_TOKEN} take 2. Use 3 or more."
        )
    if min_document_frequency < 1:
        raise ValueError(f"min_document_frequency={min_document_frequency} must be at least 1; 1 keeps every word.")
    if word_splitting not in WORD_PATTERNS:
        raise ValueError(f"word_splitting={word_splitting!r} is not one of {', '.join(WORD_PATTERNS)}.")
    if num_cls_tokens < 0:
        raise ValueError(f"num_cls_tokens={num_cls_tokens} must be 0 or more; 0 puts no CLS token before texts.")
    if max_length <= num_cls_tokens:
        raise ValueError(
            f"max_length={max_length} leaves no room for text beside num_cls_tokens={num_cls_tokens}. "
            "max_length counts the CLS tokens too: use the number of words to keep plus num_cls_tokens."
        )
    if lowercase is None:
        lowercase = word_splitting != "whitespace"
    normalizer = _word_normalizer(lowercase, keep_separator=word_splitting != "alphanumeric")
    pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PATTERNS[word_splitting]), behavior="removed", invert=True)
    if word_splitting != "whitespace":
        characters = pre_tokenizers.Split(Regex(_CHARACTER), behavior="isolated")
        pre_tokenizer = pre_tokenizers.Sequence([characters, pre_tokenizer])
    words = _words_by_frequency(
        _document_frequencies(texts, normalizer, pre_tokenizer), min_document_frequency, frequent_first or ()
    )
    vocabulary = {word: index for index, word in enumerate([PAD_TOKEN, UNK_TOKEN, *words[: vocab_size - 2]])}

    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK_TOKEN))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizer
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD_TOKEN,
        unk_token=UNK_TOKEN,
        model_max_length=max_length,
        padding_side="right",
        truncation_side="right",
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )
    return add_cls_tokens(tokenizer, num_cls_tokens) if num_cls_tokens else tokenizer


def _word_normalizer(lowercase: bool, keep_separator: bool) -> normalizers.Normalizer:
    """Return the steps before words are looked for: lower case (the separator's own case perhaps kept), NFC, one kind of apostrophe."""
    # NFC comes second because a lower-cased letter may compose with a mark where its capital could not.
    steps = [normalizers.NFC(), normalizers.Replace("\u2019", "'")]
    if lowercase and keep_separator:
        # The one step after lower-casing that can; a text that had it in lower case gets the separator too.
        steps.append(normalizers.Replace(Regex(rf"(?<!\S){SEPARATOR.lower()}(?!\S)"), SEPARATOR))
    return normalizers.Sequence([normalizers.Lowercase(), *steps] if lowercase else steps)


def _document_frequencies(
    texts: Iterable[str], normalizer: normalizers.Normalizer, pre_tokenizer: pre_tokenizers.PreTokenizer
) -> Counter[str]:
    """Count for each word the documents it occurs in, reading ``texts`` once."""
    if isinstance(texts, str):
        raise TypeError(f"texts is one string of {len(texts)} characters, not an iterable of documents. Pass [text].")
    frequencies: Counter[str] = Counter()
    num_documents = 0
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"Document {num_documents} is a {type(text).__name__}, not a string. "
                "Pass the text column alone; an empty document is an empty string."
            )
        # Lone surrogates, which are not valid Unicode, stand in no word, and pairs of them make their character.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        frequencies.update({word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))})
        num_documents += 1
    if not frequencies:
        raise ValueError(
            f"No word was found in {num_documents} documents. Was an exhausted iterator or the wrong column passed?"
        )
    return frequencies


def _words_by_frequency(frequencies: Counter[str], minimum: int, first_among_equals: Collection[str]) -> list[str]:
    """Return the words of at least the minimum frequency in the order of their ids."""
    preferred = frozenset(first_among_equals)
    words = [word for word, frequency in frequencies.items() if frequency >= minimum]
    if not words:
        raise ValueError(
            f"min_document_frequency={minimum} removes every word: the most frequent one occurs in "
            f"{max(frequencies.values())} documents. Lower it."
        )
    return sorted(words, key=lambda word: (-frequencies[word], word not in preferred, word))

"""Builders of tokenizers whose results are plain fast tokenizers, and word vectors for their vocabularies."""

from .multi_cls import add_cls_tokens, check_max_length, cls_token_ids, num_cls_tokens_of
from .word_level import PAD_TOKEN, SEPARATOR, UNK_TOKEN, WORD_PATTERNS, train_word_tokenizer
from .word_vectors import load_word_vectors, read_vector_words

__all__ = [
    "PAD_TOKEN",
    "SEPARATOR",
    "UNK_TOKEN",
    "WORD_PATTERNS",
    "add_cls_tokens",
    "check_max_length",
    "cls_token_ids",
    "load_word_vectors",
    "num_cls_tokens_of",
    "read_vector_words",
    "train_word_tokenizer",
]

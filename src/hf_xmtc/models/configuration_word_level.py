"""`WordTokenizerConfig`: families with a word tokenizer; `WordLevelConfig`: those that read its words through an embedding table."""

from typing import Any

from .configuration_xmtc import XMTCConfig

__all__ = ["WordLevelConfig", "WordTokenizerConfig"]


class WordTokenizerConfig(XMTCConfig):
    """Settings of a family that reads words, and nothing else of its tokenizer than vocabulary and padding."""

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, **settings: Any) -> "WordTokenizerConfig":
        """Settings that fit a word tokenizer: vocabulary and padding.

        Args:
            tokenizer: From `hf_xmtc.tokenization.train_word_tokenizer`, without CLS tokens.
            settings: Further fields, which win over the tokenizer's.
        """
        return cls(**{"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **settings})


class WordLevelConfig(WordTokenizerConfig):
    """Settings of the word embedding, for families without CLS tokens, positions and pretrained encoders.

    Args:
        vocab_size: Rows of the word embedding table.
        embedding_size: Width E of a word embedding (300 in CorNet §5.2).
        embedding_dropout: Dropout on word embeddings.
        embedding_initializer_range: Standard deviation of new word embeddings. The table of a file of word vectors overwrites all rows;
            its words without a vector are uniform from -1 to 1.
        freeze_embeddings: Leave the word embeddings as they are (CorNet §5.1 on EUR-Lex, after GloVe).
        pad_token_id: Id of the padding token. Its row starts at zero and is not trained.
    """

    left_out_of_files = ("embedding_initializer_range", "freeze_embeddings")

    vocab_size: int = 30_000
    embedding_size: int = 300
    embedding_dropout: float = 0.0
    embedding_initializer_range: float = 0.1
    freeze_embeddings: bool = False
    pad_token_id: int | None = 0

    def check(self) -> None:
        super().check()
        self.check_sizes("vocab_size", "embedding_size")
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id={self.pad_token_id} is no row of an embedding table of vocab_size={self.vocab_size}. Use the ids of "
                "the tokenizer: for_tokenizer(tokenizer, …) takes both from it."
            )

    def check_sizes(self, *fields: str) -> None:
        """Refuse sizes below 1, alone or in a list."""
        for field in fields:
            value = getattr(self, field)
            if min(value if isinstance(value, list) else [value], default=1) < 1:
                raise ValueError(f"{field}={value!r}, but a size is at least 1.")

    @property
    def activation_elements_per_token(self) -> int:
        """Numbers that a training step keeps per token for its backward pass, roughly; for the estimate of memory."""
        return 2 * self.embedding_size

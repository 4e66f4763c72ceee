"""Layers and the base class of the families that read words: word embedding, bidirectional LSTM."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .aligned_tokens import AlignedWords, align_words
from .configuration_word_level import WordLevelConfig
from .linear_layers import reset_linear
from .mixed_precision import in_autocast_type
from .modeling_xmtc import XMTCPreTrainedModel
from .tracing import is_traced

__all__ = ["BiLSTM", "WordEmbedding", "WordLevelModel", "check_word_tokenizer"]


class WordEmbedding(nn.Module):
    """Embedding table with dropout; padding reads as zero whatever its row holds.

    Pretrained vectors are copied into ``embedding.weight``, as `PreTrainedModel.get_input_embeddings` shows it.
    """

    def __init__(self, config: WordLevelConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.embedding.weight.requires_grad_(not config.freeze_embeddings)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Embeddings (…, E) of ``ids`` (…), zero where ``mask`` is False; without a mask padding is a word."""
        embedded = self.dropout(self.embedding(ids))
        return embedded if mask is None else embedded * mask[..., None]


class BiLSTM(GradientCheckpointingLayer):
    """Bidirectional LSTM with trained initial states and dropout on its last layer, none between layers.

    Source: the code of AttentionXML (You et al., 2019), which CorNet's MeSHProbeNet shares; neither paper mentions that the
    initial states are trained. They start at zero.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, dropout: float):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
        # Cells of all layers and directions, then their hidden states.
        self.initial_state = nn.Parameter(torch.zeros(4 * num_layers, 1, hidden_size))
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Return the states of both directions, (B, T, 2H), zero behind the ``lengths`` (B,) first positions."""
        embedded, start = in_autocast_type(embedded), in_autocast_type(self.initial_state)
        cells, hidden = (state.contiguous() for state in start.expand(-1, embedded.shape[0], -1).chunk(2))
        # The weights of a quantized LSTM cannot be read.
        one_way = isinstance(self.lstm, nn.LSTM) and (embedded.device.type == "cpu" or is_traced())
        run = self._run_one_way if one_way else self._run_packed
        return self.dropout(run(embedded, lengths, hidden, cells))

    def _run_packed(self, embedded: Tensor, lengths: Tensor, hidden: Tensor, cells: Tensor) -> Tensor:
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed, (hidden, cells))
        return pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])[0]

    def _run_one_way(self, embedded: Tensor, lengths: Tensor, hidden: Tensor, cells: Tensor) -> Tensor:
        """The same by an LSTM for each direction over padded documents, which on a CPU takes a third to a tenth of the time.

        Documents begin in the first column, so the forward direction never reads padding before a word; the backward direction
        reads each document turned round.
        """
        if not embedded.shape[0]:
            return embedded.new_zeros(0, embedded.shape[1], 2 * self.lstm.hidden_size)
        longest = embedded.shape[1] if is_traced() else int(lengths.max())
        if isinstance(longest, torch.SymInt):
            raise ValueError(
                "torch.export writes an LSTM down word by word, so the number of words cannot be dynamic. Export with a fixed length, "
                "which shorter documents are padded to, or use torch.jit.trace."
            )
        columns = torch.arange(longest, device=lengths.device)
        inside = columns < lengths[:, None]  # (B, T)
        turned = torch.where(inside, lengths[:, None] - 1 - columns, columns)[:, :, None]  # its own inverse
        states = embedded[:, :longest]
        for layer in range(self.lstm.num_layers):
            outputs = []
            for direction in range(2):
                place = 2 * layer + direction
                read = states.gather(1, turned.expand_as(states)) if direction else states
                start = (hidden[place, None], cells[place, None])
                weights = self.lstm.all_weights[place]
                written, *_ = torch.lstm(read, start, weights, True, 1, 0.0, self.training, False, True)
                outputs.append(written.gather(1, turned.expand_as(written)) if direction else written)
            states = torch.cat(outputs, dim=-1)
        return nn.functional.pad(states * inside[:, :, None], (0, 0, 0, embedded.shape[1] - longest))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """PyTorch's uniform LSTM weights, initial states at zero."""
        bound = self.lstm.hidden_size**-0.5
        for parameter in self.lstm.parameters():
            init.uniform_(parameter, -bound, bound)
        init.zeros_(self.initial_state)


def check_word_tokenizer(tokenizer: Any, num_words: int, pad_token_id: int | None, reader: str) -> None:
    """Refuse a tokenizer that is not of words, or whose ids mean others to the model.

    Args:
        tokenizer: Whatever tokenizer was given.
        num_words: Words that the model has weights for.
        pad_token_id: Its padding.
        reader: Its class, for messages.

    Raises:
        ValueError: If the model cannot read what the tokenizer writes.
    """
    if len(tokenizer) > num_words:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens but the model has embeddings for {num_words}. Use the tokenizer saved "
            "beside the model."
        )
    if tokenizer.pad_token_id != pad_token_id:
        raise ValueError(
            f"The tokenizer pads with id {tokenizer.pad_token_id} but the model takes {pad_token_id} for padding. "
            "Use the tokenizer saved beside the model."
        )
    if around := len(tokenizer("")["input_ids"]):
        raise ValueError(
            f"The tokenizer puts {around} tokens around every text, which {reader} would read as words. Make one without: "
            "train_word_tokenizer(texts) with num_cls_tokens=0."
        )


class WordLevelModel(XMTCPreTrainedModel):
    """Base of these families: where the word embedding is, how a batch is aligned, how layers start.

    A family sets ``self.words`` to a `WordEmbedding`, and ``self.bilstm`` to a `BiLSTM` if it calls `read_words`.
    """

    config_class = WordLevelConfig

    def align(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> AlignedWords:
        """Move the words of each document to the front.

        Args:
            input_ids: Word ids, (B, T); T may be 0 where no document has a word.
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
        """
        return align_words(input_ids, attention_mask, self.config.pad_token_id)

    def read_words(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_embeddings: bool = False
    ) -> tuple[AlignedWords, Tensor, Tensor | None]:
        """The aligned words, the LSTM's states (B, T, 2H) and, on request, the words' embeddings (B, T, E); otherwise as `align`."""
        words = self.align(input_ids, attention_mask)
        return words, *self.read_aligned(words, self.words, self.bilstm, output_embeddings)

    def read_aligned(
        self, words: AlignedWords, embed: Callable[[Tensor, Tensor], Tensor], bilstm: BiLSTM, output_embeddings: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The states (B, T, 2H) of an LSTM over words and, on request, the words' embeddings (B, T, E)."""

        def read(words: AlignedWords, embedded: Tensor) -> tuple[Tensor, Tensor | None]:
            return bilstm(embedded, words.lengths), embedded if output_embeddings else None

        # Chunks end with the longest document, before columns that are padding in all of them.
        states, embedded = (
            None if part is None else nn.functional.pad(part, (0, 0, 0, words.ids.shape[1] - part.shape[1]))
            for part in self.read_batch(words, read, embed=embed)
        )
        return states, embedded

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.words.embedding = value

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Open a checkpoint of this family; arguments as in `transformers.PreTrainedModel.from_pretrained`."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        # Reading weights puts trainable parameters into the place of frozen ones.
        model.get_input_embeddings().weight.requires_grad_(not model.config.freeze_embeddings)
        return loaded

    def check_tokenizer(self, tokenizer: Any) -> None:
        rows = self.get_input_embeddings().num_embeddings
        check_word_tokenizer(tokenizer, rows, self.config.pad_token_id, type(self).__name__)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            reset_linear(module)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.embedding_initializer_range)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, BiLSTM):
            module.reset_parameters()
        elif not isinstance(module, nn.LSTM):
            super()._init_weights(module)

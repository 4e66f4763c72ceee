"""`read_in_chunks`: the documents of a random batch go through the encoder in a few chunks of similar lengths.

A batch of random documents is mostly padding, and a batch of similarly long documents is not random: it has other labels than the
data. Here the batch stays random and is sorted only on its way through the encoder. Each chunk is cut at its own longest document,
and what comes out is put together in the order of the batch, so that loss and gradients are those of the whole batch.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from .aligned_tokens import AlignedWords

__all__ = ["CHUNK_TOKENS", "chunk_borders", "read_at_once", "read_in_chunks"]

Read = TypeVar("Read", bound=tuple[Tensor | None, ...])

# Tokens whose padding is worth one more chunk. On a CPU the best of 64 to 1024 for three families on the demo data; that of a GPU, which is
# idle in small batches, is an estimate.
CHUNK_TOKENS = {"cpu": 256, "other": 2**14}


def chunk_borders(lengths: list[int], chunk_tokens: float) -> list[int]:
    """Where to cut a batch sorted by length, so that the columns read and ``chunk_tokens`` for every chunk are fewest in all.

    Args:
        lengths: Tokens of each document, longest first, B of them.
        chunk_tokens: What a chunk costs beside its columns.

    Returns:
        The first document of each chunk, and B at the end.
    """
    # Cuts between equal lengths save nothing. Everything is on the host: these are few numbers, and each step waits for them.
    places = [place for place in range(1, len(lengths)) if lengths[place] != lengths[place - 1]]
    places = [0, *places, len(lengths)]
    least, start = {0: 0.0}, {}
    for stop in places[1:]:
        # The last chunk begins at an earlier place, the longest document in it.
        least[stop], start[stop] = min(
            (cost + lengths[first] * (stop - first) + chunk_tokens, first) for first, cost in least.items()
        )
    borders = [len(lengths)]
    while borders[-1] > 0:
        borders.append(start[borders[-1]])
    return borders[::-1]


def read_at_once(
    words: AlignedWords,
    read: Callable[..., Read],
    *of_documents: Tensor | None,
    embed: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Read:
    """The batch as one chunk, in its own order; arguments as in `read_in_chunks`."""
    embedded = [] if embed is None else [embed(words.ids, words.mask)]
    return read(words, *embedded, *of_documents)


def read_in_chunks(
    words: AlignedWords,
    read: Callable[..., Read],
    *of_documents: Tensor | None,
    embed: Callable[[Tensor, Tensor], Tensor] | None = None,
    chunk_tokens: float | None = None,
) -> Read:
    """Apply ``read`` to a batch, chunk by chunk.

    Its result must not depend on padding. Only its dropout is drawn otherwise than for the batch as a whole.

    Args:
        words: The batch, (B, T).
        read: Takes the words of some documents, (n, t), their embeddings (n, t, E) where there is ``embed``, and their rows of
            ``of_documents``; answers with tensors (n, …), whose second dimension may be as wide as the longest document in the
            chunk, or None.
        of_documents: More that ``read`` needs of each document, (B, …), or None.
        embed: Looks words up, from ids (…) and mask (…) to (…, E). It is called once for all chunks, because the gradient of
            every lookup is as large as the table.
        chunk_tokens: As for `chunk_borders`; None for what suits the device, infinity for one chunk.

    Returns:
        The same of the whole batch, in its order; where chunks differ in width, zeros behind the narrower.
    """
    if chunk_tokens is None:
        chunk_tokens = CHUNK_TOKENS["cpu" if words.ids.device.type == "cpu" else "other"]
    lengths, order = words.lengths.sort(descending=True, stable=True)
    longest = lengths.tolist()
    borders = chunk_borders(longest, chunk_tokens)
    if len(borders) <= 2:
        return read_at_once(words, read, *of_documents, embed=embed)
    rows = [order[start:stop] for start, stop in zip(borders, borders[1:], strict=False)]
    chunks = [
        AlignedWords(*(tensor[chosen, : longest[start]] for tensor in words))
        for start, chosen in zip(borders, rows, strict=False)
    ]
    parts = [
        read(chunk, *embedded, *(None if tensor is None else tensor[chosen] for tensor in of_documents))
        for chunk, embedded, chosen in zip(chunks, _embed_chunks(chunks, embed), rows, strict=True)
    ]
    back = order.argsort()
    return tuple(None if column[0] is None else _joined(column)[back] for column in zip(*parts, strict=True))


def _embed_chunks(chunks: list[AlignedWords], embed: Callable[[Tensor, Tensor], Tensor] | None) -> list[tuple[Tensor, ...]]:
    """Embeddings (n, t, E) of each chunk, all looked up at once; nothing of each without ``embed``."""
    if embed is None:
        return [() for _ in chunks]
    ids, mask = (torch.cat([getattr(chunk, name).flatten() for chunk in chunks]) for name in ("ids", "mask"))
    parts = embed(ids, mask).split([chunk.ids.numel() for chunk in chunks])
    return [(part.unflatten(0, chunk.ids.shape),) for part, chunk in zip(parts, chunks, strict=True)]


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Tensors (n, …) one below the other, with zeros behind the narrower ones."""
    if parts[0].dim() < 2:
        return torch.cat(parts)
    width = max(part.shape[1] for part in parts)
    behind = [0, 0] * (parts[0].dim() - 2)
    return torch.cat([nn.functional.pad(part, (*behind, 0, width - part.shape[1])) for part in parts])

"""Pretrained word vectors in text form as the initial embedding of a vocabulary."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from .word_level import SEPARATOR

__all__ = ["load_word_vectors", "read_vector_words"]

logger = logging.get_logger(__name__)

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def load_word_vectors(
    path: str | os.PathLike[str], tokenizer: PreTrainedTokenizerBase, *, unk_range: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, int]:
    """Read the vectors of the tokenizer's words from a GloVe or word2vec text file.

    The file is read line by line and only the vectors of the vocabulary are kept. It may be gzip-compressed, whatever its
    name, and may begin with word2vec's line ``count width``. Words are compared as they are written, so a lower-cased
    vocabulary finds the lower-cased words of the file. Of a word given twice the first vector counts. The authors' separator
    ``/SEP/`` has the vector of the full stop.

    Args:
        path: The file, one word and its numbers a line, UTF-8.
        tokenizer: The tokenizer whose ids are the rows.
        unk_range: Rows without a vector, those of ``[UNK]`` and the CLS tokens among them, are uniform in
            (-unk_range, unk_range); 1.0 is what the AttentionXML and CorNet authors use.
        seed: Seed of these rows; a row's values depend on the seed, its id and the width, not on what the file holds.

    Returns:
        The embedding, (len(tokenizer), width) float32 (more rows if the vocabulary has unused ids), the row of the padding
        token zero, and the number of words that have a vector in the file. The coverage is logged.

    Raises:
        ValueError: If a line has another width than the first, a number cannot be read or is not finite, a word is not
            UTF-8, or the file is empty, cut off, in another format or shorter than its first line says.

    Source: GloVe (Pennington et al., 2014) and word2vec (Mikolov et al., 2013); initialisation as in AttentionXML's code.
    """
    special = set(tokenizer.all_special_tokens)
    ids = {word: index for word, index in tokenizer.get_vocab().items() if word not in special}
    places = {word: [index] for word, index in ids.items() if word != SEPARATOR}
    if SEPARATOR in ids:
        places.setdefault(".", []).append(ids[SEPARATOR])
    num_rows = max(len(tokenizer), max(ids.values(), default=-1) + 1)
    vectors: np.ndarray | None = None
    found: set[int] = set()
    for line_number, word, numbers in _vector_lines(path):
        if vectors is None:
            vectors = _random_rows(num_rows, len(numbers), unk_range, seed)  # (V, D)
        if word in places and found.isdisjoint(places[word]):
            vectors[places[word]] = _parse_numbers(numbers, path, line_number, word)
            found.update(places[word])
    if vectors is None:
        raise ValueError(
            f"{os.fspath(path)} holds 0 word vectors for a vocabulary of {len(ids)} words. Is the download complete?"
        )
    if tokenizer.pad_token_id is not None:
        vectors[tokenizer.pad_token_id] = 0.0
    message = (
        f"{len(found)} of {len(ids)} words have a vector in {os.path.basename(os.fspath(path))}; the others start random."
    )
    if found:
        logger.info(message)
    else:
        logger.warning(f"{message} Are the language and the case of the file those of the vocabulary?")
    return vectors, len(found)


def read_vector_words(path: str | os.PathLike[str]) -> set[str]:
    """Return the words that have a vector in the file, the ``frequent_first`` of `train_word_tokenizer`.

    Formats and errors are those of `load_word_vectors`, except that the numbers are counted but not read.
    """
    return {word for _, word, _ in _vector_lines(path)}


def _random_rows(num_rows: int, width: int, unk_range: float, seed: int) -> np.ndarray:
    """Return a (num_rows, width) table uniform in (-unk_range, unk_range)."""
    rows = np.random.default_rng(seed).random((num_rows, width), dtype=np.float32)
    rows *= 2 * unk_range
    rows -= unk_range
    return rows


def _parse_numbers(numbers: list[bytes], path: str | os.PathLike[str], line_number: int, word: str) -> np.ndarray:
    """Return the numbers of one line as a vector, (D,)."""
    try:
        with np.errstate(over="ignore"):  # refused below
            vector = np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)}, line {line_number}: a number of the vector of {word!r} cannot be read ({error}). "
            "Is the file cut off or changed?"
        ) from error
    if not np.isfinite(vector).all():
        raise ValueError(
            f"{os.fspath(path)}, line {line_number}: the vector of {word!r} is not finite. Remove the line from the file."
        )
    return vector


def _vector_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str, list[bytes]]]:
    """Yield (line number, word, its numbers as text), every line of one width."""
    declared: tuple[int, int] | None = None  # count and width by the first line
    width = num_words = 0
    for line_number, line in _lines(path):
        if line_number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            declared = _header(line)
            if declared is not None:
                width = declared[1]
                continue
        if not line.strip():
            continue
        if not width:
            width = _width_of_first_line(line, path)
        # From the right, because words may hold blanks (". . ." and "at name@domain.com" in GloVe 840B). Bytes are split at
        # ASCII blanks only, so that a no-break space stays part of its word.
        word, *numbers = line.rsplit(None, width)
        pieces = word.split()
        if len(numbers) < width or (len(pieces) > 1 and _is_number(pieces[-1])):
            raise ValueError(
                f"{os.fspath(path)}, line {line_number}: {_width(line)} numbers where "
                f"{'the first line declares' if declared else 'the first line has'} {width}. Is the file cut off, or in "
                "word2vec's binary form? Only the text form is read."
            )
        yield line_number, _decode(word.strip(), path, line_number), numbers
        num_words += 1
    if declared is not None and num_words != declared[0]:
        raise ValueError(
            f"{os.fspath(path)}: the first line declares {declared[0]} words but {num_words} follow. "
            "Is the file cut off? Download it again, or correct the first line."
        )


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line) of a plain or gzip file, told apart by their first bytes."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"There is no file of word vectors {os.fspath(path)}. Give a GloVe or word2vec text file (word_vectors), such as glove.6B.300d.txt."
        )
    with open(path, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic == _ZIP_MAGIC:
            raise ValueError(
                f"{os.fspath(path)} is a zip archive, not a text or gzip file. Unpack it and pass the file inside."
            )
        if not magic.startswith(_GZIP_MAGIC):
            yield from enumerate(file, start=1)
            return
        line_number = 0
        try:
            with gzip.open(file) as unpacked:
                for line_number, line in enumerate(unpacked, start=1):
                    yield line_number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{os.fspath(path)}: the gzip data ends or breaks after line {line_number} ({error}). Download it again."
            ) from error


def _header(line: bytes) -> tuple[int, int] | None:
    """Return (number of words, width) if the line is word2vec's first line, else None."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields) and int(fields[1]) > 0:
        return int(fields[0]), int(fields[1])
    return None


def _width_of_first_line(line: bytes, path: str | os.PathLike[str]) -> int:
    width = _width(line)
    if width == 0:
        raise ValueError(
            f"{os.fspath(path)}: the first line holds {len(line.split())} fields and 0 numbers after the word. "
            "Expected a word and its vector, blanks between, as GloVe and word2vec's text form have them."
        )
    return width


def _width(line: bytes) -> int:
    """Count the numbers at the end of a line, its first field not among them."""
    count = 0
    for field in reversed(line.split()[1:]):
        if not _is_number(field):
            break
        count += 1
    return count


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _decode(word: bytes, path: str | os.PathLike[str], line_number: int) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{os.fspath(path)}, line {line_number}: {word[:40]!r} is not UTF-8 ({error.reason} at its byte {error.start}). "
            "Convert the file to UTF-8, or is it word2vec's binary form?"
        ) from error

"""Lines of text files, plain or gzip, in UTF-8, UTF-16 or a named encoding, one after the other."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["decode_lines", "first_line", "open_file", "read_lines"]

_GZIP = b"\x1f\x8b"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# A file without a mark is UTF-16 where at least this share of its first bytes is NUL, nearly all of them on one side of the pairs.
_SHARE_OF_NUL = 0.2


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading; gzip is recognised by its content, whatever the name says."""
    with open(path, "rb") as file:
        compressed = file.read(2) == _GZIP
    return io.BufferedReader(gzip.open(path)) if compressed else open(path, "rb")


def read_lines(path: Path, encoding: str | None = None) -> Iterator[str]:
    r"""The lines of a file without their ends. Only ``\n`` and ``\r\n`` end a line; a byte-order mark is no text.

    Args:
        path: The file.
        encoding: Its encoding; by default UTF-8, or UTF-16 and UTF-32 where the first bytes show it.

    Raises:
        ValueError: If the file is damaged or in another encoding.
    """
    with open_file(path) as file:
        yield from decode_lines(file, path, encoding)


def first_line(path: Path, encoding: str | None = None) -> str:
    """The beginning of the first line, for recognising a format; empty where it cannot be read."""
    try:
        return next(read_lines(path, encoding), "")
    except ValueError:
        return ""


def decode_lines(file: IO[bytes], name: object, encoding: str | None = None) -> Iterator[str]:
    """The lines of an open file, as `read_lines` gives them.

    Args:
        file: The file.
        name: Its name, for messages.
        encoding: As in `read_lines`.
    """
    if not hasattr(file, "peek"):
        buffered = io.BufferedReader(file)
        try:
            yield from decode_lines(buffered, name, encoding)
        finally:
            buffered.detach()  # who opened the file closes it
        return
    number = 0
    try:
        start = file.peek(64)
        mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
        codec = codecs.lookup(encoding or _MARKS.get(mark) or _unmarked(start)).name
        if codec.startswith(("utf-16", "utf-32")):  # their line ends are no single bytes
            # Without its end in the name, the codec reads the mark itself.
            for number, line in enumerate(io.TextIOWrapper(file, codec, newline="\n"), start=1):
                yield _without_end(line.removeprefix("\ufeff") if number == 1 else line)
            return
        for number, line in enumerate(file, start=1):
            if number == 1 and mark == codecs.BOM_UTF8 and codec.startswith("utf-8"):
                line = line.removeprefix(mark)
            yield _without_end(line.decode(codec))
    except UnicodeDecodeError as error:
        place = f"line {number}" if error.encoding == "utf-8" else f"behind line {number}"
        raise ValueError(
            f"{name}, {place} is not {error.encoding} ({error.reason}, byte 0x{error.object[error.start]:02x}). Was it saved in another "
            "encoding? Name it, for example encoding='latin-1' (--encoding latin-1)."
        ) from error
    except LookupError as error:
        raise ValueError(f"encoding is {encoding!r}, which Python does not know. Use utf-8, utf-16 or latin-1.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{name} is no sound gzip file behind line {number} ({error}). Was the download cut off? Fetch it again."
        ) from error


def _unmarked(start: bytes) -> str:
    even, odd = start[::2].count(0), start[1::2].count(0)
    if not start or max(even, odd) < _SHARE_OF_NUL * len(start) or min(even, odd) * 10 > max(even, odd):
        return "utf-8"
    return "utf-16-be" if even > odd else "utf-16-le"


def _without_end(line: str) -> str:
    return line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")

"""Lines of text files, plain or gzip, in UTF-8, UTF-16 or a named encoding, one after the other."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

__all__ = ["Span", "decode_lines", "first_line", "first_number", "has_lines_of_bytes", "open_file", "read_lines"]

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
_BLOCK = 1 << 20  # bytes that are read at once


@dataclass(frozen=True)
class Span:
    """Whole lines of an uncompressed file, read on their own; in messages its name is that of the file.

    Attributes:
        path: The file.
        start: Byte at which it begins.
        stop: Byte behind its last line; None for the end of the file.
        lines_before: Lines of the file before it, where messages are to name lines; else 0.
    """

    path: Path
    start: int
    stop: int | None
    lines_before: int = 0

    def __str__(self) -> str:
        return str(self.path)

    def numbered(self) -> "Span":
        """The same with the lines before it counted."""
        lines = 0
        with open(self.path, "rb") as file:
            while file.tell() < self.start:
                lines += file.read(min(_BLOCK, self.start - file.tell())).count(b"\n")
        return replace(self, lines_before=lines)


def first_number(file: object) -> int:
    """The number of the first line of a file or a `Span`."""
    return file.lines_before + 1 if isinstance(file, Span) else 1


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading; gzip is recognised by its content, whatever the name says."""
    return io.BufferedReader(gzip.open(path)) if _is_compressed(path) else open(path, "rb")


def has_lines_of_bytes(path: Path, encoding: str | None = None) -> bool:
    """True if each byte of a line feed ends a line: the file is not compressed, and not UTF-16 or UTF-32."""
    with open(path, "rb") as file:
        try:
            return not _is_compressed(path) and not _has_wide_units(_codec(file, encoding)[0])
        except LookupError:  # reading says that there is no such encoding
            return False


def read_lines(path: Path | Span, encoding: str | None = None) -> Iterator[str]:
    r"""The lines of a file without their ends. Only ``\n`` and ``\r\n`` end a line; a byte-order mark is no text.

    Args:
        path: The file, or a span of one.
        encoding: Its encoding; by default UTF-8, or UTF-16 and UTF-32 where the first bytes show it.

    Raises:
        ValueError: If the file is damaged or in another encoding.
    """
    with open_file(path.path if isinstance(path, Span) else path) as file:
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
        name: Its name, for messages; or the span of it that is read.
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
        codec, mark = _codec(file, encoding)
        has_nul = b"\0" in file.peek(1)  # as blanks and line ends of UTF-16 do
        if _has_wide_units(codec):
            # Without its end in the name, the codec reads the mark itself.
            wrapper = io.TextIOWrapper(file, codec, newline="\n")
            try:
                for number, line in enumerate(wrapper, start=1):
                    yield _without_end(line.removeprefix("\ufeff") if number == 1 else line)
            finally:
                wrapper.detach()  # who opened the file closes it
            return
        lines: Iterable[bytes] = file
        if isinstance(name, Span):
            mark = b"" if name.start else mark
            lines = _lines_of_span(file, name)
        for number, line in enumerate(lines, start=first_number(name)):  # noqa: B007 (for the errors below)
            if mark == codecs.BOM_UTF8 and codec.startswith("utf-8"):
                line, mark = line.removeprefix(mark), b""
            yield _without_end(line.decode(codec))
    except UnicodeDecodeError as error:
        place = f"line {number}" if error.encoding == "utf-8" else f"behind line {number}"
        example = "utf-16-le" if has_nul and not _has_wide_units(codec) else "latin-1"
        raise ValueError(
            f"{name}, {place} is not {error.encoding} ({error.reason}, byte 0x{error.object[error.start]:02x}). Was it saved in another "
            f"encoding? Name it, for example encoding='{example}' (--encoding {example})."
        ) from error
    except LookupError as error:
        raise ValueError(f"encoding is {encoding!r}, which Python does not know. Use utf-8, utf-16 or latin-1.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{name} is no sound gzip file behind line {number} ({error}). Was the download cut off? Fetch it again."
        ) from error


def _is_compressed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def _codec(file: IO[bytes], encoding: str | None) -> tuple[str, bytes]:
    """Name of the codec, and the byte-order mark."""
    start = file.peek(64)
    mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
    return codecs.lookup(encoding or _MARKS.get(mark) or _unmarked(start)).name, mark


def _has_wide_units(codec: str) -> bool:
    """Whether line ends are several bytes."""
    return codec.startswith(("utf-16", "utf-32"))


def _lines_of_span(file: IO[bytes], span: Span) -> Iterator[bytes]:
    file.seek(span.start)
    position = span.start
    for line in file:
        yield line
        position += len(line)
        if span.stop is not None and position >= span.stop:
            return


def _unmarked(start: bytes) -> str:
    even, odd = start[::2].count(0), start[1::2].count(0)
    if not start or max(even, odd) < _SHARE_OF_NUL * len(start) or min(even, odd) * 10 > max(even, odd):
        return "utf-8"
    return "utf-16-be" if even > odd else "utf-16-le"


def _without_end(line: str) -> str:
    return line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")

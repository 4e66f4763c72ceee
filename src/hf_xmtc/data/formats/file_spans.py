"""Cutting a large file of text into spans that several processes read."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .text_lines import Span, has_lines_of_bytes

__all__ = ["cut_file"]


def cut_file(path: Path, encoding: str | None, cut: str | None, num_spans: int) -> list[Span]:
    """Spans of about the same size that make up a file; fewer where it has few lines, and none where it cannot be cut.

    A file with ``quoted`` lines is read once for that. Its spans may be wrong where quotes stand alone in a cell without quotes: then a
    span ends within a row, which its reader refuses.

    Args:
        path: The file.
        encoding: Its encoding, as in `read_lines`.
        cut: As in `FileRows`.
        num_spans: How many.
    """
    if cut is None or not has_lines_of_bytes(path, encoding):
        return []
    size = path.stat().st_size
    targets = [size * number // num_spans for number in range(1, num_spans)]
    with open(path, "rb") as file:
        ends = _quoted_ends(file, targets) if cut == "quoted" else _line_ends(file, targets)
        starts = sorted({0, *ends} - {size})
    stops = [*starts[1:], None]
    return [Span(path, start, stop) for start, stop in zip(starts, stops, strict=True)]


def _line_ends(file: IO[bytes], targets: list[int]) -> Iterator[int]:
    for target in targets:
        file.seek(target)
        file.readline()
        yield file.tell()


def _quoted_ends(file: IO[bytes], targets: list[int]) -> Iterator[int]:
    """The first line ends behind the targets that are outside double quotes: before them stands an even number of quotes."""
    position, within_quotes, left = 0, False, iter(targets)
    target = next(left, None)
    for line in file:
        position += len(line)
        within_quotes ^= line.count(b'"') % 2
        while target is not None and position >= target and not within_quotes:
            yield position
            target = next(left, None)
        if target is None:
            return

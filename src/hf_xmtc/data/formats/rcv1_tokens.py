"""Documents of RCV1-V2 as tokens. Nothing here needs pyarrow."""

from collections.abc import Iterator
from typing import Any

__all__ = ["token_documents"]


def token_documents(lines: Iterator[str], name: Any) -> Iterator[tuple[str, str, int]]:
    """Id, tokens and first line of each document.

    Args:
        lines: The lines without their ends.
        name: Of the file, for messages.

    Raises:
        ValueError: If a document does not begin as it must, or the last one is cut off.
    """
    document, words, start = None, None, 0
    for number, line in enumerate(lines, start=1):
        if line.startswith(".I "):
            if words is not None:
                yield document, " ".join(words), start
            document, words, start = line[3:].strip(), None, number
        elif line.strip() == ".W" and document is not None and words is None:
            words = []
        elif words is not None:
            words += [line] if line.strip() else []
        elif line.strip():
            raise ValueError(f"{name}, line {number} is {line!r:.40}, but a document begins with the lines .I ID and .W.")
    if document is not None and words is None:
        raise ValueError(
            f"{name} ends in line {start} within the document {document}. Was the download cut off? Fetch it again."
        )
    if words is not None:
        yield document, " ".join(words), start

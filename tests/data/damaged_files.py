"""Damage to the pages of a parquet file, whose footer stays whole."""

from pathlib import Path


def damage(path: Path) -> None:
    """Overwrite the middle of the file's data."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    middle = (len(content) - footer) // 2
    content[middle : middle + 64] = b"\xff" * 64
    path.write_bytes(content)

"""Files that a stranger may have written: arrays and settings, checked before anything is computed from them.

Sparse matrices and indexes read and write memory at the places that their arrays name, so a wrong number there is no wrong
answer but a crash, or worse. Every file of arrays in a model folder is therefore read through `ArrayFile`, and every JSON file that
this package reads through `read_json_object`, or `models/json_reader.py` where it holds something else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from hf_xmtc.models.json_reader import read_json
from hf_xmtc.models.setting_kinds import LARGEST_COUNT

__all__ = ["ArrayFile", "check_csr", "check_numbers", "check_setting", "read_json_object"]

# Weights and votes: sums of their squares stay finite in float32.
LARGEST_NUMBER = 1e6

_INTEGERS, _FLOATS = ("I32", "I64"), ("F32", "F64")
_REMEDY = "Copy the file again from where the model came."


class ArrayFile:
    """The arrays of a safetensors file; a wrong type or shape is refused by the header, before the array is read.

    Args:
        path: The file.

    Raises:
        ValueError: If it is not a sound safetensors file.
        OSError: If it cannot be read.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            self._file = safe_open(self.path, framework="numpy")
        except SafetensorError as error:
            raise ValueError(
                f"{self.path} ({self.path.stat().st_size} bytes) is not a sound safetensors file ({error}). Was a download or a copy "
                f"interrupted? {_REMEDY}"
            ) from error

    def integers(self, name: str, length: int | None = None) -> np.ndarray:
        """A list of whole numbers, (length,); of any length where none is given."""
        return self._read(name, _INTEGERS, "whole numbers", length)

    def numbers(self, name: str, length: int | None = None) -> np.ndarray:
        """A list of numbers from 0 to `LARGEST_NUMBER`, (length,): weights, votes."""
        values = self._read(name, _FLOATS, "numbers", length)
        check_numbers(values, name, source=f"{self.path}: ")
        return values

    def _read(self, name: str, types: tuple[str, ...], kind: str, length: int | None) -> np.ndarray:
        if name not in self._file.keys():  # noqa: SIM118, it is no dictionary
            raise ValueError(
                f"{self.path} lacks the array {name}; it has {', '.join(self._file.keys()) or 'none'}. {_REMEDY}"
            )
        header = self._file.get_slice(name)
        shape, stored = header.get_shape(), header.get_dtype()
        if stored not in types or len(shape) != 1 or (length is not None and shape[0] != length):
            expected = f"{'any number of' if length is None else length} {kind} in a row ({' or '.join(types)})"
            raise ValueError(
                f"{self.path}: {name} is {stored} of shape {shape}, but must be {expected}. Do its files come from two models? {_REMEDY}"
            )
        return self._file.get_tensor(name)


def check_numbers(values: np.ndarray, name: str, source: str = "") -> None:
    """Refuse weights or votes that are not finite, negative or absurdly large.

    Raises:
        ValueError: Naming the array and the first such number.
    """
    wrong = ~((values >= 0) & (values <= LARGEST_NUMBER))  # so that nan is one
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(
            f"{source}{name} holds {values[place]} at place {place}, but must hold numbers from 0 to {LARGEST_NUMBER:g}. {_REMEDY}"
        )


def check_csr(name: str, indptr: np.ndarray, indices: np.ndarray, num_rows: int, num_columns: int, source: str = "") -> None:
    """Refuse the index arrays of a CSR matrix that would reach outside of it.

    Args:
        name: The matrix, for messages.
        indptr: Where each row starts and the last one ends, (num_rows + 1,).
        indices: Columns, (nonzeros,).
        num_rows: Rows.
        num_columns: Columns.
        source: Beginning of messages, such as ``"file: "``.

    Raises:
        ValueError: If the pointers do not run from 0 to the number of indices without a step back, or an index is no column.
    """
    if len(indptr) != num_rows + 1:
        raise ValueError(
            f"{source}{name}.indptr has {len(indptr)} entries, but {num_rows} rows have {num_rows + 1}. Do the arrays come from two "
            f"models? {_REMEDY}"
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            f"{source}{name}.indptr must run from 0 to the {len(indices)} entries of {name}.indices without a step back, but runs from "
            f"{indptr[0]} to {indptr[-1]}{'' if (indptr[1:] >= indptr[:-1]).all() else ' with steps back'}. {_REMEDY}"
        )
    for extreme in (indices.min(initial=0), indices.max(initial=-1)):
        if len(indices) and not 0 <= extreme < num_columns:
            raise ValueError(
                f"{source}{name}.indices holds {extreme}, but there are {num_columns} columns, so it must hold 0 to {num_columns - 1}. "
                f"Is the file of another model? {_REMEDY}"
            )


def read_json_object(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        ValueError: If it is no JSON, or holds something else; the message names the file.
        OSError: If it cannot be read.
    """
    return read_json(path, dict)


def check_setting(settings: Mapping[str, Any], name: str, kind: type, source: str | Path) -> Any:
    """A setting of a JSON file, refused where it is missing or of another kind; whole numbers must count something.

    Args:
        settings: What `read_json_object` has read.
        name: The setting.
        kind: ``int`` for 1 to `LARGEST_COUNT`, ``str``, or ``list`` for a list of strings.
        source: The file, for messages.

    Raises:
        ValueError: If it is not so.
    """
    if name not in settings:
        raise ValueError(f"{source} lacks {name}; it has {', '.join(settings) or 'nothing'}. {_REMEDY}")
    value = settings[name]
    right = type(value) is kind
    if right and kind is int:
        right = 1 <= value <= LARGEST_COUNT
    elif right and kind is list:
        right = all(isinstance(entry, str) for entry in value)
    if not right:
        expected = {int: f"a whole number from 1 to {LARGEST_COUNT}", str: "a text", list: "a list of texts"}[kind]
        raise ValueError(f"{source}: {name} is {value!r:.80}, but must be {expected}. {_REMEDY}")
    return value

"""The mutations of `mutate_array_files.py`: damage as disks, downloads and strangers do it, drawn from a seed."""

import json
import random
from collections.abc import Callable

__all__ = ["MUTATIONS", "mutate"]

_DTYPES = ("F32", "F64", "F16", "BF16", "I32", "I64", "I8", "U8", "BOOL", "F8_E4M3", "C64", "X7")
_NUMBERS = (-1, 0, 1, 3, 575, 2**16, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62)
_VALUES = (None, True, -1, 0, 10**12, 1e12, 10**400, float("nan"), "x", "", [], [1], {}, {"a": 1}, "a\0b")


def _flip_bits(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.choice((0, 1, 7, 8, len(data) - 1, draw.randrange(len(data))))]


def _fill(data: bytes, draw: random.Random) -> bytes:
    """A piece of zeros or of 0xFF, as lost blocks of a disk are."""
    start = draw.randrange(len(data))
    size = min(draw.choice((1, 4, 64, 512)), len(data) - start)
    return data[:start] + draw.choice((b"\x00", b"\xff")) * size + data[start + size :]


def _append(data: bytes, draw: random.Random) -> bytes:
    return data + draw.randbytes(draw.choice((1, 8, 1000)))


def _parts(data: bytes) -> tuple[dict, bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def _joined(header: dict, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def _edit_index(data: bytes, draw: random.Random) -> bytes:
    """One number of an array of whole numbers, or of floats where there are none."""
    header, body = _parts(data)
    arrays = [entry for name, entry in header.items() if name != "__metadata__" and entry["dtype"] in ("I32", "I64")]
    floats = [entry for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"]
    entry = draw.choice(arrays or floats)
    width = 8 if entry["dtype"] == "I64" else 4
    start, end = entry["data_offsets"]
    place = start + width * draw.randrange((end - start) // width)
    number = draw.choice(_NUMBERS)
    written = (number % 2 ** (8 * width)).to_bytes(width, "little")
    if not arrays:
        written = draw.choice(
            (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x00\x00\x80\xff")
        )  # nan, inf, huge
    return _joined(header, body[:place] + written + body[place + width :])


def _edit_header(data: bytes, draw: random.Random) -> bytes:
    header, body = _parts(data)
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names)
    entry = header[name]
    kind = draw.randrange(8)
    if kind == 0:
        entry["dtype"] = draw.choice(_DTYPES)
    elif kind == 1:
        entry["shape"] = draw.choice(
            ([], [0], [-1], [1, *entry["shape"]], entry["shape"][::-1], [2**62, 0], [2**62], ["x"], "x", None)
        )
    elif kind == 2:
        entry["data_offsets"] = draw.choice(([0, 0], [0, 2**62], [8, 0], [-4, 4], [0], "x", None))
    elif kind == 3:
        del header[name]
    elif kind == 4:
        header[draw.choice(("other", "", "../x"))] = header.pop(name)
    elif kind == 5:
        other = draw.choice(names)
        header[name], header[other] = header[other], header[name]
    elif kind == 6:  # floats read as whole numbers of the same size, and the other way round
        entry["dtype"] = {"F32": "I32", "I32": "F32", "I64": "F64"}.get(entry["dtype"], "I8")
    else:
        return draw.choice((0, 1, 2**31, 2**63, 2**64 - 1, len(data))).to_bytes(8, "little") + data[8:]
    return _joined(header, body)


def _edit_json(data: bytes, draw: random.Random) -> bytes:
    """A value of another kind, at the top or one step below; a missing key; another form altogether."""
    content = json.loads(data)
    kind = draw.randrange(6)
    if kind == 0:
        content = draw.choice(_VALUES)
    elif kind == 1:
        opening, closing = draw.choice((("[", "]"), ('{"a":', "}")))
        return (opening * 100_000 + "1" + closing * 100_000).encode()
    else:
        places = list(content) if isinstance(content, dict) else range(len(content))
        if not places:
            return b""
        place = draw.choice(places)
        inner = content[place]
        if kind == 2:
            del content[place]
        elif kind == 3 and isinstance(inner, dict | list) and inner:
            inner[draw.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))] = draw.choice(_VALUES)
        else:
            content[place] = draw.choice(_VALUES)
    return json.dumps(content).encode()


_BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bits flipped": _flip_bits,
    "truncated": _truncate,
    "piece filled": _fill,
    "bytes appended": _append,
}
MUTATIONS = {
    "safetensors": {**_BYTES, "number of an array changed": _edit_index, "header changed": _edit_header},
    "json": {**_BYTES, "value changed": _edit_json},
}


def mutate(name: str, data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Damage a file.

    Args:
        name: Its name, whose ending says its format.
        data: Its content.
        draw: Where chance comes from.

    Returns:
        What was done, and the new content.
    """
    kinds = MUTATIONS[name.rpartition(".")[2]]
    # What goes for the format itself finds most, so it is drawn as often as the rest together.
    own = [kind for kind in kinds if kind not in _BYTES]
    kind = draw.choice(own if draw.random() < 0.5 else list(_BYTES))
    return kind, kinds[kind](data, draw)

"""Messages between this process and the worker: one JSON header and raw blobs, each preceded by its length.

A message is a count of parts (4 bytes), then each part's length (8 bytes) and bytes; part 0 is the JSON header.
Arrays travel as their unpacked bytes, described in the header by HLO type and dimensions. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.ir import dtype, dtype_of
from hloom.text import HloomError

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
MOST_PARTS = 1 << 20
"""More parts than any message has: a count above it means that the stream is out of step."""


def pack(header: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """The pieces of one message, to be written one after the other."""
    parts = [json.dumps(header).encode(), *blobs]
    pieces: list[bytes | memoryview] = [_COUNT.pack(len(parts))]
    for part in parts:
        pieces += [_LENGTH.pack(len(part)), part]
    return pieces


def unpack(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message with a function that returns exactly the requested number of bytes or raises."""
    count = _COUNT.unpack(read(_COUNT.size))[0]
    if not 0 < count <= MOST_PARTS:
        raise HloomError(f"the worker's message is out of step: it claims {count} parts")
    parts = [read(_LENGTH.unpack(read(_LENGTH.size))[0]) for _ in range(count)]
    return json.loads(parts[0]), parts[1:]


def describe(array: np.ndarray) -> dict[str, Any]:
    """The header's entry for an array; raises HloomError for a type that HLO lacks."""
    try:
        name = dtype_of(array.dtype).name
    except KeyError:
        raise HloomError(f"an array of {array.dtype} has no HLO type") from None
    return {"dtype": name, "dims": list(array.shape)}


def blob(array: np.ndarray) -> memoryview:
    """The bytes of an array, row-major."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def restore(entry: dict[str, Any], data: bytes) -> np.ndarray:
    """The array of a header's entry and its bytes."""
    return np.frombuffer(bytearray(data), dtype(entry["dtype"]).numpy).reshape(entry["dims"])

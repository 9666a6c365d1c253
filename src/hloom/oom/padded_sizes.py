"""The bytes of arrays in tiled layouts: a TPU stores whole tiles, so that small dimensions are padded.

    f32[8388608,8,4]{2,1,0:T(8,128)}: 4 is padded to 128, 32 times the bytes
    bf16[128,40]{1,0:T(8,128)(2,1)}: tiles of (8,128), and pairs of rows within a tile

Source: xla/shape_util.cc, ShapeUtil::ArraySize; the semantics of tiles are those of xla's docs on tiled layouts.
"""

from __future__ import annotations

import math

from hloom.analysis import leaf_bytes
from hloom.ir import COMBINED, TensorType, Type


def padded_bytes(value_type: Type | None) -> int:
    """The bytes of all arrays in a value, each in whole tiles of its layout.

    >>> from hloom import parse
    >>> x = parse("ENTRY e { ROOT x = s32[64,8,4]{2,1,0:T(8,128)} parameter(0) }").entry.root
    >>> padded_bytes(x.type) // x.type.byte_count
    32
    """
    if value_type is None:
        return 0
    return sum(map(_leaf, value_type.leaves()))


def _leaf(leaf: Type) -> int:
    plain = leaf_bytes(leaf)
    layout = leaf.layout if isinstance(leaf, TensorType) else None
    if not isinstance(leaf, TensorType) or layout is None or not layout.tiles or not leaf.dims or not plain:
        return plain
    order = layout.minor_to_major or tuple(reversed(range(leaf.rank)))
    dims = [leaf.dims[dim] for dim in reversed(order)]
    for tile in layout.tiles:
        dims = _tiled(dims, tile)
    bits = layout.element_bits or 8 * leaf.dtype.byte_count
    return max(plain, -(-math.prod(dims) * bits // 8))


def _tiled(dims: list[int], tile: tuple[int, ...]) -> list[int]:
    """The dimensions, major to minor, with the most minor ones cut: numbers of tiles, then the tile's dimensions."""
    dims = [1] * (len(tile) - len(dims)) + dims
    outer, inner = dims[: len(dims) - len(tile)], dims[len(dims) - len(tile) :]
    counts: list[int] = []
    sizes: list[int] = []
    combined = 1
    for size, length in zip(inner, tile, strict=True):
        if length == COMBINED:
            combined *= size
            continue
        whole, combined = size * combined, 1
        counts.append(-(-whole // length))
        sizes.append(length)
    return [*outer, *counts, *sizes]

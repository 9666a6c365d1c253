"""Which elements share a scale: blocks of a weight that cover what one product sums up, or groups of that.

    w = f32[4,16,64], 4 and 16 summed up        channel (4,16,1)      groups of 32 (2,16,1)      groups of 8 (1,8,1)

Groups consist of consecutive elements of the flattened contraction, in the order of `WeightUse.summed`. If a group is
not a block (24 of 4x16 would end within a row), there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.compress.quantization.movement import MovedDims, Piece


def channel_blocks(dims: Sequence[int], moved: MovedDims, summed: Sequence[Piece]) -> tuple[int, ...] | None:
    """Blocks that cover everything summed up; None if that is not a block."""
    blocks = [1] * len(dims)
    pieces = _joined(summed)
    free = [piece for some in moved for piece in some if piece.size != 1 and all(piece is not one for one in summed)]
    for dim in sorted(frozenset().union(*(piece.dims for piece in pieces))):
        own = [piece for piece in pieces if dim in piece.dims]
        if not any(dim in piece.dims for piece in free):
            blocks[dim] = max(dims[dim], 1)
            continue
        if any(piece.stride is None or len(piece.dims) > 1 for piece in own):
            return None
        for piece in sorted(own, key=lambda piece: piece.stride or 0):
            if piece.stride != blocks[dim]:
                return None
            blocks[dim] *= _extent(piece)
    return tuple(blocks)


def group_blocks(dims: Sequence[int], summed: Sequence[Piece], group: int) -> tuple[int, ...] | None:
    """Blocks of `group` consecutive summed elements; None if these are not blocks.

    The last group may be smaller, where that is at the end of a dimension.
    """
    blocks = [1] * len(dims)
    left = group
    pieces = _joined(summed)
    for position in reversed(range(len(pieces))):
        if left == 1:
            break
        piece, size = pieces[position], _extent(pieces[position])
        if len(piece.dims) != 1 or piece.stride is None:
            return None
        (dim,) = piece.dims
        if piece.stride != blocks[dim]:
            return None
        if left >= size:
            if left % size and position:
                return None
            blocks[dim] *= size
            left = left // size if left % size == 0 else 1
            continue
        is_last = position == 0 and piece.stride * size == dims[dim]
        if size % left and not is_last:
            return None
        blocks[dim] *= left
        left = 1
    return tuple(blocks)


def fitting_groups(dims: Sequence[int], summed: Sequence[Piece]) -> list[int]:
    """The group sizes that divide the summed elements into blocks."""
    total = prod(map(_extent, _joined(summed)))
    return [size for size in _divisors(total) if group_blocks(dims, summed, size) is not None]


def _divisors(number: int) -> list[int]:
    low = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    return sorted({*low, *(number // size for size in low)})


def _extent(piece: Piece) -> int:
    return piece.extent or piece.size


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of the weight, major to minor; neighbours that are one piece of a dimension as that."""
    made: list[Piece] = []
    for piece in pieces:
        if not piece.dims or piece.size == 1:
            continue
        if made and _follows(made[-1], piece):
            made[-1] = Piece(piece.dims, made[-1].size * piece.size, piece.stride)
        else:
            made.append(piece)
    return made


def _follows(major: Piece, minor: Piece) -> bool:
    """Whether two pieces are one of the same dimension."""
    if major.dims != minor.dims or major.stride is None or minor.stride is None:
        return False
    return major.extent is None and minor.extent is None and major.stride == minor.stride * minor.size

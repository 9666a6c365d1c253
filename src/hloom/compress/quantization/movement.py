"""Tracks the dimensions of a weight through instructions that only move its elements.

A dimension of a moved value is a product of pieces, major to minor, each of some dimensions of the weight. Converts
count as movement here, since a weight is still a weight at another precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from hloom.ir import Apply, TensorType, node_axes
from hloom.rewrite import is_splat

COPIES = frozenset({"copy", "optimization-barrier"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A factor of a dimension: how large it is, and of which of the weight's dimensions (none where it repeats).

    `stride` is how far apart its elements are in the weight's one dimension, None where that is not known; `extent` is
    how many there were before a slice took some.
    """

    dims: frozenset[int]
    size: int
    stride: int | None = None
    extent: int | None = None

    def split(self, minor: int) -> tuple[Piece, Piece]:
        """The piece as a major one and a minor one of a size."""
        if self.stride is None or self.extent is not None:
            return Piece(self.dims, self.size // minor), Piece(self.dims, minor)
        return Piece(self.dims, self.size // minor, self.stride * minor), Piece(self.dims, minor, self.stride)


MovedDims = tuple[tuple[Piece, ...], ...]
"""The pieces of every dimension of a value."""


def unmoved(type_: TensorType) -> MovedDims:
    """The dimensions of the weight itself."""
    return tuple((Piece(frozenset((dim,)), size, stride=1),) for dim, size in enumerate(type_.dims))


def moved(node: Apply, operand_index: int, dims: MovedDims) -> MovedDims | None:
    """The dimensions of a node's result in terms of a moved weight; None if it does more than move elements."""
    if operand_index != 0 or not isinstance(node.type, TensorType):
        return None
    sizes = node.type.dims
    match node.opcode:
        case "copy" | "transpose" | "broadcast":
            axes = node_axes(node)
            assert axes is not None, "every op that moves elements has axes"
            sources = zip(axes.source_dims(), sizes, strict=True)
            return tuple((Piece(frozenset(), size),) if dim is None else dims[dim] for dim, size in sources)
        case "convert":
            return dims if node.type.dtype.is_float else None
        case "slice" | "dynamic-slice":
            return tuple(_cut(pieces, size) for pieces, size in zip(dims, sizes, strict=True))
        case "reshape":
            return _reshaped(dims, sizes)
    return None


def result_dims(node: Apply) -> list[dict[int, int]]:
    """For each operand the dimensions that its whole dimensions are in the result, by the op's axis map."""
    axes = node_axes(node)
    assert axes is not None, "dots and movements have axis maps"
    targets = [axes.target_dims(operand) for operand in range(len(axes.operands))]
    return [{dim: target for dim, target in enumerate(own) if target is not None} for own in targets]


def is_mask_of(node: Apply, operand_index: int) -> bool:
    """Whether a node yields its operand, a weight, with zeros instead of some elements, as pruned programs do."""
    return node.opcode == "select" and operand_index in (1, 2) and is_splat(node.operands[3 - operand_index], 0)


def _cut(pieces: tuple[Piece, ...], size: int) -> tuple[Piece, ...]:
    if prod(piece.size for piece in pieces) == size:
        return pieces
    if len(pieces) == 1:
        return (replace(pieces[0], size=size, extent=pieces[0].extent or pieces[0].size),)
    return (Piece(frozenset().union(*(piece.dims for piece in pieces)), size),)


def _reshaped(dims: MovedDims, sizes: tuple[int, ...]) -> MovedDims:
    """Pieces divided anew, major to minor; where sizes do not divide, all is of all."""
    waiting = [piece for pieces in dims for piece in pieces if piece.size != 1][::-1]
    result: list[tuple[Piece, ...]] = []
    for size in sizes:
        pieces: list[Piece] = []
        left = size
        while left > 1 and waiting:
            piece = waiting.pop()
            if left % piece.size == 0:
                pieces.append(piece)
                left //= piece.size
            elif piece.size % left == 0:
                major, minor = piece.split(piece.size // left)
                pieces.append(major)
                waiting.append(minor)
                left = 1
            else:
                return _mixed(dims, sizes)
        result.append(tuple(pieces))
    return tuple(result)


def _mixed(dims: MovedDims, sizes: tuple[int, ...]) -> MovedDims:
    everything = frozenset().union(*(piece.dims for pieces in dims for piece in pieces))
    return tuple((Piece(everything, size),) for size in sizes)

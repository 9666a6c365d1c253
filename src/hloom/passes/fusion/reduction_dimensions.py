"""The dimensions of a reduction in memory order, and how GPU kernels reduce them.

Adjacent dimensions that are all reduced, or all kept, count as one (ReductionDimensions,
IsUnnestedReductionFasterThanElemental and SharedMemoryUsage of XLA's xla/service/gpu/reduction_utils.cc and
gpu_fusible.cc).

    f32[16,64,8,8], dimensions={0,2,3}   ->   innermost first: 64 reduced, 64 kept, 16 reduced; a row reduction
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir import Node, TensorType, default_layout

WARP = 32
"""Threads of a GPU that run together; rows and columns of a tile in shared memory."""
TILE = WARP * (WARP + 1)
"""Elements of a tile in shared memory: a column more than needed keeps the threads of a warp in different banks."""
COLUMN_TILES = 4
"""The number of tiles that a column reduction keeps, since a thread may reduce this many columns at once."""


@dataclass(frozen=True, slots=True)
class ReductionDimensions:
    """Runs of neighbouring dimensions, innermost first: whether they are reduced, and of how many elements."""

    runs: tuple[tuple[bool, int], ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether the reduced or the kept dimensions are adjacent; any other reduction is computed element by element.
        """
        return len(self.runs) <= 3

    @property
    def is_of_rows(self) -> bool:
        """Whether the innermost dimension is reduced."""
        return bool(self.runs) and self.runs[0][0]

    @property
    def is_large(self) -> bool:
        """Whether reducing by warps is faster than element by element."""
        if not self.runs:
            return True
        inner = self.runs[0][1]
        if self.is_of_rows:
            return inner >= WARP or WARP % max(1, inner) == 0
        outer = self.runs[1][1] if len(self.runs) > 1 else 1
        is_small = outer < WARP or (outer < 2 * WARP and inner < WARP)
        return not (is_small or (outer < 4 * WARP and inner < 8) or (outer < 8 * WARP and inner < 3))

    def shared_bytes(self, element_bytes: int) -> int:
        """The shared memory that a block of threads takes."""
        return (WARP if self.is_of_rows else COLUMN_TILES * TILE) * element_bytes


def reduction_dimensions(node: Node) -> ReductionDimensions | None:
    """Those of a `reduce`; None where its first operand is not an array."""
    array_type = node.operands[0].type
    if not isinstance(array_type, TensorType):
        return None
    runs: list[tuple[bool, int]] = []
    for dim in (array_type.layout or default_layout(array_type.rank)).minor_to_major:
        size, is_reduced = array_type.dims[dim], dim in node.attributes["dimensions"]
        if size == 1:
            continue
        if runs and runs[-1][0] == is_reduced:
            runs[-1] = is_reduced, runs[-1][1] * size
        else:
            runs.append((is_reduced, size))
    return ReductionDimensions(tuple(runs))

"""The arithmetic of windows: how often one fits into an array."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import UNBOUNDED, TypeProblem, Window, WindowDimension
from hloom.ops.shapes import Extent

NO_WINDOW = Window()
LARGEST = 2**63 - 1
"""The largest size of a dimension, in elements: XLA's are signed and of 64 bits."""


def positions(base: Sequence[Extent], window: Window) -> list[Extent]:
    """Where the window can stand: one extent per dimension, dynamic where the base is.

    Raises TypeProblem, also where XLA's parser aborts: padding that cuts away more than there is, sizes beyond 64 bits.
    Source: xla/service/shape_inference.cc, InferWindowOutputShape; xla/window_util.cc.
    """
    if len(window.dimensions) != len(base):
        raise TypeProblem(f"the window {window} has {len(window.dimensions)} dimensions, the array has {len(base)}")
    for dimension in window.dimensions:
        _check_positive(dimension, window)
    extents = [
        (size if size == UNBOUNDED else _positions(size, dimension, window), moves)
        for (size, moves), dimension in zip(base, window.dimensions, strict=True)
    ]
    if math.prod(size for size, moves in extents if not moves) > LARGEST:
        raise TypeProblem(f"the window {window} stands at more places than 64 bits can count")
    return extents


def is_plain(dimension: WindowDimension) -> bool:
    """Whether a window does nothing along a dimension: each element alone is one place."""
    return dimension in (_PLAIN, _PLAIN_REVERSED)


_PLAIN = WindowDimension()
_PLAIN_REVERSED = WindowDimension(reversal=True)
_POSITIVE = ("size", "stride", "base_dilation", "window_dilation")


def _check_positive(dimension: WindowDimension, window: Window) -> None:
    for name in _POSITIVE:
        if getattr(dimension, name) <= 0:
            raise TypeProblem(f"the window {window} needs a positive {name.replace('_', ' ')}")


def _positions(size: int, dimension: WindowDimension, window: Window) -> int:
    padded = dimension.padding_low + _dilated(size, dimension.base_dilation) + dimension.padding_high
    covered = _dilated(dimension.size, dimension.window_dilation)
    if padded < 0:
        raise TypeProblem(f"the window {window} cuts a dimension of size {size} down to {padded}")
    if covered > LARGEST or padded > LARGEST:
        raise TypeProblem(f"the window {window} reaches beyond 64 bits")
    return 0 if covered > padded or not padded else (padded - covered) // dimension.stride + 1


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0

"""Windows: how often one fits into an array, and reductions over sliding windows.

    reduce-window          ([n,h], []) -> [n,h]           h: windowed    and, nowhere, a factor for the window's places
    select-and-scatter     ([n,h], [n,h], []) -> [n,h]    h: windowed

A windowed factor's size is how often the window fits. It stands too in the array that the window slides over (the
operand of both, the result of the second), whose dimension has another size. A factor that stands nowhere counts the
places inside the window, so that the points are what is computed on. A dimension along which the window does nothing is
parallel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import (
    UNBOUNDED,
    AxisMap,
    AxisMapBuilder,
    FactorKind,
    Graph,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    Window,
    WindowDimension,
)
from hloom.ops.reducers import accumulators, check_element, check_predicate, halves, reduced_kind
from hloom.ops.shapes import Extent, array, extents, same_dims, same_elements, tensor

NO_WINDOW = Window()
LARGEST = 2**63 - 1
"""The largest size of a dimension, in elements: XLA uses signed 64-bit integers."""


def positions(base: Sequence[Extent], window: Window) -> list[Extent]:
    """The window's positions: one extent per dimension, dynamic if the base is.

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
    """Whether a window has no effect along a dimension: each position covers exactly one element."""
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


def infer_reduce_window(*operands: Type, window: Window | None, to_apply: Graph) -> Type:
    """One array per input: the window's positions, in the initial values' element types.

    Source: xla/service/shape_inference.cc, InferReduceWindowShape for several operands. XLA's parser, when the result's
    type is left out, only knows the rule for one: it refuses several, and gives no tuple where the computation does.
    """
    inputs, starts = halves(operands)
    _, as_tuple = accumulators(to_apply, inputs, starts)
    elements = [array(start, "an initial value").dtype for start in starts]
    extents_ = positions(extents(inputs[0]), window or NO_WINDOW)
    results = [tensor(element, extents_) for element in elements]
    return TupleType(results) if as_tuple else results[0]


def reduce_window_axes(*operands: Type, window: Window | None, to_apply: Graph) -> AxisMap:
    """([n,h], []) -> [n,h]."""
    inputs, _ = halves(operands)
    window = window or NO_WINDOW
    build = AxisMapBuilder()
    factors = _window_factors(build, positions(extents(inputs[0]), window), window, reduced_kind(to_apply))
    for _ in inputs:
        build.operand(*factors)
    for _ in inputs:
        build.operand()
    for _ in inputs:
        build.result(*factors)
    return build.finish()


def infer_select_and_scatter(
    operand: Type, source: Type, start: Type, *, window: Window | None, select: Graph, scatter: Graph
) -> TensorType:
    """The operand's type; the source has one value per window. Source: InferSelectAndScatterShape."""
    operand_type, values, _ = _check_select_and_scatter(operand, source, window or NO_WINDOW)
    check_predicate(select, 2)
    check_element(select, 0, operand_type)
    check_element(select, 1, operand_type)
    accumulators(scatter, [values], [start])
    return operand_type


def select_and_scatter_axes(operand: Type, source: Type, start: Type, *, window: Window | None) -> AxisMap:
    """([n,h], [n,h], []) -> [n,h], where the source's dimensions are the factors' sizes."""
    window = window or NO_WINDOW
    _, _, extents_ = _check_select_and_scatter(operand, source, window)
    build = AxisMapBuilder()
    factors = _window_factors(build, extents_, window, (FactorKind.NEED_REPLICATION, ""))
    return build.operand(*factors).operand(*factors).operand().result(*factors).finish()


def _check_select_and_scatter(
    operand: Type, source: Type, window: Window
) -> tuple[TensorType, TensorType, Sequence[Extent]]:
    operand_type, values = array(operand), array(source, "the source")
    extents_ = positions(extents(operand_type), window)
    wanted = tensor(operand_type.dtype, extents_)
    if not (same_elements(values, wanted) and same_dims(values, wanted)):
        raise TypeProblem(f"the source must be {wanted}, one value for each window, but is {values}")
    return operand_type, values, extents_


def _window_factors(
    build: AxisMapBuilder, extents_: Sequence[Extent], window: Window, inside: tuple[FactorKind, str]
) -> list[list[int]]:
    factors: list[list[int]] = []
    for (size, _), dimension in zip(extents_, window.dimensions, strict=True):
        if is_plain(dimension):
            factors.append([build.factor(size)])
            continue
        factors.append([build.factor(size, FactorKind.WINDOWED)])
        build.factor(dimension.size, *inside)
    return factors

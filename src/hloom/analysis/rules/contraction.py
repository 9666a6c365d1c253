"""Cost rules of matrix products, convolutions, Fourier transforms, factorisations and solves."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.control_flow import instruction_of
from hloom.analysis.rules.table import CalleeCosts, Instruction, rules
from hloom.analysis.sizes import elements, leaf_bytes, shape_bytes
from hloom.ir import Apply, TensorType, Type, Window, WindowDimension

FMA = 2
"""FLOPs of a multiply and the addition of its product."""
COMPLEX_FMA = 8
"""The same for complex numbers, in real operations."""


def _dims(value_type: Type | None) -> tuple[int, ...]:
    return value_type.dims if isinstance(value_type, TensorType) else ()


def _fma(instruction: Instruction) -> int:
    value_type = instruction.operand(0)
    return COMPLEX_FMA if isinstance(value_type, TensorType) and value_type.dtype.is_complex else FMA


def _width(instruction: Instruction) -> int:
    """The number of products added up for one element of the result."""
    dims = _dims(instruction.operand(0))
    return math.prod(dims[dim] for dim in instruction.attribute("lhs_contracting_dims") or ())


def _dot(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(FMA * instruction.elements * _width(instruction), 0, instruction.accessed)


def _exact_dot(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(_fma(instruction) * instruction.elements * _width(instruction), 0, instruction.accessed)


def _exact_scaled_dot(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    scaled = elements(instruction.operand(0)) + elements(instruction.operand(1))
    return _exact_dot(instruction, callee_cost) + Cost(flops=scaled)


def _ragged_dot(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    groups = len(instruction.attribute("rhs_group_dims") or ())
    kept = math.prod(_dims(instruction.result)[groups:])
    return Cost(FMA * kept * _width(instruction), 0, instruction.accessed)


def _exact_ragged_dot(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    taken = ("rhs_batch_dims", "rhs_contracting_dims", "rhs_group_dims")
    taken_dims = {dim for name in taken for dim in instruction.attribute(name) or ()}
    columns = math.prod(size for dim, size in enumerate(_dims(instruction.operand(1))) if dim not in taken_dims)
    return Cost(_fma(instruction) * elements(instruction.operand(0)) * columns, 0, instruction.accessed)


def _convolution(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(FMA * convolution_products(instruction), 0, instruction.accessed)


def _exact_convolution(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(_fma(instruction) * convolution_products(instruction), 0, instruction.accessed)


def products(node: Apply) -> int:
    """The number of products in a convolution, without those on padding and dilation holes."""
    return convolution_products(instruction_of(node))


def convolution_products(instruction: Instruction) -> int:
    """The products of a convolution for which both factors exist: padding and dilation holes are skipped."""
    labels = instruction.attribute("dim_labels")
    window = instruction.attribute("window") or Window()
    left, right, result = _dims(instruction.operand(0)), _dims(instruction.operand(1)), _dims(instruction.result)
    count = 1
    spatial = zip(labels.spatial(labels.lhs), labels.spatial(labels.rhs), labels.spatial(labels.output), strict=True)
    for (at_left, at_right, at_result), dimension in zip(spatial, window.dimensions, strict=False):
        count *= positions(left[at_left], right[at_right], result[at_result], dimension)
    features = left[labels.lhs.index("f")] // (instruction.attribute("feature_group_count") or 1)
    batch = left[labels.lhs.index("b")] // (instruction.attribute("batch_group_count") or 1)
    return features * batch * result[labels.output.index("f")] * count


MOST_POSITIONS = 1 << 20
"""The maximum number of positions of a window or of a result to enumerate."""


@lru_cache(maxsize=4096)
def positions(base: int, kernel: int, result: int, window: WindowDimension) -> int:
    """The number of pairs of a window position and a result position that hit an element of the base.

    In one dimension, position `k` of the window at position `o` of the result hits element (o * stride - padding_low +
    k * window_dilation) / base_dilation, if that is an index of the base.

    If both exceed MOST_POSITIONS, all pairs are counted.

    >>> positions(4, 3, 4, WindowDimension(3, padding_low=1, padding_high=1))
    10
    """
    reach = window.padding_low + (base - 1) * window.base_dilation
    first = max(0, -(((result - 1) * window.stride - window.padding_low) // window.window_dilation))
    last = min(kernel - 1, reach // window.window_dilation)
    if last - first < MOST_POSITIONS:
        offsets = (position * window.window_dilation for position in range(first, last + 1))
        return sum(_meetings(base, result, window, offset) for offset in offsets)
    if result < MOST_POSITIONS:
        swapped = replace(window, stride=window.window_dilation, window_dilation=window.stride)
        return sum(_meetings(base, kernel, swapped, position * window.stride) for position in range(result))
    return (last - first + 1) * result


def _meetings(base: int, result: int, window: WindowDimension, offset: int) -> int:
    stride, hole = window.stride, window.base_dilation
    start = offset - window.padding_low
    first = max(0, -(start // stride))
    last = min(result - 1, ((base - 1) * hole - start) // stride)
    if last < first:
        return 0
    common = math.gcd(stride, hole)
    if start % common:
        return 0
    period = hole // common
    residue = -start // common * pow(stride // common, -1, period) % period if period > 1 else 0
    first += (residue - first) % period
    return (last - first) // period + 1 if first <= last else 0


def _fft(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    logs = math.prod(size.bit_length() - 1 for size in instruction.attribute("fft_length") or ())
    return Cost(FMA * 4 * logs * elements(instruction.operand(0)), 0, instruction.accessed)


def _exact_fft(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    lengths = instruction.attribute("fft_length") or ()
    is_real = instruction.attribute("fft_type") in ("RFFT", "IRFFT")
    points = max(elements(instruction.operand(0)), instruction.elements)
    flops = sum(5 * points * math.ceil(math.log2(size)) for size in lengths if size > 1)
    return Cost(flops // 2 if is_real else flops, 0, instruction.accessed)


def _cholesky(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    order = (_dims(instruction.operand(0)) or (0,))[-1]
    return Cost(order * elements(instruction.operand(0)) // 3, 0, shape_bytes(instruction.operand(0)))


def _exact_cholesky(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    order = (_dims(instruction.operand(0)) or (0,))[-1]
    flops = order * elements(instruction.operand(0)) // 3 * (_fma(instruction) // FMA)
    batch = elements(instruction.operand(0)) // (order or 1) // (order or 1)
    triangle = batch * order * (order + 1) // 2 * _element_bytes(instruction.operand(0))
    return Cost(flops, batch * order, triangle + leaf_bytes(instruction.result))


def _triangular_solve(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    order = (_dims(instruction.operand(0)) or (0,))[-1]
    matrix, right = shape_bytes(instruction.operand(0)), shape_bytes(instruction.operand(1))
    accessed = leaf_bytes(instruction.result) + matrix // 2 + right
    return Cost(FMA * order * elements(instruction.operand(1)), 0, accessed)


def _exact_triangular_solve(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    order = (_dims(instruction.operand(0)) or (0,))[-1]
    solve = _triangular_solve(instruction, callee_cost)
    return Cost(_fma(instruction) // FMA * order * elements(instruction.operand(1)), 0, solve.bytes_accessed)


def _element_bytes(value_type: Type | None) -> int:
    return value_type.dtype.byte_count if isinstance(value_type, TensorType) else 0


rules("dot", _dot, _exact_dot, because="XLA counts a complex multiplication with its addition as two operations, not 8")
rules(
    "scaled-dot",
    _dot,
    _exact_scaled_dot,
    because="XLA leaves out the multiplications by the scales, one for each element of both operands",
)
rules(
    "ragged-dot",
    _ragged_dot,
    _exact_ragged_dot,
    because="XLA drops the result's first dimensions, one for each group dimension, whatever they are",
)
rules("convolution", _convolution, _exact_convolution, because="as for dot, with complex numbers")
rules(
    "fft",
    _fft,
    _exact_fft,
    because="XLA multiplies the logarithms of lengths, counts 8 operations instead of 5, and reals as complex numbers",
)
rules(
    "cholesky",
    _cholesky,
    _exact_cholesky,
    because="XLA counts complex numbers as real ones, no square roots, and half of the result's bytes",
)
rules(
    "triangular-solve",
    _triangular_solve,
    _exact_triangular_solve,
    because="XLA counts the whole matrix, half of which is zeros",
)

"""Rules on reduce-window and select-and-scatter: trivial windows, and padding moved into the window.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReduceWindow, HandleSlice).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hloom.ir import Apply, Graph, Node, PaddingDimension, TensorType, TypeProblem, Window, WindowDimension, dtype
from hloom.passes.rules.reducers import (
    combine,
    combiner_of,
    is_idempotent,
    is_identity,
    may_be_reduction_identity,
    same_constant,
)
from hloom.passes.rules.tuple_elements import elements_of
from hloom.rewrite import Builder, Family, register_condition, splat_of, tensor_type, used_once

REDUCE_WINDOW = Family("reduce-window", formerly="windowing")
REDUCE_WINDOW_INEXACT = Family("reduce-window-inexact", formerly="windowing-relaxed")

MIN_PADDED_FRACTION = 0.1
"""Of what is scanned, how much padding at least is worth taking into a window below a conversion; as in XLA."""


REDUCE_WINDOW.table("""
reduce-window-of-nothing [9]: reduce-window(x, s) -> spread(s, root) if x is empty;
    reduce-window(x, s) -> spread(s, root) if empty where same-element(x, root)
    # each window holds nothing, or there is none
""")


@REDUCE_WINDOW.rewrites("reduce-window", benefit=9, depth=1, because="takes any number of arrays")
def reduce_windows_of_nothing(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[0], f32[0], start, start) -> tuple(broadcast(start), broadcast(start)), of several arrays."""
    types = elements_of(node.type)
    first = tensor_type(node.operands[0])
    if types is None or first is None or len(node.operands) != 2 * len(types):
        return None
    results = [array_type for array_type in types if isinstance(array_type, TensorType) and array_type.is_static]
    if len(results) != len(types) or (first.element_count and all(result.element_count for result in results)):
        return None
    starts = node.operands[len(types) :]
    parts = [build.broadcast(start, result.with_layout(None)) for start, result in zip(starts, results, strict=True)]
    return build.op("tuple", *parts)


@REDUCE_WINDOW.rewrites(
    "reduce-window", benefit=4, depth=1, because="makes the op that the computation is of, and computes the padding"
)
def reduce_window_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(x, start), window={size=1x1} -> pad(add(x, broadcast(start)), start).

    Each window holds one element, which is combined with the start only; on the padding stands the start.
    """
    types, window = _types(node), _window(node)
    if types is None or any(_moves(dimension) for dimension in window.dimensions):
        return None
    opcode = _combiner(node, types[0])
    if not opcode:
        return build.decline("what the computation does is not known")
    padding = tuple(PaddingDimension(dimension.padding_low, dimension.padding_high) for dimension in window.dimensions)
    pads = any(amount != PaddingDimension(0, 0) for amount in padding)
    if pads and not _is_idle(opcode, node.operands[1]):
        return build.decline("on the padding, the start would be met twice")
    value = combine(build, opcode, node.operands[0], node.operands[1])
    return build.op("pad", value, node.operands[1], padding=padding) if pads else value


@REDUCE_WINDOW.rewrites("reduce-window", benefit=3, depth=1, because="computes which dimensions are reduced")
def reduce_window_of_whole(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[4,5], start), window={size=1x5} -> reshape(reduce(x, start), dimensions={1}).

    Where the window is one element or the whole dimension: the same elements in the same order.
    """
    types, window = _types(node), _window(node)
    if types is None or any(_is_uneven(dimension) for dimension in window.dimensions):
        return None
    reduced = tuple(dim for dim, dimension in enumerate(window.dimensions) if dimension.size != 1)
    if not reduced or any(types[1].dims[dim] != 1 for dim in reduced):
        return None
    if any(window.dimensions[dim].size != types[0].dims[dim] for dim in reduced):
        return build.decline("the window does not hold the whole dimension")
    total = build.op("reduce", *node.operands, dimensions=reduced, to_apply=node.attribute("to_apply"))
    return build.reshape(total, types[1].with_layout(None))


@REDUCE_WINDOW.rewrites("reduce-window", benefit=2, depth=3, because="computes the window")
def reduce_window_of_pad(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(x, start), start) -> reduce-window(x, start) with the padding in the window.

    Of what is in the window's own padding nothing is met, so the start must be one that is the same met twice: a
    constant that may be an identity, or anything for a maximum. Through a conversion too: of what is padded with, it
    must make the start.
    """
    types = _types(node)
    if types is None or not _may_be_met_twice(_combiner(node, types[0]), node.operands[1]):
        return build.decline("padding that is met changes the result")
    return _with_padding_in_window(build, node)


@REDUCE_WINDOW.rewrites("reduce-window", benefit=3, depth=3, because="computes which elements each window holds")
def reduce_window_of_lone_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(f32[1,3], start), start) -> broadcast(reshape(x)), where each window holds one element of x.

    Beside it there is only the start, which is an identity.
    """
    types = _types(node)
    if types is None or not is_identity(_combiner(node, types[0]), node.operands[1]):
        return None
    return _lone_elements(build, node, types)


@REDUCE_WINDOW.rewrites("reduce-window", benefit=3, depth=2, because="computes along which dimension is summed")
def integer_running_sum_of_splat(build: Builder, node: Apply) -> Node | None:
    """reduce-window(broadcast(7), 0), add, over all before -> multiply(broadcast(7), iota + 1), for integers."""
    types = _types(node)
    return running_sum_of_splat(build, node, types) if types is not None and types[1].dtype.is_integer else None


REDUCE_WINDOW.table("""
select-and-scatter-of-nothing [9]: select-and-scatter(x, y, s) -> spread(s, root) if y is empty;
    select-and-scatter(x, y, s) -> spread(s, root) if empty where static, y is static  # nothing is scattered
""")


@REDUCE_WINDOW.rewrites("select-and-scatter", benefit=2, depth=1, because="makes the op that the computation is of")
def select_and_scatter_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """select-and-scatter(x, y, start), window={size=1x1}, scatter=add -> add(y, broadcast(start))."""
    window, source, result = _window(node), tensor_type(node.operands[1]), tensor_type(node)
    if source is None or result is None or source.dtype is not result.dtype or source.dims != result.dims:
        return None
    if any(_moves(dimension) or dimension.padding_low or dimension.padding_high for dimension in window.dimensions):
        return None
    opcode = combiner_of(node.attribute("scatter"))
    return combine(build, opcode, node.operands[1], node.operands[2]) if opcode else None


@REDUCE_WINDOW_INEXACT.rewrites("reduce-window", benefit=2, depth=3, because="computes the window")
def reduce_window_of_any_pad(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(x, start), start) -> reduce-window(x, start), whatever the start: XLA takes it for neutral."""
    return _with_padding_in_window(build, node)


REDUCE_WINDOW_INEXACT.table("""
reduce-window-of-scalar [8]: reduce-window(x, s) -> x if x is scalar, same-element(x, root), neutral-start(s, root)
    # XLA takes the start for neutral
""")


@REDUCE_WINDOW_INEXACT.rewrites(
    "reduce-window", benefit=3, depth=3, because="computes which elements each window holds"
)
def reduce_window_of_any_lone_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(f32[1,3], start), start) -> broadcast(reshape(x)), the start taken for neutral."""
    types = _types(node)
    if types is None or not may_be_reduction_identity(_combiner(node, types[0]), node.operands[1]):
        return None
    return _lone_elements(build, node, types)


@REDUCE_WINDOW_INEXACT.rewrites("reduce-window", benefit=3, depth=2, because="computes along which dimension is summed")
def running_sum_of_same(build: Builder, node: Apply) -> Node | None:
    """reduce-window(broadcast(7), 0), add, over all before -> multiply(broadcast(7), iota + 1): rounded once."""
    types = _types(node)
    return running_sum_of_splat(build, node, types) if types is not None and types[1].dtype.is_float else None


@REDUCE_WINDOW_INEXACT.rewrites("slice", benefit=2, depth=2, because="computes which dimensions are reduced")
def last_of_running(build: Builder, node: Apply) -> Node | None:
    """slice(reduce-window(x, start)) -> reshape(reduce(x, start)), where the window has met all at the place taken

    slice(reduce-window(s32[2,8], start), window={size=1x8 pad=0_0x7_0}), slice={[0:2], [7:8]}
      ->
    reshape(reduce(s32[2,8], start), dimensions={1})
    """
    inner, result = node.operands[0], tensor_type(node)
    if inner.opcode != "reduce-window" or not used_once(inner) or not isinstance(inner, Apply) or result is None:
        return None
    types, window = _types(inner), _window(inner)
    if types is None or not may_be_reduction_identity(_combiner(inner, types[0]), inner.operands[1]):
        return None
    array_type, reduced = types[0], []
    for dim, (dimension, part) in enumerate(zip(window.dimensions, node.attributes["slice"], strict=True)):
        size = array_type.dims[dim]
        if replace(dimension, window_dilation=1) == WindowDimension():
            if (part.start, part.limit, part.stride) != (0, size, 1):
                return build.decline("not all is taken along a dimension that the window leaves alone")
        elif dimension != WindowDimension(size, padding_low=size - 1) or part.start != size - 1:
            return build.decline("another place than the last is taken, or the window does not hold all before it")
        else:
            reduced.append(dim)
    if not reduced:
        return None
    left = tuple(size for dim, size in enumerate(array_type.dims) if dim not in reduced)
    total = build.op(
        "reduce", *inner.operands, type=TensorType(array_type.dtype, left), dimensions=tuple(reduced),
        to_apply=inner.attributes["to_apply"],
    )  # fmt: skip
    return build.op("reshape", total, type=result.with_layout(None))


def running_sum_of_splat(build: Builder, node: Apply, types: tuple[TensorType, TensorType]) -> Node | None:
    """The number times how many there are so far, where a window adds up all before each place of one dimension."""
    array_type, result = types
    value = _splat_below(node.operands[0])
    zero = splat_of(node.operands[1])
    if value is None or zero is None or zero != 0 or _combiner(node, array_type) != "add":
        return None
    dimensions = _window(node).dimensions
    summed = [
        dim for dim, dimension in enumerate(dimensions) if replace(dimension, window_dilation=1) != WindowDimension()
    ]
    if len(summed) != 1:
        return build.decline("it does not add up along just one dimension")
    size = array_type.dims[summed[0]]
    if dimensions[summed[0]] != WindowDimension(size, padding_low=size - 1):
        return build.decline("the window does not hold all that came before")
    whole = result.with_layout(None)
    counting = whole.with_dtype(dtype("s64" if array_type.dtype.name == "s64" else "s32"))
    indices = build.op("iota", type=counting, iota_dimension=summed[0])
    count = build.convert(build.op("add", indices, build.constant(1, counting)), result.dtype)
    return build.op("multiply", build.broadcast(build.constant(np.asarray(value), array_type.dtype), whole), count)


def _splat_below(node: Node) -> Any:
    """The number that a node has in every element, seen through a conversion as well."""
    node_type = node.type
    if node.opcode != "convert" or not isinstance(node_type, TensorType):
        return splat_of(node)
    value = splat_of(node.operands[0])
    with np.errstate(all="ignore"):
        return None if value is None else value.astype(node_type.dtype.numpy)


def _types(node: Apply) -> tuple[TensorType, TensorType] | None:
    """The types of the one array and of the one result, where both are static and of one element type."""
    array_type, result = tensor_type(node.operands[0]), tensor_type(node)
    if len(node.operands) != 2 or array_type is None or result is None or array_type.dtype is not result.dtype:
        return None
    return array_type, result


def _window(node: Apply) -> Window:
    node_type, window = node.operands[0].type, node.attribute("window") or Window()
    if not isinstance(node_type, TensorType) or node_type.rank != len(window.dimensions):
        raise TypeProblem(f"the window {window} does not fit {node_type}")
    return window


def _combiner(node: Apply, array_type: TensorType) -> str:
    graph: Graph | None = node.attribute("to_apply")
    opcode = combiner_of(graph)
    scalar = graph.parameters[0].type if graph is not None and opcode else None
    return opcode if isinstance(scalar, TensorType) and scalar.dtype is array_type.dtype else ""


def _moves(dimension: WindowDimension) -> bool:
    """Whether a window is more than one element, or skips or turns some."""
    return replace(dimension, padding_low=0, padding_high=0) != WindowDimension()


def _is_uneven(dimension: WindowDimension) -> bool:
    """Whether there is a stride, a dilation, padding or a reversal."""
    return dimension != WindowDimension(dimension.size)


def _is_idle(opcode: str, start: Node) -> bool:
    """Whether a start combined with itself is itself."""
    return is_idempotent(opcode) or (splat_of(start) is not None and may_be_reduction_identity(opcode, start))


def _pad_below(operand: Node) -> tuple[Node | None, bool]:
    """The pad that an operand is, itself or converted."""
    converts = operand.opcode == "convert"
    pad = operand.operands[0] if converts else operand
    known = pad.opcode == "pad" and tensor_type(pad) is not None and tensor_type(pad.operands[0]) is not None
    return (pad if known else None), converts


def _may_be_met_twice(opcode: str, start: Node) -> bool:
    """Whether a starting value combined with itself is itself."""
    if is_idempotent(opcode):
        return True
    return bool(opcode) and splat_of(start) is not None and may_be_reduction_identity(opcode, start)


def _with_padding_in_window(build: Builder, node: Apply) -> Node | None:
    array_type, window = tensor_type(node.operands[0]), _window(node)
    pad, converts = _pad_below(node.operands[0])
    if len(node.operands) != 2 or array_type is None or pad is None or not _fills_with(pad, node, array_type):
        return None
    padding: tuple[PaddingDimension, ...] = pad.attributes["padding"]
    if converts and _is_slightly_padded(array_type, window, padding):
        return build.decline("little is padded: a scan is better kept plain")
    joined = [_joined(*dimension) for dimension in zip(window.dimensions, padding, strict=True)]
    dimensions = tuple(dimension for dimension in joined if dimension is not None)
    if len(dimensions) != len(joined):
        return build.decline("the padding does not fit the window's own")
    source = build.convert(pad.operands[0], array_type.dtype)
    return build.like(node, source, node.operands[1], window=Window(dimensions))


def _fills_with(pad: Node, node: Apply, array_type: TensorType) -> bool:
    """Whether the array that a window slides over is padded with the start, a conversion between them included."""
    filler, start = pad.operands[1], node.operands[1]
    if all(isinstance(value.type, TensorType) and value.type.dtype is array_type.dtype for value in (filler, start)):
        return same_constant(filler, start)
    splat, wanted = splat_of(filler), splat_of(start)
    if splat is None or wanted is None or not array_type.dtype.is_float:
        return False
    with np.errstate(all="ignore"):
        numbers = [np.float64(splat.astype(array_type.dtype.numpy)), np.float64(wanted)]
    return numbers[0] == numbers[1] and bool(np.signbit(numbers[0])) == bool(np.signbit(numbers[1]))


def _is_slightly_padded(array_type: TensorType, window: Window, padding: tuple[PaddingDimension, ...]) -> bool:
    scanned = [dim for dim, dimension in enumerate(window.dimensions) if dimension != WindowDimension()]
    if len(scanned) != 1:
        return False
    part = padding[scanned[0]]
    return part.low + part.high < MIN_PADDED_FRACTION * array_type.dims[scanned[0]]


def _joined(dimension: WindowDimension, pad: PaddingDimension) -> WindowDimension | None:
    """A window over what is padded, as one that pads itself; None where there is none."""
    if pad.interior and dimension.base_dilation != 1:
        return None
    if (pad.low < 0 < dimension.padding_low) or (pad.high < 0 < dimension.padding_high):
        return None
    return replace(
        dimension,
        padding_low=dimension.padding_low + dimension.base_dilation * pad.low,
        padding_high=dimension.padding_high + dimension.base_dilation * pad.high,
        base_dilation=1 + pad.interior if pad.interior else dimension.base_dilation,
    )


def _lone_elements(build: Builder, node: Apply, types: tuple[TensorType, TensorType]) -> Node | None:
    window = _window(node)
    pad, _ = _pad_below(node.operands[0])
    if pad is None or not _fills_with(pad, node, types[0]):
        return None
    source = tensor_type(pad.operands[0])
    assert source is not None, "a pad below a window has a static operand"
    if not source.element_count:
        return None
    for dimension, padding, size in zip(window.dimensions, pad.attributes["padding"], source.dims, strict=True):
        if not _sees_one(dimension, padding, size):
            return build.decline("a window may hold several elements, or none")
    converted = build.convert(pad.operands[0], types[0].dtype)
    return broadcast_degenerate(build, converted, types[1])


def _sees_one(dimension: WindowDimension, padding: PaddingDimension, size: int) -> bool:
    """Whether along a dimension each window holds just one element of what is padded, each but once if several."""
    if dimension.stride != 1 or dimension.base_dilation != 1 or dimension.window_dilation != 1:
        return False
    if padding.low != padding.high or padding.interior or padding.low < 0:
        return False
    if dimension.padding_low or dimension.padding_high:
        return False
    if size != 1:
        return dimension.size == 1 and not padding.low
    return dimension.size >= padding.low + 1


def broadcast_degenerate(build: Builder, operand: Node, result: TensorType) -> Node:
    """An array of the same rank, repeated along its dimensions of size 1."""
    node_type = operand.type
    assert isinstance(node_type, TensorType)
    kept = tuple(dim for dim, size in enumerate(node_type.dims) if size == result.dims[dim])
    if len(kept) == node_type.rank:
        return operand
    squeezed = build.reshape(operand, TensorType(node_type.dtype, [node_type.dims[dim] for dim in kept]))
    return build.op("broadcast", squeezed, type=result.with_layout(None), dimensions=kept)


def _is_neutral_start(start: Node, node: Apply) -> bool:
    """Whether a window may begin with a value as if that changed nothing."""
    types = _types(node)
    return types is not None and may_be_reduction_identity(_combiner(node, types[0]), start)


register_condition("neutral-start", _is_neutral_start)

"""Reductions over windows: those that see one element or a whole dimension, and pads that the window can do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hloom.ir import Apply, Graph, Node, PaddingDimension, TensorType, TypeProblem, Window, WindowDimension, dtype
from hloom.passes.rules.combining import (
    combine,
    combiner_of,
    is_idempotent,
    is_identity,
    may_be_identity,
    same_constant,
)
from hloom.passes.rules.elements import elements_of
from hloom.rewrite import Builder, Family, splat_of, tensor_type, used_once

WINDOWING = Family("windowing")
WINDOWING_RELAXED = Family("windowing-relaxed")

LEAST_PADDED = 0.1
"""Of what is scanned, how much padding at least is worth taking into a window below a conversion; as in XLA."""


@WINDOWING.rewrites("reduce-window", benefit=9, depth=1)
def reduce_window_of_nothing(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[0], start) -> broadcast(start): each window holds nothing, or there is none."""
    kinds = _kinds(node)
    if kinds is None or (kinds[0].element_count and kinds[1].element_count):
        return None
    return build.broadcast(node.inputs[1], kinds[1].with_layout(None)) if kinds[1].rank else node.inputs[1]


@WINDOWING.rewrites("reduce-window", benefit=9, depth=1)
def reduce_windows_of_nothing(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[0], f32[0], start, start) -> tuple(broadcast(start), broadcast(start)), of several arrays."""
    kinds = elements_of(node.type)
    first = tensor_type(node.inputs[0])
    if kinds is None or first is None or len(node.inputs) != 2 * len(kinds):
        return None
    results = [kind for kind in kinds if isinstance(kind, TensorType) and kind.is_static]
    if len(results) != len(kinds) or (first.element_count and all(each.element_count for each in results)):
        return None
    starts = node.inputs[len(kinds) :]
    parts = [build.broadcast(start, each.with_layout(None)) for start, each in zip(starts, results, strict=True)]
    return build.op("tuple", *parts)


@WINDOWING.rewrites("reduce-window", benefit=4, depth=1)
def reduce_window_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(x, start), window={size=1x1} -> pad(add(x, broadcast(start)), start).

    Each window holds one element, which is combined with the start only; on the padding stands the start.
    """
    kinds, window = _kinds(node), _window(node)
    if kinds is None or any(_moves(each) for each in window.dimensions):
        return None
    opcode = _combiner(node, kinds[0])
    if not opcode:
        return build.decline("what the computation does is not known")
    padding = tuple(PaddingDimension(each.padding_low, each.padding_high) for each in window.dimensions)
    pads = any(each != PaddingDimension(0, 0) for each in padding)
    if pads and not _is_idle(opcode, node.inputs[1]):
        return build.decline("on the padding, the start would be met twice")
    value = combine(build, opcode, node.inputs[0], node.inputs[1])
    return build.op("pad", value, node.inputs[1], padding=padding) if pads else value


@WINDOWING.rewrites("reduce-window", benefit=3, depth=1)
def reduce_window_of_whole(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[4,5], start), window={size=1x5} -> reshape(reduce(x, start), dimensions={1}).

    Where the window is one element or the whole dimension: the same elements in the same order.
    """
    kinds, window = _kinds(node), _window(node)
    if kinds is None or any(_is_uneven(each) for each in window.dimensions):
        return None
    reduced = tuple(place for place, each in enumerate(window.dimensions) if each.size != 1)
    if not reduced or any(kinds[1].dims[place] != 1 for place in reduced):
        return None
    if any(window.dimensions[place].size != kinds[0].dims[place] for place in reduced):
        return build.decline("the window does not hold the whole dimension")
    total = build.op("reduce", *node.inputs, dimensions=reduced, to_apply=node.attribute("to_apply"))
    return build.reshape(total, kinds[1].with_layout(None))


@WINDOWING.rewrites("reduce-window", benefit=2, depth=3)
def reduce_window_of_pad(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(x, start), start) -> reduce-window(x, start) with the padding in the window.

    Of what is in the window's own padding nothing is met, so the start must be one that is the same met twice: a
    constant that may be an identity, or anything for a maximum. Through a conversion too: of what is padded with, it
    must make the start.
    """
    kinds = _kinds(node)
    if kinds is None or not _may_be_met_twice(_combiner(node, kinds[0]), node.inputs[1]):
        return build.decline("padding that is met changes the result")
    return _with_padding_in_window(build, node)


@WINDOWING.rewrites("reduce-window", benefit=3, depth=3)
def reduce_window_of_lone_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(f32[1,3], start), start) -> broadcast(reshape(x)), where each window holds one element of x.

    Beside it there is only the start, which is an identity.
    """
    kinds = _kinds(node)
    if kinds is None or not is_identity(_combiner(node, kinds[0]), node.inputs[1]):
        return None
    return _lone_elements(build, node, kinds)


@WINDOWING.rewrites("reduce-window", benefit=3, depth=2)
def integer_running_sum_of_splat(build: Builder, node: Apply) -> Node | None:
    """reduce-window(broadcast(7), 0), add, over all before -> multiply(broadcast(7), iota + 1), for integers."""
    kinds = _kinds(node)
    return running_sum_of_splat(build, node, kinds) if kinds is not None and kinds[1].dtype.is_integer else None


@WINDOWING.rewrites("select-and-scatter", benefit=9, depth=1)
def select_and_scatter_of_nothing(build: Builder, node: Apply) -> Node | None:
    """select-and-scatter(x, f32[0], start) -> broadcast(start): nothing is scattered."""
    source, result = tensor_type(node.inputs[1]), tensor_type(node)
    if source is None or result is None or (source.element_count and result.element_count):
        return None
    return build.broadcast(node.inputs[2], result.with_layout(None)) if result.rank else node.inputs[2]


@WINDOWING.rewrites("select-and-scatter", benefit=2, depth=1)
def select_and_scatter_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """select-and-scatter(x, y, start), window={size=1x1}, scatter=add -> add(y, broadcast(start))."""
    window, source, result = _window(node), tensor_type(node.inputs[1]), tensor_type(node)
    if source is None or result is None or source.dtype is not result.dtype or source.dims != result.dims:
        return None
    if any(_moves(each) or each.padding_low or each.padding_high for each in window.dimensions):
        return None
    opcode = combiner_of(node.attribute("scatter"))
    return combine(build, opcode, node.inputs[1], node.inputs[2]) if opcode else None


@WINDOWING_RELAXED.rewrites("reduce-window", benefit=2, depth=3)
def reduce_window_of_any_pad(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(x, start), start) -> reduce-window(x, start), whatever the start: XLA takes it for neutral."""
    return _with_padding_in_window(build, node)


@WINDOWING_RELAXED.rewrites("reduce-window", benefit=8, depth=1)
def reduce_window_of_scalar(build: Builder, node: Apply) -> Node | None:
    """reduce-window(f32[], start) -> x: XLA takes the start for neutral."""
    kinds = _kinds(node)
    if kinds is None or kinds[0].rank or not may_be_identity(_combiner(node, kinds[0]), node.inputs[1]):
        return None
    return node.inputs[0]


@WINDOWING_RELAXED.rewrites("reduce-window", benefit=3, depth=3)
def reduce_window_of_any_lone_elements(build: Builder, node: Apply) -> Node | None:
    """reduce-window(pad(f32[1,3], start), start) -> broadcast(reshape(x)), the start taken for neutral."""
    kinds = _kinds(node)
    if kinds is None or not may_be_identity(_combiner(node, kinds[0]), node.inputs[1]):
        return None
    return _lone_elements(build, node, kinds)


@WINDOWING_RELAXED.rewrites("reduce-window", benefit=3, depth=2)
def running_sum_of_same(build: Builder, node: Apply) -> Node | None:
    """reduce-window(broadcast(7), 0), add, over all before -> multiply(broadcast(7), iota + 1): rounded once."""
    kinds = _kinds(node)
    return running_sum_of_splat(build, node, kinds) if kinds is not None and kinds[1].dtype.is_float else None


@WINDOWING_RELAXED.rewrites("slice", benefit=2, depth=2)
def last_of_running(build: Builder, node: Apply) -> Node | None:
    """slice(reduce-window(x, start)) -> reshape(reduce(x, start)), where the window has met all at the place taken

        slice(reduce-window(s32[2,8], start), window={size=1x8 pad=0_0x7_0}), slice={[0:2], [7:8]}
          ->
        reshape(reduce(s32[2,8], start), dimensions={1})
    """
    inner, result = node.inputs[0], tensor_type(node)
    if inner.opcode != "reduce-window" or not used_once(inner) or not isinstance(inner, Apply) or result is None:
        return None
    kinds, window = _kinds(inner), _window(inner)
    if kinds is None or not may_be_identity(_combiner(inner, kinds[0]), inner.inputs[1]):
        return None
    kind, reduced = kinds[0], []
    for place, (each, part) in enumerate(zip(window.dimensions, node.attributes["slice"], strict=True)):
        size = kind.dims[place]
        if replace(each, window_dilation=1) == WindowDimension():
            if (part.start, part.limit, part.stride) != (0, size, 1):
                return build.decline("not all is taken along a dimension that the window leaves alone")
        elif each != WindowDimension(size, padding_low=size - 1) or part.start != size - 1:
            return build.decline("another place than the last is taken, or the window does not hold all before it")
        else:
            reduced.append(place)
    if not reduced:
        return None
    left = tuple(size for place, size in enumerate(kind.dims) if place not in reduced)
    total = build.op(
        "reduce", *inner.inputs, type=TensorType(kind.dtype, left), dimensions=tuple(reduced),
        to_apply=inner.attributes["to_apply"],
    )  # fmt: skip
    return build.op("reshape", total, type=result.with_layout(None))


def running_sum_of_splat(build: Builder, node: Apply, kinds: tuple[TensorType, TensorType]) -> Node | None:
    """The number times how many there are so far, where a window adds up all before each place of one dimension."""
    kind, result = kinds
    value = _splat_below(node.inputs[0])
    zero = splat_of(node.inputs[1])
    if value is None or zero is None or zero != 0 or _combiner(node, kind) != "add":
        return None
    dimensions = _window(node).dimensions
    summed = [place for place, each in enumerate(dimensions) if replace(each, window_dilation=1) != WindowDimension()]
    if len(summed) != 1:
        return build.decline("it does not add up along just one dimension")
    size = kind.dims[summed[0]]
    if dimensions[summed[0]] != WindowDimension(size, padding_low=size - 1):
        return build.decline("the window does not hold all that came before")
    whole = result.with_layout(None)
    counting = whole.with_dtype(dtype("s64" if kind.dtype.name == "s64" else "s32"))
    places = build.op("iota", type=counting, iota_dimension=summed[0])
    count = build.convert(build.op("add", places, build.constant(1, counting)), result.dtype)
    return build.op("multiply", build.broadcast(build.constant(np.asarray(value), kind.dtype), whole), count)


def _splat_below(node: Node) -> Any:
    """The number that a node has in every place, seen through a conversion as well."""
    kind = node.type
    if node.opcode != "convert" or not isinstance(kind, TensorType):
        return splat_of(node)
    value = splat_of(node.inputs[0])
    with np.errstate(all="ignore"):
        return None if value is None else value.astype(kind.dtype.numpy)


def _kinds(node: Apply) -> tuple[TensorType, TensorType] | None:
    """The types of the one array and of the one result, where both are static and of one element type."""
    kind, result = tensor_type(node.inputs[0]), tensor_type(node)
    if len(node.inputs) != 2 or kind is None or result is None or kind.dtype is not result.dtype:
        return None
    return kind, result


def _window(node: Apply) -> Window:
    kind, window = node.inputs[0].type, node.attribute("window") or Window()
    if not isinstance(kind, TensorType) or kind.rank != len(window.dimensions):
        raise TypeProblem(f"the window {window} does not fit {kind}")
    return window


def _combiner(node: Apply, kind: TensorType) -> str:
    graph: Graph | None = node.attribute("to_apply")
    opcode = combiner_of(graph)
    scalar = graph.parameters[0].type if graph is not None and opcode else None
    return opcode if isinstance(scalar, TensorType) and scalar.dtype is kind.dtype else ""


def _moves(dimension: WindowDimension) -> bool:
    """Whether a window is more than one element, or skips or turns some."""
    return replace(dimension, padding_low=0, padding_high=0) != WindowDimension()


def _is_uneven(dimension: WindowDimension) -> bool:
    """Whether there is a stride, a dilation, padding or a reversal."""
    return dimension != WindowDimension(dimension.size)


def _is_idle(opcode: str, start: Node) -> bool:
    """Whether a start combined with itself is itself."""
    return is_idempotent(opcode) or (splat_of(start) is not None and may_be_identity(opcode, start))


def _pad_below(operand: Node) -> tuple[Node | None, bool]:
    """The pad that an operand is, itself or converted."""
    converts = operand.opcode == "convert"
    pad = operand.inputs[0] if converts else operand
    known = pad.opcode == "pad" and tensor_type(pad) is not None and tensor_type(pad.inputs[0]) is not None
    return (pad if known else None), converts


def _may_be_met_twice(opcode: str, start: Node) -> bool:
    """Whether a starting value combined with itself is itself."""
    if is_idempotent(opcode):
        return True
    return bool(opcode) and splat_of(start) is not None and may_be_identity(opcode, start)


def _with_padding_in_window(build: Builder, node: Apply) -> Node | None:
    kind, window = tensor_type(node.inputs[0]), _window(node)
    pad, converts = _pad_below(node.inputs[0])
    if len(node.inputs) != 2 or kind is None or pad is None or not _fills_with(pad, node, kind):
        return None
    padding: tuple[PaddingDimension, ...] = pad.attributes["padding"]
    if converts and _is_slightly_padded(kind, window, padding):
        return build.decline("little is padded: a scan is better kept plain")
    joined = [_joined(*each) for each in zip(window.dimensions, padding, strict=True)]
    dimensions = tuple(each for each in joined if each is not None)
    if len(dimensions) != len(joined):
        return build.decline("the padding does not fit the window's own")
    source = build.convert(pad.inputs[0], kind.dtype)
    return build.like(node, source, node.inputs[1], window=Window(dimensions))


def _fills_with(pad: Node, node: Apply, kind: TensorType) -> bool:
    """Whether the array that a window slides over is padded with the start, a conversion between them included."""
    filler, start = pad.inputs[1], node.inputs[1]
    if all(isinstance(each.type, TensorType) and each.type.dtype is kind.dtype for each in (filler, start)):
        return same_constant(filler, start)
    found, wanted = splat_of(filler), splat_of(start)
    if found is None or wanted is None or not kind.dtype.is_float:
        return False
    with np.errstate(all="ignore"):
        numbers = [np.float64(found.astype(kind.dtype.numpy)), np.float64(wanted)]
    return numbers[0] == numbers[1] and bool(np.signbit(numbers[0])) == bool(np.signbit(numbers[1]))


def _is_slightly_padded(kind: TensorType, window: Window, padding: tuple[PaddingDimension, ...]) -> bool:
    scanned = [place for place, each in enumerate(window.dimensions) if each != WindowDimension()]
    if len(scanned) != 1:
        return False
    part = padding[scanned[0]]
    return part.low + part.high < LEAST_PADDED * kind.dims[scanned[0]]


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


def _lone_elements(build: Builder, node: Apply, kinds: tuple[TensorType, TensorType]) -> Node | None:
    window = _window(node)
    pad, _ = _pad_below(node.inputs[0])
    if pad is None or not _fills_with(pad, node, kinds[0]):
        return None
    source = tensor_type(pad.inputs[0])
    assert source is not None, "a pad below a window has a static operand"
    if not source.element_count:
        return None
    for dimension, padding, size in zip(window.dimensions, pad.attributes["padding"], source.dims, strict=True):
        if not _sees_one(dimension, padding, size):
            return build.decline("a window may hold several elements, or none")
    converted = build.convert(pad.inputs[0], kinds[0].dtype)
    return stretched(build, converted, kinds[1])


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


def stretched(build: Builder, operand: Node, result: TensorType) -> Node:
    """An array of the same rank, repeated along its dimensions of size 1."""
    kind = operand.type
    assert isinstance(kind, TensorType)
    kept = tuple(place for place, size in enumerate(kind.dims) if size == result.dims[place])
    if len(kept) == kind.rank:
        return operand
    squeezed = build.reshape(operand, TensorType(kind.dtype, [kind.dims[place] for place in kept]))
    return build.op("broadcast", squeezed, type=result.with_layout(None), dimensions=kept)

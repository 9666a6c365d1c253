"""Windows: sums are linear, extremes select an element as XLA's select-and-scatter does, others are unrolled.

Source of the transposition's padding: jax/_src/lax/convolution.py, _conv_general_vjp_lhs_padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import PREDICATE, S32, Emitter, array_type, identity_value
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.recognition import splat
from hloom.autodiff.rules import cumulative
from hloom.autodiff.rules.combiners import expanded, on_arrays
from hloom.autodiff.rules.reduction import DIRECT, begins_at_identity, reduce_opcode
from hloom.autodiff.table import rules, transposition
from hloom.ir import (
    Apply,
    Graph,
    Node,
    PaddingDimension,
    SliceDimension,
    TensorType,
    TupleType,
    Window,
    WindowDimension,
)
from hloom.text import Unsupported

MOST_UNROLLED = 4096
"""The maximum number of elements of a window to unroll."""


def _window(value: Apply | Linear) -> Window:
    """A node's window; scalars may be given none."""
    return value.attributes.get("window") or Window()


def unrolled(session: Any, node: Apply) -> Graph | None:
    """A reduction of windows by any combiner: for each element of the window a strided slice, combined in order."""
    if reduce_opcode(node) in DIRECT:
        return None
    if selected_direction(node):
        return None
    tree = cumulative.as_tree(session, node)
    if tree is not None:
        return tree
    window = _window(node)
    combine: Graph = node.attributes["to_apply"]
    is_one = reduce_opcode(node) == "multiply" and splat(node.operands[1]) == 1
    taps = int(np.prod([dimension.size for dimension in window.dimensions], dtype=np.int64))
    if taps > MOST_UNROLLED:
        raise Unsupported(f"{node.graph.name}: {node.name}: a window of {taps} elements and a combiner of its own")

    def make(emitter: Emitter, operands: list[Node]) -> Node | list[Node]:
        count = len(operands) // 2
        starts = operands[count:]
        sources = [
            emitter.convert(operand, array_type(start).dtype)
            for operand, start in zip(operands[:count], starts, strict=True)
        ]
        padded = [
            emitter.op("pad", source, start, padding=_padding(window))
            for source, start in zip(sources, starts, strict=True)
        ]
        result = node.type.elements[0] if isinstance(node.type, TupleType) else node.type
        assert isinstance(result, TensorType), "windows are of arrays"
        total = [emitter.broadcast(start, result.dims) for start in starts]
        sizes = array_type(sources[0]).dims
        for tap in product(*[range(dimension.size) for dimension in window.dimensions]):
            taken = [_tap(emitter, value, window, tap, result.dims) for value in padded]
            combined = on_arrays(emitter, combine, [*total, *taken])
            inside = None if is_one else _inside(emitter, window, tap, sizes, result.dims)
            if inside is not None:
                combined = [emitter.select(inside, a, b) for a, b in zip(combined, total, strict=True)]
            total = combined
        return total if isinstance(node.type, TupleType) else total[0]

    return expanded(session, node, make)


def _padding(window: Window) -> tuple[PaddingDimension, ...]:
    return tuple(PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1) for d in window.dimensions)


def _inside(
    emitter: Emitter, window: Window, position: Sequence[int], sizes: Sequence[int], dims: Sequence[int]
) -> Node | None:
    """In which windows a place has an element of the operand, and no padding; None where it has one in all."""
    result: Node | None = None
    for dim, (part, offset) in enumerate(zip(window.dimensions, position, strict=True)):
        offset = part.size - 1 - offset if part.reversal else offset
        at = np.arange(dims[dim]) * part.stride + offset * part.window_dilation - part.padding_low
        holds = (at >= 0) & (at <= (sizes[dim] - 1) * part.base_dilation) & (at % part.base_dilation == 0)
        if holds.all():
            continue
        row = emitter.broadcast(emitter.constant(holds, TensorType(PREDICATE, holds.shape)), dims, [dim])
        result = row if result is None else emitter.op("and", result, row)
    return result


def _tap(emitter: Emitter, padded: Node, window: Window, position: Sequence[int], dims: Sequence[int]) -> Node:
    """The element at a place of every window."""
    parts = []
    for dimension, offset, size in zip(window.dimensions, position, dims, strict=True):
        offset = dimension.size - 1 - offset if dimension.reversal else offset
        start = offset * dimension.window_dilation
        parts.append(SliceDimension(start, start + (size - 1) * dimension.stride + 1, dimension.stride))
    return emitter.op("slice", padded, slice=tuple(parts))


def selected_direction(node: Apply) -> str:
    """How a reduce-window of several arrays compares elements of the first to take those of all where it selects one.

    Empty for other combiners, and where the first begins at another number than the infinity. Such a window is what the
    derivative of a maximum over windows has.
    """
    combine: Graph = node.attributes["to_apply"]
    count = len(node.operands) // 2
    root, parameters = combine.root, combine.parameters
    if count < 2 or root.opcode != "tuple" or splat(node.operands[count]) is None:
        return ""
    first = root.operands[0]
    if first.opcode != "select" or any(splat(start) is None for start in node.operands[count:]):
        return ""
    chosen = first.operands[0]
    taken = [(chosen, parameters[n], parameters[count + n]) for n in range(count)]
    if chosen.opcode != "compare" or chosen.operands != (parameters[0], parameters[count]):
        return ""
    if any(value.opcode != "select" or value.operands != own for value, own in zip(root.operands, taken, strict=True)):
        return ""
    direction = chosen.attributes["direction"]  # pyright: ignore[reportAttributeAccessIssue]
    if direction not in ("GE", "LE"):
        return ""
    least = identity_value("maximum" if direction == "GE" else "minimum", array_type(node.operands[0]).dtype)
    return direction if splat(node.operands[count]) == least else ""


def _selected_together(t: LinearOps, node: Apply, tangents: list[Any]) -> list[Any]:
    assert isinstance(node.type, TupleType), "several arrays are reduced"
    attributes = {"window": _window(node), "direction": selected_direction(node)}
    return [
        None
        if tangent is None
        else t.op(SELECTED, node.operands[0], tangent, type=array.with_layout(None), **attributes)
        for tangent, array in zip(tangents, node.type.elements, strict=False)
        if isinstance(array, TensorType)
    ]


@rules("reduce-window", expand=unrolled)
def reduce_window(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    if isinstance(node.type, TupleType):
        return _selected_together(t, node, tangents)
    window, value_type = _window(node), array_type(node)
    opcode = reduce_opcode(node)
    tangent, started = tangents
    if opcode == "add":
        total = None
        if tangent is not None:
            tangent = t.convert(tangent, value_type.dtype)
            reducer = t.primal.reducer("add", value_type.dtype)
            zero = t.primal.constant(0, value_type.dtype)
            total = t.op("reduce-window", tangent, zero, window=window, to_apply=reducer)
        return t.add(total, t.broadcast(started, value_type.dims))
    p, start = t.primal, node.operands[1]
    direction = "GE" if opcode == "maximum" else "LE"
    result = None
    if tangent is not None and cumulative.cumulative_dim(node) is not None:
        result = cumulative.extreme_tangent(t, node, tangent, opcode)
    elif tangent is not None:
        source = array_type(node.operands[0])
        made = TensorType(source.dtype, value_type.dims)
        result = t.op(SELECTED, node.operands[0], tangent, type=made, window=window, direction=direction)
    if started is None and begins_at_identity(node):
        return result
    equals = p.compare("EQ", node, p.broadcast(start, value_type.dims))
    return t.select(equals, t.broadcast(started, value_type.dims), result)


SELECTED = "select-and-gather"
"""The linear op that takes, in each window, the tangent of the selected element of a primal array."""


def select_and_gather(
    emitter: Emitter,
    operand: Node,
    tangent: Node,
    *,
    window: Window,
    direction: str,
    type: Any = None,
    outside: int = 0,
) -> Node:
    """The element of an array where a window of another selects: one reduce-window of both.

    `outside` is what a window has in which nothing is selected.
    """
    element, own = array_type(operand).dtype, array_type(tangent).dtype
    module = emitter.graph.module
    name = f"autodiff.selected.{direction}.{element}.{own}"
    if name in module:
        combine = module[name]
    else:
        combine = module.add_graph(name)
        inner = Emitter(combine)
        kinds = (TensorType(element), TensorType(own))
        a, x, b, y = (
            combine.add_parameter(value_type, label) for value_type, label in zip(kinds * 2, "axby", strict=True)
        )
        first = inner.compare(direction, a, b)
        combine.set_output(inner.tuple([inner.select(first, a, b), inner.select(first, x, y)]))
    least = identity_value("maximum" if direction in ("GE", "GT") else "minimum", element)
    starts = emitter.constant(least, element), emitter.constant(outside, own)
    both = emitter.op("reduce-window", operand, tangent, *starts, window=window, to_apply=combine)
    return emitter.element(both, 1)


FORWARD_FORMS[SELECTED] = select_and_gather


@transposition(SELECTED)
def transpose_select_and_gather(b: Backward, value: Linear, cotangent: Node) -> None:
    operand, tangent = value.operands
    direction, window = value.attributes["direction"], value.attributes["window"]
    element = array_type(cotangent).dtype
    select = _selector(b, direction, array_type(operand).dtype)
    scatter = b.reducer("add", element)
    if any(dimension.window_dilation != 1 for dimension in window.dimensions):
        b.give(tangent, _scattered(b, operand, cotangent, window, direction, array_type(tangent).dims))
        return
    padded, cropped = _selectable(b, operand, window, direction)
    zero = b.constant(0, element)
    made = b.op("select-and-scatter", padded, cotangent, zero, window=cropped, select=select, scatter=scatter)
    if padded is not operand and array_type(made).dims != array_type(tangent).dims:
        parts = tuple(
            SliceDimension(low, low + (size - 1) * d.base_dilation + 1, d.base_dilation)
            for d, size in zip(window.dimensions, array_type(tangent).dims, strict=True)
            for low in [max(d.padding_low, 0)]
        )
        made = b.op("slice", made, slice=parts)
    b.give(tangent, made)


def _scattered(
    b: Backward, operand: Node, cotangent: Node, window: Window, direction: str, dims: Sequence[int]
) -> Node:
    """The cotangents added where each window selects: for windows with gaps, which select-and-scatter does not take."""
    element = array_type(cotangent).dtype
    count = int(np.prod(dims, dtype=np.int64))
    numbers = b.reshape(b.iota(S32, [count], 0), dims)
    chosen = select_and_gather(b, operand, numbers, window=window, direction=direction, outside=count)
    total = int(np.prod(array_type(cotangent).dims, dtype=np.int64))
    made = b.op(
        "scatter",
        b.zeros(TensorType(element, [count])),
        b.reshape(chosen, [total, 1]),
        b.reshape(cotangent, [total]),
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=b.reducer("add", element),
    )
    return b.reshape(made, dims)


def _selectable(b: Backward, operand: Node, window: Window, direction: str) -> tuple[Node, Window]:
    """The operand and window that select-and-scatter takes: dilations are written out as padding with the least."""
    if all(d.base_dilation == 1 and d.window_dilation == 1 for d in window.dimensions):
        return operand, window
    element = array_type(operand).dtype
    least = b.constant(identity_value("maximum" if direction == "GE" else "minimum", element), element)
    padding = tuple(
        PaddingDimension(max(d.padding_low, 0), max(d.padding_high, 0), d.base_dilation - 1) for d in window.dimensions
    )
    plain = Window(tuple(WindowDimension(d.size, d.stride) for d in window.dimensions))
    return b.op("pad", operand, least, padding=padding), plain


def _selector(emitter: Emitter, direction: str, element: Any) -> Graph:
    module = emitter.graph.module
    name = f"autodiff.{direction}.{element}"
    if name in module:
        return module[name]
    graph = module.add_graph(name)
    scalar = TensorType(element)
    left, right = graph.add_parameter(scalar, "lhs"), graph.add_parameter(scalar, "rhs")
    graph.set_output(Emitter(graph).compare(direction, left, right))
    return graph


@transposition("reduce-window")
def transpose_reduce_window(b: Backward, value: Linear, cotangent: Node) -> None:
    """The sum over the windows of the result in which an element stood."""
    operand = value.operands[0]
    window = _window(value)
    element = array_type(cotangent).dtype
    paddings, dimensions = [], []
    sizes = zip(window.dimensions, array_type(operand).dims, array_type(cotangent).dims, strict=True)
    for dimension, size, made in sizes:
        low, high = transposed_padding(dimension, size, made)
        paddings.append(PaddingDimension(low, high, dimension.stride - 1))
        dimensions.append(
            WindowDimension(dimension.size, dimension.base_dilation, window_dilation=dimension.window_dilation)
        )
    zero = b.constant(0, element)
    padded = b.op("pad", cotangent, zero, padding=tuple(paddings))
    reducer = b.reducer("add", element)
    b.give(operand, b.op("reduce-window", padded, zero, window=Window(tuple(dimensions)), to_apply=reducer))


def dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def transposed_padding(dimension: WindowDimension, size: int, made: int) -> tuple[int, int]:
    """How the cotangent is padded, once its elements stand a stride apart."""
    window = dilated(dimension.size, dimension.window_dilation)
    low = window - dimension.padding_low - 1
    high = dilated(size, dimension.base_dilation) + window - 1 - dilated(made, dimension.stride) - low
    return low, high


# Select and scatter


def select_direction(graph: Graph) -> str:
    """The direction of a comparison of the first parameter with the second; empty for other computations."""
    root = graph.root
    if root.opcode != "compare" or len(graph.parameters) != 2:
        return ""
    if root.operands == tuple(graph.parameters):
        return root.attributes["direction"]
    turned = {"GE": "LE", "LE": "GE", "GT": "LT", "LT": "GT"}
    return turned.get(root.attributes["direction"], "") if root.operands == tuple(graph.parameters[::-1]) else ""


def as_scatter(session: Any, node: Apply) -> Graph | None:
    """A select-and-scatter by any combiner: where each window selects, then a scatter to those places."""
    from_select = select_direction(node.attributes["select"])
    if from_select not in ("GE", "GT", "LE", "LT"):
        raise Unsupported(f"{node.graph.name}: {node.name}: a select computation that is not one comparison")
    scatter: Graph = node.attributes["scatter"]
    if _adds(scatter):
        return None

    def make(emitter: Emitter, operands: list[Node]) -> Node:
        operand, source, start = operands
        dims = array_type(operand).dims
        count = int(np.prod(dims, dtype=np.int64))
        places = emitter.reshape(emitter.iota(S32, [count], 0), dims)
        window = _window(node)
        chosen = select_and_gather(emitter, operand, places, window=window, direction=from_select)
        flat = emitter.broadcast(start, [count])
        updates = emitter.reshape(source, [int(np.prod(array_type(source).dims, dtype=np.int64))])
        indices = emitter.reshape(chosen, [array_type(updates).dims[0], 1])
        made = emitter.op(
            "scatter",
            flat,
            indices,
            updates,
            update_window_dims=(),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            to_apply=scatter,
        )
        return emitter.reshape(made, dims)

    return expanded(session, node, make)


def _adds(graph: Graph) -> bool:
    root = graph.root
    return root.opcode == "add" and set(root.operands) == set(graph.parameters)


@rules("select-and-scatter", expand=as_scatter)
def select_and_scatter(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    operand = node.operands[0]
    _, source, started = tangents
    total = None
    if source is not None:
        zero = t.primal.constant(0, array_type(node).dtype)
        total = t.op("select-and-scatter", operand, source, zero, **node.attributes)
    return t.add(total, t.broadcast(started, array_type(node).dims))


@transposition("select-and-scatter")
def transpose_select_and_scatter(b: Backward, value: Linear, cotangent: Node) -> None:
    operand, source, _ = value.operands
    direction = select_direction(value.attributes["select"])
    window = _window(value)
    b.give(source, select_and_gather(b, operand, cotangent, window=window, direction=direction))

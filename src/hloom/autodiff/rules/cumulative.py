"""Cumulative reductions: windows that end, or begin, at each element of a dimension and reach over all of it.

They are combined in a tree of strided slices, in about twice as many steps as there are elements, where a window for
each element takes the square. Source of the scheme: Blelloch, Prefix sums and their applications (1990).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import LinearOps
from hloom.autodiff.recognition import recognize, splat
from hloom.autodiff.rules.combiners import expanded, on_arrays
from hloom.autodiff.rules.functions import logaddexp
from hloom.autodiff.rules.reduction import reduce_opcode
from hloom.ir import Apply, Graph, Node, SliceDimension, Window

Combine = Callable[[list[Any], list[Any]], list[Any]]


def cumulative_dim(node: Apply) -> tuple[int, bool] | None:
    """The dimension along which a reduce-window is cumulative, and whether from its end; None for other windows."""
    window: Window | None = node.attributes.get("window")
    if window is None:
        return None
    dims = array_type(node.operands[0]).dims
    result: tuple[int, bool] | None = None
    for dim, (size, part) in enumerate(zip(dims, window.dimensions, strict=True)):
        if (part.stride, part.base_dilation, part.window_dilation) != (1, 1, 1) or part.reversal:
            return None
        padding = part.padding_low, part.padding_high
        if part.size == 1 and padding == (0, 0):
            continue
        if result is not None or part.size != size or padding not in ((size - 1, 0), (0, size - 1)):
            return None
        result = dim, padding[0] == 0
    return result


def scanned(ops: Sequence[Any], values: list[Any], combine: Combine, along: int, size: int) -> list[Any]:
    """The combination of all elements up to each. `ops` say, for each value, in which ops it is sliced and joined."""
    stack: list[tuple[list[Any], int]] = []
    current = values
    while size > 1:
        stack.append((current, size))
        first = _parts(ops, current, along, 0, size - 1)
        current, size = combine(first, _parts(ops, current, along, 1, size)), size // 2
    while stack:
        whole, size = stack.pop()
        head = _parts(ops, whole, along, 0, 1)
        rest = (size - 1) // 2
        even = head
        if rest:
            before = _parts(ops, current, along, 0, rest, 1)
            tail = combine(before, _parts(ops, whole, along, 2, size))
            even = [op.op("concatenate", a, b, dimensions=(along,)) for op, a, b in zip(ops, head, tail, strict=True)]
        current = [_interleaved(op, a, b, along) for op, a, b in zip(ops, even, current, strict=True)]
    return current


def _parts(ops: Sequence[Any], values: list[Any], along: int, start: int, limit: int, stride: int = 2) -> list[Any]:
    return [_part(op, value, along, start, limit, stride) for op, value in zip(ops, values, strict=True)]


def _part(op: Any, value: Any, along: int, start: int, limit: int, stride: int) -> Any:
    dims = array_type(value).dims
    if stride == 1 and (start, limit) == (0, dims[along]):
        return value
    parts = [SliceDimension(0, size) for size in dims]
    parts[along] = SliceDimension(start, limit, stride if limit - start > 1 else 1)
    return op.op("slice", value, slice=tuple(parts))


def _interleaved(op: Any, even: Any, odd: Any, along: int) -> Any:
    """Elements of two arrays in turn; the first may have one more."""
    dims, count = list(array_type(even).dims), array_type(odd).dims[along]
    apart = [*dims[:along], count, 1, *dims[along + 1 :]]
    pairs = [op.reshape(_part(op, value, along, 0, count, 1), apart) for value in (even, odd)]
    joined = op.op("concatenate", *pairs, dimensions=(along + 1,))
    result = op.reshape(joined, [*dims[:along], 2 * count, *dims[along + 1 :]])
    if dims[along] == count:
        return result
    last = _part(op, even, along, count, count + 1, 1)
    return op.op("concatenate", result, last, dimensions=(along,))


def as_tree(session: Any, node: Apply) -> Graph | None:
    """A cumulative reduction by a combiner that is known to be associative, of which the initial value is the identity.

    Those are multiply and logaddexp; None for others.
    """
    where = cumulative_dim(node)
    if where is None or len(node.operands) != 2 or not _is_monoid(node):
        return None
    along, from_end = where
    combine: Graph = node.attributes["to_apply"]

    def make(emitter: Emitter, operands: list[Node]) -> Node:
        value = emitter.convert(operands[0], array_type(operands[1]).dtype)
        size = array_type(value).dims[along]
        value = emitter.op("reverse", value, dimensions=(along,)) if from_end else value

        def both(first: list[Node], second: list[Node]) -> list[Node]:
            return on_arrays(emitter, combine, [*second, *first] if from_end else [*first, *second])

        (result,) = scanned([emitter], [value], both, along, size)
        return emitter.op("reverse", result, dimensions=(along,)) if from_end else result

    return expanded(session, node, make)


def _is_monoid(node: Apply) -> bool:
    start, combine = splat(node.operands[1]), node.attributes["to_apply"]
    if reduce_opcode(node) == "multiply":
        return start == 1
    if start != -np.inf or not isinstance(combine.root, Apply):
        return False
    made = recognize(combine, frozenset()).get(combine.root)
    if made is None or made.rule.linearize is not logaddexp:
        return False
    return {made.nodes["a"], made.nodes["b"]} == set(combine.parameters)


def extreme_tangent(t: LinearOps, node: Apply, tangent: Any, opcode: str) -> Any:
    """The tangent of the first extreme element of each window of a cumulative maximum or minimum."""
    where = cumulative_dim(node)
    assert where is not None, "a cumulative reduction"
    along, from_end = where
    p = t.primal
    value = node.operands[0]
    size = array_type(value).dims[along]
    # From the end, what is combined later stands before: it is taken where both are equal.
    direction = ("GT" if from_end else "GE") if opcode == "maximum" else ("LT" if from_end else "LE")

    def both(first: list[Any], second: list[Any]) -> list[Any]:
        chosen = p.compare(direction, first[0], second[0])
        return [p.elementwise(opcode, first[0], second[0]), t.select(chosen, first[1], second[1])]

    if from_end:
        value = p.op("reverse", value, dimensions=(along,))
        tangent = t.op("reverse", tangent, dimensions=(along,))
    result = scanned([p, t], [value, tangent], both, along, size)[1]
    return t.op("reverse", result, dimensions=(along,)) if from_end else result

"""Inexact rules on sums with a scatter into zeros or an update of zeros: what they write is added to the other operand.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAdd).
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir import Apply, Graph, Node, Parameter, TensorType, same_shape
from hloom.passes.rules.value_properties import in_either_order
from hloom.rewrite import Builder, Family, some_operand, tensor_type, used_once

ADD_UPDATE_INEXACT = Family("add-update-inexact", formerly="accumulation-relaxed")

_SAME_PLACES = (
    "index_vector_dim",
    "scatter_dims_to_operand_dims",
    "inserted_window_dims",
    "update_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


ADD_UPDATE_INEXACT.table("""
add-update-of-zeros [2]: add(x, u:dynamic-update-slice(z, y, i...)) -> dynamic-update-slice(x, add(taken(x, u), y), i)
    if u is used once, z is zero, y is static, static, same-type(x, root)  # elsewhere x + 0 is x, but that -0 + 0 is +0
""")


@ADD_UPDATE_INEXACT.rewrites(
    "add", requires=some_operand("scatter"), because="compares the dimensions of two scatters and counts their updates"
)
def add_scatters(build: Builder, node: Apply) -> Node | None:
    """add(x, scatter(y, i, u)) -> scatter(add(x, y), i, u), where the scatter adds; summed in another order

    add(scatter(x, i, u), scatter(y, j, v)) -> scatter(add(x, y), concatenate(i, j), concatenate(u, v)), where both go
    by the same dimensions and the updates are fewer than the elements; else one scatter goes into the other.
    """
    left, right = node.operands
    if _adds(left) and _adds(right):
        assert isinstance(left, Apply) and isinstance(right, Apply)
        return _both(build, left, right)
    for operand, scatter in in_either_order(node):
        if _adds(scatter) and isinstance(scatter, Apply):
            whole, indices, updates = scatter.operands
            sides = (operand, whole) if scatter is right else (whole, operand)
            return build.like(scatter, build.op("add", *sides), indices, updates)
    return None


def _adds(node: Node) -> bool:
    """Whether it is a scatter of one array, used once, that adds its updates."""
    if not isinstance(node, Apply) or node.opcode != "scatter" or len(node.operands) != 3 or not used_once(node):
        return False
    if any(tensor_type(value) is None for value in (node, *node.operands)):
        return False
    graph = node.attributes["to_apply"]
    root = graph.output if isinstance(graph, Graph) else None
    array_type = tensor_type(node)
    return (
        root is not None
        and root.opcode == "add"
        and {operand.number for operand in root.operands if isinstance(operand, Parameter)} == {0, 1}
        and array_type is not None
        and all(same_shape(operand.type, TensorType(array_type.dtype)) for operand in root.operands)
    )


@dataclass(frozen=True, slots=True)
class _Joint:
    """The dimensions along which the indices and the updates of two scatters are put together."""

    indices: int
    updates: int


def _both(build: Builder, left: Apply, right: Apply) -> Node | None:
    whole, indices, updates = left.operands
    other_whole, other_indices, other_updates = right.operands
    joint = _joint(left, right)
    array_type, size, other_size = (tensor_type(value) for value in (left, updates, other_updates))
    if joint is None or array_type is None or size is None or other_size is None:
        return None
    if size.element_count + other_size.element_count >= array_type.element_count:
        return build.decline("the updates are no fewer than the elements")
    total = build.op("add", whole, other_whole)
    if not _go_together(left, right):
        return build.like(left, build.like(right, total, other_indices, other_updates), indices, updates)
    joined = build.op("concatenate", indices, other_indices, dimensions=(joint.indices,))
    parts = build.op("concatenate", updates, other_updates, dimensions=(joint.updates,))
    return build.like(left, total, joined, parts)


def _joint(left: Apply, right: Apply) -> _Joint | None:
    """Where two scatters may be put together: the only dimension of the indices that differs, or the first one."""
    one, other, updates = (tensor_type(operand) for operand in (left.operands[1], right.operands[1], left.operands[2]))
    if one is None or other is None or updates is None or one.rank != other.rank:
        return None
    scattered = [d for d in range(one.rank) if d != left.attribute("index_vector_dim")]
    windows = left.attribute("update_window_dims") or ()
    positions = [d for d in range(updates.rank) if d not in windows]
    batches = left.attribute("scatter_indices_batching_dims") or ()
    if len(scattered) != len(positions):
        return None
    pairs = [_Joint(*pair) for pair in zip(scattered, positions, strict=True)]
    differing = [pair for pair in pairs if one.dims[pair.indices] != other.dims[pair.indices]]
    free = [pair for pair in pairs if pair.indices not in batches]
    if len(differing) > 1 or any(pair not in free for pair in differing):
        return None
    return next(iter(differing or free), None)


def _go_together(left: Apply, right: Apply) -> bool:
    if any(left.attribute(name) != right.attribute(name) for name in _SAME_PLACES):
        return False
    if any(scatter.attribute(name) for scatter in (left, right) for name in ("unique_indices", "indices_are_sorted")):
        return False
    one, other = tensor_type(left.operands[1]), tensor_type(right.operands[1])
    return one is not None and other is not None and one.dtype is other.dtype and _windows(left) == _windows(right)


def _windows(scatter: Apply) -> list[int]:
    array_type = tensor_type(scatter.operands[2])
    return [] if array_type is None else [array_type.dims[d] for d in scatter.attribute("update_window_dims") or ()]

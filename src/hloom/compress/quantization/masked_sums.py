"""Decode steps that write rows by adding: sums with values masked by zeros and ones become selects.

    k1 = add(k, multiply(mask, row))                              ->  k1 = select(mask, add(k, row), k)
    k1 = add(multiply(k, subtract(1, mask)), multiply(mask, row))  ->  k1 = select(mask, row, k)

JAX programs for TPUs write this way, with `jax.nn.one_hot` of the position (T5X, flax's examples): `mask` is a
predicate that is converted, moved and broadcast, or one of the factors of a product without a sum. The values are the
same if rows are finite; zeros may have another sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.compress.quantization.insertion_point import InsertionPoint, replace_node, splat_value
from hloom.compress.quantization.movement import result_dims
from hloom.ir import DTYPES, Apply, Constant, Module, Node, Parameter, TensorType, Trait, node_axes
from hloom.ops import with_trait
from hloom.passes import dce

PRED = DTYPES["pred"]
_HELD = frozenset({"get-tuple-element", "select", "dynamic-update-slice", "scatter", "concatenate"})
"""Opcodes of arrays into which rows were written, and of elements of a loop's state."""
_MOST_DEPTH = 12
"""How deep predicates are compared."""
_PURE = with_trait(Trait.ELEMENTWISE) | with_trait(Trait.MOVES_DATA) | with_trait(Trait.GENERATES)
"""Ops that yield the same for the same operands."""
_MOVES = (with_trait(Trait.REINDEXES) - {"broadcast"}) | {"convert", "dynamic-slice"}


@dataclass(frozen=True, slots=True)
class Mask:
    """A predicate, and which dimension of an array every dimension of it is; None for those of one element."""

    predicate: Node
    into: tuple[int | None, ...]
    is_complement: bool = False


@dataclass(frozen=True, slots=True)
class MaskedRow:
    """What a mask lets through: a value, and which dimension of an array every dimension of it is."""

    mask: Mask
    row: Node
    into: tuple[int | None, ...]


def select_masked_sums(module: Module) -> None:
    """Write rows that are added to caches by selects: what they are added to is a parameter, or what a loop carries."""
    is_changed = False
    for graph in module.graphs:
        for node in graph.nodes:
            if isinstance(node, Apply) and node.opcode == "add" and _is_float(node):
                is_changed |= _select(node)
    if is_changed:
        dce(module)


def _select(node: Apply) -> bool:
    """Whether a sum was one of these, and is a select now."""
    for base, addend in (node.operands, node.operands[::-1]):
        masked = masked_row(addend)
        if masked is None or masked.mask.is_complement:
            continue
        kept = masked_row(base)
        is_replaced = kept is not None and _are_complements(kept.mask, masked.mask)
        held = kept.row if kept is not None and is_replaced else base
        if not _is_held(held) or held.array_type.dims != node.array_type.dims:
            continue
        point, type_ = InsertionPoint(node.graph, node), node.array_type.with_layout(None)
        held = point.convert(held, type_.dtype)
        row = point.convert(spread(point, masked.row, type_.dims, masked.into), type_.dtype)
        if not is_replaced:
            row = point.op("add", held, row)
        mask = spread(point, masked.mask.predicate, type_.dims, masked.mask.into)
        made = point.op("select", mask, row, held)
        replace_node(node, made)
        return True
    return False


def masked_row(node: Node) -> MaskedRow | None:
    """What a product with a mask lets through, in the array's own dimensions; None for all else."""
    if not _is_float(node):
        return None
    whole = tuple(range(node.array_type.rank))
    while node.opcode == "transpose" or (node.opcode == "convert" and _is_float(node.operands[0])):
        if node.opcode == "transpose":
            order = node.attributes["dimensions"]
            whole = tuple(whole[order.index(dim)] for dim in range(len(order)))
        node = node.operands[0]
    if not isinstance(node, Apply) or not _is_float(node):
        return None
    match node.opcode:
        case "multiply":
            into = (whole, whole)
        case "dot":
            if tuple(node.attribute("lhs_contracting_dims") or ()):
                return None
            into = tuple(tuple(whole[dim] for _, dim in sorted(side.items())) for side in result_dims(node))
        case _:
            return None
    for index in (0, 1):
        mask = mask_of(node.operands[index], into[index])
        if mask is not None:
            return MaskedRow(mask, node.operands[1 - index], into[1 - index])
    return None


def _are_complements(kept: Mask, masked: Mask) -> bool:
    return kept.is_complement and kept.into == masked.into and _is_same(kept.predicate, masked.predicate)


def _is_same(one: Node, other: Node, depth: int = _MOST_DEPTH) -> bool:
    """Whether two values are certain to be equal: the same instructions of the same operands."""
    if one is other:
        return True
    if not depth or one.opcode != other.opcode or one.type != other.type:
        return False
    if isinstance(one, Constant) and isinstance(other, Constant):
        return one.value == other.value
    if not isinstance(one, Apply) or not isinstance(other, Apply) or one.opcode not in _PURE:
        return False
    return one.attributes == other.attributes and all(
        _is_same(*pair, depth - 1) for pair in zip(one.operands, other.operands, strict=True)
    )


def mask_of(node: Node, into: Sequence[int | None]) -> Mask | None:
    """The predicate that zeros and ones are made of; `into` says which dimensions of an array theirs are."""
    dims, is_complement = tuple(into), False
    while isinstance(node, Apply) and isinstance(node.type, TensorType) and node.has_row:
        match node.opcode:
            case "convert" if node.operands[0].array_type.dtype is PRED:
                return Mask(node.operands[0], dims, is_complement)
            case "convert" if not _is_float(node.operands[0]):
                return None
            case "convert" | "copy" | "broadcast" | "transpose" | "reshape":
                axes, sizes = node_axes(node), node.operands[0].array_type.dims
                targets = axes.target_dims() if axes is not None else ()
                if any(target is None and size != 1 for target, size in zip(targets, sizes, strict=True)):
                    return None
                dims = tuple(None if target is None else dims[target] for target in targets)
                node = node.operands[0]
            case "subtract" if splat_value(node.operands[0]) == 1:
                node, is_complement = node.operands[1], not is_complement
            case _:
                return None
    return None


def spread(point: InsertionPoint, node: Node, dims: Sequence[int], into: Sequence[int | None]) -> Node:
    """An array broadcast to other dimensions; `into` says which of them its own are."""
    kept = [dim for dim, target in enumerate(into) if target is not None]
    node = point.reshape(node, [node.array_type.dims[dim] for dim in kept])
    targets = [target for target in into if target is not None]
    node = point.transpose(node, [targets.index(target) for target in sorted(targets)])
    return point.broadcast(node, dims, sorted(targets))


def _is_held(node: Node) -> bool:
    """Whether a value is a parameter, what a loop carries, or what rows were written into, moved or not."""
    while node.opcode in _MOVES and isinstance(node, Apply):
        node = node.operands[0]
    return isinstance(node, Parameter) or node.opcode in _HELD


def _is_float(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.is_float

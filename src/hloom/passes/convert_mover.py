"""The pass `move-converts`: data movement happens in the narrower of two element types.

    concatenate(convert(x), convert(y)), from f16 to f32   ->   convert(concatenate(x, y))
    convert(transpose(x)), from f32 to f16                 ->   transpose(convert(x))

Follows XLA's xla/hlo/transforms/simplifiers/convert_mover.cc (MoveConvertPrecisionOps).
"""

from __future__ import annotations

import warnings

import numpy as np

from hloom.ir import Apply, Constant, DType, Graph, Literal, Module, Node, TensorType
from hloom.passes.computation_order import control_predecessors, has_control_dependencies, running_graphs
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass, until_settled
from hloom.rewrite import Builder, Report, literal_value, tensor_type, used_once

MOVERS = frozenset(("concatenate", "pad", "reshape", "slice", "transpose"))
"""Opcodes that move elements without looking at them (OpCommutesWithConvert,
xla/hlo/transforms/simplifiers/convert_mover.cc)."""


@until_settled
def move_converts(module: Module) -> Report:
    """Widen after data movement, narrow before it.

    A conversion only moves if the data movement is its only user, and past constants only if the narrow type represents
    their values. Results are bit-identical.
    """
    report = Report("move-converts")
    if module.has_closures:
        return report
    module.index_users()
    for graph in running_graphs(module):
        mover = _Mover(graph)
        report.changes += mover.widen_late() + mover.narrow_early()
    return report


class _Mover:
    """The conversions of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.awaited = control_predecessors(graph)

    def widen_late(self) -> int:
        """Apply data movement before widening conversions; returns how often."""
        count = 0
        for node in self.graph.nodes:
            if isinstance(node, Apply) and self.is_mover(node):
                narrow = self.narrow_type(node)
                operands = [] if narrow is None else self.narrow_operands(node, narrow)
                if narrow is not None and operands:
                    self.replace(node, self.wide(node, operands, narrow))
                    count += 1
        return count

    def narrow_type(self, node: Apply) -> DType | None:
        """The narrower type from which all non-constant operands are converted, if there is exactly one."""
        converted = [operand for operand in node.operands if not isinstance(operand, Constant)]
        types = {_element(operand.operands[0]) for operand in converted if self.is_convert(operand)}
        if len(types) != 1 or not all(self.is_convert(operand) and used_once(operand) for operand in converted):
            return None
        (narrow,) = types
        wide = _element(node)
        return narrow if narrow is not None and wide is not None and _is_narrower(narrow, wide) else None

    def narrow_operands(self, node: Apply, narrow: DType) -> list[Node]:
        """A node's operands in a narrower type; empty if a constant cannot be represented in it."""
        literals = [_narrowed(operand, narrow) for operand in node.operands if isinstance(operand, Constant)]
        if None in literals:
            return []
        build, waiting = Builder(node), iter(literals)
        return [
            build.constant(next(waiting)) if isinstance(operand, Constant) else operand.operands[0]
            for operand in node.operands
        ]

    def wide(self, node: Apply, operands: list[Node], narrow: DType) -> Node:
        build = Builder(node)
        moved = build.apply(node.op, operands, node.array_type.with_dtype(narrow), node.attributes)
        return build.apply(build.row("convert"), [moved], node.array_type)

    def narrow_early(self) -> int:
        """Narrow the operands of data movement instead of its result; returns how often."""
        count = 0
        pending: list[Node] = list(self.graph.nodes)
        while pending:
            node = pending.pop()
            if not isinstance(node, Apply) or not self.is_convert(node):
                continue
            moved, narrow = node.operands[0], _element(node)
            if not isinstance(moved, Apply) or not self.is_mover(moved) or not used_once(moved) or narrow is None:
                continue
            wide = _element(moved)
            if wide is not None and _is_narrower(narrow, wide):
                build = Builder(node)
                operands = [
                    build.op("convert", given, type=given.array_type.with_dtype(narrow)) for given in moved.operands
                ]
                made = build.apply(moved.op, operands, moved.array_type.with_dtype(narrow), moved.attributes)
                self.replace(node, made)
                pending += operands
                count += 1
        return count

    def is_mover(self, node: Apply) -> bool:
        return node.opcode in MOVERS and self.is_free(node) and all(map(tensor_type, node.operands))

    def is_convert(self, node: Node) -> bool:
        return node.opcode == "convert" and self.is_free(node) and tensor_type(node.operands[0]) is not None

    def is_free(self, node: Node) -> bool:
        """Whether nothing constrains where or when an array is computed or how its elements are packed."""
        array_type = tensor_type(node)
        if array_type is None or "sharding" in node.attributes or node in self.awaited:
            return False
        is_packed = array_type.layout is not None and bool(array_type.layout.tiles)
        return not is_packed and not has_control_dependencies(node)

    def replace(self, node: Apply, made: Node) -> None:
        """Put what was made in place of a node, and take out what nothing uses any more."""
        self.graph.replace_uses(node, made)
        erase_dead([node])


def _is_narrower(narrow: DType, wide: DType) -> bool:
    """Whether a type has fewer bits, in whole bytes, which most ops accept."""
    return narrow.bits < wide.bits and (narrow.bits >= 8 or narrow.name == "pred")


def _narrowed(constant: Constant, narrow: DType) -> Literal | None:
    """A constant in a narrower type; None if a value cannot be represented in it."""
    literal, array_type = literal_value(constant), tensor_type(constant)
    if literal is None or array_type is None or (array_type.dtype.is_complex and not narrow.is_complex):
        return None
    is_splat = literal.is_splat and array_type.element_count > 0
    array = np.asarray(literal.numpy().flat[0] if is_splat else literal.numpy())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = np.asarray(array.astype(narrow.numpy))
        back = converted.astype(array_type.dtype.numpy)
    if array.tobytes() != back.tobytes():
        return None
    narrow_type = TensorType(narrow, array_type.dims)
    return Literal.splat(narrow_type, converted) if is_splat else Literal.array(narrow_type, converted)


def _element(node: Node) -> DType | None:
    array_type = tensor_type(node)
    return None if array_type is None else array_type.dtype


register_pass("move-converts", "move data in the narrower of two element types", move_converts)

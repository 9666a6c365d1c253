"""Infers result types and axis maps of nodes from the rows of their ops.

To change what one op infers, edit its row; this file only passes operands and attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hloom.ir.attributes import Attributes
from hloom.ir.axis_map import AxisMap
from hloom.ir.graph import Graph
from hloom.ir.module import Module
from hloom.ir.nodes import Apply, Node
from hloom.ir.schema import Op, TypeProblem
from hloom.ir.types import Type, without_layout


def infer_type(
    op: Op, operand_types: Sequence[Type], attributes: Mapping[str, Any], written: Type | None = None
) -> Type:
    """The type of an op applied to operands of these types; layouts are left out.

    `written` is the type that the text gives, for ops whose operands and attributes do not determine the result.
    Raises TypeProblem where XLA refuses, and where the op has no rule.

    >>> from hloom.ir import EMPTY, TensorType, dtype
    >>> same = Op("same", infer=lambda x: x)
    >>> infer_type(same, [TensorType(dtype("f32"), (2, 3))], EMPTY)
    f32[2,3]
    """
    if op.infer is None:
        reason = op.because.get("infer", "")
        raise TypeProblem(f"{op} has no rule for its type{': ' if reason else ''}{reason}")
    return op.infer(*operand_types, **arguments(op, op.infer, attributes, written))


def infer_axes(
    op: Op, operand_types: Sequence[Type], attributes: Mapping[str, Any], result: Type | None = None
) -> AxisMap | None:
    """The axis map of an op applied to operands of these types; None where the op has none.

    `result` is the result's type where it is known. Raises TypeProblem where the types do not follow from each other.
    """
    if op.axes is None:
        return None
    try:
        return op.axes(*operand_types, **arguments(op, op.axes, attributes, result))
    except Exception:
        infer_type(op, operand_types, attributes, result)  # axis maps assume consistent types; this reports others
        raise


def node_axes(node: Apply) -> AxisMap | None:
    """The axis map of a node; None where its op has none."""
    types = [operand.type for operand in node.operands]
    if any(type_ is None for type_ in types):
        raise TypeProblem(f"{node!r} has operands whose types are not known")
    known = [type_ for type_ in types if type_ is not None]
    result = node.type
    if result is None and node.op.axes is not None:
        result = infer_type(node.op, known, node.attributes)
    return infer_axes(node.op, known, node.attributes, result)


class Inference:
    """Infers types of many nodes and caches the result per op, operand types and attributes."""

    def __init__(self) -> None:
        self._memo: dict[tuple[Any, ...], Type | TypeProblem] = {}
        self._kept: list[Attributes] = []
        self._asking: dict[Op, bool] = {}

    def type_of(self, node: Node) -> Type | None:
        """The type that the node's op infers; None if it has no rule or an operand's type is unknown.

        Raises TypeProblem where XLA refuses.
        """
        if not isinstance(node, Apply) or not isinstance(node.function, Op):
            return None
        function, rule = node.function, node.function.infer
        if rule is None:
            return None
        types = tuple([operand.type for operand in node.operands if operand.type is not None])
        if len(types) < len(node.operands):
            return None
        if function not in self._asking:
            self._asking[function] = any(name == "result" for _, name in wanted(rule))
        key = (function, types, id(node.attributes), node.type if self._asking[function] else None)
        cached = self._memo.get(key)
        if cached is None:
            cached = self._memo[key] = _attempt(node, types)
            self._kept.append(node.attributes)  # keeps the object alive so that its id is not reused
        if isinstance(cached, TypeProblem):
            raise cached
        return cached

    def fill(self, graph: Graph) -> None:
        """Set the types that the text omitted, in order; nodes without an inference rule are left as they are.

        Raises TypeProblem, with the node in its message, where XLA refuses.
        """
        for node in graph.nodes:
            if node.type is None and isinstance(node, Apply):
                try:
                    graph.set_type(node, self.type_of(node))
                except TypeProblem as problem:
                    raise TypeProblem(f"{node.name}: {problem.message}") from None


def infer_types(module: Module) -> None:
    """Set the type of every node of a module whose type the text omitted.

    Raises TypeProblem, with the node in its message, where XLA refuses.
    """
    inference = Inference()
    for graph in module.graphs:
        inference.fill(graph)


def _attempt(node: Apply, types: tuple[Type, ...]) -> Type | TypeProblem:
    try:
        return infer_type(node.op, types, node.attributes, node.type and without_layout(node.type))
    except TypeProblem as problem:
        return problem


def arguments(op: Op, rule: Callable[..., Any], attributes: Mapping[str, Any], result: Type | None) -> dict[str, Any]:
    """The attributes that a rule takes by name, defaults included, and `result` if it takes that."""
    values: dict[str, Any] = {}
    for parameter, name in wanted(rule):
        if name == "result":
            values[parameter] = result
            continue
        value = attributes.get(name)
        row = op.attributes[name]
        if value is None:
            if row.required:
                raise TypeProblem(f"{op} needs the attribute '{name}'")
            value = row.default
        values[parameter] = value
    return values


@lru_cache(maxsize=1024)
def wanted(rule: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """The keyword parameters of a rule and the attributes they correspond to."""
    parameters = inspect.signature(rule).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    return tuple((name, _ATTRIBUTE_NAMES.get(name, name)) for name in names)


_ATTRIBUTE_NAMES = {"control_predecessors": "control-predecessors"}

"""Result types and axis maps of nodes, from what their ops' rows say.

To change what one op infers, edit its row; this file only hands operands and attributes over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hloom.ir import Apply, AxisMap, Op, Type, TypeProblem


def infer_type(
    op: Op, operand_types: Sequence[Type], attributes: Mapping[str, Any], written: Type | None = None
) -> Type:
    """The type of an op applied to operands of these types; layouts are left out.

    `written` is the type that the text gives, for ops whose operands and attributes do not determine the result.
    Raises TypeProblem where XLA refuses, and where the op has no rule.

    >>> from hloom.ops import OPS
    >>> from hloom.ir import TensorType, dtype
    >>> str(infer_type(OPS["transpose"], [TensorType(dtype("f32"), (2, 3))], {"dimensions": (1, 0)}))
    'f32[3,2]'
    """
    if op.infer is None:
        reason = op.because.get("infer", "")
        raise TypeProblem(f"{op} has no rule for its type{': ' if reason else ''}{reason}")
    return op.infer(*operand_types, **arguments(op, op.infer, attributes, written))


def infer_axes(
    op: Op, operand_types: Sequence[Type], attributes: Mapping[str, Any], result: Type | None = None
) -> AxisMap | None:
    """The axis map of an op applied to operands of these types; None where the op has none.

    `result` is the result's type where it is known.
    """
    if op.axes is None:
        return None
    return op.axes(*operand_types, **arguments(op, op.axes, attributes, result))


def node_axes(node: Apply) -> AxisMap | None:
    """The axis map of a node; None where its op has none."""
    types = [operand.type for operand in node.inputs]
    if any(kind is None for kind in types):
        raise TypeProblem(f"{node!r} has operands whose types are not known")
    return infer_axes(node.op, [kind for kind in types if kind is not None], node.attributes, node.type)


def arguments(op: Op, rule: Callable[..., Any], attributes: Mapping[str, Any], result: Type | None) -> dict[str, Any]:
    """The attributes that a rule asks for by name, defaults included, and `result` where it asks for that."""
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
    """The keyword parameters of a rule and the attributes they stand for."""
    parameters = inspect.signature(rule).parameters.values()
    names = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    return tuple((name, _ATTRIBUTE_NAMES.get(name, name)) for name in names)


_ATTRIBUTE_NAMES = {"control_predecessors": "control-predecessors"}

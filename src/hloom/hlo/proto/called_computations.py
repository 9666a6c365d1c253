"""Which graphs a node calls, in the order of `called_computation_ids`, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hloom.hlo.proto.field_mapping import Context
from hloom.ir import AttributeKind, Attributes, Graph, Op, TensorType
from hloom.text import HloomError

ORDER: dict[str, tuple[str, ...]] = {
    "while": ("body", "condition"),
    "conditional": ("true_computation", "false_computation", "branch_computations"),
    "select-and-scatter": ("select", "scatter"),
}
"""The attributes that hold graphs, where they are several or stand in another order than in the text."""


def write_called(opcode: str, attributes: Attributes) -> list[Graph]:
    """The graphs in the wire's order."""
    names = [name for name in ORDER.get(opcode, ()) if name in attributes]
    names += [name for name in attributes if name not in names]
    graphs: list[Graph] = []
    for name in names:
        value = attributes[name]
        parts = value if isinstance(value, tuple) else (value,)
        graphs += [part for part in parts if isinstance(part, Graph)]
    return graphs


def read_called(op: Op, numbers: Sequence[int], graphs: Mapping[int, Graph], context: Context) -> dict[str, Any]:
    """The attributes that hold the called graphs; HloomError where there is no such graph, or not the right number."""
    if not numbers:
        return {}
    missing = next((number for number in numbers if number not in graphs), None)
    if missing is not None:
        raise HloomError(f"no computation before this one has the id {missing}, which it calls")
    called = tuple(graphs[number] for number in numbers)
    if op.name == "conditional":
        return _branches(called, context)
    if op.name == "custom-call":
        return {"called_computations": called}
    names = ORDER.get(op.name) or [
        name for name, attribute in op.attributes.items() if attribute.kind is AttributeKind.GRAPH
    ]
    if len(names) != len(called):
        raise HloomError(f"{op} calls {len(names)} computations, not {len(called)}")
    return dict(zip(names, called, strict=True))


def _branches(called: tuple[Graph, ...], context: Context) -> dict[str, Any]:
    index = context.operands[0] if context.operands else None
    if isinstance(index, TensorType) and index.dtype.name == "pred" and len(called) == 2:
        return {"true_computation": called[0], "false_computation": called[1]}
    return {"branch_computations": called}

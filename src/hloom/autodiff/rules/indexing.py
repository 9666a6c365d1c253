"""Slices at indices known when the program runs; gathers and scatters."""

from __future__ import annotations

from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.rules.table import rules, transposition
from hloom.ir import Apply, Node


@rules("dynamic-slice")
def dynamic_slice(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    sizes = node.attributes["dynamic_slice_sizes"]
    return t.op("dynamic-slice", tangents[0], *node.inputs[1:], dynamic_slice_sizes=sizes)


@rules("dynamic-update-slice")
def dynamic_update_slice(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    operand, update = (
        each if each is not None else t.zero(given) for each, given in zip(tangents, node.inputs[:2], strict=False)
    )
    return t.op("dynamic-update-slice", operand, update, *node.inputs[2:])


@transposition("dynamic-slice")
def transpose_dynamic_slice(b: Backward, value: Linear, cotangent: Node) -> None:
    """Added, in place, to the part of the sum so far that it was taken from."""
    operand, *starts = value.operands
    sizes = value.attributes["dynamic_slice_sizes"]

    def update(total: Node | None) -> Node:
        if total is None:
            return b.op("dynamic-update-slice", b.zeros(operand.type), cotangent, *starts)
        taken = b.op("dynamic-slice", total, *starts, dynamic_slice_sizes=sizes)
        return b.op("dynamic-update-slice", total, b.add(taken, cotangent), *starts)

    b.give_update(operand, update)


@transposition("dynamic-update-slice")
def transpose_dynamic_update_slice(b: Backward, value: Linear, cotangent: Node) -> None:
    operand, update, *starts = value.operands
    if isinstance(operand, Linear):
        nothing = b.zeros(update.type)
        b.give(operand, b.op("dynamic-update-slice", cotangent, nothing, *starts))
    if isinstance(update, Linear):
        sizes = array_type(update).dims
        b.give(update, b.op("dynamic-slice", cotangent, *starts, dynamic_slice_sizes=sizes))

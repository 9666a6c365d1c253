"""Custom calls: by target, with rules that users may add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.linearize import place_of
from hloom.autodiff.table import rules, transposition
from hloom.ir import Apply, Node, TensorType
from hloom.text import Unsupported

CUSTOM_CALLS: dict[str, Callable[..., Any]] = {}
"""The linearizations of custom calls, by target."""

MARKERS = frozenset(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "LayoutConstraint",
        "annotate_device_placement",
        "MoveToHost",
        "MoveToDevice",
    )
)
"""Targets that only say how an array lies: the tangent lies likewise."""


def custom_call(*targets: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the linearization of custom calls by their targets.

    The function is given the linear ops, the instruction, and the tangents of its operands (None where zero); it
    yields the tangent of the result, or a list of one for each leaf. `ops.primal` emits primal values; `ops.op`,
    `ops.mul`, `ops.add` and others make tangents.

        @hloom.autodiff.custom_call("double")
        def double(ops, node, tangents):
            return ops.scale(2.0, tangents[0])
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets:
            CUSTOM_CALLS[target] = function
        return function

    return declare


@rules("custom-call")
def linearize(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    target = node.attributes["custom_call_target"]
    if target in MARKERS:
        return _marked(t, node, tangents)
    rule = CUSTOM_CALLS.get(target)
    if rule is None:
        raise Unsupported(
            f"{place_of(node)}: the custom call '{target}' has no derivative",
            hint=f'give it one: @hloom.autodiff.custom_call("{target}"), or cut there: stop=["{node.name}"]',
        )
    return rule(t, node, tangents)


def _marked(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    assert isinstance(node.type, TensorType), "a marked value is an array"
    return t.op("marked", tangents[0], type=node.type.with_layout(None), marker=node)


OPPOSITE = {"SPMDFullToShardShape": "SPMDShardToFullShape", "SPMDShardToFullShape": "SPMDFullToShardShape"}


def _same_marker(emitter: Emitter, operand: Node, *, type: Any, marker: Apply) -> Node:
    return emitter.op("custom-call", operand, type=type, **marker.attributes)


FORWARD_FORMS["marked"] = _same_marker


@transposition("marked")
def transpose_marked(b: Backward, value: Linear, cotangent: Node) -> None:
    """The cotangent lies as the value does; between whole arrays and shards, the way back."""
    marker: Apply = value.attributes["marker"]
    operand = value.operands[0]
    target = marker.attributes["custom_call_target"]
    attributes = {**marker.attributes, "custom_call_target": OPPOSITE.get(target, target)}
    source = marker.inputs[0]
    if target in OPPOSITE and "sharding" in source.attributes:
        attributes["sharding"] = source.attributes["sharding"]
        cotangent = b.op(
            "custom-call", cotangent, type=value.type, custom_call_target="Sharding",
            sharding=marker.attributes.get("sharding"),
        )  # fmt: skip
    b.give(operand, b.op("custom-call", cotangent, type=array_type(operand), **attributes))

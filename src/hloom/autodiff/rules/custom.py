"""Custom calls: rules by target, which users may extend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.linearize import place_of
from hloom.autodiff.table import rules, transposition
from hloom.ir import Apply, ExplicitGroups, Node, TensorType, Uniform, assignment, tile_of
from hloom.text import Unsupported

CUSTOM_CALLS: dict[str, Callable[..., Any]] = {}
"""The linearizations of custom calls, by target."""

EXPANSIONS: dict[str, Callable[..., Any]] = {}
"""Custom calls that are said by others: from (session, instruction) to a graph, None where a rule is to be used."""

REFUSED: dict[str, str] = {}
"""Why custom calls have no derivative, by target."""

MARKERS = frozenset(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "LayoutConstraint",
        "annotate_device_placement",
        "MoveToHost",
        "MoveToDevice",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.ShardingGroup",
    )
)
"""Targets that only constrain the sharding of an array: the tangent has the same."""


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


def expanded_call(*targets: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how custom calls are said by other instructions, by their targets."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets:
            EXPANSIONS[target] = function
        return function

    return declare


def refuse(*targets: str, because: str) -> None:
    """Say why custom calls have no derivative."""
    for target in targets:
        REFUSED[target] = because


refuse(
    *[f"xla_{form}python_{device}_callback" for form in ("", "ffi_", "ffi_partitioned_") for device in ("cpu", "gpu")],
    because="what Python computes there is not known",
)


def expansion_of(session: Any, node: Apply) -> Any:
    """The graph that a custom call is said by, if any."""
    expand = EXPANSIONS.get(node.attributes["custom_call_target"])
    return None if expand is None else expand(session, node)


@rules("custom-call", expand=expansion_of)
def linearize(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    target = node.attributes["custom_call_target"]
    if target in MARKERS:
        return _marked(t, node, tangents)
    rule = CUSTOM_CALLS.get(target)
    if rule is None:
        raise Unsupported(
            f"{place_of(node)}: the custom call '{target}' has no derivative"
            + (f": {REFUSED[target]}" if target in REFUSED else ""),
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
    """The cotangent is sharded as the value is; between whole arrays and the devices' parts, the way back.

    The objective is the sum over devices. So a whole array that several devices have is given the sum of their
    cotangents, and of a whole array's cotangent each of the devices that yield the same part takes its share.
    """
    marker: Apply = value.attributes["marker"]
    operand = value.operands[0]
    target, own = marker.attributes["custom_call_target"], marker.attributes.get("sharding")
    if target not in OPPOSITE:
        b.give(operand, b.op("custom-call", cotangent, type=value.type, **marker.attributes))
        return
    given = marker.operands[0].attributes.get("sharding")
    if own is None or given is None:
        raise Unsupported(f"{place_of(marker)}: '{target}' whose shardings are not written has no derivative")
    to_parts = target == "SPMDFullToShardShape"
    whole, part = (given, own) if to_parts else (own, given)
    groups = copies_of(whole, part, array_type(operand if to_parts else value).rank)
    if groups is not None and to_parts:
        cotangent = _summed(b, cotangent, groups)
    marked = b.op("custom-call", cotangent, type=value.type, custom_call_target="Sharding", sharding=own)
    attributes = {**marker.attributes, "custom_call_target": OPPOSITE[target], "sharding": given}
    made = b.op("custom-call", marked, type=array_type(operand), **attributes)
    if groups is not None and not to_parts:
        one = b.constant(1, array_type(made).dtype)
        made = b.div(made, b.broadcast(_summed(b, one, groups), array_type(made).dims))
    b.give(operand, made)


def copies_of(whole: Any, part: Any, rank: int) -> tuple[tuple[int, ...], ...] | None:
    """The groups of devices that have the same part of an array; None where each has its own.

    An empty tuple is all partitions, however many there are. `part` says which devices work by hand together.
    """
    if isinstance(whole, Uniform) and isinstance(part, Uniform):
        return ()
    if isinstance(part, Uniform):
        together = [tuple(sorted(int(device) for device in assignment(whole).flat))]
    else:
        together = _by_hand(part)
    groups: list[tuple[int, ...]] = []
    for devices in together:
        held: dict[tuple[int, ...], list[int]] = {}
        for device in devices:
            held.setdefault(tile_of(whole, device, rank), []).append(device)
        groups += [tuple(value) for value in held.values()]
    return tuple(groups) if any(len(group) > 1 for group in groups) else None


def _by_hand(part: Any) -> list[tuple[int, ...]]:
    """The groups of devices that a sharding with a manual subgroup names."""
    devices = assignment(part)
    start = devices.ndim - len(part.subgroups)
    manual = [start + number for number, name in enumerate(part.subgroups) if name == "manual"]
    rest = [dim for dim in range(devices.ndim) if dim not in manual]
    size = math.prod(devices.shape[dim] for dim in manual)
    rows = devices.transpose([*rest, *manual]).reshape(-1, size)
    return [tuple(int(device) for device in row) for row in rows]


def _summed(b: Backward, node: Node, groups: tuple[tuple[int, ...], ...]) -> Node:
    """The sum over the devices of each group."""
    module = b.graph.module
    channel = 1 + max((value.attributes.get("channel_id") or 0 for value in module.nodes()), default=0)
    value_type = array_type(node)
    return b.op(
        "all-reduce",
        node,
        type=value_type,
        to_apply=b.reducer("add", value_type.dtype),
        channel_id=channel,
        replica_groups=ExplicitGroups(groups or ((0,),)),
        use_global_device_ids=bool(groups),
    )

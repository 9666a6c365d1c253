"""Folds per-channel scales of a value into parameters that the value is linear in, channel by channel.

    multiply(normalised, broadcast(gain)) * s        -> gain * s
    add(multiply(n, gain), bias) * s                 -> gain * s, bias * s
    dot(h, w) * s, relu(dot(h, w)) * s               -> w * s, over the columns of w

Scales are positive, so a relu passes them on. Values on the path, and the parameter, must have no other readers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hloom.compress.quantization.insertion_point import splat_value
from hloom.compress.quantization.movement import result_dims
from hloom.compress.quantization.quantized_value import common_factors
from hloom.compress.quantization.weight_slices import MovementPath, movement_path
from hloom.compress.quantization.weights import elements, loop_of
from hloom.ir import Apply, Node, Parameter

_MOST_DEPTH = 64
_GET = "get-tuple-element"


@dataclass(frozen=True, slots=True)
class FoldingTarget:
    """A moved parameter that takes a scale: `channels` are the dimensions, in order, over which the scale differs."""

    path: MovementPath
    channels: tuple[int, ...]


Allowed = Collection[Parameter]
Targets = list[FoldingTarget] | None


def folding_targets(value: Node, channels: Sequence[int], readers: Collection[Node], allowed: Allowed) -> Targets:
    """The parameters that can take a scale of a value that only `readers` read; None where some part has none."""
    return _targets(value, tuple(channels), readers, allowed, _MOST_DEPTH)


def _targets(
    value: Node, channels: tuple[int, ...], readers: Collection[Node], allowed: Allowed, depth: int
) -> Targets:
    if value.is_output or not depth or any(user not in readers for user in value.users):
        return None
    path = movement_path(value)
    if path.source in allowed and _is_read_once(path):
        return [FoldingTarget(path, channels)]
    if not isinstance(value, Apply):
        return None
    operands = _OPERANDS.get(value.opcode)
    return None if operands is None else operands(value, channels, allowed, depth - 1)


def _into(node: Apply, operand_index: int, channels: Sequence[int] | None, allowed: Allowed, depth: int) -> Targets:
    operand = node.operands[operand_index]
    if channels is None or node.operands.count(operand) != 1:
        return None
    return _targets(operand, tuple(channels), (node,), allowed, depth)


def _first(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    return _into(node, 0, channels, allowed, depth)


def _both(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    one = _into(node, 0, channels, allowed, depth)
    other = None if one is None else _into(node, 1, channels, allowed, depth)
    return None if one is None or other is None else [*one, *other]


def _either(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    for operand_index in (1, 0):
        targets = _into(node, operand_index, channels, allowed, depth)
        if targets is not None:
            return targets
    return None


def _relu(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    for operand_index in (0, 1):
        if splat_value(node.operands[1 - operand_index]) == 0:
            return _into(node, operand_index, channels, allowed, depth)
    return None


def _sources(node: Apply, operand_index: int, channels: Sequence[int]) -> list[int] | None:
    """The dimensions of an operand that dimensions of the result are; None where it lacks one of them."""
    own = {target: dim for dim, target in result_dims(node)[operand_index].items()}
    return [own[dim] for dim in channels] if all(dim in own for dim in channels) else None


def _moved(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    return _into(node, 0, _sources(node, 0, channels), allowed, depth)


def _reshape(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    before, after = node.operands[0].array_type.dims, node.array_type.dims
    if 0 in after:
        return None
    spans: dict[int, tuple[list[int], list[int]]] = {}
    for sources, results in common_factors(before, after):
        wide = [dim for dim in results if after[dim] != 1]
        if wide:
            spans[wide[0]] = wide, sources
    made: list[int] = []
    left = [dim for dim in channels if after[dim] != 1]
    while left:
        wide, sources = spans.get(left[0], ([], []))
        if not wide or left[: len(wide)] != wide:
            return None
        made += sources
        left = left[len(wide) :]
    return _into(node, 0, made, allowed, depth)


def _dot(node: Apply, channels: tuple[int, ...], allowed: Allowed, depth: int) -> Targets:
    """A dot is linear in both operands: one that has all channels takes the scale, the right one first."""
    for operand_index in (1, 0):
        targets = _into(node, operand_index, _sources(node, operand_index, channels), allowed, depth)
        if targets is not None:
            return targets
    return None


def _is_read_once(path: MovementPath) -> bool:
    """Whether all on the way, but for its end, is read by what follows alone."""
    pairs = zip(path.nodes, path.nodes[1:], strict=False)
    return not path.source.is_output and all(
        _is_carried_for(node, following)
        if following.opcode == _GET
        else not node.is_output and _readers(node) == {following}
        for node, following in pairs
    )


def _readers(node: Node) -> set[Node]:
    """What uses a node; for an element of a loop's state without the tuple by which the body passes it on."""
    return {user for user in node.users if node.opcode != _GET or user is not node.graph.root}


def _is_carried_for(node: Node, element: Node) -> bool:
    """Whether a value is only in the initial state of a loop, out of which only `element` takes it."""
    whole, index = element.operands[0], element.attributes["index"]
    loop = whole.graph.callers[0] if isinstance(whole, Parameter) else whole
    start = loop.operands[0]
    if node.is_output or set(node.users) != {start} or start.operands.count(node) != 1 or loop_of(start) is not loop:
        return False
    if loop.is_output or any(user.opcode != _GET for user in loop.users):
        return False
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    taken = (body.parameters[0], condition.parameters[0], loop)
    others = [other for state in taken for other in elements(state, index) if other is not element]
    if any(other.is_output or _readers(other) for other in others):
        return False
    return body.root.operands.count(element) <= 1


_OPERANDS = {
    "convert": _first,
    "copy": _first,
    "negate": _first,
    "divide": _first,
    "add": _both,
    "subtract": _both,
    "multiply": _either,
    "maximum": _relu,
    "transpose": _moved,
    "broadcast": _moved,
    "reshape": _reshape,
    "dot": _dot,
}

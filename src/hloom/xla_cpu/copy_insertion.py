"""Copies of donated parameters: what is read by work that need not come before the result that takes their place.

XLA's copy insertion runs before scheduling, so the order that the program itself demands is all that counts.
"""

from __future__ import annotations

from collections.abc import Collection

from hloom.ir import Graph, Module, Node, Parameter
from hloom.ops import OPS
from hloom.xla_cpu.reachability import Reaching


def copy_donated(module: Module, fused: Collection[Node]) -> None:
    """Let all readers of such a parameter read a copy of it."""
    entry, root = module.entry, module.entry.output
    if root is None:
        return
    parameters = {each.number: each for each in entry.parameters}
    reaching = Reaching(entry)
    first = next((each for each in entry.nodes if not isinstance(each, Parameter)), None)
    for alias in module.attributes.get("input_output_alias") or ():
        is_plain = not alias.parameter_index and len(alias.output_index) <= 1 and alias.parameter in parameters
        if not is_plain or (alias.output_index and root.opcode != "tuple"):
            continue
        made = root.inputs[alias.output_index[0]] if alias.output_index else root
        given = parameters[alias.parameter]
        if _needs_copy(given, _stored(made), root, fused, reaching):
            _copy(entry, given, first)


def _stored(value: Node) -> Node:
    """What a value is another view of."""
    while value.opcode == "bitcast" and value.inputs:
        value = value.inputs[0]
    return value


def _needs_copy(given: Parameter, made: Node, root: Node, fused: Collection[Node], reaching: Reaching) -> bool:
    """Whether some kernel reads a parameter that is neither what makes the result nor before it."""
    if made is given:
        return False
    readers = _readers(given, fused)
    return any(
        reader is not made and (reader is root or not reaching.leads(reader, made)) for reader in reversed(readers)
    )


def _readers(value: Node, fused: Collection[Node]) -> list[Node]:
    """The kernels that read a value, through what is fused and through views."""
    found: dict[Node, None] = {}
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if user in fused or user.opcode == "bitcast":
                pending.append(user)
            else:
                found[user] = None
    return list(found)


def _copy(entry: Graph, given: Parameter, before: Node | None) -> None:
    copy = entry.add_apply(OPS["copy"], (given,), given.type, before=before)
    entry.replace_uses(given, copy)
    entry.set_inputs(copy, (given,))

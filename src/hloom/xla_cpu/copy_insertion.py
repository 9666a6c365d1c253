"""Copies of donated parameters, where a kernel may still read one after the aliased output has overwritten it.

Follows `AddCopiesForAliasedInputOutputs` and `CopyInsertion::RemoveUnnecessaryCopies` in xla/service/copy_insertion.cc.
XLA inserts copies before it schedules, so a copy stays unless data dependences alone order the reads first.
"""

from __future__ import annotations

from collections.abc import Collection

from hloom.ir import Graph, Module, Node, Parameter
from hloom.ops import OPS
from hloom.xla_cpu.reachability import Reachability


def copy_donated_parameters(module: Module, fused: Collection[Node]) -> None:
    """Make all users of such a parameter read a copy of it."""
    entry, root = module.entry, module.entry.output
    if root is None:
        return
    parameters = {parameter.number: parameter for parameter in entry.parameters}
    reachability = Reachability(entry)
    first = next((node for node in entry.nodes if not isinstance(node, Parameter)), None)
    for alias in module.attributes.get("input_output_alias") or ():
        is_plain = not alias.parameter_index and len(alias.output_index) <= 1 and alias.parameter in parameters
        if not is_plain or (alias.output_index and root.opcode != "tuple"):
            continue
        output = root.inputs[alias.output_index[0]] if alias.output_index else root
        parameter = parameters[alias.parameter]
        if _needs_copy(parameter, _behind_bitcasts(output), root, fused, reachability):
            _copy(entry, parameter, first)


def _behind_bitcasts(value: Node) -> Node:
    """The node whose buffer a value is a view of."""
    while value.opcode == "bitcast" and value.inputs:
        value = value.inputs[0]
    return value


def _needs_copy(
    parameter: Parameter, output: Node, root: Node, fused: Collection[Node], reachability: Reachability
) -> bool:
    """Whether a kernel reads a parameter that neither computes the output nor is always run before it."""
    if output is parameter:
        return False
    return any(
        kernel is not output and (kernel is root or not reachability.reaches(kernel, output))
        for kernel in reversed(_reading_kernels(parameter, fused))
    )


def _reading_kernels(value: Node, fused: Collection[Node]) -> list[Node]:
    """The kernels that read a value, through fused nodes and bitcasts."""
    kernels: dict[Node, None] = {}
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if user in fused or user.opcode == "bitcast":
                pending.append(user)
            else:
                kernels[user] = None
    return list(kernels)


def _copy(entry: Graph, parameter: Parameter, before: Node | None) -> None:
    copy = entry.add_apply(OPS["copy"], (parameter,), parameter.type, before=before)
    entry.replace_uses(parameter, copy)
    entry.set_inputs(copy, (parameter,))

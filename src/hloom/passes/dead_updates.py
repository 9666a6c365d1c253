"""The pass `eliminate-dead-updates`: updates of slices that nothing reads go.

    u = dynamic-update-slice(x, y, 4)
    s = slice(u), slice={[0:4]}
      ->
    s = slice(x), slice={[0:4]}

Only where no user is left that reads the update: else the array and the updated one would both be alive, and what XLA
does in place would copy the array. Follows XLA's
xla/hlo/transforms/simplifiers/dead_dynamic_update_slice_elimination.cc (ProcessDynamicUpdateSlice).
"""

from __future__ import annotations

from hloom.ir import Apply, Graph, Module, Node
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.dimensions import lost_in_replacement
from hloom.passes.rules.dynamic_slice import constant_starts
from hloom.rewrite import Report, tensor_type


def eliminate_dead_updates(module: Module) -> Report:
    """Let slices read the array before a dynamic-update-slice beside them, where nothing else uses the update."""
    report = Report("eliminate-dead-updates")
    report.touched = set()
    if module.has_closures:
        return report
    module.index_users()
    for graph in module.graphs:
        report.changes += _eliminate(graph, report.touched)
    return report


def _eliminate(graph: Graph, touched: set[Node]) -> int:
    """Erase the dead updates of a graph, last first, so that what reads one of several comes to the first of them."""
    count, operands = 0, dict[Node, None]()
    for node in reversed(graph.nodes):
        if not isinstance(node, Apply) or node.opcode != "dynamic-update-slice" or not _is_dead(node):
            continue
        array, *others = node.inputs
        touched.update(node.users)
        operands |= dict.fromkeys(others)
        graph.replace_uses(node, array)
        graph.erase(node)  # at once: the array may be an update too, which nothing else reads
        count += 1
    operands = {node: None for node in operands if node.name in graph}
    erase_dead(operands)
    return count


def _is_dead(update: Apply) -> bool:
    """Whether all that uses an update are slices beside it, and nothing but its value is lost with it."""
    users, whole, part = update.users, tensor_type(update), tensor_type(update.inputs[1])
    if update.is_output or not users or whole is None or part is None or has_control_dependencies(update):
        return False
    if any(user.opcode != "slice" or user.inputs != (update,) or has_control_dependencies(user) for user in users):
        return False
    offsets = constant_starts(update, whole, part)
    if offsets is None or lost_in_replacement(update, update.inputs[0]):
        return False
    return all(
        any(
            taken.limit <= offset or taken.start >= offset + size
            for taken, offset, size in zip(user.attributes["slice"], offsets, part.dims, strict=True)
        )
        for user in users
    )


register_pass("eliminate-dead-updates", "updates of slices that nothing reads go", eliminate_dead_updates)

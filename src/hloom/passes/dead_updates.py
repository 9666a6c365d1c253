"""The pass `eliminate-dead-updates`: removes updates that no slice reads.

    u = dynamic-update-slice(x, y, 4)
    s = slice(u), slice={[0:4]}
      ->
    s = slice(x), slice={[0:4]}

Only if no user of the update is left: otherwise the original and the updated array would both be live, and XLA would
copy the array instead of updating it in place. Follows XLA's
xla/hlo/transforms/simplifiers/dead_dynamic_update_slice_elimination.cc (ProcessDynamicUpdateSlice).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hloom.ir import Apply, Graph, Module, Node
from hloom.ops import fixed_form
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.dimensions import lost_in_replacement
from hloom.passes.rules.dynamic_slice import constant_starts
from hloom.rewrite import Report, tensor_type


def eliminate_dead_updates(module: Module) -> Report:
    """Make slices that miss a dynamic-update-slice read the array before it, if nothing else uses the update."""
    report = Report("eliminate-dead-updates")
    report.touched = set()
    if module.has_closures:
        return report
    module.index_users()
    for graph in module.graphs:
        if not fixed_form(graph):
            report.changes += _eliminate(graph, report.touched)
    return report


@dataclass(slots=True)
class _Slices:
    """Slices of one array, and where they begin and end: by slice and dimension."""

    nodes: list[Node]
    bounds: np.ndarray

    def __add__(self, others: _Slices) -> _Slices:
        return _Slices(self.nodes + others.nodes, np.concatenate([self.bounds, others.bounds]))


def _eliminate(graph: Graph, touched: set[Node]) -> int:
    """Erase the dead updates of a graph, last first, so that a reader of several reaches the first of them."""
    dead: dict[Node, None] = {}
    waiting: dict[Node, _Slices] = {}  # readers that will use a value instead of a dead update of it
    kept: dict[Node, _Slices] = {}
    for node in reversed(graph.nodes):
        if not isinstance(node, Apply) or node.opcode != "dynamic-update-slice":
            continue
        slices, own = waiting.pop(node, None), _slices_of(node, dead)
        if slices is not None:
            kept[node] = slices
        together = own if slices is None or own is None else own + slices
        if together is None or not together.nodes or not _is_beside(node, together.bounds):
            continue
        kept.pop(node, None)
        dead[node] = None
        array = node.operands[0]
        waiting[array] = together + waiting[array] if array in waiting else together
    for array, slices in (kept | waiting).items():
        for node in slices.nodes:
            graph.set_operands(node, [array])
        touched.update(slices.nodes)
    operands: dict[Node, None] = {}
    for node in dead:
        operands |= dict.fromkeys(node.operands[1:])
        graph.erase(node)
    erase_dead(node for node in operands if node not in dead)
    return len(dead)


def _slices_of(update: Apply, dead: Collection[Node]) -> _Slices | None:
    """The slices that use an update; None if anything else does, other than dead updates."""
    array_type = tensor_type(update)
    users = [user for user in update.users if user not in dead]
    if update.is_output or array_type is None or has_control_dependencies(update):
        return None
    if any(user.opcode != "slice" or user.operands != (update,) or has_control_dependencies(user) for user in users):
        return None
    bounds = [[(taken.start, taken.limit) for taken in user.attributes["slice"]] for user in users]
    return _Slices(users, np.array(bounds, np.int64).reshape(len(users), array_type.rank, 2))


def _is_beside(update: Apply, bounds: np.ndarray) -> bool:
    """Whether none of these slices overlaps the update, and nothing but the update is lost with it."""
    whole, part = tensor_type(update), tensor_type(update.operands[1])
    offsets = constant_starts(update, whole, part)
    if part is None or offsets is None or lost_in_replacement(update, update.operands[0]):
        return False
    starts = np.array(offsets, np.int64)
    before, after = bounds[..., 1] <= starts, bounds[..., 0] >= starts + np.array(part.dims, np.int64)
    return bool((before | after).any(axis=1).all())


register_pass("eliminate-dead-updates", "updates of slices that nothing reads go", eliminate_dead_updates)

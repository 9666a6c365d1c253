"""The pass `merge-reduces`: reductions of one array over the same dimensions become one variadic reduction.

    sum = reduce(x, 0), most = reduce(x, -inf)
      ->
    both = reduce(x, x, 0, -inf), sum = get-tuple-element(both, 0), most = get-tuple-element(both, 1)

The array is read once, and one kernel is launched. CPU compilers vectorise plain reductions but process variadic ones
element by element, several times slower, so nothing is merged for CPUs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from hloom.analysis import Device, as_device
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, TupleType
from hloom.ops import OPS, may_merge
from hloom.passes.computation_order import control_predecessors, has_control_dependencies, running_graphs
from hloom.passes.pipeline import register_pass
from hloom.rewrite import Builder, Report, tensor_type

MOST_REDUCTIONS = 8
"""The maximum number of reductions to merge into one, as for XLA's multi-output kernels
(xla/service/gpu/gpu_fusible.h).
"""
_GET = "get-tuple-element"


def merge_reduces(module: Module, target: Device | str = "cpu") -> Report:
    """Merge reductions of one array if that is no slower on a device, given itself or by name.

    A compiler may then add up floats in another order. Raises HloomError for an unknown device.
    """
    on = as_device(target)
    report = Report("merge-reduces")
    if module.has_closures:
        return report
    if on.backend == "cpu":
        report.notes.append(f"{on.name} is a CPU: reductions of several values are slower there than one by one")
        return report
    module.index_users()
    for graph in running_graphs(module):
        for members in list(_groups(graph)):
            _merge(graph, members)
            report.changes += 1
            names = ", ".join(member.name for member in members)
            report.notes.append(f"{names} of {graph.name}: one reduction")
    return report


def _groups(graph: Graph) -> Iterator[list[Apply]]:
    """The reductions that may become one, in order, a few at a time."""
    awaited = control_predecessors(graph)
    groups: dict[Hashable, list[Apply]] = {}
    for node in graph.nodes:
        if isinstance(node, Apply) and node.opcode == "reduce" and node not in awaited and _may_be_merged(node):
            groups.setdefault((node.operands[0], node.attributes["dimensions"], node.type), []).append(node)
    for members in groups.values():
        for start in range(0, len(members), MOST_REDUCTIONS):
            part = members[start : start + MOST_REDUCTIONS]
            if len(part) > 1:
                yield part


def _may_be_merged(node: Apply) -> bool:
    """Whether it reduces one array from a value that is there at once, and nothing says when or where it runs."""
    if len(node.operands) != 2 or tensor_type(node) is None or tensor_type(node.operands[0]) is None:
        return False
    if node.attributes.keys() - {"dimensions", "to_apply"} or has_control_dependencies(node) or not may_merge(node):
        return False
    computation = node.attributes["to_apply"]
    is_defined = isinstance(computation, Graph) and computation.output is not None and not computation.missing
    return is_defined and isinstance(node.operands[1], (Constant, Parameter)) and node.operands[1].graph is node.graph


def _merge(graph: Graph, members: Sequence[Apply]) -> None:
    first = members[0]
    starts = [member.operands[1] for member in members]
    for start in starts:
        if graph.comes_before(first, start):
            graph.move_before(start, first)
    build = Builder(first)
    types = [member.type for member in members if isinstance(member.type, TensorType)]
    both = build.op(
        "reduce", *(member.operands[0] for member in members), *starts, type=TupleType(types),
        dimensions=first.attributes["dimensions"], to_apply=_computation(build, members),
    )  # fmt: skip
    for number, member in enumerate(members):
        result = build.op(_GET, both, index=number, type=member.type)
        graph.set_metadata(result, member.raw_metadata)
        graph.replace_uses(member, result)
    for member in members:
        graph.erase(member)


def _computation(build: Builder, members: Sequence[Apply]) -> Graph:
    """A computation that does what those of several reductions do, each with its own pair of values."""
    made = build.new_graph("merged_reduction")
    scalars = [TensorType(member.operands[0].array_type.dtype) for member in members]
    left = [made.add_parameter(scalar, f"accumulated{number}") for number, scalar in enumerate(scalars)]
    right = [made.add_parameter(scalar, f"value{number}") for number, scalar in enumerate(scalars)]
    results: list[Node] = []
    for member, one, other in zip(members, left, right, strict=True):
        called = member.attributes["to_apply"]
        mapping: dict[Any, Any] = dict(zip(called.parameters, (one, other), strict=True))
        made.copy_nodes([node for node in called.nodes if node not in mapping], mapping)
        results.append(mapping[called.root])
    made.set_output(made.add_apply(OPS["tuple"], results, TupleType(scalars)))
    return made


register_pass(
    "merge-reduces",
    "reductions of one array become one of several values, not on CPUs",
    merge_reduces,
    ("target",),
)

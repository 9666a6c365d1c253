"""The passes `move-into-branches` and `move-out-of-branches`: what stands at the borders of conditionals.

Follows XLA's xla/service/conditional_code_motion.cc (ConditionalCodeMotion), as two passes, since each undoes what the
other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import Apply, Graph, Module, Node, TupleType
from hloom.ops import OPS, may_merge
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.dce import dce, erase_dead
from hloom.passes.outline import CALLERS
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.rules.conditional import branches_of, unused_operands, unused_results, with_branches
from hloom.passes.rules.conditional_motion import (
    INTO_BRANCHES,
    MOVABLE,
    OUT_OF_BRANCHES,
    has_shardings,
    is_copied,
)
from hloom.passes.rules.loop_state import live_nodes
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import elements_of
from hloom.rewrite import Builder, Report, tensor_type

_GET = "get-tuple-element"
_USERS = MOVABLE | {"copy", "reduce"}
"""What branches may do themselves with their results."""


def move_users(module: Module) -> Report:
    """Compute in the branches what is computed of their results only, where they do not yield more bytes so.

    power(c, c), c = conditional(i, x, y)  ->  conditional(i, x, y), whose branches yield power(r, r) of their result r
    """
    report = Report("users of conditionals")
    if module.has_closures:
        return report
    module.index_users()
    for graph in list(module.graphs):
        if graph is module._entry or all(caller.opcode in CALLERS for caller in graph.callers):
            for node in [node for node in graph.nodes if node.opcode == "conditional"]:
                assert isinstance(node, Apply)
                report.changes += _move_users(node)
    return report


def _move_users(node: Apply) -> int:
    """Move into the branches what uses a conditional's results only; how many instructions."""
    branches = branches_of(node)
    if not branches or has_shardings(node, branches) or node.is_output:
        return 0
    if any(graph.output is None or graph.missing for graph in branches):
        return 0
    is_tuple = isinstance(node.type, TupleType)
    if is_tuple and any(user.opcode != _GET or node not in user.inputs for user in node.users):
        return 0
    results = list(node.users) if is_tuple else [node]
    if any(tensor_type(result) is None or has_control_dependencies(result) for result in results if is_tuple):
        return 0
    moved = _computed_of(results)
    yielded = _yielded(results, moved)
    if not moved or _byte_count(yielded) > _byte_count(results):
        return 0
    _replace(node, branches, results, moved, yielded)
    return len(moved)


def _computed_of(results: Sequence[Node]) -> list[Node]:
    """What is computed of some results and small constants only, in order."""
    known: dict[Node, None] = dict.fromkeys(results)
    pending = list(results)
    moved: list[Node] = []
    while pending:
        for user in pending.pop().users:
            if user in known or not _may_go_in(user, known):
                continue
            known[user] = None
            moved.append(user)
            pending.append(user)
    return moved


def _may_go_in(user: Node, known: dict[Node, None]) -> bool:
    if not isinstance(user, Apply) or user.opcode not in _USERS or tensor_type(user) is None or not may_merge(user):
        return False
    if "sharding" in user.attributes or has_control_dependencies(user):
        return False
    return all(operand in known or is_copied(operand) for operand in user.inputs)


def _yielded(results: Sequence[Node], moved: Sequence[Node]) -> list[Node]:
    """What is used outside of the branches, once some nodes are in them."""
    inside = set(moved)
    values = [*results, *moved]
    return [value for value in values if value.is_output or any(user not in inside for user in value.users)]


def _byte_count(values: Sequence[Node]) -> int:
    return sum(value.type.byte_count for value in values if value.type is not None)


def _replace(
    node: Apply, branches: Sequence[Graph], results: Sequence[Node], moved: Sequence[Node], yielded: Sequence[Node]
) -> None:
    build = Builder(node)
    types = [value.type for value in yielded if value.type is not None]
    graphs = [_with_users(build, graph, results, moved, yielded) for graph in branches]
    attributes = {name: value for name, value in node.attributes.items() if name not in ("origin", "statistics")}
    state = TupleType(types)
    made = build.op("conditional", *node.inputs, type=state, attributes=with_branches(node, graphs, attributes))
    for index, value in enumerate(yielded):
        taken = build.op(_GET, made, index=index, type=value.type)
        node.graph.set_metadata(taken, value.raw_metadata)
        _use_instead(value, taken, set(moved))
    for value in dict.fromkeys([*reversed(moved), *results, node]):
        node.graph.erase(value)
    for graph in dict.fromkeys(branches):
        if not graph.callers:
            graph.module.erase_graph(graph)


def _use_instead(value: Node, taken: Node, inside: set[Node]) -> None:
    """Let what stays outside use another node."""
    graph = value.graph
    for user in value.users:
        if user not in inside:
            graph.set_inputs(user, [taken if operand is value else operand for operand in user.inputs])
            graph.set_attributes(user, user.attributes.mapped({value: taken}))
    if graph.output is value:
        graph.set_output(taken)


def _with_users(
    build: Builder, graph: Graph, results: Sequence[Node], moved: Sequence[Node], yielded: Sequence[Node]
) -> Graph:
    """A branch that computes what was computed of its results."""
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    mapping: dict[Any, Any] = {}
    made.copy_nodes(graph.parameters, mapping)
    made.copy_nodes([node for node in graph.nodes if node not in mapping], mapping)
    root = mapping[graph.root]
    types = elements_of(root.type)
    for result in results:
        if types is None:
            mapping[result] = root
        elif root.opcode == "tuple":
            mapping[result] = root.inputs[result.attributes["index"]]
        else:
            index = result.attributes["index"]
            mapping[result] = made.add_apply(OPS[_GET], [root], types[index], {"index": index})
    constants = dict.fromkeys(operand for node in moved for operand in node.inputs if is_copied(operand))
    made.copy_nodes([constant for constant in constants if constant not in mapping], mapping)
    made.copy_nodes(moved, mapping)
    known = [value.type for value in yielded if value.type is not None]
    made.set_output(made.add_apply(OPS["tuple"], [mapping[value] for value in yielded], TupleType(known)))
    wanted = live_nodes(made, [made.root])
    erase_dead(node for node in reversed(made.nodes) if node not in wanted)
    return made


_CLEANUP = (unused_operands, unused_results, element_of_tuple)
register_pass(
    "move-into-branches",
    "branches compute what only they need, and what only uses their results",
    fixpoint(
        "move-into-branches",
        [
            rules_pass("operands of branches", (*INTO_BRANCHES, *_CLEANUP)),
            Pass("users of conditionals", move_users),
            Pass("dce", dce),
        ],
    ).run,
)
register_pass(
    "move-out-of-branches",
    "what all branches of a conditional end with is computed after it",
    fixpoint(
        "move-out-of-branches",
        [rules_pass("ends of branches", (*OUT_OF_BRANCHES, unused_results, element_of_tuple)), Pass("dce", dce)],
    ).run,
)

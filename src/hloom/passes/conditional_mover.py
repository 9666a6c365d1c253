"""Passes that move instructions into conditional branches, out of them, or whichever is better.

`move-into-branches` and `move-out-of-branches` move everything that can be moved, and undo each other;
`move-across-branches` decides with `conditional_benefit.py`. Follows XLA's xla/service/conditional_code_motion.cc
(ConditionalCodeMotion).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Graph, LeafSharding, Module, Node, TupleSharding, TupleType
from hloom.ops import OPS, may_merge
from hloom.passes.computation_order import has_control_dependencies, running_graphs
from hloom.passes.conditional_benefit import ends_benefit, users_benefit
from hloom.passes.dce import dce, erase_dead
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.rules.conditional import branches_of, unused_operands, unused_results, with_branches
from hloom.passes.rules.conditional_motion import (
    INTO_BRANCHES,
    MOVABLE,
    OUT_OF_BRANCHES,
    ends_of,
    has_shardings,
    is_copied,
    results_of_all_branches,
)
from hloom.passes.rules.loop_state import live_nodes
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import elements_of
from hloom.rewrite import Builder, Report, apply_at, tensor_type

_GET = "get-tuple-element"
_USERS = MOVABLE | {"copy", "reduce"}
"""Opcodes that may move into branches."""


def move_users(module: Module) -> Report:
    """Move computations that only use a conditional's results into its branches, unless these would yield more bytes.

    power(c, c), c = conditional(i, x, y)  ->  conditional(i, x, y), whose branches yield power(r, r) of their result r
    """
    report = Report("users of conditionals")
    if module.has_closures:
        return report
    module.index_users()
    for graph in running_graphs(module):
        for node in [node for node in graph.nodes if node.opcode == "conditional"]:
            assert isinstance(node, Apply)
            report.changes += _move_users(node)
    return report


def move_across(module: Module) -> Report:
    """Move instructions at the boundary of conditionals in or out, whichever puts more of them next to their readers.

    Instructions needed by one branch only move in. For the results of a conditional one direction is chosen: in if that
    is strictly better, out if it is no worse. Nothing moves out of a conditional that yields an array, and an
    instruction that reads several results only moves in with others that read one of them.
    """
    report = Report("what stands at borders")
    if module.has_closures:
        return report
    module.index_users()
    for graph in running_graphs(module):
        for node in [node for node in graph.nodes if node.opcode == "conditional"]:
            assert isinstance(node, Apply)
            report.changes += _move_results(node)
    return report


def _move_results(node: Apply) -> int:
    """Move the ends of a conditional's branches out, or the users of its results in; returns how many."""
    ends, _ = ends_of(node) if isinstance(node.type, TupleType) else (None, "")
    users = _users_of(node, _with_own_users(node))
    outward = None if ends is None else ends_benefit(node, ends)
    inward = 0.0 if users is None else users_benefit(node, users.results, users.moved)
    if users is not None and inward > max(0.0, outward or 0.0):
        _replace(node, users)
        return len(users.moved)
    if ends is not None and (node.is_output or (outward is not None and outward >= 0)):
        count = len(ends.rows)
        return count if apply_at(node.graph.module, results_of_all_branches, node) else 0
    return 0


def _move_users(node: Apply) -> int:
    """Move instructions that only use a conditional's results into its branches; returns how many."""
    users = _users_of(node, _results_of(node))
    if users is None:
        return 0
    _replace(node, users)
    return len(users.moved)


@dataclass(frozen=True, slots=True)
class _Users:
    """Computations on a conditional's results alone: the results, the instructions, and which of both others use."""

    branches: Sequence[Graph]
    results: Sequence[Node]
    moved: Sequence[Node]
    yielded: Sequence[Node]


def _users_of(node: Apply, given: Sequence[Node]) -> _Users | None:
    """What branches could compute from some results; None for nothing, or if they would yield more bytes."""
    branches, results = branches_of(node), _results_of(node)
    if not branches or node.is_output or any(graph.output is None or graph.missing for graph in branches):
        return None
    moved = _computed_of(given, is_sharded="sharding" in node.attributes)
    yielded = _yielded(results, moved)
    if not moved or _byte_count(yielded) > _byte_count(results):
        return None
    if has_shardings(node, branches) and not _has_leaf_shardings([node, *(graph.root for graph in branches)], yielded):
        return None
    return _Users(branches, results, moved, yielded)


def _results_of(node: Apply) -> list[Node]:
    """A conditional's result, or the elements of it that are taken; none where more than they is used."""
    if not isinstance(node.type, TupleType):
        return [node]
    if any(user.opcode != _GET or node not in user.operands for user in node.users):
        return []
    has_plain = all(tensor_type(user) is not None and not has_control_dependencies(user) for user in node.users)
    return list(node.users) if has_plain else []


def _with_own_users(node: Apply) -> list[Node]:
    """Those results of a conditional of which something is computed that reads no other."""
    by_index: dict[int, list[Node]] = {}
    for result in _results_of(node):
        by_index.setdefault(result.attributes.get("index", 0), []).append(result)
    is_sharded = "sharding" in node.attributes
    groups = [group for group in by_index.values() if _computed_of(group, is_sharded=is_sharded)]
    return [result for group in groups for result in group]


def _has_leaf_shardings(wholes: Sequence[Node], yielded: Sequence[Node]) -> bool:
    """Whether a conditional and its branches' roots have shardings, and all values that would be yielded their own."""
    if any("sharding" not in whole.attributes for whole in wholes):
        return False
    return all(isinstance(value.attributes.get("sharding"), LeafSharding) for value in yielded)


def _computed_of(results: Sequence[Node], *, is_sharded: bool) -> list[Node]:
    """What is computed of some results and small constants only, in order; sharded if the results are."""
    known: dict[Node, None] = dict.fromkeys(results)
    pending = list(results)
    moved: list[Node] = []
    while pending:
        for user in pending.pop().users:
            if user in known or not _may_go_in(user, known) or ("sharding" in user.attributes) != is_sharded:
                continue
            known[user] = None
            moved.append(user)
            pending.append(user)
    return moved


def _may_go_in(user: Node, known: dict[Node, None]) -> bool:
    if not isinstance(user, Apply) or user.opcode not in _USERS or tensor_type(user) is None or not may_merge(user):
        return False
    if has_control_dependencies(user):
        return False
    return all(operand in known or is_copied(operand) for operand in user.operands)


def _yielded(results: Sequence[Node], moved: Sequence[Node]) -> list[Node]:
    """What is used outside of the branches, once some nodes are in them."""
    inside = set(moved)
    values = [*results, *moved]
    return [value for value in values if value.is_output or any(user not in inside for user in value.users)]


def _byte_count(values: Sequence[Node]) -> int:
    return sum(value.type.byte_count for value in values if value.type is not None)


def _replace(node: Apply, users: _Users) -> None:
    """Put a conditional in place of one whose branches compute what used its results."""
    build = Builder(node)
    types = [value.type for value in users.yielded if value.type is not None]
    graphs = [_with_users(build, graph, users) for graph in users.branches]
    attributes = {name: value for name, value in node.attributes.items() if name not in ("origin", "statistics")}
    if "sharding" in attributes:
        attributes["sharding"] = _sharding_of(users)
    state = TupleType(types)
    made = build.op("conditional", *node.operands, type=state, attributes=with_branches(node, graphs, attributes))
    instead: dict[Any, Any] = {}
    for index, value in enumerate(users.yielded):
        sharding = {name: value.attributes[name] for name in ("sharding",) if name in value.attributes}
        taken = build.op(_GET, made, index=index, type=value.type, **sharding)
        node.graph.set_metadata(taken, value.raw_metadata)
        instead[value] = taken
    _use_instead(node.graph, instead, set(users.moved))
    for value in dict.fromkeys([*reversed(users.moved), *users.results, node]):
        node.graph.erase(value)
    for graph in dict.fromkeys(users.branches):
        if not graph.callers:
            graph.module.erase_graph(graph)


def _sharding_of(users: _Users) -> TupleSharding:
    return TupleSharding(tuple(value.attributes["sharding"] for value in users.yielded))


def _use_instead(graph: Graph, instead: Mapping[Any, Any], inside: set[Node]) -> None:
    """Let what stays outside use other nodes; a user is changed once, however many of its operands are replaced."""
    for user in dict.fromkeys(user for value in instead for user in value.users if user not in inside):
        graph.set_operands(user, [instead.get(operand, operand) for operand in user.operands])
        graph.set_attributes(user, user.attributes.mapped(instead))
    if graph.output in instead:
        graph.set_output(instead[graph.output])


def _with_users(build: Builder, graph: Graph, users: _Users) -> Graph:
    """A branch that computes what was computed of its results."""
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    mapping: dict[Any, Any] = {}
    made.copy_nodes(graph.parameters, mapping)
    made.copy_nodes([node for node in graph.nodes if node not in mapping], mapping)
    root = mapping[graph.root]
    types = elements_of(root.type)
    for result in users.results:
        if types is None:
            mapping[result] = root
        elif root.opcode == "tuple":
            mapping[result] = root.operands[result.attributes["index"]]
        else:
            index = result.attributes["index"]
            mapping[result] = made.add_apply(OPS[_GET], [root], types[index], {"index": index})
    constants = dict.fromkeys(operand for node in users.moved for operand in node.operands if is_copied(operand))
    made.copy_nodes([constant for constant in constants if constant not in mapping], mapping)
    made.copy_nodes(users.moved, mapping)
    known = [value.type for value in users.yielded if value.type is not None]
    attributes = {"sharding": _sharding_of(users)} if "sharding" in root.attributes else {}
    parts = [mapping[value] for value in users.yielded]
    made.set_output(made.add_apply(OPS["tuple"], parts, TupleType(known), attributes))
    wanted = live_nodes(made, [made.root])
    erase_dead(node for node in reversed(made.nodes) if node not in wanted)
    return made


_CLEANUP = (unused_operands, unused_results, element_of_tuple)
_OPERANDS = rules_pass("operands of branches", (*INTO_BRANCHES, *_CLEANUP))
_DCE = Pass("dce", dce)
register_pass(
    "move-into-branches",
    "branches compute what only they need, and what only uses their results",
    fixpoint("move-into-branches", [_OPERANDS, Pass("users of conditionals", move_users), _DCE]).run,
)
register_pass(
    "move-out-of-branches",
    "what all branches of a conditional end with is computed after it",
    fixpoint(
        "move-out-of-branches",
        [rules_pass("ends of branches", (*OUT_OF_BRANCHES, unused_results, element_of_tuple)), _DCE],
    ).run,
)
register_pass(
    "move-across-branches",
    "what stands at the borders of conditionals moves in or out, where it is beside what it reads and what reads it",
    fixpoint("move-across-branches", [_OPERANDS, Pass("what stands at borders", move_across), _DCE]).run,
)

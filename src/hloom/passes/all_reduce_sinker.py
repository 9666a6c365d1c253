"""The pass `sink-all-reduces`: all-reduces accumulated in a loop become one all-reduce after the loop.

    while(sum): sum + all-reduce(x)
      ->
    sum + all-reduce(while(0): sum' + x)

Also handles accumulation into slices of the sums, and terms that are selected or zeroed by a condition on which the
devices agree:

    while(sum): dynamic-update-slice(sum, dynamic-slice(sum, i) + all-reduce(x), i)

Follows XLA's xla/hlo/transforms/collectives/while_loop_all_reduce_code_motion.cc (WhileLoopAllReduceCodeMotion), for
sums that the loop carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, TupleType, Type, callees_first
from hloom.ops import OPS
from hloom.passes.computation_order import has_control_dependencies, is_awaited, own_copy
from hloom.passes.hoist import runs_at_most_once
from hloom.passes.loop_states import initial_element
from hloom.passes.pipeline import register_pass
from hloom.passes.replication import Replication
from hloom.passes.rules.all_reduce import (
    LOOKED_THROUGH,
    binding,
    is_identity_of,
    reducer_for,
    restraint_of_scatter,
    widens,
)
from hloom.passes.rules.dynamic_slice import same_starts, start_operands
from hloom.passes.rules.participants import device_counts, participants
from hloom.passes.rules.reducers import combiner_of
from hloom.passes.rules.tuple_elements import elements_of
from hloom.passes.rules.while_loop import trip_count
from hloom.rewrite import Builder, Report, tensor_type
from hloom.text import HloomError

_GET = "get-tuple-element"
_MOST_STEPS = 64
"""The maximum number of instructions between an all-reduce and the sums it flows into."""


def sink_all_reduces(module: Module, scatters: int | str = 0) -> Report:
    """Accumulate each device's own terms in a loop if everything that uses an all-reduce is added to elements of the
    state.

    Only if nothing else in the loop reads those sums, and together they have no more elements than all iterations
    reduce (one iteration if the trip count is unknown). The terms of sums are added in another order, and in the
    element type of the sums. With `scatters=1`, reduce-scatters that are added to elements also move behind the loop,
    which then carries whole arrays instead of parts. Raises HloomError for a value other than 0 and 1.
    """
    if scatters not in (0, 1):
        raise HloomError(f"sink-all-reduces: scatters is 0 or 1, not '{scatters}'")
    report = Report("sink-all-reduces")
    module.index_users()
    for graph in [] if module.has_closures else callees_first(module):
        for loop in [node for node in graph.nodes if node.opcode == "while"]:
            assert isinstance(loop, Apply)
            count = _sink_from(loop, bool(scatters))
            report.changes += count
            if count:
                report.notes.append(f"{count:,} reductions of {loop.name} in {graph.name} run after it")
    return report


@dataclass(slots=True)
class _Sinking:
    """An all-reduce or reduce-scatter of a body, the state elements that it is added to, and the sums."""

    reduction: Apply
    elements: dict[int, Node]


def _sink_from(loop: Apply, scatters: bool) -> int:
    """Move reductions of a loop behind it; returns how many."""
    if not _sinkings(loop, scatters) or has_control_dependencies(loop) or runs_at_most_once(loop):
        return 0
    if is_awaited(loop) or any("sharding" in node.attributes for node in (loop, loop.operands[0])):
        return 0
    body = own_copy(loop.attributes["body"], loop)
    moved, types = _sinkings(loop, scatters), elements_of(loop.type) or ()
    for sinking in moved:
        body.replace_uses(sinking.reduction, sinking.reduction.operands[0])
    _widen_state(loop, [sinking for sinking in moved if sinking.reduction.opcode == "reduce-scatter"])
    _reduce_after(loop, moved, types)
    for sinking in moved:
        body.erase(sinking.reduction)
    return len(moved)


def _sinkings(loop: Apply, scatters: bool) -> list[_Sinking]:
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    root, types = body.output, elements_of(loop.type)
    if root is None or root.opcode != "tuple" or types is None or len(body.parameters) != 1 or body.missing:
        return []
    read = _elements_read(condition)
    sums = _sums(body, read) if read is not None else {}
    taken: set[int] = set()
    sinkings: list[_Sinking] = []
    agreement, rounds = _Agreement(loop), (trip_count(loop) or 1) if sums else 1
    for node in body.nodes if sums else ():
        if isinstance(node, Apply) and tensor_type(node) is not None:
            elements: dict[int, Node] | None = None
            if node.opcode == "all-reduce" and not binding(node):
                elements = _elements_summed(node, sums, agreement)
                elements = elements if elements and _is_worth(loop, node, elements, rounds) else None
            elif node.opcode == "reduce-scatter" and scatters:
                elements = _element_scattered(node, sums)
            if elements and not taken & elements.keys():
                taken |= elements.keys()
                sinkings.append(_Sinking(node, elements))
    return sinkings


def _elements_read(condition: Graph) -> set[int] | None:
    """The elements of the state that a condition reads; None if it uses the whole state."""
    if len(condition.parameters) != 1 or condition.output is condition.parameters[0]:
        return None
    users = condition.parameters[0].users
    return {user.attributes["index"] for user in users} if all(user.opcode == _GET for user in users) else None


class _Agreement:
    """Which values of a loop's body are equal on all devices in the groups of an all-reduce."""

    def __init__(self, loop: Apply) -> None:
        self._loop = loop
        self._replications: dict[tuple[tuple[int, ...], ...], Replication] = {}

    def holds(self, all_reduce: Apply, node: Node) -> bool:
        if isinstance(node, Constant):
            return True
        groups = participants(all_reduce)
        if groups is None:
            return False
        key = tuple(map(tuple, groups))
        if key not in self._replications:
            counts = device_counts(self._loop.graph.module, all_reduce)
            self._replications[key] = Replication(self._loop, groups, counts)
        return self._replications[key].holds(node)


def _sums(body: Graph, read: set[int]) -> dict[Node, int]:
    """The additions of a body that only add a term to an element of the state, with the element's index.

    Includes additions to a slice of an element that is updated in the same place.
    """
    state, root = body.parameters[0], body.root
    if any(user.opcode != _GET for user in state.users):
        return {}
    gets: dict[int, list[Node]] = {}
    for user in state.users:
        gets.setdefault(user.attributes["index"], []).append(user)
    sums: dict[Node, int] = {}
    for index, value in enumerate(root.operands):
        carried = gets.get(index, ())
        if index in read or len(carried) != 1 or not _is_plain_once(value):
            continue
        if value.opcode == "add" and carried[0].use_count == 1 and carried[0] in value.operands:
            sums[value] = index
        elif value.opcode == "dynamic-update-slice" and _slice_summed(value, carried[0]):
            sums[value.operands[1]] = index
    return sums


def _is_plain_once(node: Node) -> bool:
    """Whether a node has one use and no attributes that constrain it."""
    return node.user_count == 1 and node.use_count == 1 and not node.is_output and not node.attributes


def _slice_summed(update: Node, carried: Node) -> bool:
    """Whether an update writes to a slice of a state element the sum of its old value and something else."""
    added, starts = update.operands[1], start_operands(update)
    if update.operands[0] is not carried or carried.use_count != 2 or starts is None:
        return False
    if added.opcode != "add" or not _is_plain_once(added):
        return False
    slices = [
        operand for operand in added.operands if operand.opcode == "dynamic-slice" and operand.operands[0] is carried
    ]
    if len(slices) != 1 or slices[0].use_count != 1 or slices[0].attributes.keys() != {"dynamic_slice_sizes"}:
        return False
    return slices[0].type == added.type and same_starts(starts, start_operands(slices[0]))


def _elements_summed(all_reduce: Apply, sums: dict[Node, int], agreement: _Agreement) -> dict[int, Node] | None:
    """The elements that all uses of an all-reduce are added to; None if there is another use."""
    if combiner_of(all_reduce.attributes["to_apply"]) != "add":
        return None
    elements: dict[int, Node] = {}
    pending: list[Node] = [all_reduce]
    steps = 0
    while pending:
        node = pending.pop()
        steps += 1
        if node.is_output or not node.users or steps > _MOST_STEPS:
            return None
        for user in node.users:
            if user in sums and user.operands.count(node) == 1 and sums[user] not in elements:
                if not all(agreement.holds(all_reduce, start) for start in _starts_of_update(user)):
                    return None
                elements[sums[user]] = user
            elif user.opcode == "select" and not has_control_dependencies(user):
                chosen, *others = user.operands
                other = others[1] if others[0] is node else others[0]
                if chosen is node or not is_identity_of("add", other) or not agreement.holds(all_reduce, chosen):
                    return None
                pending.append(user)
            elif user.opcode in LOOKED_THROUGH and user.operands[0] is node and not has_control_dependencies(user):
                if user.opcode == "pad" and not is_identity_of("add", user.operands[1]):
                    return None
                if user.opcode == "convert" and not widens(user):
                    return None
                pending.append(user)
            else:
                return None
    return elements


def _element_scattered(scatter: Apply, sums: dict[Node, int]) -> dict[int, Node] | None:
    """The element that a reduce-scatter is added to; None if there is another use."""
    whole, users = tensor_type(scatter.operands[0]), scatter.users
    if combiner_of(scatter.attributes["to_apply"]) != "add" or restraint_of_scatter(scatter) or scatter.is_output:
        return None
    if whole is None or len(users) != 1 or users[0] not in sums or users[0].operands.count(scatter) != 1:
        return None
    added = users[0]
    body = added.graph
    carried = next((operand for operand in added.operands if operand is not scatter), scatter)
    if added not in body.root.operands or carried.opcode != _GET:
        return None
    if any("sharding" in node.attributes for node in (carried, body.root, body.parameters[0])):
        return None
    return {sums[added]: added}


def _widen_state(loop: Apply, scattered: Sequence[_Sinking]) -> None:
    """Make a loop carry the whole arrays that are to be reduced instead of one device's parts."""
    if not scattered:
        return
    body, types = loop.attributes["body"], list(elements_of(loop.type) or ())
    for sinking in scattered:
        whole = tensor_type(sinking.reduction.operands[0])
        assert whole is not None, "looked at before"
        for index, added in sinking.elements.items():
            types[index] = whole
            for node in (added, *(operand for operand in added.operands if operand.opcode == _GET)):
                body.set_type(node, whole)
    state = TupleType(types)
    body.set_type(body.root, state)
    for graph in (body, own_copy(loop.attributes["condition"], loop)):
        graph.set_type(graph.parameters[0], state)
    loop.graph.set_type(loop, state)


def _starts_of_update(added: Node) -> tuple[Node, ...]:
    """Where a sum is written in an element of the state; empty if it is the whole element."""
    (user,) = added.users
    return (start_operands(user) or ()) if user.opcode == "dynamic-update-slice" else ()


def _is_worth(loop: Apply, all_reduce: Apply, elements: dict[int, Node], rounds: int) -> bool:
    """Whether reducing after the loop reduces no more elements than all these iterations do."""
    types, own = elements_of(loop.type) or (), tensor_type(all_reduce)
    if own is None:
        return False
    leaves = [leaf for index in elements for leaf in types[index].leaves()]
    after = sum(leaf.element_count for leaf in leaves if isinstance(leaf, TensorType))
    return after <= own.element_count * rounds


def _reduce_after(loop: Apply, sinkings: list[_Sinking], types: Sequence[Type]) -> None:
    """Initialise the sums with zeros, reduce them after the loop, and add their initial values.

    `types` are the types of the elements before the change.
    """
    graph, carried = loop.graph, elements_of(loop.type) or ()
    moved = {index: sinking.reduction for sinking in sinkings for index in sinking.elements}
    build = Builder(loop)
    before = [initial_element(loop, index) for index in range(len(types))]
    begun = [_zeros(build, carried[index]) if index in moved else value for index, value in enumerate(before)]
    old_start = loop.operands[0]
    state = graph.add_apply(OPS["tuple"], begun, loop.type, before=loop, metadata=old_start.raw_metadata)
    graph.set_operands(loop, [state])
    if old_start.opcode == "tuple" and not old_start.is_used:
        graph.erase(old_start)
    users, is_output = list(loop.users), loop.is_output
    following = graph.nodes[graph.nodes.index(loop) + 1] if graph.nodes[-1] is not loop else None
    parts: dict[int, Node] = {}

    def part(index: int) -> Node:
        if index not in parts:
            element = graph.add_apply(OPS[_GET], [loop], carried[index], {"index": index}, before=following)
            parts[index] = element
            if index in moved:
                parts[index] = _total(graph, moved[index], element, before[index], following)
        return parts[index]

    read = [user for user in users if user.opcode == _GET and user.attributes["index"] in moved]
    for index in {user.attributes["index"]: None for user in read}:
        part(index)
    whole = [user for user in users if user.opcode != _GET]
    if whole or is_output:
        inputs = [part(index) for index in range(len(types))]
        together = graph.add_apply(OPS["tuple"], inputs, TupleType(types), before=following)
        for user in whole:
            graph.set_operands(user, [together if operand is loop else operand for operand in user.operands])
        if is_output:
            graph.set_output(together)
    for user in read:
        graph.replace_uses(user, part(user.attributes["index"]))
        graph.erase(user)


def _zeros(build: Builder, element_type: object) -> Node:
    assert isinstance(element_type, TensorType), f"{element_type!r} is not an array"
    return build.constant(0, element_type)


def _total(graph: Graph, reduction: Apply, summed: Node, before: Node, following: Node | None) -> Node:
    """The reduced sum of a loop, plus its initial value."""
    attributes = {name: value for name, value in reduction.attributes.items() if name != "origin"}
    attributes["to_apply"] = reducer_for(Builder(summed), reduction, summed)
    metadata, made = reduction.raw_metadata, before.type
    reduced = graph.add_apply(reduction.op, [summed], made, attributes, before=following, metadata=metadata)
    if is_identity_of("add", before):
        return reduced
    return graph.add_apply(OPS["add"], [before, reduced], made, before=following, metadata=metadata)


register_pass(
    "sink-all-reduces",
    "what each round of a loop reduces and adds up is reduced once, after the loop",
    sink_all_reduces,
    ("scatters",),
)

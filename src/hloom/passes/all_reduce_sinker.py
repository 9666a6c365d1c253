"""The pass `sink-all-reduces`: what each round of a loop reduces and adds up is reduced once, after the loop.

    while(sum): sum + all-reduce(x)
      ->
    sum + all-reduce(while(0): sum' + x)

Follows XLA's xla/hlo/transforms/collectives/while_loop_all_reduce_code_motion.cc (WhileLoopAllReduceCodeMotion), of
sums that the loop carries.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir import Apply, Graph, Module, Node, TensorType, TupleType
from hloom.ops import OPS
from hloom.passes.computation_order import callees_first, has_control_dependencies, is_awaited, own_copy
from hloom.passes.hoist import runs_at_most_once
from hloom.passes.loop_states import initial_element
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.all_reduce import binding, is_identity_of, reducer_for, widens
from hloom.passes.rules.reducers import combiner_of
from hloom.passes.rules.tuple_elements import elements_of
from hloom.rewrite import Builder, Report, tensor_type

_GET = "get-tuple-element"
_LINEAR = frozenset(("convert", "pad", "reshape", "slice", "transpose"))
"""What may be done to a sum as well as to its terms; of pads, those of zeros, of converts, those to wider floats."""
_MOST_STEPS = 64
"""How many of these there may be between an all-reduce and the sums that it goes into."""


def sink_all_reduces(module: Module) -> Report:
    """Let loops sum up what each device has, where all that becomes of an all-reduce is added to elements of the state.

    Only where nothing else in the loop reads those sums, and together they have no more elements than the all-reduce.
    The terms of sums are added in another order, and in the element type of the sums.
    """
    report = Report("sink-all-reduces")
    module.index_users()
    for graph in [] if module.has_closures else callees_first(module):
        for loop in [node for node in graph.nodes if node.opcode == "while"]:
            assert isinstance(loop, Apply)
            count = _sink_from(loop)
            report.changes += count
            if count:
                report.notes.append(f"{count:,} all-reduces of {loop.name} in {graph.name} run after it")
    return report


@dataclass(slots=True)
class _Sinking:
    """An all-reduce of a body, and the elements of the state that it is added to."""

    all_reduce: Apply
    elements: dict[int, Node]


def _sink_from(loop: Apply) -> int:
    """How many all-reduces of a loop are moved behind it."""
    if not _sinkings(loop) or has_control_dependencies(loop) or runs_at_most_once(loop):
        return 0
    if is_awaited(loop) or any("sharding" in node.attributes for node in (loop, loop.inputs[0])):
        return 0
    own_copy(loop.attributes["body"], loop)
    moved = _sinkings(loop)
    for sinking in moved:
        body = sinking.all_reduce.graph
        body.replace_uses(sinking.all_reduce, sinking.all_reduce.inputs[0])
    _reduce_after(loop, moved)
    for sinking in moved:
        sinking.all_reduce.graph.erase(sinking.all_reduce)
    return len(moved)


def _sinkings(loop: Apply) -> list[_Sinking]:
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    root, types = body.output, elements_of(loop.type)
    if root is None or root.opcode != "tuple" or types is None or len(body.parameters) != 1 or body.missing:
        return []
    read = _elements_read(condition)
    sums = _sums(body, read) if read is not None else {}
    taken: set[int] = set()
    sinkings: list[_Sinking] = []
    for node in body.nodes if sums else ():
        if isinstance(node, Apply) and node.opcode == "all-reduce" and tensor_type(node) is not None:
            elements = _elements_summed(node, sums)
            if elements and not taken & elements.keys() and not binding(node) and _is_worth(node, elements):
                taken |= elements.keys()
                sinkings.append(_Sinking(node, elements))
    return sinkings


def _elements_read(condition: Graph) -> set[int] | None:
    """The elements of the state that a condition reads; None where it uses the state whole."""
    if len(condition.parameters) != 1 or condition.output is condition.parameters[0]:
        return None
    users = condition.parameters[0].users
    return {user.attributes["index"] for user in users} if all(user.opcode == _GET for user in users) else None


def _sums(body: Graph, read: set[int]) -> dict[Node, int]:
    """The additions of a body that are an element of the state and a term, and do nothing else; the element's index."""
    state, root = body.parameters[0], body.root
    if any(user.opcode != _GET for user in state.users):
        return {}
    gets: dict[int, list[Node]] = {}
    for user in state.users:
        gets.setdefault(user.attributes["index"], []).append(user)
    sums: dict[Node, int] = {}
    for index, value in enumerate(root.inputs):
        if value.opcode != "add" or value.user_count != 1 or value.use_count != 1 or index in read or value.attributes:
            continue
        carried = gets.get(index, ())
        if len(carried) == 1 and carried[0].use_count == 1 and carried[0] in value.inputs:
            sums[value] = index
    return sums


def _elements_summed(all_reduce: Apply, sums: dict[Node, int]) -> dict[int, Node] | None:
    """The elements that all which becomes of an all-reduce is added to; None where something else becomes of it."""
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
            if user in sums and user.inputs.count(node) == 1 and sums[user] not in elements:
                elements[sums[user]] = user
            elif user.opcode in _LINEAR and user.inputs[0] is node and not has_control_dependencies(user):
                if user.opcode == "pad" and not is_identity_of("add", user.inputs[1]):
                    return None
                if user.opcode == "convert" and not widens(user):
                    return None
                pending.append(user)
            else:
                return None
    return elements


def _is_worth(all_reduce: Apply, elements: dict[int, Node]) -> bool:
    """Whether no more elements are reduced after the loop than in one round."""
    types = [tensor_type(node) for node in elements.values()]
    own = tensor_type(all_reduce)
    if own is None:
        return False
    return sum(array_type.element_count for array_type in types if array_type is not None) <= own.element_count


def _reduce_after(loop: Apply, sinkings: list[_Sinking]) -> None:
    """Begin the sums with zeros, reduce them after the loop, and add what they began with."""
    graph, types = loop.graph, elements_of(loop.type) or ()
    moved = {index: sinking.all_reduce for sinking in sinkings for index in sinking.elements}
    build = Builder(loop)
    before = [initial_element(loop, index) for index in range(len(types))]
    begun = [_zeros(build, types[index]) if index in moved else value for index, value in enumerate(before)]
    old_start = loop.inputs[0]
    state = graph.add_apply(OPS["tuple"], begun, loop.type, before=loop, metadata=old_start.raw_metadata)
    graph.set_inputs(loop, [state])
    if old_start.opcode == "tuple" and not old_start.is_used:
        graph.erase(old_start)
    users, is_output = list(loop.users), loop.is_output
    following = graph.nodes[graph.nodes.index(loop) + 1] if graph.nodes[-1] is not loop else None
    parts: dict[int, Node] = {}

    def part(index: int) -> Node:
        if index not in parts:
            element = graph.add_apply(OPS[_GET], [loop], types[index], {"index": index}, before=following)
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
            graph.set_inputs(user, [together if operand is loop else operand for operand in user.inputs])
        if is_output:
            graph.set_output(together)
    for user in read:
        graph.replace_uses(user, part(user.attributes["index"]))
        graph.erase(user)


def _zeros(build: Builder, element_type: object) -> Node:
    assert isinstance(element_type, TensorType), f"{element_type!r} is no array"
    return build.constant(0, element_type)


def _total(graph: Graph, all_reduce: Apply, summed: Node, before: Node, following: Node | None) -> Node:
    """The sum of a loop, reduced, and what it began with."""
    attributes = {name: value for name, value in all_reduce.attributes.items() if name != "origin"}
    attributes["to_apply"] = reducer_for(Builder(summed), all_reduce, summed)
    metadata = all_reduce.raw_metadata
    reduced = graph.add_apply(all_reduce.op, [summed], summed.type, attributes, before=following, metadata=metadata)
    if is_identity_of("add", before):
        return reduced
    return graph.add_apply(OPS["add"], [before, reduced], summed.type, before=following, metadata=metadata)


register_pass(
    "sink-all-reduces",
    "what each round of a loop reduces and adds up is reduced once, after the loop",
    sink_all_reduces,
)

"""The pass `unroll`: loops of known trip count, unrolled.

Follows XLA's xla/service/while_loop_unroller.cc (WhileLoopUnroller).
"""

from __future__ import annotations

from typing import Any

from hloom.ir import Apply, Graph, Missing, Module, Node, Parameter, TupleType, callees_first
from hloom.ops import OPS, may_drop
from hloom.passes.instruction_copies import ChannelNumbers, separate_computations
from hloom.passes.pipeline import Pass, register_pass, until_settled
from hloom.passes.rules.tuple_elements import elements_of, with_trip_count
from hloom.passes.rules.while_loop import trip_count
from hloom.rewrite import Report

MAX_NODES = 20_000
"""How many instructions a loop may become."""
MAX_MODULE_NODES = 1_000_000
"""How many instructions a module may become: each round of an outer loop may hold a loop that is written out next."""
_GET = "get-tuple-element"


@until_settled
def unroll(module: Module, limit: int = MAX_NODES) -> Report:
    """Put the body of a loop in its place, once for each round, where that makes no more than `limit` instructions.

    Inner loops come first, and again what outer ones made of them: how often those run may be known now. Loops stay
    that would make the module larger than MAX_MODULE_NODES, whose rounds are not known, whose conditions have effects,
    or that control dependencies name.
    """
    report = Report("unroll")
    channels, before, nodes = ChannelNumbers(module), _uncalled(module), module.node_count
    for graph in [] if module.has_closures else callees_first(module):
        for loop in _loops(graph):
            count = trip_count(loop)
            size = len(loop.attributes["body"].nodes)
            reason = _reason_to_stay(count, size, nodes, limit)
            if count is None or reason:
                report.notes.append(f"{loop.name} in {graph.name} stays: {reason}")
                continue
            _write_out(loop, count, channels)
            nodes += count * size
            report.changes += 1
    if report.changes:
        _erase_uncalled(module, before)
    return report


def _reason_to_stay(count: int | None, size: int, nodes: int, limit: int) -> str:
    """Why a loop is not written out, of that many rounds of `size` instructions, beside `nodes`; empty where it is."""
    if count is None:
        return "its rounds are not known"
    if count * size > limit:
        return f"{count:,} rounds of {size:,} instructions"
    if nodes + count * size > MAX_MODULE_NODES:
        return f"the module would have more than {MAX_MODULE_NODES:,} instructions"
    return ""


def unrolled(factor: int) -> Pass:
    """A pass that does `factor` rounds of a loop in one, where the number of rounds is known and a multiple of it."""

    def run(module: Module) -> Report:
        report = Report(f"unroll-{factor}")
        channels, before = ChannelNumbers(module), _uncalled(module)
        for graph in [] if module.has_closures or factor < 2 else callees_first(module):
            for loop in _loops(graph):
                count = trip_count(loop)
                if count is None or count % factor or count <= factor:
                    rounds = "its rounds are not known" if count is None else f"it has {count:,} rounds"
                    report.notes.append(f"{loop.name} in {graph.name} stays: {rounds}")
                    continue
                _do_several(loop, factor, count, channels)
                report.changes += 1
        if report.changes:
            _erase_uncalled(module, before)
        return report

    return Pass(f"unroll-{factor}", run, f"{factor} rounds of each loop in one, where that comes out even")


def _loops(graph: Graph) -> list[Apply]:
    """The loops of a graph that may be written out."""
    return [node for node in graph.nodes if isinstance(node, Apply) and node.opcode == "while" and _is_plain(node)]


def _is_plain(loop: Apply) -> bool:
    condition, body = loop.attributes["condition"], loop.attributes["body"]
    if (
        isinstance(loop.operands[0], Missing)
        or body.output is None
        or condition.output is None
        or body.missing
        or len(body.parameters) != 1
    ):
        return False
    waits = any(not referent.is_graph for referent in loop.attributes.referents())
    awaited = any(loop in user.attributes.referents() for user in loop.users)
    return not waits and not awaited and all(may_drop(node) for node in condition.nodes)


def _write_out(loop: Apply, count: int, channels: ChannelNumbers) -> None:
    """Replace a loop by this many copies of its body."""
    graph, start = loop.graph, loop.operands[0]
    state = _State(graph, start, loop)
    for number in range(count):
        state.step(loop.attributes["body"], channels, is_first=number == 0)
    for user in loop.users:
        if user.opcode == _GET and state.has(user.attributes["index"]):
            value = state.element(user.attributes["index"])
            graph.replace_uses(user, value)
            graph.erase(user)
    if loop.is_used:
        graph.replace_uses(loop, state.whole())
    graph.erase(loop)
    if start.opcode == "tuple" and not start.is_used and may_drop(start):
        graph.erase(start)  # a second reader of a send, beside its send-done, is an error in XLA


def _do_several(loop: Apply, factor: int, count: int, channels: ChannelNumbers) -> None:
    """Let one round of a loop do several."""
    module, old = loop.graph.module, loop.attributes["body"]
    body = module.add_graph(old.name)
    module.graphs.remove(body)
    module.graphs.insert(module.graphs.index(loop.graph), body)
    body.execution_thread = old.execution_thread
    given = old.parameters[0]
    parameter = body.add_parameter(given.type, given.name, given.attributes, given.raw_metadata)
    state = _State(body, parameter, None)
    for number in range(factor):
        state.step(old, channels, is_first=number == 0)
    body.set_output(state.whole())
    attributes = with_trip_count(loop.attributes, count // factor, factor)
    loop.graph.set_attributes(loop, attributes.changed(body=body))


class _State:
    """A loop's state between rounds, as one node or as its elements, which are cheaper to follow."""

    def __init__(self, graph: Graph, start: Node, before: Node | None) -> None:
        self.graph, self.before, self.node = graph, before, start
        self.element_types = elements_of(start.type)
        self.elements: list[Node] | None = list(start.operands) if start.opcode == "tuple" else None
        self.root_like: Node | None = None

    def step(self, body: Graph, channels: ChannelNumbers, *, is_first: bool) -> None:
        """Do one round: copy the body's nodes, given the state."""
        parameter, root = body.parameters[0], body.root
        mapping: dict[Any, Any] = {}
        apart = self.element_types is not None and root.opcode == "tuple"
        for user in parameter.users:
            if self.elements is not None and user.opcode == _GET and user.operands[0] is parameter:
                index = user.attributes["index"]
                if index < len(self.elements):
                    mapping[user] = self.elements[index]
        if any(user not in mapping for user in parameter.users) or root is parameter:
            mapping[parameter] = self.whole()
        skipped = {root} if apart and not root.users else set()
        nodes = [node for node in body.nodes if node not in skipped and not isinstance(node, Parameter)]
        fresh = [node for node in nodes if node not in mapping]
        self.graph.copy_nodes(nodes, mapping, before=self.before)
        if not is_first:
            copies = [mapping[node] for node in fresh]
            channels.renumber(copies)
            separate_computations(copies)
        if skipped:
            self.elements, self.root_like = [mapping[operand] for operand in root.operands], root
        else:
            self.node = mapping[root]
            self.elements = list(self.node.operands) if self.node.opcode == "tuple" else None

    def has(self, index: int) -> bool:
        """Whether the state has an element of this index; a malformed loop may be asked for others."""
        return index < len(self.element_types or ()) and (self.elements is None or index < len(self.elements))

    def element(self, index: int) -> Node:
        """One element of the state."""
        if self.elements is not None:
            return self.elements[index]
        element_type = self.element_types[index] if self.element_types else None
        return self.graph.add_apply(OPS[_GET], [self.node], element_type, {"index": index}, before=self.before)

    def whole(self) -> Node:
        """The state as one node."""
        if self.elements is None or (self.node.opcode == "tuple" and list(self.node.operands) == self.elements):
            return self.node
        types = [element.type for element in self.elements]
        state_type = TupleType([element_type for element_type in types if element_type is not None])
        like = self.root_like
        self.node = self.graph.add_apply(
            OPS["tuple"], self.elements, state_type, like.attributes if like else {}, before=self.before,
            metadata=like.raw_metadata if like else None,
        )  # fmt: skip
        return self.node


def _uncalled(module: Module) -> set[Graph]:
    return {graph for graph in module.graphs if not graph.callers}


def _erase_uncalled(module: Module, before: set[Graph]) -> None:
    """Erase the graphs that nothing calls any more; those that nothing called before stay."""
    for graph in reversed(callees_first(module)):
        if not graph.callers and graph not in before and not module.is_entry(graph):
            module.erase_graph(graph)


register_pass("unroll", f"write out loops of a known number of rounds, up to {MAX_NODES:,} instructions", unroll)

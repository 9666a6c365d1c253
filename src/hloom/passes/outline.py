"""The pass `outline`: what is written several times becomes one computation, called several times.

Instructions stand in a line, as the program has them; each is given a letter for what it is. A word that occurs
several times in this text is a candidate, and where its occurrences are wired alike they become calls. Any stretch of
a program in order can become a call: no value leaves it and comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.hlo import print_module
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, TupleType
from hloom.ops import OPS
from hloom.ops.side_effects import may_merge
from hloom.passes.dce import dce
from hloom.passes.likeness import Likeness
from hloom.passes.pipeline import offer
from hloom.passes.repeats import repeats
from hloom.rewrite import Report

SHORTEST = 8
"""How many instructions are worth a computation."""
MOST_ROUNDS = 6
"""How often what is left is searched again."""
TRIED = 200
"""How many candidates of a round are looked at more closely."""
LARGEST = 16
"""How many elements a constant may have of which every computation has its own."""
CALLERS = frozenset(("call", "conditional", "while"))
"""What calls the graphs in which something may be outlined: fusions and reducers stay as they are."""
_GET = "get-tuple-element"


def outline(module: Module) -> Report:
    """Make one computation of every larger stretch of instructions that is written several times."""
    report = Report("outline")
    if module.has_closures:
        return report
    module.index_users()
    before, size = module.node_count, len(print_module(module))
    for _ in range(MOST_ROUNDS):
        saved = _round(module, report)
        if saved * 200 < before:
            break
    if report.changes:
        report.erased = dce(module).erased
        after = len(print_module(module))
        instructions = f"{before:,} instructions, now {module.node_count:,}"
        report.notes.append(f"{instructions}; {size:,} bytes of text, now {after:,}")
    return report


def _round(module: Module, report: Report) -> float:
    """Outline what does not overlap; how many lines that saved."""
    line = _Line(module)
    taken = bytearray(len(line.nodes))
    saved = 0.0
    for candidate in _best(line):
        length = candidate.length
        places = [place for place in candidate.places if not any(taken[place : place + length])]
        stretch = candidate if len(places) == len(candidate.places) else _Stretch(line, length, places)
        if len(places) < 2 or stretch.gain <= 0:
            continue
        for place in places:
            taken[place : place + length] = b"\1" * length
        graph = _make(module, stretch)
        saved += stretch.gain
        report.changes += len(places)
        report.notes.append(f"{graph.name}: {length:,} instructions, called {len(places):,} times")
    return saved


class _Line:
    """All instructions that may be outlined, in a line, the letters of each, and where each stands.

    Small constants, and what is made of them alone, are no part of it: they go wherever they are used.
    """

    def __init__(self, module: Module) -> None:
        self.nodes: list[Node | None] = []
        self.letters: list[int] = []
        self.places: dict[Node, int] = {}
        self.constants: dict[Node, int] = {}
        self.likeness = Likeness()
        self.likeness.graphs(module)
        for graph in module.graphs:
            if graph is module._entry or all(caller.opcode in CALLERS for caller in graph.callers):
                self._add_graph(graph)
                self._add_end()
        self.wires = _Wires(self.nodes, self.places, self.constants)

    def _add_graph(self, graph: Graph) -> None:
        awaited = {each for node in graph.nodes for each in node.attributes.referents() if not each.is_graph}
        for node in graph.nodes:
            if _is_spread(node, self.constants):
                self.constants[node] = _constant_key(node, self.constants, self.likeness)
            elif isinstance(node, Apply):
                letter = None if node in awaited or node.is_output else _letter(node, self.likeness)
                if letter is None:
                    self._add_end()
                else:
                    self.places[node] = len(self.nodes)
                    self.nodes.append(node)
                    self.letters.append(letter)

    def _add_end(self) -> None:
        """A letter that occurs once: no word goes across it."""
        self.nodes.append(None)
        self.letters.append(self.likeness.number(object()))


class _Wires:
    """Where the operands of each instruction of a line come from, all in one array, and where each is used last."""

    def __init__(self, nodes: list[Node | None], places: dict[Node, int], constants: dict[Node, int]) -> None:
        starts, at, constant, identity = [0], [], [], []
        identities: dict[Node, int] = {}
        last = [0] * len(nodes)
        beyond = len(nodes)
        for place, node in enumerate(nodes):
            for operand in node.inputs if node else ():
                at.append(places.get(operand, -beyond))
                constant.append(constants.get(operand, -1))
                identity.append(identities.setdefault(operand, len(identities)))
            starts.append(len(at))
            if node:
                last[place] = max([places.get(user, beyond) for user in node.users], default=beyond)
        self.starts = starts
        self.at = np.array(at, np.int64)
        self.constant = np.array(constant, np.int64)
        self.identity = np.array(identity, np.int64)
        self.last = np.array(last, np.int64)

    def of(self, start: int, length: int) -> bytes:
        """How the instructions of a stretch are connected, with each other, with constants and with what is outside."""
        part = slice(self.starts[start], self.starts[start + length])
        at, constant = self.at[part] - start, self.constant[part]
        wires = np.where(constant >= 0, -1 - constant, at)
        outside = np.flatnonzero((at < 0) & (constant < 0))
        _, first, inverse = np.unique(self.identity[part][outside], return_index=True, return_inverse=True)
        wires[outside] = len(self.last) + first[inverse]
        return wires.tobytes()

    def results(self, places: Sequence[int], length: int) -> list[int]:
        """Which instructions of a stretch something outside it uses, at any of its places."""
        used = np.zeros(length, bool)
        for start in places:
            used |= self.last[start : start + length] >= start + length
        return np.flatnonzero(used).tolist()

    def operand_count(self, start: int, length: int) -> int:
        """How many values come in from outside, constants aside."""
        part = slice(self.starts[start], self.starts[start + length])
        outside = (self.at[part] < start) & (self.constant[part] < 0)
        return len(np.unique(self.identity[part][outside]))


def _is_spread(node: Node, known: dict[Node, int]) -> bool:
    """Whether it is a small constant or cheaply made of such, so that every computation can have its own."""
    if isinstance(node, Constant):
        small = isinstance(node.type, TensorType) and node.type.element_count <= LARGEST
        return small and not node.attributes.refers and not any(node.called_graphs)
    if node.opcode not in ("broadcast", "iota") or node.attributes.refers or node.type is None:
        return False
    return all(each in known for each in node.inputs)


def _constant_key(node: Node, known: dict[Node, int], likeness: Likeness) -> int:
    """The number of what is made of constants."""
    attributes = likeness.attributes(node.attributes)
    if isinstance(node, Constant):
        return likeness.number(("constant", likeness.constant(node), node.type, attributes))
    return likeness.number((node.opcode, node.type, attributes, *[known[each] for each in node.inputs]))


def _letter(node: Apply, likeness: Likeness) -> int | None:
    """The number of what an instruction is; None where it must stay in its place."""
    if not isinstance(node.type, (TensorType, TupleType)) or not node.has_row or not may_merge(node):
        return None
    if any(not each.is_graph for each in node.attributes.referents()) or any(each.type is None for each in node.inputs):
        return None
    kinds = tuple([each.type for each in node.inputs])
    return likeness.number((node.function, node.type, kinds, likeness.attributes(node.attributes)))


def _best(line: _Line) -> list[_Stretch]:
    """Candidates that are wired alike, those first that save the most."""
    found: list[_Stretch] = []
    for repeat in repeats(line.letters, SHORTEST, TRIED):
        groups: dict[bytes, list[int]] = {}
        for place in repeat.places:
            groups.setdefault(line.wires.of(place, repeat.length), []).append(place)
        stretches = [_Stretch(line, repeat.length, places) for places in groups.values() if len(places) > 1]
        found += [stretch for stretch in stretches if stretch.gain > 0]
    return sorted(found, key=lambda stretch: -stretch.gain)


class _Stretch:
    """A stretch of instructions that occurs at several places, wired alike at all of them.

    `gain` is how many lines of usual length go: a call takes a line, and more for its operands and results.
    """

    def __init__(self, line: _Line, length: int, places: Sequence[int]) -> None:
        self.line, self.length, self.places = line, length, places
        self.results = line.wires.results(places, length)
        operands = line.wires.operand_count(places[0], length) if places else 0
        call = 1 + operands / 3 + (1.2 * len(self.results) if len(self.results) > 1 else 0)
        self.gain = (len(places) - 1) * length - len(places) * call - operands - 3

    def nodes(self, start: int) -> list[Apply]:
        """The instructions at one place."""
        return [node for node in self.line.nodes[start : start + self.length] if isinstance(node, Apply)]

    def operands(self, nodes: Sequence[Node]) -> list[Node]:
        """What comes in from outside, in the order in which it is used."""
        inside, constants = set(nodes), self.line.constants
        used = [operand for node in nodes for operand in node.inputs]
        return list(dict.fromkeys(each for each in used if each not in inside and each not in constants))


def _make(module: Module, stretch: _Stretch) -> Graph:
    """Make the computation, and call it at every place."""
    nodes, constants = stretch.nodes(stretch.places[0]), stretch.line.constants
    owners = {stretch.nodes(place)[0].graph for place in stretch.places}
    graph = module.add_graph("outlined")
    module.graphs.remove(graph)
    module.graphs.insert(min(module.graphs.index(owner) for owner in owners), graph)
    mapping: dict[Any, Any] = {}
    for number, operand in enumerate(stretch.operands(nodes)):
        mapping[operand] = graph.add_parameter(operand.type, f"p{number}")
    for node in nodes:
        for operand in node.inputs:
            if operand in constants:
                _copy_spread(graph, operand, mapping)
        graph.copy_nodes([node], mapping)
    results = [mapping[nodes[offset]] for offset in stretch.results]
    kinds = TupleType([_type(result) for result in results])
    graph.set_output(results[0] if len(results) == 1 else graph.add_apply(OPS["tuple"], results, kinds))
    for place in stretch.places:
        _call(graph, stretch, place)
    return graph


def _copy_spread(graph: Graph, node: Node, mapping: dict[Any, Any]) -> None:
    """Copy what is made of constants, with all that it is made of."""
    pending = [node]
    while pending:
        missing = [operand for operand in pending[-1].inputs if operand not in mapping]
        if missing:
            pending += missing
        else:
            graph.copy_nodes([pending.pop()], mapping)


def _call(graph: Graph, stretch: _Stretch, start: int) -> None:
    """Put a call in place of one stretch."""
    nodes = stretch.nodes(start)
    owner, first, last = nodes[0].graph, nodes[0], nodes[-1]
    operands = stretch.operands(nodes)
    for operand in operands:
        if owner.comes_before(first, operand):  # a parameter or a constant: it needs nothing that comes before it
            owner.move_before(operand, first)
    call = owner.add_apply(
        OPS["call"], operands, graph.root.type, {"to_apply": graph}, before=first, metadata=last.raw_metadata
    )
    for place, offset in enumerate(stretch.results):
        node, taken = nodes[offset], call
        if len(stretch.results) > 1:
            taken = owner.add_apply(
                OPS[_GET], [call], node.type, {"index": place}, before=first, metadata=node.raw_metadata
            )
        owner.replace_uses(node, taken)
    for node in reversed(nodes):
        owner.erase(node)


def _type(node: Node) -> Any:
    assert node.type is not None, f"{node!r} has no type"
    return node.type


offer("outline", "make one computation of instructions that are written several times", outline)

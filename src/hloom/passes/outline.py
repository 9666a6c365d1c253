"""The pass `outline`: repeated instruction sequences become one called computation.

As in LLVM's MachineOutliner: instructions in program order are mapped to symbols, repeated substrings are found with a
suffix array, and those whose occurrences are isomorphic become calls. Any contiguous sequence of a program in order can
become a call: no value leaves it and comes back.

Suffix array: prefix doubling (Manber and Myers, SIAM J. Comput. 22(5), 1993). Longest common prefixes: Kasai and
others (CPM 2001). Maximal runs of a common prefix: Abouelhoda, Kurtz and Ohlebusch (J. Discrete Algorithms 2(1),
2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heappushpop, nlargest
from operator import sub
from typing import Any

import numpy as np

from hloom.formats.hlo import print_module
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, TupleType
from hloom.ops import OPS, SideEffects
from hloom.passes.computation_order import control_predecessors, running_graphs
from hloom.passes.cse import ValueNumbering
from hloom.passes.dce import dce
from hloom.passes.pipeline import register_pass, until_settled
from hloom.rewrite import Report

MIN_LENGTH = 8
"""The minimum length of an outlined computation, in instructions: below that, the call and its header cost as many
lines.
"""
MAX_ROUNDS = 6
"""The maximum number of rounds: later rounds find repeats among calls made by earlier ones."""
LEAST_SAVED = 0.02
"""The minimum fraction of instructions a round must save for another one to follow."""
MAX_CANDIDATES = 200
"""The maximum number of repeated substrings per round to check for isomorphic dataflow; bounds the time."""
MAX_CONSTANT_ELEMENTS = 16
"""How many elements a constant may have to be copied into every outlined computation."""
_GET = "get-tuple-element"


@until_settled
def outline(module: Module) -> Report:
    """Replace each longer instruction sequence that occurs several times by calls of one computation."""
    report = Report("outline")
    if module.has_closures:
        return report
    module.index_users()
    before, size = module.node_count, len(print_module(module))
    symbols = _Symbols(module)
    for _ in range(MAX_ROUNDS):
        saved = _round(module, symbols, report)
        if saved < LEAST_SAVED * before:
            break
    if report.changes:
        report.erased = dce(module).erased
        after = len(print_module(module))
        instructions = f"{before:,} instructions, now {module.node_count:,}"
        report.notes.append(f"{instructions}; {size:,} bytes of text, now {after:,}")
    return report


def _round(module: Module, symbols: _Symbols, report: Report) -> float:
    """Outline the best non-overlapping repeats; returns how many lines that saved."""
    sequence = _InstructionSequence(module, symbols)
    taken = bytearray(len(sequence.nodes))
    saved = 0.0
    for candidate in _best(sequence, taken):
        length = candidate.length
        positions = [position for position in candidate.positions if not any(taken[position : position + length])]
        repeated = (
            candidate if len(positions) == len(candidate.positions) else _RepeatedSequence(sequence, length, positions)
        )
        if len(positions) < 2 or repeated.gain <= 0:
            continue
        for position in positions:
            taken[position : position + length] = b"\1" * length
        graph = _make(module, repeated)
        saved += repeated.gain
        report.changes += len(positions)
        report.notes.append(f"{graph.name}: {length:,} instructions, called {len(positions):,} times")
    return saved


class _InstructionSequence:
    """All instructions that may be outlined, in program order, with their symbols and positions.

    Small constants, and what depends on them alone, are excluded: they are copied wherever they are used.
    """

    def __init__(self, module: Module, known: _Symbols) -> None:
        self.nodes: list[Node | None] = []
        self.symbols: list[int] = []
        self.positions: dict[Node, int] = {}
        self.constants: dict[Node, int] = {}
        self.known = known
        for graph in running_graphs(module):
            self._add_graph(graph)
            self._add_end()
        self.connections = _Connections(self.nodes, self.positions, self.constants)

    def _add_graph(self, graph: Graph) -> None:
        awaited, known, constants = control_predecessors(graph), self.known, self.constants
        for node in graph.nodes:
            key = known.constant_of(node)
            if key is not None:
                constants[node] = key
            elif isinstance(node, Apply):
                symbol = None if node in awaited or node is graph.output else known.of(node)
                if symbol is None:
                    self._add_end()
                else:
                    self.positions[node] = len(self.nodes)
                    self.nodes.append(node)
                    self.symbols.append(symbol)

    def _add_end(self) -> None:
        """Append a unique symbol: no repeated substring crosses it."""
        self.nodes.append(None)
        self.symbols.append(self.known.numbering.number(object()))


class _Symbols:
    """The symbols of instructions: they stay the same as computations are made, which are new to the numbering."""

    def __init__(self, module: Module) -> None:
        self.numbering, self.effects = ValueNumbering(), SideEffects()
        self.numbering.graphs(module)
        self._known: dict[Node, int | None] = {}
        self._constants: dict[Node, int | None] = {}

    def constant_of(self, node: Node) -> int | None:
        """The number of what is made of small constants alone; None for all else."""
        try:
            return self._constants[node]
        except KeyError:
            is_spread = _is_spread(node, self._constants)
            key = self._constants[node] = _constant_key(node, self._constants, self.numbering) if is_spread else None
            return key

    def of(self, node: Apply) -> int | None:
        """The symbol of an instruction; None where it must not be outlined."""
        try:
            return self._known[node]
        except KeyError:
            symbol = self._known[node] = _symbol(node, self.numbering, self.effects)
            return symbol


class _Connections:
    """The operands of all instructions in one array, and the position of each instruction's last user.

    For each operand: its position, the constant it is, and the previous operand with the same value.
    """

    def __init__(self, nodes: list[Node | None], positions: dict[Node, int], constants: dict[Node, int]) -> None:
        beyond = len(nodes)
        starts, at, constant, previous = [0], list[int](), list[int](), list[int]()
        seen: dict[Node, int] = {}
        last, users = [beyond] * beyond, [0] * beyond
        for position, node in enumerate(nodes):
            for operand in node.operands if node else ():
                where = positions.get(operand, -beyond)
                previous.append(seen.get(operand, -1))
                seen[operand] = len(at)
                at.append(where)
                constant.append(constants.get(operand, -1))
                if where >= 0 and (last[where] != position or not users[where]):
                    last[where] = position
                    users[where] += 1
            starts.append(len(at))
        for position, node in enumerate(nodes):
            if node and users[position] != node.user_count:
                last[position] = beyond
        self.starts = np.array(starts, np.int64)
        self.at = np.array(at, np.int64)
        self.constant = np.array(constant, np.int64)
        self.previous = np.array(previous, np.int64)
        self.last = np.array(last, np.int64)

    def isomorphic(self, positions: Sequence[int], length: int) -> list[list[int]]:
        """Groups of stretches with isomorphic dataflow: internally, to constants and to the outside.

        All have the same symbols, and so as many operands.
        """
        first = np.array(positions, np.int64)
        begin = self.starts[first]
        offsets = np.arange(self.starts[first[0] + length] - begin[0])
        slots = begin[:, None] + offsets
        at, constant = self.at[slots] - first[:, None], self.constant[slots]
        previous = np.maximum(self.previous[slots] - begin[:, None], -1)  # -1: not in this stretch before
        outside = length + 1 + previous
        connections = np.where(constant >= 0, -1 - constant, np.where(at < 0, outside, at))
        if (connections == connections[0]).all():
            return [list(positions)]
        groups: dict[bytes, list[int]] = {}
        for position, row in zip(positions, connections, strict=True):
            groups.setdefault(row.tobytes(), []).append(position)
        return list(groups.values())

    def results(self, positions: Sequence[int], length: int) -> list[int]:
        """The instructions of a stretch that are used outside it, at any of its positions."""
        first = np.array(positions, np.int64)[:, None]
        return np.flatnonzero((self.last[first + np.arange(length)] >= first + length).any(axis=0)).tolist()

    def operand_count(self, start: int, length: int) -> int:
        """How many values come in from outside, constants aside."""
        part = slice(self.starts[start], self.starts[start + length])
        outside = (self.at[part] < start) & (self.constant[part] < 0)
        return int(np.count_nonzero(outside & (self.previous[part] < self.starts[start])))


def _is_spread(node: Node, known: Mapping[Node, int | None]) -> bool:
    """Whether it is a small constant or cheaply made of such, so that every computation can have its own."""
    if isinstance(node, Constant):
        small = isinstance(node.type, TensorType) and node.type.element_count <= MAX_CONSTANT_ELEMENTS
        return small and not node.attributes.refers and not any(node.called_graphs)
    if node.opcode not in ("broadcast", "iota") or node.attributes.refers or node.type is None:
        return False
    return all(known.get(operand) is not None for operand in node.operands)


def _constant_key(node: Node, known: Mapping[Node, int | None], numbering: ValueNumbering) -> int:
    """The number of what is made of constants."""
    attributes = numbering.attributes(node.attributes)
    if isinstance(node, Constant):
        return numbering.number(("constant", numbering.constant(node), node.type, attributes))
    return numbering.number((node.opcode, node.type, attributes, *[known[operand] for operand in node.operands]))


def _symbol(node: Apply, numbering: ValueNumbering, effects: SideEffects) -> int | None:
    """The symbol of an instruction: equal for equal ops, types and attributes; None where it must not be outlined."""
    if not isinstance(node.type, (TensorType, TupleType)) or not node.has_row or not effects.may_merge(node):
        return None
    if node.attributes.refers and any(not referent.is_graph for referent in node.attributes.referents()):
        return None
    types = tuple([operand.type for operand in node.operands])
    if None in types:
        return None
    return numbering.number((node.function, node.type, types, numbering.attributes(node.attributes)))


def _best(sequence: _InstructionSequence, taken: bytearray) -> Iterator[_RepeatedSequence]:
    """Repeated sequences with isomorphic occurrences, by decreasing saving.

    Skips sequences with at most one occurrence not yet `taken`. A repeat is examined when its turn comes: no part of it
    saves more than its letters.
    """
    waiting: list[tuple[float, int, Repeat | _RepeatedSequence]] = []
    for number, repeat in enumerate(repeats(sequence.symbols, MIN_LENGTH, MAX_CANDIDATES)):
        heappush(waiting, (-repeat.saved, -MAX_CANDIDATES + number, repeat))
    count = 0
    while waiting:
        _, _, candidate = heappop(waiting)
        if _untaken(candidate, taken) < 2:
            continue
        if isinstance(candidate, _RepeatedSequence):
            yield candidate
            continue
        for repeated in _isomorphic(sequence, candidate):
            count += 1
            heappush(waiting, (-repeated.gain, count, repeated))


def _untaken(candidate: Repeat | _RepeatedSequence, taken: bytearray) -> int:
    length = candidate.length
    return sum(not any(taken[position : position + length]) for position in candidate.positions)


def _isomorphic(sequence: _InstructionSequence, repeat: Repeat) -> Iterator[_RepeatedSequence]:
    """The occurrences of a repeat, those together that are isomorphic, where they save anything."""
    for positions in sequence.connections.isomorphic(repeat.positions, repeat.length):
        if len(positions) > 1:
            repeated = _RepeatedSequence(sequence, repeat.length, positions)
            if repeated.gain > 0:
                yield repeated


class _RepeatedSequence:
    """A sequence of instructions that occurs at several positions, with isomorphic dataflow at all of them.

    `gain` is the number of lines of usual length saved: a call takes a line, and more for its operands and results.
    """

    def __init__(self, sequence: _InstructionSequence, length: int, positions: Sequence[int]) -> None:
        self.sequence, self.length, self.positions = sequence, length, positions
        self.results = sequence.connections.results(positions, length)
        operands = sequence.connections.operand_count(positions[0], length) if positions else 0
        call = 1 + operands / 3 + (1.2 * len(self.results) if len(self.results) > 1 else 0)
        self.gain = (len(positions) - 1) * length - len(positions) * call - operands - 3

    def nodes(self, start: int) -> list[Apply]:
        """The instructions at one position."""
        return [node for node in self.sequence.nodes[start : start + self.length] if isinstance(node, Apply)]

    def operands(self, nodes: Sequence[Node]) -> list[Node]:
        """What comes in from outside, in the order in which it is used."""
        inside, constants = set(nodes), self.sequence.constants
        used = [operand for node in nodes for operand in node.operands]
        return list(dict.fromkeys(value for value in used if value not in inside and value not in constants))


def _make(module: Module, repeated: _RepeatedSequence) -> Graph:
    """Make the computation, and call it at every position."""
    stretches = [repeated.nodes(position) for position in repeated.positions]
    operands = [repeated.operands(stretch) for stretch in stretches]
    nodes, constants = stretches[0], repeated.sequence.constants
    owners = {stretch[0].graph for stretch in stretches}
    graph = module.add_graph("outlined")
    module.graphs.remove(graph)
    module.graphs.insert(min(module.graphs.index(owner) for owner in owners), graph)
    mapping: dict[Any, Any] = {}
    for number, operand in enumerate(operands[0]):
        mapping[operand] = graph.add_parameter(operand.type, f"p{number}")
    for node in nodes:
        for operand in node.operands:
            if operand in constants:
                _copy_spread(graph, operand, mapping)
        graph.copy_nodes([node], mapping)
    results = [mapping[nodes[offset]] for offset in repeated.results]
    types = TupleType([result.known_type for result in results])
    graph.set_output(results[0] if len(results) == 1 else graph.add_apply(OPS["tuple"], results, types))
    for stretch, given in zip(stretches, operands, strict=True):
        _move_operands(stretch, given)
    for stretch in stretches:  # what it is given may be a call by now
        _call(graph, repeated, stretch)
    return graph


def _move_operands(nodes: Sequence[Node], operands: Sequence[Node]) -> None:
    """Move what one stretch is given before it, where it comes later."""
    owner, first = nodes[0].graph, nodes[0]
    for operand in operands:
        if owner.comes_before(first, operand):  # a parameter or a constant: it needs nothing that comes before it
            owner.move_before(operand, first)


def _copy_spread(graph: Graph, node: Node, mapping: dict[Any, Any]) -> None:
    """Copy what is made of constants, with all that it is made of."""
    pending = [node]
    while pending:
        missing = [operand for operand in pending[-1].operands if operand not in mapping]
        if missing:
            pending += missing
        else:
            graph.copy_nodes([pending.pop()], mapping)


def _call(graph: Graph, repeated: _RepeatedSequence, nodes: Sequence[Node]) -> None:
    """Put a call in position of one stretch."""
    owner, first, last = nodes[0].graph, nodes[0], nodes[-1]
    operands = repeated.operands(nodes)
    call = owner.add_apply(
        OPS["call"], operands, graph.root.type, {"to_apply": graph}, before=first, metadata=last.raw_metadata
    )
    for position, offset in enumerate(repeated.results):
        node, taken = nodes[offset], call
        if len(repeated.results) > 1:
            taken = owner.add_apply(
                OPS[_GET], [call], node.type, {"index": position}, before=first, metadata=node.raw_metadata
            )
        owner.replace_uses(node, taken)
    for node in reversed(nodes):
        owner.erase(node)


register_pass("outline", "make one computation of instructions that are written several times", outline)


_OVERSAMPLING = 8
"""Candidates to examine per wanted one."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A word's length, and positions where it occurs, in order, none overlapping another."""

    length: int
    positions: tuple[int, ...]

    @property
    def saved(self) -> int:
        """The number of letters saved if the word is written once."""
        return self.length * (len(self.positions) - 1)


def repeats(text: Sequence[int], shortest: int, most: int) -> list[Repeat]:
    """At most `most` repeated words that save the most letters, each as long as its occurrences allow.

    If occurrences overlap, as for a word that directly follows itself, the word ends where the next one begins.

    >>> repeats([1, 2, 3, 9, 1, 2, 3, 8, 1, 2], 3, 1)
    [Repeat(length=3, positions=(0, 4))]
    >>> repeats([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], 2, 1)
    [Repeat(length=3, positions=(0, 3, 6, 9))]
    """
    if len(text) < 2 * shortest:
        return []
    order = suffix_order(text)
    starts = order.tolist()
    shared = shared_prefixes(text, starts)
    candidates = sorted(_intervals(shared, shortest), reverse=True)[: _OVERSAMPLING * most]
    may_end = all(last - first < len(text) // length for _, _, length, first, last in candidates)
    kept: dict[tuple[int, tuple[int, ...]], Repeat] = {}
    best: list[int] = []
    for bound, _, length, first, last in candidates:
        if may_end and len(best) == most and best[0] >= bound:
            break  # no other word saves more than the least of those
        positions = sorted(starts[first : last + 1])
        close = [gap for gap in map(sub, positions[1:], positions) if gap < length]
        for word_length in {length, max(set(close), key=close.count)} if close else (length,):
            apart = _apart(positions, word_length) if close else tuple(positions)
            key = word_length, apart
            if len(apart) > 1 and word_length >= shortest and key not in kept:
                repeat = kept[key] = Repeat(word_length, apart)
                (heappush if len(best) < most else heappushpop)(best, repeat.saved)
    return nlargest(most, kept.values(), key=lambda repeat: repeat.saved)


def suffix_order(text: Sequence[int]) -> np.ndarray:
    """The positions of a text, sorted by the suffixes that begin there; doubling prefixes, n log n steps."""
    count = len(text)
    _, rank = np.unique(np.asarray(text), return_inverse=True)
    rank = rank.astype(np.int64)
    width = 1
    while True:
        second = np.full(count, -1, np.int64)
        second[: max(count - width, 0)] = rank[width:]
        order = np.lexsort((second, rank))
        first, then = rank[order], second[order]
        steps = np.concatenate(([0], (first[1:] != first[:-1]) | (then[1:] != then[:-1])))
        rank = np.empty(count, np.int64)
        rank[order] = np.cumsum(steps)
        width *= 2
        if rank[order[-1]] == count - 1 or width >= 2 * count:
            return order


def shared_prefixes(text: Sequence[int], positions: Sequence[int]) -> list[int]:
    """How many letters each sorted suffix begins with like the one before it (Kasai and others, 2001)."""
    symbols = list(text)
    count = len(symbols)
    rank = [0] * count
    for position, start in enumerate(positions):
        rank[start] = position
    shared, length = [0] * count, 0
    for start in range(count):
        if not rank[start]:
            length = 0
            continue
        other = positions[rank[start] - 1]
        while start + length < count and other + length < count and symbols[start + length] == symbols[other + length]:
            length += 1
        shared[rank[start]] = length
        length = max(length - 1, 0)
    return shared


def _intervals(shared: list[int], shortest: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Each maximal run of sorted suffixes that begin with one word: its length, the first and the last of the run.

    Before these, what orders them: how many letters a word can save at most, since occurrences that do not overlap fit
    into the text; and, among equals, the earlier one first.
    """
    count, number = len(shared), 0
    opened: list[tuple[int, int]] = []
    for position, length in enumerate([*shared, 0]):
        first = position - 1
        while opened and opened[-1][0] > length:
            closed, first = opened.pop()
            if closed >= shortest:
                number -= 1
                yield closed * (min(position - first, count // closed) - 1), number, closed, first, position - 1
        if length and (not opened or opened[-1][0] < length):
            opened.append((length, first))


def _apart(positions: list[int], length: int) -> tuple[int, ...]:
    """Those positions that are at least a word apart."""
    apart: list[int] = []
    for position in positions:
        if not apart or position >= apart[-1] + length:
            apart.append(position)
    return tuple(apart)

"""Dataflow analysis: the values of a program, where they are forwarded, and when each is live.

A value is an array that an instruction makes. Computations are entered where they are called, so the whole program has
one timeline, on which the condition and the body of a loop run once. The rows of `control_flow.py` describe how values
pass through calls, loops, branches and asynchronous pairs.

Source: xla/hlo/analysis/hlo_dataflow_analysis.cc; xla/hlo/utils/hlo_live_range.cc, HloLiveRange::FlattenSchedule and
CalculateBufferStartEndMap (jaxlib 0.10.2). XLA makes a loop's value a phi with one buffer; here they are separate
values, which aliases join into one buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hloom.analysis.alias_info import ELEMENTWISE
from hloom.analysis.control_flow import (
    CallSite,
    call_sites,
    element_type,
    flow_of,
    resolved,
)
from hloom.analysis.memory_model import CPU, DEVICE_MEMORY, MemoryModel
from hloom.analysis.schedule import ComputationSchedule, Scheduler
from hloom.analysis.stored_sizes import buffer_bytes, memory_space
from hloom.ir import Apply, Graph, Index, Module, Node, OpFlow, Runs, TupleType, Type
from hloom.ops import SAME_BYTES
from hloom.text import HloomError

MOST_VISITS = 8
"""The maximum number of visits per instruction of the module (plus 1000 for small ones): a computation is followed at
each call, and nested calls would otherwise multiply without bound.
"""

SAME_TUPLE = SAME_BYTES | {"get-tuple-element"}
"""Opcodes that yield the tuple that they are given, or that is in it."""

ValueTree = int | tuple
"""The number of a value or, for a tuple, the trees of its elements (XLA: InstructionValueSet)."""


class BufferAlias(NamedTuple):
    """Two values that should share one buffer.

    `may_touch` says that the instruction that reads the earlier value last may write the later one.
    """

    earlier: int
    later: int
    may_touch: bool


@dataclass(slots=True)
class ValueTable:
    """The values by number, as columns, and how they share buffers.

    `nodes` and `indices` say which element of which instruction a value is, `sizes` are bytes, `spaces` the memory
    spaces. A value is live from time `starts` through `ends`; times count instructions from 0, callees before their
    callers. `overwrites` are the
    values that an instruction may write its result over if they die there, each with whether it is the operand itself.
    `steps` is the instruction at each time. `tables` are the values that hold tuples' pointers to their elements, by
    the instructions that yield the tuples; `inner_tables` those of tuples inside tuples.
    """

    nodes: list[Node] = field(default_factory=list)
    indices: list[Index] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    spaces: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    overwrites: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    aliases: list[BufferAlias] = field(default_factory=list)
    steps: list[Node] = field(default_factory=list)
    parameters: dict[int, ValueTree] = field(default_factory=dict)
    constants: set[int] = field(default_factory=set)
    tables: dict[Node, int] = field(default_factory=dict)
    inner_tables: set[int] = field(default_factory=set)
    output: ValueTree = ()
    opaque_calls: int = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: Node, size: int, start: int, index: Index = (), space: int = DEVICE_MEMORY) -> int:
        """Add a value and return its number."""
        number = len(self.nodes)
        self.nodes.append(node)
        self.indices.append(index)
        self.sizes.append(size)
        self.spaces.append(space)
        self.starts.append(start)
        self.ends.append(start)
        return number


def leaves(tree: ValueTree) -> list[int]:
    """The numbers of all values in a tree, in order."""
    numbers: list[int] = []
    pending: list[ValueTree] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, int):
            numbers.append(part)
        else:
            pending.extend(reversed(part))
    return numbers


def subtree(tree: ValueTree | None, index: Index) -> ValueTree | None:
    """The element of a tree at an index; None if there is none."""
    for number in index:
        if not isinstance(tree, tuple) or number >= len(tree):
            return None
        tree = tree[number]
    return tree


def analyze_dataflow(module: Module, scheduler: Scheduler, model: MemoryModel = CPU) -> ValueTable:
    """Find the values of a module's entry and everything it calls, as the compiler of a target stores them.

    Raises HloomError if computations call each other in a cycle.
    """
    return _DataflowAnalysis(module, scheduler, model).run()


_Visit = Generator[tuple[Graph, list[ValueTree]], ValueTree, ValueTree]
"""A computation being visited: yields each computation it calls with its arguments and is sent the result."""


class _NodeValues(dict[Node, ValueTree]):
    """The values of nodes; an undefined name gets one without bytes when it is first read."""

    def __init__(self, table: ValueTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, node: Node) -> ValueTree:
        number = self._table.add(node, 0, len(self._table.steps))
        self._table.constants.add(number)
        self[node] = number
        return number


class _DataflowAnalysis:
    """One pass through a program in execution order."""

    def __init__(self, module: Module, scheduler: Scheduler, model: MemoryModel) -> None:
        self.module = module
        self.scheduler = scheduler
        self.model = model
        self.alias_info = model.alias_info()
        self.table = ValueTable()
        self.trees = _NodeValues(self.table)
        self.overwritable: dict[Node, Collection[Node]] = {}
        self.visits_left = MOST_VISITS * module.node_count + 1000

    def run(self) -> ValueTable:
        """The values of the entry and everything it calls."""
        table, entry = self.table, self.module.entry
        for parameter in entry.parameters:
            table.parameters[parameter.number] = self._define(parameter, parameter.type, 0)
        table.output = self._visit_all(entry, table.parameters)
        if entry.output in table.tables:
            table.constants.add(table.tables[entry.output])  # it is part of the outputs
        self._read(table.output, len(table.steps))
        return table

    def _visit_all(self, entry: Graph, arguments: Mapping[int, ValueTree]) -> ValueTree:
        """Visit a computation and, at each call, its callee; without recursion."""
        open_computations = [entry]
        visits: list[_Visit] = [self._visit(entry, arguments)]
        result: ValueTree | None = None
        while True:
            try:
                called, passed = visits[-1].send(result) if result is not None else next(visits[-1])
            except StopIteration as end:
                visits.pop()
                open_computations.pop()
                result = end.value
                if not visits:
                    assert result is not None
                    return result
                continue
            if called in open_computations:
                caller = open_computations[-1]
                raise HloomError(f"graph {caller.name} leads back to {called.name}: its memory has no end")
            open_computations.append(called)
            visits.append(self._visit(called, dict(enumerate(passed))))
            result = None

    def _visit(self, computation: Graph, arguments: Mapping[int, ValueTree]) -> _Visit:
        """Visit the instructions of a computation in order; returns what it yields."""
        trees, steps = self.trees, self.table.steps
        schedule: ComputationSchedule = self.scheduler.schedule(computation)
        self.visits_left -= len(schedule.order)
        self.overwritable.update(schedule.overwritable or {})
        reads_of_fused: dict[int, list[tuple[Node, ValueTree]]] = {}
        for position, node in enumerate(schedule.order):
            now = len(steps)
            late = reads_of_fused.pop(position, ()) if reads_of_fused else ()
            for _, tree in late:
                self._read(tree, now)
            if type(node) is not Apply:
                trees[node] = self._leaf(node, arguments, now)
                steps.append(node)
                continue
            until = schedule.fused.get(node)
            if until is not None:
                trees[node] = self.table.add(node, 0, now)
                held = [(operand, trees[operand]) for operand in node.operands if operand in trees]
                reads_of_fused.setdefault(until, []).extend(held)
                steps.append(node)
                continue
            flow = flow_of(node)
            if flow is None:
                made = self._apply(node, now, late)
            elif flow.is_control_flow:
                made = yield from self._call(node, flow, now)
                now = len(steps)
            else:
                made = self._forward(node, flow, now, late)
            trees[node] = made
            for operand in self._operands_read(node, flow):
                self._read_operand(node, operand, now)
            if type(made) is tuple and _defines_tuple(node, flow):
                self._add_tables(node, now)
            steps.append(node)
        output = computation.output
        return trees.get(output, ()) if output is not None else ()

    def _leaf(self, node: Node, arguments: Mapping[int, ValueTree], now: int) -> ValueTree:
        """The value of a parameter, a constant or an undefined name."""
        if node.opcode == "parameter":
            number = getattr(node, "number", 0)
            return arguments[number] if number in arguments else self._define(node, node.type, now)
        made = self._define(node, node.type, now)
        self.table.constants.update(leaves(made))
        return made

    def _add_tables(self, node: Apply, now: int) -> None:
        """Add the pointer tables of all tuples that an instruction yields and none of its operands is."""
        self._add_table(node, now)
        if node.opcode == "tuple" or not isinstance(node.type, TupleType):
            return
        pending = [element for element in node.type.elements if isinstance(element, TupleType)]
        while pending:
            inner = pending.pop()
            self.table.inner_tables.add(self.table.add(node, buffer_bytes(inner, self.model), now))
            pending += [element for element in inner.elements if isinstance(element, TupleType)]

    def _add_table(self, node: Node, now: int) -> int:
        """Add the pointer table of a tuple that an instruction yields."""
        size = buffer_bytes(node.type, self.model) if isinstance(node.type, TupleType) else 0
        number = self.table.tables[node] = self.table.add(node, size, now)
        return number

    def _operands_read(self, node: Apply, flow: OpFlow | None) -> Sequence[Node]:
        """The operands that an instruction itself reads, in addition to what its callees read."""
        if flow is None or not flow.is_control_flow or flow.holds_operands:
            return node.operands
        return node.operands[: flow.first_operand]

    def _read(self, tree: ValueTree, now: int) -> None:
        ends = self.table.ends
        for leaf in (tree,) if type(tree) is int else leaves(tree):
            if ends[leaf] < now:
                ends[leaf] = now

    def _read_operand(self, node: Apply, operand: Node, now: int) -> None:
        tree = self.trees.get(operand)
        if tree is None:
            return
        table = self.table.tables.get(operand)
        if table is not None:
            self._read(table, now)
        if type(tree) is int:
            if self.table.ends[tree] < now:
                self.table.ends[tree] = now
        elif node.opcode == "get-tuple-element":
            self._read(self.trees[node], now)
        else:
            self._read(tree, now)

    def _define(self, node: Node, value_type: Type | None, now: int, index: Index = ()) -> ValueTree:
        """New values for all arrays of a result, or of its element at an index."""
        if not isinstance(value_type, TupleType):
            return self.table.add(node, buffer_bytes(value_type, self.model), now, index, memory_space(value_type))
        elements = enumerate(value_type.elements)
        return tuple([self._define(node, element, now, (*index, number)) for number, element in elements])

    def _define_around(self, node: Apply, known: dict[Index, ValueTree], now: int, index: Index = ()) -> ValueTree:
        """The known elements at their indices, and new values for all others."""
        if index in known:
            return known[index]
        value_type = element_type(node.type, index)
        if not isinstance(value_type, TupleType) or not any(other[: len(index)] == index for other in known):
            return self._define(node, value_type, now, index)
        numbers = range(len(value_type.elements))
        return tuple([self._define_around(node, known, now, (*index, number)) for number in numbers])

    def _apply(self, node: Apply, now: int, late: Any = ()) -> ValueTree:
        """The common case: make new values, some of them in place of operands."""
        made = self._define(node, node.type, now)
        self._overwrite(node, made, late)
        self._alias_in_place(node, made)
        return made

    def _alias_in_place(self, node: Apply, made: ValueTree) -> None:
        """Alias results that must share an operand's buffer."""
        for pair in self.alias_info.pairs(node):
            operand = self.trees.get(node.operands[pair.operand]) if pair.operand < len(node.operands) else None
            old, new = subtree(operand, pair.operand_index), subtree(made, pair.result_index)
            if old is not None and new is not None:
                self._alias(old, new)

    def _alias(self, earlier: ValueTree, later: ValueTree) -> None:
        rows = zip(leaves(earlier), leaves(later), strict=False)
        self.table.aliases += [BufferAlias(one, other, True) for one, other in rows]

    def _overwrite(self, node: Apply, made: ValueTree, late: Any) -> None:
        """Record which operands the results may overwrite."""
        value_type = node.type
        if node.opcode == "copy" or value_type is None:
            return
        candidates = [(operand, self.trees.get(operand)) for operand in node.operands]
        only = self.overwritable.get(node)
        if only is not None:
            is_elementwise = node.opcode in ELEMENTWISE
            candidates = [candidate for candidate in candidates if not is_elementwise or candidate[0] in only]
            late = [held for held in late if held[0] in only]
        for leaf in leaves(made) if type(made) is not int else (made,):
            index = self.table.indices[leaf]
            part = element_type(value_type, index)
            overwritten = [
                (old, self.table.nodes[old] is operand)
                for operand, old in candidates
                if type(old) is int and self.alias_info.may_overwrite(node, operand, part, index)
            ]
            overwritten += [(old, True) for _, old in late if type(old) is int and self._may_replace_fused(old, node)]
            if overwritten:
                self.table.overwrites[leaf] = overwritten

    def _may_replace_fused(self, old: int, node: Apply) -> bool:
        return self.alias_info.may_replace(element_type(self.table.nodes[old].type, self.table.indices[old]), node)

    def _forward(self, node: Apply, flow: OpFlow, now: int, late: Any) -> ValueTree:
        """A result that holds elements of operands, which keep their buffers."""
        if len(flow.forwards) == 1 and not flow.forwards[0].target:
            forwarded = self._operand_part(node, flow.forwards[0].source, node.type)
            return self._apply(node, now, late) if forwarded is None else forwarded
        known: dict[Index, ValueTree] = {}
        for forward in flow.forwards:
            if forward.forwarding.shares_buffer:
                part = self._operand_part(node, forward.source, element_type(node.type, forward.target))
                if part is not None:
                    known[forward.target] = part
        if not known:
            return self._apply(node, now, late)
        made = self._define_around(node, known, now)
        self._alias_in_place(node, made)
        return made

    def _operand_part(self, node: Apply, source: tuple[int | str, ...], value_type: Type | None) -> ValueTree | None:
        """The operand element that a forward names; None if there is none.

        Raises IndexError for a missing operand.
        """
        if not source:
            if value_type is not None and not isinstance(value_type, TupleType):
                return self.trees[node.operands[0]]
            return tuple([self.trees[operand] for operand in node.operands])
        path = resolved(node, source)
        if path is None or min(path) < 0:
            return None
        return subtree(self.trees[node.operands[path[0]]], path[1:])

    def _call(self, node: Apply, flow: OpFlow, now: int) -> _Visit:
        """An instruction that runs computations; treated as opaque if they are unknown."""
        sites = call_sites(node)
        is_complete = len(sites) == len(flow.callees) if flow.is_loop else bool(sites)
        size = sum(len(site.computation.nodes) for site in sites)
        if not is_complete or any(site.computation.is_declared for site in sites) or size > self.visits_left:
            self.table.opaque_calls += 1
            return self._apply(node, now)
        for site in sites:
            self._pass_tables(site)
        if flow.is_loop:
            return (yield from self._loop(node, sites))
        if flow.is_branch:
            return (yield from self._branch(node, sites))
        return (yield from self._enter(node, flow, sites))

    def _pass_tables(self, site: CallSite) -> None:
        """Give tuple parameters the pointer tables of their arguments."""
        tables = self.table.tables
        for parameter, operand in zip(site.computation.parameters, site.operands, strict=False):
            if operand in tables:
                tables[parameter] = tables[operand]

    def _arguments(self, site: CallSite) -> list[ValueTree]:
        return [self.trees[operand] for operand in site.operands]

    def _enter(self, node: Apply, flow: OpFlow, sites: Sequence[CallSite]) -> _Visit:
        """Computations that run once, in sequence: the last one's result, or an element of it, is the result."""
        result: ValueTree = ()
        for site in sites:
            result = yield site.computation, self._arguments(site)
            self._read(result, len(self.table.steps))
        if not flow.result_index and not flow.forwards:
            if sites[-1].computation.output in self.table.tables:
                self.table.tables[node] = self.table.tables[sites[-1].computation.output]
            return result
        known: dict[Index, ValueTree] = {flow.result_index: result}
        for forward in flow.forwards:
            part = self._operand_part(node, forward.source, element_type(node.type, forward.target))
            if forward.forwarding.shares_buffer and part is not None:
                known[forward.target] = part
        return self._define_around(node, known, len(self.table.steps))

    def _branch(self, node: Apply, sites: Sequence[CallSite]) -> _Visit:
        """Computations of which one runs: each yields into the result's buffer."""
        results: list[ValueTree] = []
        for site in sites:
            result = yield site.computation, self._arguments(site)
            self._read(result, len(self.table.steps))
            results.append(result)
        made = self._define(node, node.type, len(self.table.steps))
        for result in results:
            self._alias(result, made)
        self._share_table(node, sites, len(self.table.steps), len(self.table.steps))
        return made

    def _loop(self, node: Apply, sites: Sequence[CallSite]) -> _Visit:
        """Visit the condition and the body once; carried values share one buffer, unchanged ones are left alone.

        initial state -> the condition's parameter -> the body's parameter -> what the body yields -> the loop's result
        """
        table = self.table
        body = next(site for site in sites if site.runs is Runs.PER_ITERATION)
        state = self.trees[body.operands[0]]
        kept = _unchanged(body.computation)
        before = len(table.steps)
        tested = self._carried(node, state, kept, before)
        self._read(state, before)
        for site in sites:
            if site.runs is Runs.PER_TEST:
                yield site.computation, [tested]
                self._read(tested, len(table.steps))
        taken = self._carried(node, state, kept, len(table.steps))
        yielded = yield body.computation, [taken]
        after = len(table.steps)
        self._read(yielded, after)
        result = self._carried(node, state, kept, after)
        self._share_table(node, sites, before, after)
        rows = zip(leaves(state), leaves(tested), leaves(taken), leaves(yielded), leaves(result), strict=False)
        for first, in_test, in_body, made, last in rows:
            if first == last:
                self._read(first, after)
                continue
            is_overwritten = self.scheduler.is_final or self._may_replace(made, in_body)
            table.aliases += [
                BufferAlias(first, in_test, True),
                BufferAlias(in_test, in_body, True),
                BufferAlias(in_body, made, is_overwritten),
                BufferAlias(made, last, True),
            ]
        return result

    def _share_table(self, node: Apply, sites: Sequence[CallSite], start: int, end: int) -> None:
        """Give the tuple that a loop or branch yields the pointer table of those its computations yield."""
        if not isinstance(node.type, TupleType):
            return
        tables = self.table.tables
        result = self._add_table(node, start)
        self._read(result, end)
        for site in sites:
            given = site.operands if site.runs is Runs.PER_ITERATION else ()
            for passed in (*given, site.computation.output):
                if passed in tables:
                    self._read(tables[passed], start if passed in given else end)
                    self.table.aliases.append(BufferAlias(tables[passed], result, True))

    def _may_replace(self, made: int, old: int) -> bool:
        return any(operand == old for operand, _ in self.table.overwrites.get(made, ()))

    def _carried(self, node: Apply, state: ValueTree, kept: frozenset[int], now: int) -> ValueTree:
        """New values for a loop's state, except the elements that the body passes through unchanged."""
        value_type = node.type
        if type(state) is not tuple or not isinstance(value_type, TupleType) or len(value_type.elements) != len(state):
            return self._define(node, value_type, now)
        made: list[ValueTree] = []
        for number, (old, element) in enumerate(zip(state, value_type.elements, strict=True)):
            made.append(old if number in kept else self._define(node, element, now, (number,)))
        return tuple(made)


def _defines_tuple(node: Apply, flow: OpFlow | None) -> bool:
    """Whether a tuple that an instruction yields is new: neither an operand's nor one that its computations yield."""
    if flow is not None and flow.is_control_flow:
        return bool(flow.result_index)
    return node.opcode not in SAME_TUPLE and not node.opcode.endswith("-update")


def _unchanged(body: Graph) -> frozenset[int]:
    """The elements of a loop's state that its body passes through unchanged."""
    root = body.output
    if root is None or root.opcode != "tuple" or not body.parameters:
        return frozenset()
    parameter = body.parameters[0]
    return frozenset(
        number
        for number, element in enumerate(root.operands)
        if element.opcode == "get-tuple-element"
        and element.operands[0] is parameter
        and element.attributes.get("index") == number
    )

"""Removes copies whose operand and result can share one buffer under every schedule.

Each buffer is a list of values in time order. Without the copy, the list it starts is spliced in after its operand, or
the list its operand ends before it; every value must then be read for the last time before the next one is written, by
dependences alone.

Follows `CopyRemover::TryElideCopy`, `LiveRangeBefore` and `SpliceAfter` (xla/service/copy_insertion.cc) without the
analysis of regions, which the CPU compiler leaves off, and `HloOrdering::UsesBeforeValueDefinition` (xla/service/
hlo_ordering.cc). Values are those of `HloDataflowAnalysis` in SSA form (xla/hlo/analysis/hlo_dataflow_analysis.cc).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.analysis import ELEMENTWISE, call_sites, leaf_bytes
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, Trait, TupleType, Type, without_layout
from hloom.ops import CALLERS, SAME_BYTES, with_trait
from hloom.targets.cpu.bfs_scheduler import kernel_operands
from hloom.targets.cpu.dependency_order import (
    EARLIER,
    DependencyOrdering,
    ExecutionConstraint,
    branch_computations,
    is_entry_parameter,
)

FORWARDING = SAME_BYTES | with_trait(Trait.TUPLE)
"""Opcodes whose results are their operands, or elements of them."""


@dataclass(slots=True, eq=False)
class HloValue:
    """An array that an instruction makes, the instructions that read it, and the computations that yield it."""

    node: Node
    type: Type | None
    is_phi: bool = False
    uses: list[Node] = field(default_factory=list)
    root_of: set[Graph] = field(default_factory=set)


Tree = HloValue | tuple
"""The value of an instruction, or the trees of its elements."""


@dataclass(slots=True)
class InsertedCopies:
    """The copies added to a module, in the order in which they are tried.

    `initial` and `yielded` are, by loop and index, the copies of its initial state and of what its body yields;
    `branches`, by conditional and index, those of what its branches yield; `in_place`, by an instruction that writes
    over operands, those of these operands, with their numbers; `donated`, by donated parameter, that of the output
    that takes its place. `predecessors` are control dependences between copies.
    """

    order: list[Node] = field(default_factory=list)
    initial: dict[tuple[Node, int], Node] = field(default_factory=dict)
    yielded: dict[tuple[Node, int], Node] = field(default_factory=dict)
    branches: dict[Node, dict[int, list[Node]]] = field(default_factory=dict)
    in_place: dict[Node, list[tuple[int, Node]]] = field(default_factory=dict)
    donated: dict[Node, Node] = field(default_factory=dict)
    predecessors: dict[Node, list[Node]] = field(default_factory=dict)


def removable_copies(module: Module, fused: Mapping[Graph, Collection[Node]], copies: InsertedCopies) -> list[Node]:
    """The copies that are not needed, in the order in which they are found."""
    return _CopyRemover(module, fused, copies).run()


class _CopyRemover:
    """The values of a module and their lists by buffer."""

    def __init__(self, module: Module, fused: Mapping[Graph, Collection[Node]], copies: InsertedCopies) -> None:
        self.module = module
        self.fused = fused
        self.copies = copies
        self.ordering = DependencyOrdering(module, copies.predecessors)
        self.trees: dict[Node, Tree] = {}
        self.operands: dict[Node, list[Node]] = {}
        self.lists: dict[HloValue, list[HloValue]] = {}
        self.visited: set[Graph] = set()

    def run(self) -> list[Node]:
        """Try every copy until none more goes."""
        self._visit(self.module.entry, ())
        for parameter, copy in self.copies.donated.items():
            self._join([self.trees.get(parameter, ()), self.trees.get(copy, ())])
        removed: list[Node] = []
        pending = self.copies.order
        while True:
            left = [copy for copy in pending if not self._elide(copy)]
            if len(left) == len(pending):
                return removed
            kept = set(left)
            removed += [copy for copy in pending if copy not in kept]
            pending = left

    def _visit(self, entry: Graph, arguments: Sequence[Tree]) -> None:
        """Find the values of a computation and of all that it calls, callees first, without recursion."""
        pending: list[tuple[Graph, Sequence[Tree], int]] = [(entry, arguments, 0)]
        while pending:
            graph, given, position = pending.pop()
            self.visited.add(graph)
            nodes = graph.nodes
            while position < len(nodes):
                node = nodes[position]
                if node not in self.trees:
                    calls = self._calls(node)
                    if calls:
                        pending += [(graph, given, position), *reversed(calls)]
                        break
                    self._define(node, given)
                position += 1
            else:
                if graph.output is not None:
                    for value in _leaves(self.trees.get(graph.output, ())):
                        value.root_of.add(graph)

    def _calls(self, node: Node) -> list[tuple[Graph, Sequence[Tree], int]]:
        """The computations that an instruction calls and that are still to visit, with their arguments."""
        if not isinstance(node, Apply) or node.opcode not in CALLERS:
            return []
        calls: list[tuple[Graph, Sequence[Tree], int]] = []
        for site in call_sites(node):
            if site.computation in self.visited or site.computation.is_declared:
                continue
            given: list[Tree] = [self.trees.get(operand, ()) for operand in site.operands]
            if node.opcode == "while":
                given = [self._state(node, given[0], site.computation.parameters[0])]
            calls.append((site.computation, given, 0))
        return calls

    def _state(self, loop: Node, initial: Tree, holder: Node) -> Tree:
        """The state of a loop as its condition or body takes it, or as it yields it: phis where it is copied."""
        if not isinstance(initial, tuple):
            return self._new(holder, loop.type, is_phi=True)
        elements = loop.type.elements if isinstance(loop.type, TupleType) else ()
        return tuple(
            self._new(holder, element, is_phi=True) if (loop, index) in self.copies.initial else old
            for index, (old, element) in enumerate(zip(initial, elements, strict=False))
        )

    def _define(self, node: Node, given: Sequence[Tree]) -> None:
        """Note the value of an instruction, and that it reads its operands."""
        if node in self.fused.get(node.graph, ()):
            return
        if not isinstance(node, Apply):
            if isinstance(node, Parameter) and node.number < len(given):
                self.trees[node] = given[node.number]
            else:
                self.trees[node] = self._new(node, node.type)
            return
        if node.opcode in FORWARDING:
            self.trees[node] = self._forwarded(node)
            return
        if node.opcode == "while":
            self.trees[node] = self._state(node, self.trees.get(node.operands[0], ()), node)
            self._list_loop(node)
        elif node in self.copies.branches:
            self.trees[node] = self._new(node, node.type, is_phi=True)
            self._list_branches(node)
        elif node.opcode == "call" and call_sites(node):
            output = call_sites(node)[-1].computation.output
            self.trees[node] = self.trees.get(output, ()) if output is not None else ()
        else:
            self.trees[node] = self._new(node, node.type)
        self._use_operands(node)
        for operand, copy in self.copies.in_place.get(node, ()):
            self._list_in_place(node, operand, copy)

    def _use_operands(self, node: Apply) -> None:
        operands = kernel_operands(node, self.fused.get(node.graph, ()))
        copied = {copy.operands[0] for _, copy in self.copies.in_place.get(node, ())}
        self.operands[node] = operands
        for operand in operands:
            if operand not in copied:
                for value in _leaves(self.trees.get(operand, ())):
                    if not value.uses or value.uses[-1] is not node:
                        value.uses.append(node)

    def _forwarded(self, node: Apply) -> Tree:
        own = self.fused.get(node.graph, ())
        if node.opcode == "tuple":
            return tuple(self.trees.get(operand, ()) for operand in node.operands)
        if node.operands[0] in own:
            made = self._new(node, node.type)
            self._use_operands(node)
            return made
        tree = self.trees.get(node.operands[0], ())
        if node.opcode != "get-tuple-element":
            return tree
        index = node.attributes["index"]
        return tree[index] if isinstance(tree, tuple) and index < len(tree) else self._new(node, node.type)

    def _new(self, node: Node, value_type: Type | None, is_phi: bool = False) -> Tree:
        if isinstance(value_type, TupleType):
            return tuple(self._new(node, element, is_phi) for element in value_type.elements)
        value = HloValue(node, value_type, is_phi)
        self.lists[value] = [value]
        return value

    def _list_loop(self, loop: Apply) -> None:
        """One buffer for a copied element of the state: its copies, and what condition and body take of it."""
        body, condition = loop.attributes["body"], loop.attributes["condition"]
        result = self.trees[loop]
        for index, element in enumerate(result if isinstance(result, tuple) else ()):
            if (loop, index) not in self.copies.initial:
                continue
            parts: list[Tree] = [self.trees[self.copies.initial[loop, index]]]
            for graph in (condition, body):
                state = self.trees.get(graph.parameters[0], ())
                parts += [state[index]] if isinstance(state, tuple) else []
            parts += [self.trees[self.copies.yielded[loop, index]], element]
            self._join(parts)

    def _list_branches(self, conditional: Apply) -> None:
        result = self.trees[conditional]
        for index, copies in self.copies.branches[conditional].items():
            element = result[index] if isinstance(result, tuple) else result
            self._join([*(self.trees.get(copy, ()) for copy in copies), element])

    def _list_in_place(self, node: Apply, operand: int, copy: Node) -> None:
        made = self.trees[node]
        element = made[min(operand, len(made) - 1)] if isinstance(made, tuple) and made else made
        self._join([self.trees[copy], element])

    def _join(self, parts: Sequence[Tree]) -> None:
        values = [part for part in parts if isinstance(part, HloValue)]
        for value in values:
            self.lists[value] = values

    def _elide(self, copy: Node) -> bool:
        """Join the buffers of a copy's operand and of the copy, if their values are ordered then too."""
        source, target = self.trees.get(copy.operands[0]), self.trees.get(copy)
        if not isinstance(source, HloValue) or not isinstance(target, HloValue) or is_read_only(source.node):
            return False
        sources, targets = self.lists[source], self.lists[target]
        before, after = sources.index(source) + 1, targets.index(target)
        if sources is targets:
            if before != after:
                return False
            joined = sources
        elif after == 0:
            if not self._ordered(sources[:before], targets[1:]) or not self._ordered(targets, sources[before:]):
                return False
            joined = [*sources[:before], *targets, *sources[before:]]
        elif before == len(sources):
            if not self._ordered(targets[:after], sources) or not self._ordered(sources, targets[after + 1 :]):
                return False
            joined = [*targets[:after], *sources, *targets[after:]]
        else:
            return False
        joined = [value for value in joined if value is not target]
        if copy in source.uses:
            source.uses.remove(copy)
        source.uses += target.uses
        self.trees[copy] = source
        for value in joined:
            self.lists[value] = joined
        return True

    def _ordered(self, earlier: Sequence[HloValue], later: Sequence[HloValue]) -> bool:
        return all(self._is_live_before(old, new) for new in later for old in reversed(earlier))

    def _is_live_before(self, old: HloValue, new: HloValue) -> bool:
        """Whether a value is read for the last time before another is defined."""
        if not old.uses:
            return self._is_defined_before(old, new)
        if new.node.graph in old.root_of:
            return False
        in_other_branch = False
        for use in old.uses:
            constraint = self.ordering.constraint(use, new.node)
            if constraint is ExecutionConstraint.EXCLUSIVE_AFTER:
                in_other_branch = True
            elif constraint not in EARLIER and not self._ends_before(use, old, new, constraint, in_other_branch):
                return False
        return True

    def _ends_before(
        self, use: Node, old: HloValue, new: HloValue, constraint: ExecutionConstraint, in_other_branch: bool
    ) -> bool:
        """Whether a use that is not ordered before a definition yet ends before it."""
        ordering = self.ordering
        if constraint is ExecutionConstraint.SAME and self._may_share(old, new, use):
            return True
        if use.opcode == "while":
            body, condition = use.attributes["body"], use.attributes["condition"]
            if ordering.is_nested_in(new.node, body):
                return True
            if ordering.is_nested_in(new.node, condition):
                return new.node is condition.parameters[0]
        if new.node.opcode == "while":
            parts = (new.node.attributes["body"], new.node.attributes["condition"])
            if any(ordering.is_nested_in(use, part) for part in parts):
                return True
        if use.opcode == "conditional":
            is_inside = any(ordering.is_nested_in(new.node, branch) for branch in branch_computations(use))
            return (is_inside and not in_other_branch) or new.node is use
        return False

    def _is_defined_before(self, old: HloValue, new: HloValue) -> bool:
        if is_entry_parameter(new.node):
            return False
        if is_entry_parameter(old.node):
            return True
        old_starts, new_starts = (value.is_phi and value.node.opcode == "parameter" for value in (old, new))
        if old_starts and not new_starts and self.ordering.is_nested_in(new.node, old.node.graph):
            return True
        if new_starts and self.ordering.is_nested_in(old.node, new.node.graph):
            return False
        if new.is_phi and new.node.opcode in ("while", "conditional"):
            graphs = [site.computation for site in call_sites(new.node)] if isinstance(new.node, Apply) else []
            if any(self.ordering.is_nested_in(old.node, graph) for graph in graphs):
                return True
        return self.ordering.constraint(old.node, new.node) in EARLIER

    def _may_share(self, old: HloValue, new: HloValue, kernel: Node) -> bool:
        """Whether a kernel may write its result over a value that it reads: element by element, or because it must."""
        if kernel.opcode == "copy":
            return True
        if not isinstance(kernel, Apply) or leaf_bytes(old.type) != leaf_bytes(new.type):
            return False
        in_place = [copy for _, copy in self.copies.in_place.get(kernel, ())]
        if any(old in (self.trees.get(copy), self.trees.get(copy.operands[0])) for copy in in_place):
            return True
        if _plain(old.type) != _plain(new.type):
            return False
        shareable = elementwise_operands(kernel, self.fused.get(kernel.graph, ()))
        readers = [operand for operand in self.operands.get(kernel, ()) if old in _leaves(self.trees.get(operand, ()))]
        return bool(readers) and all(operand in shareable for operand in readers)


def elementwise_operands(kernel: Node, fused: Collection[Node]) -> set[Node]:
    """The arrays that a kernel reads only element by element, so that it may write its result over one of them.

    Source: `AreTransitiveUsesElementwiseOrTuple` (xla/hlo/analysis/hlo_dataflow_analysis.cc).
    """
    if kernel.opcode not in ELEMENTWISE:
        return set()
    aligned: set[Node] = set()
    other: set[Node] = set()
    pending = [(kernel, True)]
    seen: set[tuple[Node, bool]] = set()
    while pending:
        node, is_aligned = pending.pop()
        if (node, is_aligned) in seen:
            continue
        seen.add((node, is_aligned))
        is_aligned = is_aligned and node.opcode in ELEMENTWISE
        for operand in node.operands:
            if operand in fused:
                pending.append((operand, is_aligned))
            else:
                (aligned if is_aligned else other).add(operand)
    return aligned - other


def is_read_only(node: Node) -> bool:
    """Whether nothing may be written over a value: a constant, or a parameter that is not donated."""
    if isinstance(node, Constant) or node.opcode == "constant":
        return True
    if not is_entry_parameter(node):
        return False
    module = node.graph.module
    given = module.attributes.get("input_output_alias") or ()
    return not isinstance(node, Parameter) or all(alias.parameter != node.number for alias in given)


def _plain(value_type: Type | None) -> Type | None:
    return without_layout(value_type) if isinstance(value_type, TensorType) else value_type


def _leaves(tree: Tree) -> list[HloValue]:
    leaves: list[HloValue] = []
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, HloValue):
            leaves.append(part)
        else:
            pending += reversed(part)
    return leaves

"""A whole module's values and what relates them: instructions, calls, fusions, loops, branches, tuples.

A value is one array: a tuple's leaves are values each. Tuples and their elements are the same values under other
names. A called computation's parameters are linked with the operands of all its callers.

To teach propagation an opcode that passes values on without computing, add a row to `hloom.analysis.control_flow`; a
custom call that works on each element of a batch, to `BATCHED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hloom.analysis import Forwarding, Position, called_computations, flow_of, forwarded, phis
from hloom.ir import (
    Apply,
    Constant,
    Graph,
    Module,
    Node,
    Op,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    infer_axes,
    infer_type,
)
from hloom.ops.side_effects import may_merge
from hloom.propagation.sharding_rule import Dims, Relation, batched, relation_of, same, unrelated

PASSING = frozenset(("Sharding", "MoveToHost", "MoveToDevice", "annotate_device_placement", "LayoutConstraint"))
"""Targets of custom calls that yield their operand."""
BATCHED: tuple[tuple[str, int], ...] = (("lapack_", 2), ("cusolver_", 2), ("hipsolver_", 2), ("TopK", 1))
"""Beginnings of targets that work on each element of a batch, and how many dimensions an element has."""

_NONE: frozenset[int] = frozenset()
MALFORMED = (LookupError, AttributeError, TypeError, ValueError)


class Leaf(NamedTuple):
    """A value: the node that makes it, its number among the node's leaves, and its type."""

    node: Node
    number: int
    type: Type
    dims: Dims


class Link(NamedTuple):
    """An instruction, what it says, and the values that it says it of: operands first, then results."""

    node: Node
    relation: Relation
    leaves: tuple[int, ...]


class Wiring:
    """The values of a module by number, the links between them, and for each value its links: (link, place in it).

    `free` are for each value the dimensions that come from nowhere: those of constants and iotas, those that a
    broadcast adds, and those of what is computed from such alone. Every use can make its own part of them, so they take
    any demand and pass none on.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.leaves: list[Leaf] = []
        self.links: list[Link] = []
        self.touching: list[list[tuple[int, int]]] = []
        self.free: list[frozenset[int]] = []
        self.graphs: list[Graph] = []
        self.values: dict[Node, tuple[int, ...]] = {}
        self._types: dict[Node, Type] = {}
        self._relations: dict[tuple, Relation] = {}
        self._born: dict[tuple, frozenset[int]] = {}
        for graph in _reached(module.entry):
            self.graphs.append(graph)
            self._wire(graph)

    def type_of(self, node: Node) -> Type | None:
        """A node's type, written or inferred."""
        return node.type if node.type is not None else self._types.get(node)

    def _wire(self, graph: Graph) -> None:
        """Number a graph's values and link them; the graphs that it calls are wired already."""
        for node in graph.nodes:
            if not isinstance(node, Apply):
                made = self.fresh(node)
                if isinstance(node, Constant):
                    self._free(made)
                continue
            if node.type is None:
                self._infer(node)
            if not self._pass(node):
                self._apply(node)

    def _pass(self, node: Apply) -> bool:
        """Equate what control flow passes on; False where the node's axis map is to say what there is."""
        flow = flow_of(node)
        if flow is None or any(forward.forwarding is Forwarding.BUFFER for forward in flow.forwards):
            return False
        if flow.callees:
            return self._equate_phis(node)
        pairs = forwarded(node)
        if len(pairs) < len(flow.forwards) and node.inputs:
            return False
        sources = [self._leaves_at(source) for _, source, _ in pairs]
        if None in sources:
            return False
        if not flow.forwards[0].target:  # the whole result: further names of the same values
            self.values[node] = tuple([leaf for leaves in sources for leaf in leaves or ()])
            return True
        self.fresh(node)
        targets = [self._leaves_at(target) for target, _, _ in pairs]
        for leaves, target in zip(sources, targets, strict=True):
            self._equate(node, leaves or (), target or ())
        return None not in targets

    def _equate_phis(self, node: Apply) -> bool:
        found = phis(node)
        if not found:
            return False
        self.fresh(node)
        for phi in found:
            first, *others = [self._leaves_at(name) or () for name in phi.names]
            for source in phi.sources:
                self._equate(node, self._leaves_at(source) or (), first)
            for source in phi.back_edges:
                self._equate(node, first, self._leaves_at(source) or ())
            for other in others:
                self._equate(node, first, other)
        for target, source, _ in forwarded(node):
            self._equate(node, self._leaves_at(source) or (), self._leaves_at(target) or ())
        return True

    def _leaves_at(self, position: Position) -> tuple[int, ...] | None:
        """The values of an element of a node; None where there is no such element."""
        node, index = position
        leaves, kind, start = self.given(node), self.type_of(node), 0
        for number in index:
            if not isinstance(kind, TupleType) or not 0 <= number < len(kind.elements):
                return None
            start += sum(map(_leaf_count, kind.elements[:number]))
            kind = kind.elements[number]
        return leaves[start : start + _leaf_count(kind)] if index else leaves

    def _infer(self, node: Apply) -> None:
        types = [self.type_of(each) for each in node.inputs]
        if node.has_row and None not in types:
            try:
                known = [each for each in types if each is not None]
                self._types[node] = infer_type(node.op, known, node.attributes)
            except (TypeProblem, *MALFORMED):
                return

    def _apply(self, node: Apply) -> None:
        """An instruction that its own axis map describes."""
        operands = [leaf for each in node.inputs for leaf in self.given(each)]
        results = self.fresh(node)
        if not operands and not results:
            return
        relation = self._relation(node, operands, results)
        self.link(node, relation, (*operands, *results))
        if relation.is_cheap and may_merge(node):
            known = [self.free[leaf] for leaf in operands]
            for slot, leaf in enumerate(results, len(operands)):
                self.free[leaf] = self._born_free(relation, slot, known)

    def _born_free(self, relation: Relation, slot: int, known: list[frozenset[int]]) -> frozenset[int]:
        key = (id(relation), slot, *known)
        found = self._born.get(key)
        if found is None:
            found = self._born[key] = relation.born_free(slot, known)
        return found

    def _free(self, leaves: Iterable[int]) -> None:
        for leaf in leaves:
            self.free[leaf] = frozenset(range(len(self.leaves[leaf].dims)))

    def _relation(self, node: Apply, operands: Sequence[int], results: Sequence[int]) -> Relation:
        types = tuple([self.type_of(each) for each in node.inputs])
        kind = (node.function, types, self.type_of(node), id(node.attributes))
        found = self._relations.get(kind)
        if found is None:
            dims = [self.leaves[leaf].dims for leaf in operands], [self.leaves[leaf].dims for leaf in results]
            found = self._relations[kind] = _related(node, types, self.type_of(node), *dims)
        return found

    def given(self, node: Node) -> tuple[int, ...]:
        """The values of a node; fresh ones where its graph is not wired yet, or where the text does not define it."""
        found = self.values.get(node)
        return self.fresh(node) if found is None else found

    def fresh(self, node: Node) -> tuple[int, ...]:
        """Values for a node, one for each leaf of its type; none where the type is not known.

        Those that it has already, where a graph that uses it from outside was wired before its own.
        """
        if node in self.values:
            return self.values[node]
        kind = self.type_of(node)
        start = len(self.leaves)
        for number, leaf in enumerate(kind.leaves() if kind is not None else ()):
            self.leaves.append(Leaf(node, number, leaf, leaf.dims if isinstance(leaf, TensorType) else ()))
            self.touching.append([])
            self.free.append(_NONE)
        self.values[node] = tuple(range(start, len(self.leaves)))
        return self.values[node]

    def link(self, node: Node, relation: Relation, leaves: tuple[int, ...]) -> None:
        """A further link."""
        number = len(self.links)
        self.links.append(Link(node, relation, leaves))
        for slot, leaf in enumerate(leaves):
            if relation.sides[slot]:
                self.touching[leaf].append((number, slot))

    def is_free(self, leaf: int, dimension: int) -> bool:
        """Whether a dimension comes from nowhere."""
        return dimension in self.free[leaf]

    def _equate(self, node: Node, first: Iterable[int], second: Iterable[int]) -> None:
        """Link values pair by pair: they are the same."""
        for one, other in zip(first, second, strict=False):
            if self.leaves[one].dims == self.leaves[other].dims:
                self.link(node, same(self.leaves[one].dims), (one, other))


def _leaf_count(kind: Type | None) -> int:
    if kind is None:
        return 0
    return 1 if isinstance(kind, TensorType) else sum(1 for _ in kind.leaves())


def _reached(entry: Graph) -> Iterator[Graph]:
    """The graphs that run, callees before their callers."""
    seen = {entry}
    pending: list[tuple[Graph, Iterator[Graph]]] = [(entry, _callees(entry))]
    while pending:
        following = next((each for each in pending[-1][1] if each not in seen), None)
        if following is None:
            yield pending.pop()[0]
        else:
            seen.add(following)
            pending.append((following, _callees(following)))


def _callees(graph: Graph) -> Iterator[Graph]:
    nodes = [node for node in graph.nodes if isinstance(node, Apply) and node.attributes.refers]
    return (called for node in nodes for called in called_computations(node) if called.output is not None)


def _related(
    node: Apply, types: Sequence[Type | None], result: Type | None, operands: Sequence[Dims], results: Sequence[Dims]
) -> Relation:
    if node.opcode == "custom-call":
        return _custom(node, operands, results)
    if not isinstance(node.function, Op):
        return unrelated(operands, results, "which function is called is not known")
    known = [kind for kind in types if kind is not None]
    if len(known) < len(types):
        return unrelated(operands, results, "an operand's type is not known")
    if node.opcode in ("collective-permute", "collective-broadcast") and operands == results:
        return _pairwise(operands)
    if node.function.axes is None or node.opcode in _SEPARATE:
        return unrelated(operands, results, f"{node.opcode} has no rule")
    try:
        found = infer_axes(node.function, known, node.attributes, result)
        assert found is not None
        return relation_of(found, (*operands, *results))
    except (TypeProblem, *MALFORMED) as problem:
        return unrelated(operands, results, str(problem))


def _pairwise(dims: Sequence[Dims]) -> Relation:
    return same(dims[0]) if len(dims) == 1 else unrelated(dims, dims, "a collective of several arrays has no rule")


def _custom(node: Apply, operands: Sequence[Dims], results: Sequence[Dims]) -> Relation:
    target = node.attributes.get("custom_call_target") or ""
    if target in PASSING and len(operands) == 1 and list(operands) == list(results):
        return same(operands[0])
    inner = next((count for prefix, count in BATCHED if target.startswith(prefix)), None)
    if inner is not None and operands:
        return batched(operands, results, inner, f"of {target} only the batch dimensions are known")
    return unrelated(operands, results, f"nobody knows what {target or 'the target'} computes")


_SEPARATE = frozenset(
    (
        "all-gather-done",
        "all-gather-start",
        "async-start",
        "call",
        "collective-broadcast",
        "collective-permute",
        "collective-permute-start",
        "conditional",
        "fusion",
        "infeed",
        "outfeed",
        "ragged-all-to-all",
        "recv",
        "recv-done",
        "send",
        "send-done",
    )
)
"""Opcodes whose axis map leaves operands and results apart."""

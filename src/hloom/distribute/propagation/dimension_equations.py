"""The dataflow graph of a module: its arrays, and the equations between their dimensions.

Equations come from instructions' axis maps, and from calls, fusions, loops, branches and asynchronous pairs.

A value is one array: each leaf of a tuple is a value. Tuples and their elements are the same values under other names.
A called computation's parameters are equated with the operands of all its callers.

For an opcode that forwards values without computing, add a row to `hloom.analysis.control_flow`; for a custom call that
is independent per batch element, add it to `BATCHED_TARGETS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hloom.analysis import Position, called_computations, flow_of, forwarded, phis, resolved
from hloom.distribute.propagation.sharding_rule import (
    Dims,
    ShardingRule,
    batch_rule,
    identity_rule,
    sharding_rule_of,
    unknown_rule,
)
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
    post_order,
)
from hloom.ops import may_merge, separate_axes

FORWARDING_TARGETS = frozenset(
    ("Sharding", "MoveToHost", "MoveToDevice", "annotate_device_placement", "LayoutConstraint")
)
"""Targets of custom calls that yield their operand."""
BATCHED_TARGETS: tuple[tuple[str, int], ...] = (("lapack_", 2), ("cusolver_", 2), ("hipsolver_", 2), ("TopK", 1))
"""Beginnings of targets that work on each element of a batch, and how many dimensions an element has."""

_NONE: frozenset[int] = frozenset()
MALFORMED = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)


class Leaf(NamedTuple):
    """A value: the node that makes it, its number among the node's leaves, and its type."""

    node: Node
    number: int
    type: Type
    dims: Dims


class Equation(NamedTuple):
    """An instruction, its rule, and the values the rule relates: operands first, then results."""

    node: Node
    rule: ShardingRule
    leaves: tuple[int, ...]


class DataflowGraph:
    """The values of a module by number, the equations between them, and for each value its equations: (equation, slot).

    `free` holds for each value the dimensions that depend on no input: those of constants and iotas, those that a
    broadcast adds, and those computed from such dimensions alone. Every use can compute its own part of them, so they
    accept any sharding and propagate none.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.leaves: list[Leaf] = []
        self.equations: list[Equation] = []
        self.equations_of: list[list[tuple[int, int]]] = []
        self.free: list[frozenset[int]] = []
        self.graphs: list[Graph] = []
        self.values: dict[Node, tuple[int, ...]] = {}
        self._types: dict[Node, Type] = {}
        self._rules: dict[tuple, ShardingRule] = {}
        self._free_dims: dict[tuple, frozenset[int]] = {}
        for graph in _reached(module.entry):
            self.graphs.append(graph)
            self._add_computation(graph)

    def type_of(self, node: Node) -> Type | None:
        """A node's type, written or inferred."""
        return node.type if node.type is not None else self._types.get(node)

    def _add_computation(self, graph: Graph) -> None:
        """Number a computation's values and equate them; its callees have been added already."""
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
        """Equate what control flow forwards; returns False if the node's axis map applies instead."""
        flow = flow_of(node)
        if flow is None:
            return False
        if flow.callees:
            return self._equate_phis(node)
        if not flow.names_values:
            return False
        if not flow.forwards[0].target:
            return self._rename(node, flow.forwards[0].source)
        pairs = forwarded(node)
        if len(pairs) < len(flow.forwards) and node.operands:
            return False
        sources = [self.leaves_at(source) for _, source, _ in pairs]
        if None in sources:
            return False
        self.fresh(node)
        targets = [self.leaves_at(target) for target, _, _ in pairs]
        for leaves, target in zip(sources, targets, strict=True):
            self._equate(node, leaves or (), target or ())
        return None not in targets

    def _rename(self, node: Apply, source: tuple[int | str, ...]) -> bool:
        """Give a node the values of its operands, or of an element of one; returns False if there is none."""
        if not source:
            self.values[node] = tuple([leaf for operand in node.operands for leaf in self.given(operand)])
            return True
        path = resolved(node, source)
        if path is None or path[0] >= len(node.operands):
            return False
        leaves = self.leaves_at(Position(node.operands[path[0]], path[1:]))
        if leaves is None:
            return False
        self.values[node] = leaves
        return True

    def _equate_phis(self, node: Apply) -> bool:
        joined = phis(node)
        if not joined:
            return False
        self.fresh(node)
        for phi in joined:
            first, *others = [self.leaves_at(name) or () for name in phi.names]
            for source in phi.sources:
                self._equate(node, self.leaves_at(source) or (), first)
            for source in phi.back_edges:
                self._equate(node, first, self.leaves_at(source) or ())
            for other in others:
                self._equate(node, first, other)
        for target, source, _ in forwarded(node):
            self._equate(node, self.leaves_at(source) or (), self.leaves_at(target) or ())
        return True

    def leaves_at(self, position: Position) -> tuple[int, ...] | None:
        """The values of an element of a node; None where there is no such element."""
        node, index = position
        leaves, value_type, start = self.given(node), self.type_of(node), 0
        for number in index:
            if not isinstance(value_type, TupleType) or not 0 <= number < len(value_type.elements):
                return None
            start += sum(map(_leaf_count, value_type.elements[:number]))
            value_type = value_type.elements[number]
        return leaves[start : start + _leaf_count(value_type)] if index else leaves

    def _infer(self, node: Apply) -> None:
        types = [self.type_of(operand) for operand in node.operands]
        if node.has_row and None not in types:
            try:
                known = [operand_type for operand_type in types if operand_type is not None]
                self._types[node] = infer_type(node.op, known, node.attributes)
            except (TypeProblem, *MALFORMED):
                return

    def _apply(self, node: Apply) -> None:
        """An instruction that its own axis map describes."""
        operands = [leaf for operand in node.operands for leaf in self.given(operand)]
        results = self.fresh(node)
        if not operands and not results:
            return
        rule = self._rule_of(node, operands, results)
        self.equation(node, rule, (*operands, *results))
        if rule.is_cheap and may_merge(node):
            known = [self.free[leaf] for leaf in operands]
            for slot, leaf in enumerate(results, len(operands)):
                self.free[leaf] = self._free_dims_of(rule, slot, known)

    def _free_dims_of(self, rule: ShardingRule, slot: int, known: list[frozenset[int]]) -> frozenset[int]:
        key = (id(rule), slot, *known)
        dims = self._free_dims.get(key)
        if dims is None:
            dims = self._free_dims[key] = rule.free_dims(slot, known)
        return dims

    def _free(self, leaves: Iterable[int]) -> None:
        for leaf in leaves:
            self.free[leaf] = frozenset(range(len(self.leaves[leaf].dims)))

    def _rule_of(self, node: Apply, operands: Sequence[int], results: Sequence[int]) -> ShardingRule:
        types = tuple([self.type_of(operand) for operand in node.operands])
        key = (node.function, types, self.type_of(node), id(node.attributes))
        rule = self._rules.get(key)
        if rule is None:
            dims = [self.leaves[leaf].dims for leaf in operands], [self.leaves[leaf].dims for leaf in results]
            rule = self._rules[key] = _make_rule(node, types, self.type_of(node), *dims)
        return rule

    def given(self, node: Node) -> tuple[int, ...]:
        """The values of a node; new ones if its computation is not added yet, or if it is undefined."""
        leaves = self.values.get(node)
        return self.fresh(node) if leaves is None else leaves

    def fresh(self, node: Node) -> tuple[int, ...]:
        """Values for a node, one for each leaf of its type; none where the type is not known.

        Those that it has already, where a computation that uses it from outside was added before its own.
        """
        if node in self.values:
            return self.values[node]
        value_type = self.type_of(node)
        start = len(self.leaves)
        for number, leaf in enumerate(value_type.leaves() if value_type is not None else ()):
            self.leaves.append(Leaf(node, number, leaf, leaf.dims if isinstance(leaf, TensorType) else ()))
            self.equations_of.append([])
            self.free.append(_NONE)
        self.values[node] = tuple(range(start, len(self.leaves)))
        return self.values[node]

    def equation(self, node: Node, rule: ShardingRule, leaves: tuple[int, ...]) -> None:
        """Add an equation."""
        number = len(self.equations)
        self.equations.append(Equation(node, rule, leaves))
        for slot, leaf in enumerate(leaves):
            if rule.dim_factors[slot]:
                self.equations_of[leaf].append((number, slot))

    def is_free(self, leaf: int, dimension: int) -> bool:
        """Whether a dimension depends on no input."""
        return dimension in self.free[leaf]

    def _equate(self, node: Node, first: Iterable[int], second: Iterable[int]) -> None:
        """Equate values pair by pair."""
        for one, other in zip(first, second, strict=False):
            if self.leaves[one].dims == self.leaves[other].dims:
                self.equation(node, identity_rule(self.leaves[one].dims), (one, other))


def _leaf_count(value_type: Type | None) -> int:
    if value_type is None:
        return 0
    return 1 if isinstance(value_type, TensorType) else sum(1 for _ in value_type.leaves())


def _reached(entry: Graph) -> Iterator[Graph]:
    """The graphs that run, callees before their callers."""
    return post_order([entry], _callees)


def _callees(graph: Graph) -> Iterator[Graph]:
    nodes = [node for node in graph.nodes if isinstance(node, Apply) and node.attributes.refers]
    return (called for node in nodes for called in called_computations(node) if called.output is not None)


def _make_rule(
    node: Apply, types: Sequence[Type | None], result: Type | None, operands: Sequence[Dims], results: Sequence[Dims]
) -> ShardingRule:
    if node.opcode == "custom-call":
        return _custom_call_rule(node, operands, results)
    if not isinstance(node.function, Op):
        return unknown_rule(operands, results, "which function is called is not known")
    known = [operand_type for operand_type in types if operand_type is not None]
    if len(known) < len(types):
        return unknown_rule(operands, results, "an operand's type is not known")
    if node.opcode in ("collective-permute", "collective-broadcast") and operands == results:
        return _pairwise(operands)
    if node.function.axes in (None, separate_axes):
        return unknown_rule(operands, results, f"{node.opcode} has no rule")
    try:
        axis_map = infer_axes(node.function, known, node.attributes, result)
        assert axis_map is not None
        return sharding_rule_of(axis_map, (*operands, *results))
    except (TypeProblem, *MALFORMED) as problem:
        return unknown_rule(operands, results, str(problem))


def _pairwise(dims: Sequence[Dims]) -> ShardingRule:
    return (
        identity_rule(dims[0])
        if len(dims) == 1
        else unknown_rule(dims, dims, "a collective of several arrays has no rule")
    )


def _custom_call_rule(node: Apply, operands: Sequence[Dims], results: Sequence[Dims]) -> ShardingRule:
    target = node.attributes.get("custom_call_target") or ""
    if target in FORWARDING_TARGETS and len(operands) == 1 and list(operands) == list(results):
        return identity_rule(operands[0])
    inner = next((count for prefix, count in BATCHED_TARGETS if target.startswith(prefix)), None)
    if inner is not None and operands:
        return batch_rule(operands, results, inner, f"of {target} only the batch dimensions are known")
    return unknown_rule(operands, results, f"nobody knows what {target or 'the target'} computes")

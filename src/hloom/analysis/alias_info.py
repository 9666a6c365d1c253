"""Which results an instruction writes over an operand, either always or optionally when the operand dies there.

The rules are XLA's (xla/hlo/analysis/alias_info.cc, AliasInfo::GetInPlaceInputOutputPairs and
GetFusionInstructionInPlaceInputOutputPairs; xla/hlo/analysis/hlo_dataflow_analysis.cc,
HloDataflowAnalysis::CanShareOperandBufferWithUser; jaxlib 0.10.2). Targets that add rules of their own have subclasses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from hloom.ir import Apply, Graph, Node, Parameter, TensorType, Trait, TupleType, Type
from hloom.ops import PRODUCTS, with_trait

Index = tuple[int, ...]
"""The path to an element of nested tuples; empty for an array."""
ELEMENTWISE = with_trait(Trait.ELEMENTWISE)
"""Opcodes that read an element of each operand to compute the element at the same index."""
OVERWRITTEN = {"dynamic-update-slice": 0, "scatter": 0, "triangular-solve": 1, "set-dimension-size": 0}
"""For each opcode, the one operand that its result may be written over."""
LIBRARY_FUSION = "__ynn_fusion"
"""The name of these fusions in their backend config."""
DEEPEST = 1000
"""The maximum number of forwarding instructions to follow inside a fusion; beyond it, the result is assumed to be new.
"""


class InPlacePair(NamedTuple):
    """A result that shares an operand's buffer: the operand's number, its shape index, and the result's."""

    operand: int
    operand_index: Index
    result_index: Index


@dataclass(slots=True)
class AliasInfo:
    """Which operands the instructions of one module must or may overwrite; results for fused computations are cached.
    """

    _users: dict[Graph, dict[Node, list[Node]]] = field(default_factory=dict)
    _pairs: dict[Graph, tuple[InPlacePair, ...]] = field(default_factory=dict)
    _elementwise: dict[Node, bool] = field(default_factory=dict)

    def pairs(self, node: Apply) -> tuple[InPlacePair, ...]:
        """The results that must share an operand's buffer.

        ```
        dynamic-update-slice(x, update, start)   the result in x
        scatter(x, y, indices, u, v)             element 0 in x, element 1 in y
        fusion(x), whose root updates x          the result in x
        ```
        """
        opcode = node.opcode
        if opcode in ("dynamic-update-slice", "set-dimension-size"):
            return (InPlacePair(0, (), ()),)
        if opcode == "scatter":
            return _each(len(node.operands) // 2)
        if opcode == "all-reduce-start":
            return _each(len(node.operands))
        if opcode == "ragged-all-to-all":
            return (InPlacePair(1, (), ()),)
        if opcode == "fusion":
            return self._fusion_pairs(node)
        return _written(node)

    def may_overwrite(self, user: Apply, operand: Node, result: Type | None, result_index: Index = ()) -> bool:
        """Whether an instruction can write this result over an array that it is the last to read."""
        if operand.opcode == "constant" or not isinstance(operand.type, TensorType):
            return False
        numbers = [number for number, used in enumerate(user.operands) if used is operand]
        if any(InPlacePair(number, (), result_index) in self.pairs(user) for number in numbers):
            return True
        hinted = self.hint(user, operand, numbers, result, result_index)
        if hinted is not None:
            return hinted
        if not _same(operand.type, result):
            return False
        opcode = user.opcode
        if opcode == "fusion":
            return self._fusion_overwrites(user, numbers)
        if opcode in OVERWRITTEN:
            return numbers == [OVERWRITTEN[opcode]]
        if opcode == "sort":
            return numbers == [result_index[0] if result_index else 0] and len(set(operand.users)) == 1
        return opcode in ELEMENTWISE

    def hint(self, user: Apply, operand: Node, numbers: list[int], result: Type | None, index: Index) -> bool | None:
        """What a target's compiler says of `may_overwrite`; None where it leaves it to the rules of all targets.

        `numbers` are the positions of the operand (`AliasInfo::MayAlias`).
        """
        return None

    def may_replace(self, old_type: Type | None, made: Apply) -> bool:
        """Whether a fused elementwise result may be written over an array of the old type that it reads."""
        return made.opcode in ELEMENTWISE and _same(old_type, made.type)

    def _fusion_pairs(self, node: Apply) -> tuple[InPlacePair, ...]:
        graph = node.attributes.get("calls")
        if not isinstance(graph, Graph) or graph.output is None:
            return _written(node)
        self._follow_fusions(graph)
        return self._pairs[graph] + _written(node)

    def _follow_fusions(self, graph: Graph) -> None:
        """Compute the pairs of a fused computation after those of the fusions nested in it; iterative, so any depth
        works.

        If fusions form a cycle, which no valid program has, the innermost gets no pairs.
        """
        pending, opened = [graph], set[Graph]()
        while pending:
            current = pending[-1]
            if current not in self._pairs and current not in opened:
                opened.add(current)
                pending += [inner for inner in _fused(current) if inner not in self._pairs and inner not in opened]
                continue
            pending.pop()
            if current not in self._pairs:
                self._pairs[current] = ()
                self._pairs[current] = tuple(self._found_pairs(current))

    def _known_pairs(self, node: Apply) -> tuple[InPlacePair, ...]:
        graph = node.attributes.get("calls") if node.opcode == "fusion" else None
        return self._pairs.get(graph, ()) + _written(node) if isinstance(graph, Graph) else self.pairs(node)

    def _found_pairs(self, graph: Graph) -> list[InPlacePair]:
        root = graph.root
        is_tuple = root.opcode == "tuple"
        results = [((number,), element) for number, element in enumerate(root.operands)] if is_tuple else [((), root)]
        pairs: list[InPlacePair] = []
        for index, made in results:
            source = _followed(made)
            if not isinstance(source, Apply):
                continue
            for pair in self._known_pairs(source):
                origin = _followed(source.operands[pair.operand])
                if not pair.result_index and isinstance(origin, Parameter):
                    pairs.append(InPlacePair(origin.number, (), index))
        return pairs

    def _fusion_overwrites(self, fusion: Apply, numbers: list[int]) -> bool:
        graph = fusion.attributes.get("calls")
        if not isinstance(graph, Graph) or len(graph.parameters) != len(fusion.operands) or not numbers:
            return False
        parameter = graph.parameters[numbers[0]]
        fusion_kind = fusion.attributes.get("kind")
        if fusion_kind in ("kLoop", "kInput") or (fusion_kind == "kCustom" and _is_library_fusion(fusion)):
            if parameter not in self._elementwise:
                self._elementwise[parameter] = self._is_read_elementwise(graph, parameter)
            return self._elementwise[parameter]
        return fusion_kind == "kOutput" and self._is_added(graph, parameter)

    def _is_read_elementwise(self, graph: Graph, parameter: Node) -> bool:
        """Whether every use of a fused parameter is elementwise."""
        users = self._users_in(graph)
        seen, pending = {parameter}, [parameter]
        while pending:
            for user in users.get(pending.pop(), ()):
                if user.opcode not in ELEMENTWISE and user.opcode != "tuple":
                    return False
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
        return True

    def _is_added(self, graph: Graph, parameter: Node) -> bool:
        """Whether a fused parameter is only added to a product, at the end."""
        root = graph.root
        if root.opcode != "add" or self._users_in(graph).get(parameter) != [root]:
            return False
        return any(operand.opcode in PRODUCTS for operand in root.operands)

    def _users_in(self, graph: Graph) -> dict[Node, list[Node]]:
        if graph not in self._users:
            users: dict[Node, list[Node]] = {}
            for node in graph.nodes:
                for used in dict.fromkeys(node.operands):
                    users.setdefault(used, []).append(node)
            self._users[graph] = users
        return self._users[graph]


@cache
def _each(count: int) -> tuple[InPlacePair, ...]:
    if count == 1:
        return (InPlacePair(0, (), ()),)
    return tuple(InPlacePair(number, (), (number,)) for number in range(count))


def _written(node: Apply) -> tuple[InPlacePair, ...]:
    """The pairs given by `output_to_operand_aliasing`."""
    listed = node.attributes.get("output_to_operand_aliasing")
    if not isinstance(listed, tuple):  # absent, or kept as text, if the opcode does not take it
        return ()
    return tuple(InPlacePair(alias.operand, alias.operand_index, alias.output_index) for alias in listed)


def _is_library_fusion(fusion: Apply) -> bool:
    """Whether XLA's CPU compiler hands a fusion to YNNPACK (xla/backends/cpu/transforms/library_rewriter.cc).

    That such a fusion overwrites operands it reads elementwise was observed in executables of jaxlib 0.10.2.
    """
    return LIBRARY_FUSION in str(fusion.attributes.get("backend_config") or "")


def _followed(node: Node) -> Node:
    """The node a value comes from, looking through instructions that only forward it."""
    for _ in range(DEEPEST):
        if node.opcode == "bitcast":
            node = node.operands[0]
        elif node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
            node = node.operands[0].operands[node.attributes["index"]]
        else:
            break
    return node


@cache
def _same(one: Type | None, other: Type | None) -> bool:
    """Whether two arrays have the same element type, dimensions and layout; an absent layout is the default one."""
    if isinstance(one, TupleType) or not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    if one is other:
        return True
    return one.dtype is other.dtype and one.dims == other.dims and _order(one) == _order(other)


def _order(array_type: TensorType) -> tuple[int, ...]:
    return (
        array_type.layout.minor_to_major if array_type.layout is not None else tuple(range(array_type.rank - 1, -1, -1))
    )


def _fused(graph: Graph) -> list[Graph]:
    """The computations of the fusions in a graph."""
    called = (node.attributes.get("calls") for node in graph.nodes if node.opcode == "fusion")
    return [inner for inner in called if isinstance(inner, Graph) and inner.output is not None]

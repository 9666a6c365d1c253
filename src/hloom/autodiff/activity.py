"""Activity analysis: which values depend differentiably on the requested inputs, and affect the requested results.

Leaves of a value are counted in order, tuples flattened; a set of them is an integer with a bit for each. Calls, loops
and branches are seen through by summaries: for each leaf of a graph's result, the leaves of its parameters that it
depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from hloom.autodiff.table import is_differentiable
from hloom.ir import DTYPES, Apply, Graph, Node, TensorType, TupleType, Type
from hloom.ops import INLINABLE, SAME_BYTES
from hloom.rewrite import has_own_derivative
from hloom.text import HloomError

PASSED_ON = (SAME_BYTES - {"bitcast"}) | {"all-reduce-done", "copy", "copy-done"}
"""Ops whose result is, leaf by leaf, their first operand."""

FOLLOWED = INLINABLE | {"async-start"}
"""Ops that call one graph, whose results are theirs; loops and conditionals are the others that are followed."""

_POWERS_OF_TWO = DTYPES["f8e8m0fnu"]

Masks = Sequence[int]
Flow = dict[Node, list[int]]
"""For each node the sets of its leaves, those of which all are empty left out."""


def differentiable(value_type: Type | None) -> bool:
    """Whether values of a type have derivatives: arrays of floating point and complex numbers.

    Powers of two (f8e8m0fnu, the scales of MX formats) have none: a type without zero and signs cannot hold one.
    """
    if not isinstance(value_type, TensorType) or value_type.dtype is _POWERS_OF_TWO:
        return False
    return value_type.dtype.is_float or value_type.dtype.is_complex


def leaf_count(value_type: Type | None) -> int:
    if not isinstance(value_type, TupleType):
        return 1
    return sum(1 for _ in value_type.leaves())


def differentiable_leaves(value_type: Type | None) -> int:
    """The leaves of a type that have derivatives, as bits."""
    if not isinstance(value_type, TupleType):
        return int(differentiable(value_type))
    return sum(1 << number for number, leaf in enumerate(value_type.leaves()) if differentiable(leaf))


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def branches_of(node: Apply) -> tuple[Graph, ...]:
    """The computations that a conditional chooses from, in the order of their operands."""
    listed = node.attributes.get("branch_computations")
    if listed is not None:
        return tuple(listed)
    return node.attributes["true_computation"], node.attributes["false_computation"]


def element_offset(value_type: Type | None, index: int) -> int:
    """The number of the first leaf of a tuple's element."""
    assert isinstance(value_type, TupleType), f"{value_type} is not a tuple"
    return _offsets(value_type)[index]


@lru_cache(256)
def _offsets(value_type: TupleType) -> list[int]:
    return list(accumulate(map(leaf_count, value_type.elements), initial=0))


class Activity:
    """Answers for the graphs of a module; summaries are kept."""

    def __init__(self, stop: frozenset[Node] = frozenset()) -> None:
        self._stop = stop
        self._summaries: dict[Graph, list[int]] = {}
        self._leaves: dict[Type | None, int] = {}
        self._passes: dict[tuple[str, Type | None], bool] = {}

    def passes(self, opcode: str, value_type: Type | None) -> bool:
        """Whether a result of this type may depend differentiably on the operands of an op."""
        key = (opcode, value_type)
        result = self._passes.get(key)
        if result is None:
            result = self._passes[key] = bool(self.leaves(value_type)) and is_differentiable(opcode)
        return result

    def leaves(self, value_type: Type | None) -> int:
        """The cached result of `differentiable_leaves` for a type."""
        result = self._leaves.get(value_type)
        if result is None:
            result = self._leaves[value_type] = differentiable_leaves(value_type)
        return result

    def summary(self, graph: Graph) -> list[int]:
        """For each leaf of a graph's result, the leaves of its parameters (all counted through) it depends on."""
        result = self._summaries.get(graph)
        if result is None:
            self._summarize([graph])
            result = self._summaries[graph]
        return result

    def _summarize(self, graphs: Sequence[Graph]) -> None:
        """Find the summaries of graphs, those of the graphs that they follow first."""
        pending = [(graph, False) for graph in graphs]
        while pending:
            graph, is_ready = pending.pop()
            if graph in self._summaries:
                continue
            if graph.output is None:
                raise HloomError(f"computation {graph.name} is called and not defined: it cannot be differentiated")
            if is_ready:
                count = sum(leaf_count(parameter.type) for parameter in graph.parameters)
                values = self._flow(graph, [1 << number for number in range(count)])
                self._summaries[graph] = values.get(graph.root) or [0] * leaf_count(graph.root.type)
            else:
                pending.append((graph, True))
                pending += [(callee, False) for callee in _followed(graph) if callee not in self._summaries]

    def active(self, graph: Graph, given: Masks, wanted: int) -> dict[Node, int]:
        """The instructions through which wanted leaves of the result depend on leaves that are given.

        `given` is not zero for those leaves of the parameters. For each active instruction the leaves that are needed.
        """
        self._summarize(_followed(graph))
        needs: dict[Node, int] = {graph.root: wanted & differentiable_leaves(graph.root.type)}
        active: dict[Node, int] = {}
        flow = self._flow(graph, given)
        for node, masks in reversed(flow.items()):
            needed = needs.get(node)
            if not needed or not isinstance(node, Apply):
                continue
            if len(masks) == 1 or any(mask and needed >> leaf & 1 for leaf, mask in enumerate(masks)):
                active[node] = needed
            handler = _NEEDS.get(node.opcode)
            if handler is None:
                for operand in node.operands:
                    reached = flow.get(operand)
                    if reached is not None:
                        needs[operand] = 1 if len(reached) == 1 else needs.get(operand, 0) | self.leaves(operand.type)
            else:
                for operand, leaves in zip(node.operands, handler(self, node, needed), strict=True):
                    needs[operand] = needs.get(operand, 0) | leaves
        return active

    def _flow(self, graph: Graph, given: Masks) -> Flow:
        """For each node and leaf the union of the sets given for the parameters' leaves that it depends on.

        Nodes that depend on none are left out.
        """
        values: Flow = {}
        start = 0
        for parameter in graph.parameters:
            count = leaf_count(parameter.type)
            own = differentiable_leaves(parameter.type)
            if parameter in self._stop:
                own = 0
            masks = [given[start + leaf] if own >> leaf & 1 else 0 for leaf in range(count)]
            start += count
            if any(masks):
                values[parameter] = masks
        reached = values.keys()
        for node in graph.nodes:
            if reached.isdisjoint(node.operands) or not isinstance(node, Apply) or node in self._stop:
                continue
            handler = _FLOWS.get(node.opcode)
            if handler is None:
                masks = _combined(self, node, values)
                if masks:
                    values[node] = masks
                continue
            masks = handler(self, node, values)
            if any(masks):
                values[node] = masks
        return values

    def carried(self, body: Graph, varied: int, wanted: int) -> tuple[int, int]:
        """The leaves of a loop's state that vary, and those that are wanted, after any number of iterations."""
        summary = self.summary(body)
        while True:
            more = varied
            for leaf, sources in enumerate(summary):
                if sources & varied:
                    more |= 1 << leaf
            asked = wanted
            for leaf in bits(wanted):
                asked |= summary[leaf]
            if (more, asked) == (varied, wanted):
                return varied, wanted
            varied, wanted = more, asked


def _followed(graph: Graph) -> list[Graph]:
    """The graphs of a graph that summaries are asked for."""
    followed: list[Graph] = []
    for node in graph.nodes:
        if node.attributes.refers and isinstance(node, Apply):
            if node.opcode == "conditional":
                followed += branches_of(node)
            elif node.opcode == "while":
                followed.append(node.attributes["body"])
            elif node.opcode in FOLLOWED:
                followed.append(next(iter(node.called_graphs)))
    return followed


def _masks(values: Flow, operand: Node) -> list[int]:
    return values.get(operand) or [0] * leaf_count(operand.type)


def _combined(activity: Activity, node: Apply, values: Flow) -> list[int]:
    if not activity.passes(node.opcode, node.type):
        return []
    union = 0
    for operand in node.operands:
        for mask in values.get(operand, ()):
            union |= mask
    if not isinstance(node.type, TupleType):
        return [union]
    return [union if differentiable(leaf) else 0 for leaf in node.type.leaves()]


def _flow_tuple(activity: Activity, node: Apply, values: Flow) -> list[int]:
    return [mask for operand in node.operands for mask in _masks(values, operand)]


def _flow_element(activity: Activity, node: Apply, values: Flow) -> list[int]:
    start = element_offset(node.operands[0].type, node.attributes["index"])
    return _masks(values, node.operands[0])[start : start + leaf_count(node.type)]


def _flow_passed_on(activity: Activity, node: Apply, values: Flow) -> list[int]:
    return _masks(values, node.operands[0])[: leaf_count(node.type)]


def _through(summary: list[int], sources: list[int]) -> list[int]:
    composed = []
    for row in summary:
        union = 0
        for leaf in bits(row):
            union |= sources[leaf]
        composed.append(union)
    return composed


def _flow_call(activity: Activity, node: Apply, values: Flow) -> list[int]:
    if has_own_derivative(node):
        return _combined(activity, node, values)
    graph = next(iter(node.called_graphs))
    return _through(activity.summary(graph), _flow_tuple(activity, node, values))


def _flow_while(activity: Activity, node: Apply, values: Flow) -> list[int]:
    current = _masks(values, node.operands[0])
    summary = activity.summary(node.attributes["body"])
    while True:
        further = [own | reached for own, reached in zip(current, _through(summary, current), strict=True)]
        if further == current:
            return current
        current = further


def _flow_conditional(activity: Activity, node: Apply, values: Flow) -> list[int]:
    union = [0] * leaf_count(node.type)
    for graph, operand in zip(branches_of(node), node.operands[1:], strict=True):
        reached = _through(activity.summary(graph), _masks(values, operand))
        union = [a | b for a, b in zip(union, reached, strict=True)]
    return union


def _flow_async_start(activity: Activity, node: Apply, values: Flow) -> list[int]:
    taken = _flow_tuple(activity, node, values)
    graph = next(iter(node.called_graphs))
    made = taken + _through(activity.summary(graph), taken)
    return made + [0] * (leaf_count(node.type) - len(made))


def _flow_async_done(activity: Activity, node: Apply, values: Flow) -> list[int]:
    start = element_offset(node.operands[0].type, 1)
    return _masks(values, node.operands[0])[start : start + leaf_count(node.type)]


_FLOWS: dict[str, Callable[[Activity, Apply, Flow], list[int]]] = {
    "tuple": _flow_tuple,
    "get-tuple-element": _flow_element,
    "call": _flow_call,
    "fusion": _flow_call,
    "while": _flow_while,
    "conditional": _flow_conditional,
    "async-start": _flow_async_start,
    "async-update": _flow_passed_on,
    "async-done": _flow_async_done,
    **dict.fromkeys(PASSED_ON, _flow_passed_on),
}


def _split(node: Apply, mask: int) -> list[int]:
    """Leaves counted through all operands, operand by operand."""
    parts = []
    for operand in node.operands:
        count = leaf_count(operand.type)
        parts.append(mask & ((1 << count) - 1))
        mask >>= count
    return parts


def _need_tuple(activity: Activity, node: Apply, mask: int) -> list[int]:
    return _split(node, mask)


def _need_element(activity: Activity, node: Apply, mask: int) -> list[int]:
    return [mask << element_offset(node.operands[0].type, node.attributes["index"])]


def _need_passed_on(activity: Activity, node: Apply, mask: int) -> list[int]:
    return [mask, *[0] * (len(node.operands) - 1)]


def _asked(summary: list[int], mask: int) -> int:
    union = 0
    for leaf in bits(mask):
        union |= summary[leaf]
    return union


def _need_call(activity: Activity, node: Apply, mask: int) -> list[int]:
    if has_own_derivative(node):
        return [activity.leaves(operand.type) if mask else 0 for operand in node.operands]
    return _split(node, _asked(activity.summary(next(iter(node.called_graphs))), mask))


def _need_while(activity: Activity, node: Apply, mask: int) -> list[int]:
    return [activity.carried(node.attributes["body"], 0, mask)[1]]


def _need_conditional(activity: Activity, node: Apply, mask: int) -> list[int]:
    return [0, *[_asked(activity.summary(graph), mask) for graph in branches_of(node)]]


def _need_async_start(activity: Activity, node: Apply, mask: int) -> list[int]:
    taken = sum(leaf_count(operand.type) for operand in node.operands)
    summary = activity.summary(next(iter(node.called_graphs)))
    own = mask & ((1 << taken) - 1)
    return _split(node, own | _asked(summary, (mask >> taken) & ((1 << len(summary)) - 1)))


def _need_async_done(activity: Activity, node: Apply, mask: int) -> list[int]:
    return [mask << element_offset(node.operands[0].type, 1)]


_NEEDS: dict[str, Callable[[Activity, Apply, int], list[int]]] = {
    "tuple": _need_tuple,
    "get-tuple-element": _need_element,
    "call": _need_call,
    "fusion": _need_call,
    "while": _need_while,
    "conditional": _need_conditional,
    "async-start": _need_async_start,
    "async-update": _need_passed_on,
    "async-done": _need_async_done,
    **dict.fromkeys(PASSED_ON, _need_passed_on),
}

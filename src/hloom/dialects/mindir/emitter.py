"""HLO computations and the instructions of control flow, built while graphs are lowered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.dialects.arrays import HloBuilder, type_of_node
from hloom.dialects.mindir.lowered_values import (
    INDEX_TYPE,
    Aggregate,
    Choice,
    Closure,
    LoweredValue,
    described,
    index_of,
    leaf_types,
    parts_of,
    with_arrays,
)
from hloom.dialects.mindir.values import Number
from hloom.ir import Graph, Literal, Module, Node, TensorType, TupleType, Type, dtype
from hloom.ops import OPS
from hloom.text import Unsupported

PREDICATE = TensorType(dtype("pred"))
_NUMBERS = re.compile(r"^(?:para)?(?:[0-9]+_)*|_[0-9]+$")
_OTHER = re.compile(r"[^A-Za-z0-9_.]+")


def hlo_name(name: str) -> str:
    """A name that HLO takes, without the numbers that MindSpore counts its graphs and parameters by.

    >>> hlo_name("541_525_↵__main___Loop_construct_2544"), hlo_name("para2_fc1.weight")
    ('__main___Loop_construct', 'fc1.weight')
    """
    plain = _OTHER.sub("", _NUMBERS.sub("", name)).lstrip(".")
    return plain if plain and not plain[0].isdigit() else f"v{plain}"


@dataclass(frozen=True, slots=True)
class Within:
    """A computation that is being built, the arrays that it is given, and the one that was built before."""

    graph: Graph
    arrays: list[Node]
    before: Graph


class ComputationEmitter:
    """Builds one computation after another: `build` adds to the innermost one that is begun and not left."""

    def __init__(self, module: Module, graph: Graph) -> None:
        self.module = module
        self.build = HloBuilder(graph)

    @property
    def graph(self) -> Graph:
        return self.build.graph

    def begin(self, name: str, types: Sequence[Type]) -> Within:
        """Begin a computation of one parameter, a tuple of arrays."""
        graph = Graph(hlo_name(name), self.module)
        within = Within(graph, [], self.graph)
        self.build.graph = graph
        parameter = graph.add_parameter(TupleType(types), "arguments")
        within.arrays.extend(self.elements(parameter))
        return within

    def enter(self, graph: Graph) -> Within:
        """Continue a computation that was left."""
        within = Within(graph, [], self.graph)
        self.build.graph = graph
        return within

    def leave(self, within: Within) -> None:
        """Go back to the computation that was built before."""
        self.build.graph = within.before

    def finish(self, graph: Graph, arrays: Sequence[Node]) -> None:
        """Make a computation return a tuple, and add it to the module."""
        self.finish_with(graph, self.packed(arrays, graph))

    def finish_with(self, graph: Graph, output: Node) -> None:
        graph.set_output(output)
        graph.name = self.module.unique_graph_name(graph.name)
        self.module.append_graph(graph)

    def elements(self, whole: Node) -> list[Node]:
        """The elements of a tuple."""
        assert isinstance(whole.type, TupleType), "it is a tuple"
        count = len(whole.type.elements)
        return [self.build.op("get-tuple-element", whole, index=index) for index in range(count)]

    def packed(self, arrays: Sequence[Node], graph: Graph | None = None) -> Node:
        """A tuple of arrays."""
        types = TupleType([type_of_node(array) for array in arrays])
        return (graph or self.graph).add_apply(OPS["tuple"], arrays, types, metadata=self.build.metadata)

    def call(self, graph: Graph, arrays: Sequence[Node], skeleton: LoweredValue) -> LoweredValue:
        """The value that a computation yields, given arrays."""
        whole = self.build.op("call", self.packed(arrays), to_apply=graph)
        return with_arrays(skeleton, iter(self.elements(whole)))

    def conditional(self, selector: Node, graphs: Sequence[Graph], operands: Sequence[Sequence[Node]]) -> list[Node]:
        """What the branch yields that a selector says."""
        packed = [self.packed(arrays) for arrays in operands]
        if selector.type is PREDICATE:
            on_true, on_false = graphs
            made = self.build.op("conditional", selector, *packed, true_computation=on_true, false_computation=on_false)
        else:
            made = self.build.op("conditional", selector, *packed, branch_computations=tuple(graphs))
        return self.elements(made)

    def loop(self, condition: Graph, body: Graph, initial: Sequence[Node]) -> list[Node]:
        """The values that a while carries at its end."""
        return self.elements(self.build.op("while", self.packed(initial), condition=condition, body=body))

    def widened(self, within: Within, arrays: Sequence[Node], start: int) -> Graph:
        """A loop's body, begun with the arrays of its header alone, as one given all arrays; `start` is the first's."""
        graph = within.graph
        types = [type_of_node(array) for array in arrays]
        parameter = graph.parameters[0]
        graph.set_type(parameter, TupleType(types))
        for index, element in enumerate(within.arrays):
            graph.set_attributes(element, {"index": start + index})
        self.finish(graph, arrays)
        self.leave(within)
        return graph

    def tag_condition(self, types: Sequence[Type], number: int) -> Graph:
        """The computation that says whether the first of a tuple's arrays is a number."""
        within = self.begin("condition", types)
        self.finish_with(within.graph, self.equals(within.arrays[0], number))
        self.leave(within)
        return within.graph

    # Arrays of values

    def index(self, number: int) -> Node:
        return self.build.number(number, INDEX_TYPE.dtype).node

    def equals(self, tag: Node, number: int) -> Node:
        return self.build.op("compare", tag, self.index(number), direction="EQ")

    def negated(self, pred: Node) -> Node:
        return self.build.op("not", pred)

    def renumbered(self, tag: Node, numbers: Mapping[int, int]) -> Node:
        """A tag with each number exchanged for another."""
        if all(number == other for number, other in numbers.items()):
            return tag
        pairs = list(numbers.items())
        result = self.index(pairs[-1][1])
        for number, other in pairs[:-1]:
            result = self.build.op("select", self.equals(tag, number), self.index(other), result)
        return result

    def number(self, number: Number) -> Node:
        """A constant number as an array."""
        return self.build.number(number.value, number.dtype).node

    def zeros(self, skeleton: LoweredValue) -> list[Node]:
        """Arrays that are never read."""
        return [self.zero(type_) for type_ in leaf_types(skeleton)]

    def zero(self, type_: Type) -> Node:
        if not isinstance(type_, TensorType) or not type_.is_static:
            raise Unsupported(f"{type_} has no value that could stand for one that is not there")
        literal = Literal.splat(type_, type_.dtype.numpy.type(0))
        return self.graph.add_constant(literal, type_)

    def conformed(self, value: LoweredValue, skeleton: LoweredValue, what: str) -> list[Node]:
        """The arrays of a value as those of a skeleton that it fits into; raises Unsupported where it does not."""
        if isinstance(skeleton, Type):
            if isinstance(value, Number):
                value = self.number(value)
            if isinstance(value, Node) and value.type is skeleton:
                return [value]
        elif isinstance(skeleton, Choice) and isinstance(value, Closure):
            return self.chosen(value, skeleton, what)
        elif isinstance(skeleton, Choice) and isinstance(value, Choice):
            return self.matched(value, skeleton, what)
        elif type(value) is type(skeleton) and self.same_constant(value, skeleton):
            parts = zip(parts_of(value), parts_of(skeleton), strict=True)
            return [array for part, wanted in parts for array in self.conformed(part, wanted, what)]
        raise Unsupported(f"{what} is {described(value)} on one way and {described(skeleton)} on another")

    def same_constant(self, value: LoweredValue, skeleton: LoweredValue) -> bool:
        if isinstance(value, Closure) and isinstance(skeleton, Closure):
            return value.graph is skeleton.graph and len(parts_of(value)) == len(parts_of(skeleton))
        if isinstance(value, Aggregate):
            return len(parts_of(value)) == len(parts_of(skeleton))
        return value == skeleton

    def chosen(self, value: Closure, skeleton: Choice, what: str) -> list[Node]:
        """A function as one of several."""
        index = index_of(value, skeleton.options)
        if index is None:
            raise Unsupported(f"{what} is {described(value)}, which is not one of the functions known there")
        is_pair = skeleton.selector is PREDICATE
        selector = self.build.number(index == 0, PREDICATE.dtype).node if is_pair else self.index(index)
        arrays = [selector]
        for position, option in enumerate(skeleton.options):
            arrays += self.conformed(value, option, what) if position == index else self.zeros(option)
        return arrays

    def matched(self, value: Choice, skeleton: Choice, what: str) -> list[Node]:
        """One of several functions as one of more."""
        assert isinstance(value.selector, Node), "a value's selector is an array"
        indices = [index_of(option, skeleton.options) for option in value.options]
        if None in indices or len(set(indices)) < len(indices):
            raise Unsupported(f"{what} is one of functions that are not told apart there")
        numbers = {index: other for index, other in enumerate(indices) if other is not None}
        arrays = [self.selector(value.selector, skeleton.selector, numbers)]
        for position, option in enumerate(skeleton.options):
            if position in indices:
                arrays += self.conformed(value.options[indices.index(position)], option, what)
            else:
                arrays += self.zeros(option)
        return arrays

    def selector(self, selector: Node, wanted: Node | Type, numbers: Mapping[int, int]) -> Node:
        if selector.type is wanted and all(index == other for index, other in numbers.items()):
            return selector
        index = self.as_index(selector)
        renumbered = self.renumbered(index, numbers)
        return self.equals(renumbered, 0) if wanted is PREDICATE else renumbered

    def as_index(self, selector: Node) -> Node:
        """A selector as the index of a function."""
        if selector.type is INDEX_TYPE:
            return selector
        return self.build.op("select", selector, self.index(0), self.index(1))

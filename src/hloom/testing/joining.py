"""Many small programs as one, so that XLA compiles once: each is called from a common entry and keeps its graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import TOKEN, Attributes, Graph, Module, Node, TensorType, TupleType, Type, infer_type
from hloom.ops import OPS
from hloom.text import HloomError

_COUNTS = ("replica_count", "num_partitions")


@dataclass(frozen=True, slots=True)
class Joined:
    """One program of several: where the arrays of each begin among its inputs and outputs.

    `places[program]` are the numbers of its outputs, tuples flattened and tokens left out.
    """

    module: Module
    input_types: tuple[TensorType, ...]
    places: tuple[range, ...]


def join(groups: Sequence[Sequence[Module]]) -> Joined:
    """Programs put together; those of one group take the same inputs, if need be converted.

    Raises HloomError where programs of a group take different ones, or take what cannot be given from outside.
    """
    joined = Module("joined", _header(groups[0][0]))
    entry_graphs = [[_copy_into(joined, program) for program in group] for group in groups]
    entry = joined.add_graph("entry")
    joined.entry = entry
    inputs: list[TensorType] = []
    results: list[Node] = []
    places: list[range] = []
    count = 0
    for graphs in entry_graphs:
        kinds = [parameter.type for parameter in graphs[0].parameters]
        for kind in kinds:
            inputs += map(_checked, _leaves(kind))
        arguments = [entry.add_parameter(kind) for kind in kinds]
        for graph in graphs:
            results.append(_call(entry, graph, _converted(entry, arguments, graph)))
            size = len([leaf for leaf in _leaves(graph.root.type) if leaf is not TOKEN])
            places.append(range(count, count + size))
            count += size
    types = [result.type for result in results if result.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], results, TupleType(types)))
    return Joined(joined, tuple(inputs), tuple(places))


def kind_of(module: Module) -> tuple[Any, ...]:
    """What programs must have in common to be joined."""
    return tuple(module.attributes.get(name) or 1 for name in _COUNTS)


def _header(module: Module) -> Attributes:
    return Attributes({name: module.attributes[name] for name in _COUNTS if name in module.attributes})


def _copy_into(joined: Module, program: Module) -> Graph:
    """Copies of all graphs of a program; the copy of its entry."""
    mapping: dict[Any, Any] = {graph: joined.add_graph(graph.name) for graph in program.graphs}
    for graph in program.graphs:
        copy = mapping[graph]
        copy.copy_nodes(sorted(graph.parameters, key=lambda each: each.number), mapping)
        copy.copy_nodes(graph.nodes, mapping)
        if graph.output is not None:
            copy.set_output(mapping[graph.output])
    return mapping[program.entry]


def _converted(entry: Graph, arguments: Sequence[Node], graph: Graph) -> list[Node]:
    """The arguments in the element types that a graph takes: a lowering may give one side numbers, the other bits."""
    wanted = [parameter.type for parameter in graph.parameters]
    if len(wanted) != len(arguments):
        raise HloomError(f"{graph.name} takes {len(wanted)} inputs, the program that it was made of {len(arguments)}")
    found: list[Node] = []
    for argument, kind in zip(arguments, wanted, strict=True):
        if str(argument.type) == str(kind):
            found.append(argument)
            continue
        given = argument.type
        if not isinstance(kind, TensorType) or not isinstance(given, TensorType) or kind.dims != given.dims:
            raise HloomError(f"{graph.name} takes {kind}, the program that it was made of {given}")
        found.append(entry.add_apply(OPS["convert"], (argument,), kind))
    return found


def _call(entry: Graph, graph: Graph, arguments: Sequence[Node]) -> Node:
    call = OPS["call"]
    attributes = Attributes(to_apply=graph)
    kinds = [each.type for each in arguments]
    return entry.add_apply(call, arguments, infer_type(call, kinds, attributes), attributes)  # pyright: ignore[reportArgumentType]


def _leaves(kind: Type | None) -> list[Type]:
    if kind is None:
        raise HloomError("a program whose types are not known cannot be run")
    return list(kind.leaves())


def _checked(kind: Type) -> TensorType:
    if not isinstance(kind, TensorType) or not kind.is_static:
        raise HloomError(f"a parameter of type {kind} cannot be given from outside")
    return TensorType(kind.dtype, kind.dims)

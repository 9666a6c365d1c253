"""One program that calls many small ones, so that XLA compiles once; each keeps its own computations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import TOKEN, Attributes, Graph, Module, Node, TensorType, TupleType, Type, infer_type
from hloom.ops import OPS
from hloom.text import HloomError

_COUNTS = ("replica_count", "num_partitions")


@dataclass(frozen=True, slots=True)
class JoinedProgram:
    """One program of several: where the arrays of each begin among its inputs and outputs.

    `output_indices[program]` are the numbers of its outputs, tuples flattened and tokens left out.
    """

    module: Module
    input_types: tuple[TensorType, ...]
    output_indices: tuple[range, ...]


def join_programs(groups: Sequence[Sequence[Module]]) -> JoinedProgram:
    """Programs put together; those of one group take the same inputs, if need be converted.

    Raises HloomError where programs of a group take different ones, or take what cannot be given from outside.
    """
    joined = Module("joined", _header(groups[0][0]))
    entry_graphs = [[joined.copy_graphs(program)[program.entry] for program in group] for group in groups]
    entry = joined.add_graph("entry")
    joined.entry = entry
    inputs: list[TensorType] = []
    results: list[Node] = []
    output_indices: list[range] = []
    count = 0
    for graphs in entry_graphs:
        parameter_types = [parameter.type for parameter in graphs[0].parameters]
        for parameter_type in parameter_types:
            inputs += map(_checked, _leaves(parameter_type))
        arguments = [entry.add_parameter(parameter_type) for parameter_type in parameter_types]
        for graph in graphs:
            results.append(_call(entry, graph, _converted(entry, arguments, graph)))
            size = len([leaf for leaf in _leaves(graph.root.type) if leaf is not TOKEN])
            output_indices.append(range(count, count + size))
            count += size
    types = [result.type for result in results if result.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], results, TupleType(types)))
    return JoinedProgram(joined, tuple(inputs), tuple(output_indices))


def device_counts(module: Module) -> tuple[Any, ...]:
    """What programs must have in common to be joined."""
    return tuple(module.attributes.get(name) or 1 for name in _COUNTS)


def _header(module: Module) -> Attributes:
    return Attributes({name: module.attributes[name] for name in _COUNTS if name in module.attributes})


def _converted(entry: Graph, arguments: Sequence[Node], graph: Graph) -> list[Node]:
    """The arguments in the element types that a graph takes: a lowering may give one side numbers, the other bits."""
    wanted = [parameter.type for parameter in graph.parameters]
    if len(wanted) != len(arguments):
        raise HloomError(f"{graph.name} takes {len(wanted)} inputs, the program that it was made of {len(arguments)}")
    converted: list[Node] = []
    for argument, wanted_type in zip(arguments, wanted, strict=True):
        if str(argument.type) == str(wanted_type):
            converted.append(argument)
            continue
        given = argument.type
        if (
            not isinstance(wanted_type, TensorType)
            or not isinstance(given, TensorType)
            or wanted_type.dims != given.dims
        ):
            raise HloomError(f"{graph.name} takes {wanted_type}, the program that it was made of {given}")
        converted.append(entry.add_apply(OPS["convert"], (argument,), wanted_type))
    return converted


def _call(entry: Graph, graph: Graph, arguments: Sequence[Node]) -> Node:
    call = OPS["call"]
    attributes = Attributes(to_apply=graph)
    parameter_types = [argument.type for argument in arguments]
    return entry.add_apply(call, arguments, infer_type(call, parameter_types, attributes), attributes)  # pyright: ignore[reportArgumentType]


def _leaves(value_type: Type | None) -> list[Type]:
    if value_type is None:
        raise HloomError("a program whose types are not known cannot be run")
    return list(value_type.leaves())


def _checked(value_type: Type) -> TensorType:
    if not isinstance(value_type, TensorType) or not value_type.is_static:
        raise HloomError(f"a parameter of type {value_type} cannot be given from outside")
    return TensorType(value_type.dtype, value_type.dims)

"""Axis-map rules for ops that pass values through unchanged, leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import AxisMap, AxisMapBuilder, Graph, TensorType, Type, TypeProblem, compatible


def dims_of(type_: Type) -> tuple[int, ...]:
    """The dimensions of an array; none for tokens and opaque values."""
    return type_.dims if isinstance(type_, TensorType) else ()


def leaves_of(kinds: Sequence[Type]) -> list[Type]:
    """The leaves of several types, in order."""
    return [leaf for array_type in kinds for leaf in array_type.leaves()]


def passed_on(taken: Sequence[Type], yielded: Sequence[Type], pairs: Sequence[tuple[int, int]]) -> AxisMap:
    """The map in which each (operand leaf, result leaf) pair is the same value and other leaves are unrelated."""
    build = AxisMapBuilder()
    result_of = dict(pairs)
    dimensions = [[[build.factor(size)] for size in dims_of(leaf)] for leaf in taken]
    operand_of = {result: operand for operand, result in result_of.items()}
    for dims in dimensions:
        build.operand(*dims)
    for dim, leaf in enumerate(yielded):
        if dim in operand_of:
            build.result(*dimensions[operand_of[dim]])
        else:
            build.result(*[[build.factor(size)] for size in dims_of(leaf)])
    return build.finish()


def identity_axes(*operands: Type) -> AxisMap:
    """Every operand leaf is the result leaf at the same place."""
    leaves = leaves_of(operands)
    return passed_on(leaves, leaves, [(dim, dim) for dim in range(len(leaves))])


def separate_axes(*operands: Type, result: Type) -> AxisMap:
    """A map that relates no operands and results; the called graph does that."""
    return passed_on(leaves_of(operands), leaves_of([result]), [])


def result_of_graph(graph: Graph, operands: Sequence[Type], what: str) -> Type | None:
    """The type that a called graph yields, after checking its parameters; None if it is only declared.

    Raises TypeProblem where the number or types of its parameters differ from the operands.
    """
    if graph.is_declared or graph.output is None:
        return None
    if len(graph.parameters) != len(operands):
        raise TypeProblem(f"{what} {graph.name} takes {len(graph.parameters)} values, but {len(operands)} are given")
    for number, (parameter, operand) in enumerate(zip(graph.parameters, operands, strict=True)):
        if not compatible(parameter.type, operand):
            raise TypeProblem(f"parameter {number} of {what} {graph.name} is {parameter.type}, but {operand} is given")
    return graph.output.type


def must_be(given: Type | None, wanted: Type | None, what: str) -> None:
    """Raise TypeProblem unless two types agree, ignoring layouts and dynamism; an unknown type agrees with any."""
    if not compatible(given, wanted):
        raise TypeProblem(f"{what} is {given}, but must be {wanted}")

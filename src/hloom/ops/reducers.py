"""The scalar computations that reductions apply: which opcode they combine with, and signature checks."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, DType, FactorKind, Graph, Node, Parameter, TensorType, TupleType, Type, TypeProblem
from hloom.ops.shapes import arrays, same_dims, same_elements

REDUCERS: tuple[str, ...] = ("add", "maximum", "minimum", "multiply", "and", "or")
"""The opcodes with which devices combine partial results (MatchReductionInstruction,
xla/service/collective_ops_utils.cc); of the ops that are associative and commutative, `xor` is not among them."""


def reducer_of(graph: Graph) -> str:
    """The opcode with which a computation combines its two parameters; empty if it does anything else.

    Looks through conversions (compilers promote a bf16 sum to f32 and back) and through a tuple of one value.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("sum { a = bf16[] parameter(0) b = bf16[] parameter(1) c = f32[] convert(a) "
    ...                "d = f32[] convert(b) e = f32[] add(c, d) ROOT f = bf16[] convert(e) }")
    >>> reducer_of(module.entry)
    'add'
    """
    if graph.output is None or len(graph.parameters) != 2:
        return ""
    root = graph.output
    if root.opcode in REDUCERS and set(root.operands) == set(graph.parameters):
        return root.opcode
    if root.opcode == "tuple" and len(root.operands) == 1:
        root = root.operands[0]
    root = _converted(root)
    if not isinstance(root, Apply) or root.opcode not in REDUCERS or len(root.operands) != 2:
        return ""
    left, right = map(_converted, root.operands)
    both = isinstance(left, Parameter) and isinstance(right, Parameter) and {left, right} == set(graph.parameters)
    return root.opcode if both else ""


def reduced_kind(graph: Graph) -> tuple[FactorKind, str]:
    """The factor kind of a dimension reduced by this computation: partial results if the opcode is known."""
    reducer = reducer_of(graph)
    return (FactorKind.REDUCED, reducer) if reducer else (FactorKind.NEED_REPLICATION, "")


def halves(operands: Sequence[Type]) -> tuple[list[TensorType], tuple[Type, ...]]:
    """The inputs of a reduction, arrays of the same dimensions, and its initial values; raises TypeProblem."""
    count = len(operands) // 2
    if not count or len(operands) % 2:
        raise TypeProblem(f"a reduction takes inputs and as many initial values, not {len(operands)} operands")
    inputs = arrays(operands[:count])
    for number, array_type in enumerate(inputs[1:], 1):
        if not same_dims(inputs[0], array_type):
            raise TypeProblem(f"all inputs must have the dimensions of {inputs[0]}, but input {number} is {array_type}")
    return inputs, tuple(operands[count:])


def accumulators(graph: Graph, inputs: Sequence[TensorType], starts: Sequence[Type]) -> tuple[list[DType], bool]:
    """The element types that a reduction of these inputs and initial values yields, and whether as a tuple.

    `graph` takes one accumulator per input, then one element of each, and yields the accumulators. A graph that is
    named but not defined fits anything; so does a value in it of unknown type. Floating-point types may differ. Raises
    TypeProblem. Source: xla/service/shape_inference.cc, VerifyReducerShape.
    """
    count = len(inputs)
    if graph.is_declared:
        return [array_type.dtype for array_type in inputs], count > 1
    if len(graph.parameters) != 2 * count:
        raise TypeProblem(f"{_name(graph)} must take {2 * count} parameters, but takes {len(graph.parameters)}")
    result = graph.output.type if graph.output else None
    yielded = result.elements if isinstance(result, TupleType) else [result] if result else [None] * count
    if len(yielded) != count:
        raise TypeProblem(f"{_name(graph)} must yield {_values(count)}, but yields {result}")
    taken = [parameter.type for parameter in graph.parameters]
    for dim, (type_, array_type, start) in enumerate(zip(yielded, inputs, starts, strict=True)):
        _check_accumulator(graph, dim, type_, taken[dim])
        _check_element(graph, f"the initial value {dim}", type_, start)
        _check_element(graph, f"the input {array_type}", taken[count + dim], TensorType(array_type.dtype))
        _check_element(graph, f"parameter {count + dim}", type_, taken[count + dim])
    yields = [
        type_ if isinstance(type_, TensorType) else array_type
        for type_, array_type in zip(yielded, inputs, strict=True)
    ]
    return [type_.dtype for type_ in yields], isinstance(result, TupleType) if result else count > 1


def check_element(graph: Graph, number: int, array_type: TensorType) -> None:
    """Raise TypeProblem unless a computation's parameter takes elements of an array; float types may differ."""
    if number < len(graph.parameters):
        _check_element(graph, f"the array {array_type}", graph.parameters[number].type, TensorType(array_type.dtype))


def check_predicate(graph: Graph, parameters: int) -> None:
    """Raise TypeProblem unless a computation takes this number of parameters and yields pred[]."""
    if graph.is_declared:
        return
    if len(graph.parameters) != parameters:
        raise TypeProblem(f"{_name(graph)} must take {parameters} parameters, but takes {len(graph.parameters)}")
    result = graph.output.type if graph.output else None
    if result is not None and not (isinstance(result, TensorType) and result.dtype.name == "pred" and not result.rank):
        raise TypeProblem(f"{_name(graph)} must yield pred[], but yields {result}")


def _check_accumulator(graph: Graph, number: int, given: Type | None, taken: Type | None) -> None:
    if given is None:
        return
    if not isinstance(given, TensorType) or given.rank:
        raise TypeProblem(f"{_name(graph)} must yield scalars, but yields {given}")
    if taken is not None and not (isinstance(taken, TensorType) and not taken.rank and taken.dtype is given.dtype):
        raise TypeProblem(f"{_name(graph)} yields {given} and so must take it as parameter {number}, but takes {taken}")


def _check_element(graph: Graph, what: str, given: Type | None, wanted: Type | None) -> None:
    if given is None or wanted is None:
        return
    arrays = isinstance(given, TensorType) and isinstance(wanted, TensorType)
    if not (arrays and same_elements(given, wanted) and same_dims(given, wanted)):  # pyright: ignore[reportArgumentType]
        raise TypeProblem(f"{_name(graph)} works on {given}, which does not fit {what} of type {wanted}")


def _converted(node: Node) -> Node:
    while isinstance(node, Apply) and node.opcode == "convert":
        node = node.operands[0]
    return node


def _name(graph: Graph) -> str:
    return f"the computation {graph.name}"


def _values(count: int) -> str:
    return "one scalar" if count == 1 else f"a tuple of {count} scalars"

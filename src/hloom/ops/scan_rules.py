"""Scans: a computation applied along one dimension, carries passed on."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import AxisMap, AxisMapBuilder, FactorKind, Graph, TensorType, TupleType, Type, TypeProblem
from hloom.ops.shapes import Extent, arrays, extents, same_dims, sizes_agree, tensor


def infer_scan(
    *operands: Type, dimensions: Sequence[int], num_carries: int, to_apply: Graph, result: Type | None = None
) -> Type:
    """The computation's result: its outputs with the scanned dimension inserted, then the carries.

    `to_apply` takes a slice of each input, then the carries. If the computation's type is unknown, the scan has the
    written type.
    """
    inputs, carries, dimension = _parts(operands, dimensions, num_carries)
    _check_parameters(to_apply, inputs, carries, dimension)
    yielded = None if to_apply.is_declared or to_apply.output is None else to_apply.output.type
    if yielded is None:
        if result is None:
            raise TypeProblem(f"the computation {to_apply.name} is not known, so the scan's type must be written")
        return result
    values = arrays(yielded.elements if isinstance(yielded, TupleType) else [yielded])
    outputs = len(values) - num_carries
    if outputs < 0:
        raise TypeProblem(f"the computation {to_apply.name} yields {yielded}, less than {num_carries} carries")
    _check_carries(to_apply, values[outputs:], carries)
    length = (inputs[0].dims[dimension], inputs[0].dims[dimension] < 0)
    results = [_widened(value, dimension, length) for value in values[:outputs]] + values[outputs:]
    return TupleType(results) if isinstance(yielded, TupleType) else results[0]


def scan_axes(
    *operands: Type, dimensions: Sequence[int], num_carries: int, to_apply: Graph, result: Type | None = None
) -> AxisMap:
    """([s,1], [1]) -> ([s,1], [1]): the scanned dimension is whole; the computation decides about all others.

    The points are the number of times the computation runs.
    """
    inputs, carries, dimension = _parts(operands, dimensions, num_carries)
    if result is None:
        result = infer_scan(*operands, dimensions=dimensions, num_carries=num_carries, to_apply=to_apply)
    build = AxisMapBuilder()
    scanned = build.factor(inputs[0].dims[dimension], FactorKind.NEED_REPLICATION)
    for array_type in inputs:
        build.operand(*[[scanned] if dim == dimension else [] for dim in range(array_type.rank)])
    for array_type in carries:
        build.operand(*[()] * array_type.rank)
    leaves = arrays(result.leaves())
    for number, array_type in enumerate(leaves):
        is_output = number < len(leaves) - num_carries
        build.result(*[[scanned] if is_output and dim == dimension else [] for dim in range(array_type.rank)])
    return build.finish()


def _parts(
    operands: Sequence[Type], dimensions: Sequence[int], num_carries: int
) -> tuple[list[TensorType], list[TensorType], int]:
    kinds = arrays(operands)
    count = len(kinds) - num_carries
    if num_carries < 0 or count < 1:
        raise TypeProblem(f"num_carries={num_carries} must leave an input to scan, of {len(kinds)} operands")
    if len(dimensions) != 1:
        raise TypeProblem(f"dimensions={{{','.join(map(str, dimensions))}}} must name one dimension")
    dimension = dimensions[0]
    for array_type in kinds[:count]:
        if not 0 <= dimension < array_type.rank:
            raise TypeProblem(f"dimensions={{{dimension}}} is not a dimension of {array_type}")
        if not sizes_agree(array_type.dims[dimension], kinds[0].dims[dimension]):
            raise TypeProblem(f"the inputs {kinds[0]} and {array_type} differ in the scanned dimension {dimension}")
    return kinds[:count], kinds[count:], dimension


def _check_parameters(
    graph: Graph, inputs: Sequence[TensorType], carries: Sequence[TensorType], dimension: int
) -> None:
    if graph.is_declared:
        return
    wanted = [_sliced(array_type, dimension) for array_type in inputs] + list(carries)
    if len(graph.parameters) != len(wanted):
        raise TypeProblem(
            f"the computation {graph.name} must take {len(wanted)} parameters, but takes {len(graph.parameters)}"
        )
    for number, (parameter, array_type) in enumerate(zip(graph.parameters, wanted, strict=True)):
        if parameter.type is not None and not _same(parameter.type, array_type):
            raise TypeProblem(f"parameter {number} of {graph.name} must be {array_type}, but is {parameter.type}")


def _check_carries(graph: Graph, yielded: Sequence[TensorType], carries: Sequence[TensorType]) -> None:
    for number, (array_type, carry) in enumerate(zip(yielded, carries, strict=True)):
        if not _same(array_type, carry):
            raise TypeProblem(f"carry {number} is {carry}, but {graph.name} passes on {array_type}")


def _sliced(array_type: TensorType, dimension: int) -> TensorType:
    kept = extents(array_type)
    return tensor(array_type.dtype, kept[:dimension] + kept[dimension + 1 :])


def _widened(array_type: TensorType, dimension: int, length: Extent) -> TensorType:
    if dimension > array_type.rank:
        raise TypeProblem(f"the output {array_type} has no place for the scanned dimension {dimension}")
    kept = extents(array_type)
    return tensor(array_type.dtype, [*kept[:dimension], length, *kept[dimension:]])


def _same(a: Type, b: TensorType) -> bool:
    return isinstance(a, TensorType) and a.dtype is b.dtype and same_dims(a, b)

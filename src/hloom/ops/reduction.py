"""Reductions, windows, sorting and batch normalisation: their rows, and the rules of `reduce`.

The others' rules are in `window_rules`, `sort_rules`, `scan_rules` and `batch_norm_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import (
    AxisMap,
    AxisMapBuilder,
    Effect,
    Graph,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    optional,
    required,
)
from hloom.ops.batch_norm_rules import (
    infer_batch_norm_grad,
    infer_batch_norm_inference,
    infer_batch_norm_training,
    normalisation_axes,
    pointwise_normalisation_axes,
)
from hloom.ops.reducers import accumulators, halves, reduced_kind
from hloom.ops.rows import BOOLEAN, DIMENSIONS, FLOAT, GRAPH, INTEGER, TO_APPLY, WINDOW, row, table
from hloom.ops.scan_rules import infer_scan, scan_axes
from hloom.ops.shapes import dimension_in, extents, tensor
from hloom.ops.sort_rules import infer_sort, infer_topk, sort_axes, topk_axes
from hloom.ops.window_rules import (
    infer_reduce_window,
    infer_select_and_scatter,
    reduce_window_axes,
    select_and_scatter_axes,
)


def infer_reduce(*operands: Type, dimensions: Sequence[int], to_apply: Graph) -> Type:
    """What is left of the first input's dimensions, in the reducer's element types.

    Source: xla/service/shape_inference.cc, InferReduceShape.
    """
    inputs, starts = halves(operands)
    _check_dimensions(inputs[0], dimensions)
    elements, as_tuple = accumulators(to_apply, inputs, starts)
    kept = [extent for dim, extent in enumerate(extents(inputs[0])) if dim not in dimensions]
    results = [tensor(element, kept) for element in elements]
    return TupleType(results) if as_tuple else results[0]


def reduce_axes(*operands: Type, dimensions: Sequence[int], to_apply: Graph) -> AxisMap:
    """([i,r], []) -> [i]: r is reduced by the computation's opcode; whole where that is not known."""
    inputs, _ = halves(operands)
    _check_dimensions(inputs[0], dimensions)
    factor_kind, reducer = reduced_kind(to_apply)
    build = AxisMapBuilder()
    factors = [
        build.factor(size, factor_kind, reducer) if dim in dimensions else build.factor(size)
        for dim, size in enumerate(inputs[0].dims)
    ]
    for _ in inputs:
        build.operand(*[[factor] for factor in factors])
    for _ in inputs:
        build.operand()
    for _ in inputs:
        build.result(*[[factor] for dim, factor in enumerate(factors) if dim not in dimensions])
    return build.finish()


def _check_dimensions(array_type: TensorType, dimensions: Sequence[int]) -> None:
    for dim in dimensions:
        dimension_in(dim, array_type, "dimensions:")
    if len(set(dimensions)) != len(dimensions):
        raise TypeProblem(f"dimensions={{{','.join(map(str, dimensions))}}} names a dimension twice")


_BATCH_NORM = {"epsilon": required(FLOAT), "feature_index": required(INTEGER)}
_CALLS = Effect.CALLS

ROWS = table(
    row(
        "reduce",
        (2, None),
        {**DIMENSIONS, **TO_APPLY},
        omits_type=True,
        operand_step=2,
        infer=infer_reduce,
        axes=reduce_axes,
        effect=_CALLS,
    ),
    row(
        "reduce-window",
        (2, None),
        {**WINDOW, **TO_APPLY},
        omits_type=True,
        operand_step=2,
        infer=infer_reduce_window,
        axes=reduce_window_axes,
        effect=_CALLS,
    ),
    row(
        "select-and-scatter",
        3,
        {**WINDOW, "select": required(GRAPH), "scatter": required(GRAPH)},
        omits_type=True,
        infer=infer_select_and_scatter,
        axes=select_and_scatter_axes,
        effect=_CALLS,
    ),
    row(
        "sort",
        (1, None),
        {**DIMENSIONS, "is_stable": optional(BOOLEAN, False), **TO_APPLY},
        omits_type=True,
        infer=infer_sort,
        axes=sort_axes,
        effect=_CALLS,
    ),
    row(
        "topk",
        1,
        {
            "k": required(INTEGER),
            "largest": optional(BOOLEAN, True),
            "is_stable": optional(BOOLEAN, False),
        },
        omits_type=True,
        infer=infer_topk,
        axes=topk_axes,
    ),
    row(
        "scan",
        (0, None),
        {
            **DIMENSIONS,
            "num_carries": required(INTEGER),
            "is_reverse": optional(BOOLEAN, False),
            "is_associative": optional(BOOLEAN),
            **TO_APPLY,
        },
        omits_type=True,
        infer=infer_scan,
        axes=scan_axes,
        effect=_CALLS,
    ),
    row(
        "batch-norm-training",
        3,
        _BATCH_NORM,
        omits_type=True,
        infer=infer_batch_norm_training,
        axes=normalisation_axes,
    ),
    row(
        "batch-norm-inference",
        5,
        _BATCH_NORM,
        omits_type=True,
        infer=infer_batch_norm_inference,
        axes=pointwise_normalisation_axes,
    ),
    row(
        "batch-norm-grad",
        5,
        _BATCH_NORM,
        omits_type=True,
        infer=infer_batch_norm_grad,
        axes=normalisation_axes,
    ),
)

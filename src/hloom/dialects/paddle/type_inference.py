"""The types of what ops yield, for those that rewriting passes make most; the others' must be given.

Where an operand's type is not known, neither is the result's: `opaque[]`. To teach another op, add a function of its
slots (types by slot name) here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hloom.dialects.paddle.protos import DATA_TYPES
from hloom.dialects.paddle.signatures import Signature
from hloom.ir import OPAQUE, UNBOUNDED, DType, TensorType, TupleType, Type, TypeProblem

Slots = Mapping[str, Sequence[TensorType]]
_RULES: dict[str, Callable[..., Type]] = {}


def inference_of(known: Signature) -> Callable[..., Type] | None:
    """How the type of an op follows from its operands; None where no rule is known."""
    rule = _RULES.get(known.type)
    if rule is None:
        return None
    given = [
        parameter
        for parameter in inspect.signature(rule).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    first = known.outputs[0].name

    def infer(*types: Type, input_slots: Any, output_slots: Any, result: Type | None, **values: Any) -> Type:
        written = _elements(result, sum(count for _, count in output_slots))
        results: list[Type] = list(written)
        arrays = [type_ for type_ in types if isinstance(type_, TensorType)]
        if len(arrays) == len(types):
            main = rule(_by_slot(arrays, input_slots), **values)
            index = _place(output_slots, first)
            if result is None or written[index] is not OPAQUE:
                results[index] = main
        return results[0] if len(results) == 1 else TupleType(results)

    names = ("input_slots", "output_slots", "result")
    parameters = [inspect.Parameter("types", inspect.Parameter.VAR_POSITIONAL)]
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    infer.__signature__ = inspect.Signature([*parameters, *given])  # pyright: ignore[reportFunctionMemberAccess]
    return infer


def tensor(element: DType, dims: Sequence[int]) -> TensorType:
    """An array; a size of -1 is not known."""
    return TensorType(element, dims, dynamic=[size == UNBOUNDED for size in dims])


def _elements(result: Type | None, count: int) -> tuple[Type, ...]:
    if result is None:
        return (OPAQUE,) * count
    return result.elements if isinstance(result, TupleType) else (result,)


def _by_slot(types: Sequence[TensorType], slots: Sequence[tuple[str, int]]) -> Slots:
    by_slot, start = {}, 0
    for name, count in slots:
        by_slot[name] = types[start : start + count]
        start += count
    return by_slot


def _place(slots: Sequence[tuple[str, int]], name: str) -> int:
    start = 0
    for slot, count in slots:
        if slot == name and count:
            return start
        start += count
    raise TypeProblem(f"nothing stands in the slot {name}")


def _one(slots: Slots, name: str) -> TensorType:
    if not slots.get(name):
        raise TypeProblem(f"nothing stands in the slot {name}")
    return slots[name][0]


def _rule(*names: str) -> Callable[[Callable[..., Type]], Callable[..., Type]]:
    def enter(rule: Callable[..., Type]) -> Callable[..., Type]:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


_UNARY = """abs acos asin atan ceil cos cosh elu erf exp floor gelu hard_sigmoid hard_swish leaky_relu log log10 log1p
log2 logsigmoid mish pow reciprocal relu relu6 round rsqrt scale sigmoid sign silu sin sinh softmax log_softmax softplus
softsign sqrt square swish tan tanh dropout assign clip c_identity"""


@_rule(*_UNARY.split())
def _like_input(slots: Slots) -> Type:
    return _one(slots, "X")


@_rule("layer_norm", "batch_norm")
def _normalised(slots: Slots) -> Type:
    return _one(slots, "X")


@_rule(*(f"elementwise_{name}" for name in ["add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv"]))
def _elementwise(slots: Slots, *, axis: int) -> Type:
    x, y = _one(slots, "X"), _one(slots, "Y")
    if x.dtype is not y.dtype:
        raise TypeProblem(f"X is {x} and Y is {y}")
    longer, shorter = (x, y) if x.rank >= y.rank else (y, x)
    start = longer.rank - shorter.rank if axis == -1 else axis
    dims = list(longer.dims)
    for dim, size in enumerate(shorter.dims, start):
        if not 0 <= dim < len(dims):
            raise TypeProblem(f"axis={axis} does not put {shorter} into {longer}")
        dims[dim] = _together(dims[dim], size, x, y)
    return tensor(x.dtype, dims)


def _together(a: int, b: int, x: TensorType, y: TensorType) -> int:
    if a == b or b == 1:
        return a
    if a == 1 or a == UNBOUNDED:
        return b
    if b == UNBOUNDED:
        return a
    raise TypeProblem(f"{x} and {y} do not go together")


@_rule("matmul_v2")
def _matmul(slots: Slots, *, trans_x: bool, trans_y: bool) -> Type:
    x, y = _one(slots, "X"), _one(slots, "Y")
    if x.rank < 2 or y.rank < 2:
        raise TypeProblem("products of vectors have no rule here")
    rows, inner = (x.dims[-1], x.dims[-2]) if trans_x else (x.dims[-2], x.dims[-1])
    other, columns = (y.dims[-1], y.dims[-2]) if trans_y else (y.dims[-2], y.dims[-1])
    if UNBOUNDED not in (inner, other) and inner != other:
        raise TypeProblem(f"the product of {x} and {y} is contracted over {inner} and {other}")
    batch = _elementwise(
        {"X": [tensor(x.dtype, x.dims[:-2])], "Y": [tensor(y.dtype, y.dims[:-2])]},
        axis=-1,
    )
    assert isinstance(batch, TensorType)
    return tensor(x.dtype, (*batch.dims, rows, columns))


@_rule("mul")
def _mul(slots: Slots, *, x_num_col_dims: int, y_num_col_dims: int) -> Type:
    x, y = _one(slots, "X"), _one(slots, "Y")
    return tensor(x.dtype, (*x.dims[:x_num_col_dims], *y.dims[y_num_col_dims:]))


@_rule("fc")
def _fc(slots: Slots, *, in_num_col_dims: int) -> Type:
    x, weights = _one(slots, "Input"), _one(slots, "W")
    inner = x.dims[in_num_col_dims:]
    if UNBOUNDED not in (*inner, weights.dims[0]) and math.prod(inner) != weights.dims[0]:
        raise TypeProblem(f"in_num_col_dims={in_num_col_dims} makes {math.prod(inner)} columns of {x}, W is {weights}")
    return tensor(x.dtype, (*x.dims[:in_num_col_dims], weights.dims[-1]))


@_rule("sum")
def _sum(slots: Slots) -> Type:
    return _one(slots, "X")


@_rule("concat")
def _concat(slots: Slots, *, axis: int) -> Type:
    if "AxisTensor" in slots:
        raise TypeProblem("the axis is computed")
    first = _one(slots, "X")
    dim = _axis(axis, first)
    sizes = [operand_type.dims[dim] for operand_type in slots["X"]]
    dims = list(first.dims)
    dims[dim] = UNBOUNDED if UNBOUNDED in sizes else sum(sizes)
    return tensor(first.dtype, dims)


@_rule("transpose2")
def _transpose(slots: Slots, *, axis: Sequence[int]) -> Type:
    x = _one(slots, "X")
    if sorted(axis) != list(range(x.rank)):
        raise TypeProblem(f"axis={list(axis)} is not an order of the dimensions of {x}")
    return tensor(x.dtype, [x.dims[dim] for dim in axis])


@_rule("reshape2")
def _reshape(slots: Slots, *, shape: Sequence[int]) -> Type:
    x = _one(slots, "X")
    if "Shape" in slots or "ShapeTensor" in slots:
        raise TypeProblem("the shape is computed")
    dims = [x.dims[dim] if size == 0 and dim < x.rank else size for dim, size in enumerate(shape)]
    if UNBOUNDED in dims and UNBOUNDED not in x.dims:
        rest = math.prod(size for size in dims if size != UNBOUNDED)
        dims[dims.index(UNBOUNDED)] = x.element_count // rest if rest else 0
    if UNBOUNDED not in (*dims, *x.dims) and math.prod(dims) != x.element_count:
        raise TypeProblem(f"{x} has no shape {list(shape)}")
    return tensor(x.dtype, dims)


@_rule("cast")
def _cast(slots: Slots, *, out_dtype: int) -> Type:
    element_type = DATA_TYPES.get(out_dtype)
    if element_type is None:
        raise TypeProblem(f"out_dtype={out_dtype} is not a type of numbers")
    return tensor(element_type, _one(slots, "X").dims)


@_rule(*(f"reduce_{name}" for name in ["mean", "sum", "max", "min", "prod"]))
def _reduce(slots: Slots, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Type:
    x = _one(slots, "X")
    gone = set(range(x.rank)) if reduce_all or not dim else {_axis(axis_number, x) for axis_number in dim}
    if keep_dim:
        return tensor(x.dtype, [1 if dimension in gone else size for dimension, size in enumerate(x.dims)])
    return tensor(x.dtype, [size for dimension, size in enumerate(x.dims) if dimension not in gone])


def _axis(axis: int, array_type: TensorType) -> int:
    if not -array_type.rank <= axis < array_type.rank:
        raise TypeProblem(f"{axis} is not one of the {array_type.rank} dimensions of {array_type}")
    return axis % array_type.rank

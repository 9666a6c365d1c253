"""Random numbers."""

from __future__ import annotations

from hloom.ir import (
    AxisMap,
    AxisMapBuilder,
    DTypeKind,
    Effect,
    FactorKind,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeNotGiven,
    TypeProblem,
    compatible,
    dtype,
    required,
    without_layout,
)
from hloom.ops.leaf_axes import dims_of, leaves_of
from hloom.ops.rows import ANY, ENUM, INTEGER, table, typed_row
from hloom.ops.shapes import array, of_kinds, scalar

DISTRIBUTIONS = ("rng_uniform", "rng_normal")
RNG_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
STATE = TensorType(dtype("u64"), (2,))
"""The result type of rng-get-and-update-state."""

_REAL = frozenset(DTypeKind) - {DTypeKind.COMPLEX}
_FLOAT = frozenset({DTypeKind.FLOAT})


def _rng(*bounds: Type, distribution: str, result: Type | None) -> Type:
    """The written type, after checking that the parameters are scalars of its element type.

    XLA's parser does not count operands; old texts give a third one, the shape, which is ignored.
    """
    if result is None:
        raise TypeProblem("the type must be written: the operands do not say how many numbers are wanted")
    made = array(result, "the result")
    for number, bound in enumerate(bounds[:2]):
        bound_type = scalar(bound, f"operand {number}")
        if bound_type.dtype is not made.dtype:
            raise TypeProblem(f"operand {number} must be {made.dtype}[] for {made}, but is {bound_type}")
    of_kinds(made, _FLOAT if distribution == "rng_normal" else _REAL, "the result")
    return made


def _rng_axes(*bounds: Type, result: Type) -> AxisMap:
    """The draws are independent, so every device may draw its own part."""
    build = AxisMapBuilder()
    for bound in bounds:
        build.operand(*[[build.factor(size)] for size in dims_of(bound)])
    return build.result(*[[build.factor(size)] for size in dims_of(result)]).finish()


def _rng_bit_generator(state: Type, *, result: Type | None) -> Type:
    """The written type: the numbers, or the state and the numbers."""
    operand_type = array(state, "the state")
    if result is None:
        raise TypeNotGiven("the type must be written: the operand does not say how many numbers are wanted")
    if not isinstance(result, TupleType):
        return array(result, "the result")
    if len(result.elements) != 2 or not compatible(result.elements[0], operand_type):
        raise TypeProblem(f"the result must be a tuple of the state, {operand_type}, and the numbers, but is {result}")
    return without_layout(result)


def _rng_bit_generator_axes(state: Type, *, result: Type) -> AxisMap:
    """Each number, and the state, depends on how many were drawn before it, so all dimensions need replication."""
    build = AxisMapBuilder()
    leaves = leaves_of([result])
    states = [[build.factor(size, FactorKind.NEED_REPLICATION)] for size in dims_of(state)]
    build.operand(*states)
    for dim, leaf in enumerate(leaves):
        is_state = len(leaves) == 2 and dim == 0
        build.result(*(states if is_state else [[build.factor(n, FactorKind.NEED_REPLICATION)] for n in dims_of(leaf)]))
    return build.finish()


def _state() -> Type:
    return STATE


def _state_axes() -> AxisMap:
    build = AxisMapBuilder()
    return build.result([build.factor(STATE.dims[0], FactorKind.NEED_REPLICATION)]).finish()


ROWS = table(
    typed_row(
        "rng",
        ANY,
        {"distribution": required(ENUM, choices=DISTRIBUTIONS)},
        infer=_rng,
        axes=_rng_axes,
        traits=(Trait.RANDOM,),
        effect=Effect.STATE,
    ),
    typed_row(
        "rng-bit-generator",
        1,
        {"algorithm": required(ENUM, choices=RNG_ALGORITHMS)},
        infer=_rng_bit_generator,
        axes=_rng_bit_generator_axes,
        traits=(Trait.RANDOM,),
    ),
    typed_row(
        "rng-get-and-update-state",
        0,
        {"delta": required(INTEGER)},
        infer=_state,
        axes=_state_axes,
        effect=Effect.STATE,
        traits=(Trait.RANDOM,),
    ),
)

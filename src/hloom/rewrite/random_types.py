"""Draws random operand types for test programs, preferring types that fit together.

To draw the operands of another op well, add a function to OPERANDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeGuard

from hloom.ir import (
    DTYPES,
    ConvolutionDimensions,
    TensorType,
    Type,
    dtype,
)
from hloom.rewrite.type_guards import as_tuple, is_tuple

COMMON_DTYPES = ("f32",) * 6 + ("s32",) * 3 + ("pred", "f16", "bf16", "f64", "s8", "u32", "s64", "c64")
_SIZES = ((2,), (2,), (3,), (3,), (2, 3), (2, 3), (1, 2, 3), (2, 3, 4), (1, 2), (0, 2, 3))
"""The pools of sizes; with a pool of a single size, any two arrays of equal rank fit together under any transposition.
"""
_RANKS = (0, 1, 2, 2, 3, 3, 3, 4)
"""The pool of ranks: most rules are about matrices and arrays of rank 3."""

Values = Mapping[str, Any]


class Sampler:
    """The choices behind one program: which sizes occur, and the shape and element type of most values."""

    def __init__(self, random: Random, domain: Values) -> None:
        self.random = random
        self.sizes = as_tuple(domain.get("sizes", ())) or random.choice(_SIZES)
        self.ranks = as_tuple(domain.get("ranks", ())) or _RANKS
        self.dtypes = as_tuple(domain.get("dtypes", ())) or COMMON_DTYPES
        self.dims = self.some_dims(random.choice(self.ranks))
        self.element = dtype(random.choice(self.dtypes))

    def some_dims(self, rank: int) -> tuple[int, ...]:
        return tuple(self.random.choice(self.sizes) for _ in range(rank))

    def likely(self, odds: float) -> bool:
        return self.random.random() < odds

    def some_type(self) -> TensorType:
        """A type, usually the common one."""
        if self.likely(0.7):
            return TensorType(self.element, self.dims)
        rank = len(self.dims) if self.likely(0.5) else self.random.choice(self.ranks)
        element = self.element if self.likely(0.7) else dtype(self.random.choice(self.dtypes))
        return TensorType(element, self.some_dims(rank))

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(self.random.sample(range(count), count))

    def subset(self, count: int) -> tuple[int, ...]:
        return tuple(index for index in range(count) if self.likely(0.5))


# What an operand may be

Operand = Callable[[Sampler, int, Sequence[Type | None], Values], TensorType]


def draw_operand(
    sampler: Sampler, opcode: str, operand_index: int, known: Sequence[Type | None], fixed: Values
) -> TensorType:
    """A type for an operand of an op; `known` are the types of the other operands as far as known."""
    own = OPERANDS.get(opcode)
    if own is not None:
        return own(sampler, operand_index, known, fixed)
    others = [array_type for array_type in known if isinstance(array_type, TensorType)]
    if others and sampler.likely(0.8):
        return sampler.random.choice(others)
    return _with_rank(sampler, sampler.some_type(), fixed)


def _with_rank(sampler: Sampler, array_type: TensorType, fixed: Values) -> TensorType:
    """A type with as many dimensions as the fixed attributes refer to."""
    least = max([max(value) + 1 for value in fixed.values() if _are_dimensions(value)], default=0)
    return array_type if array_type.rank >= least else TensorType(array_type.dtype, sampler.some_dims(least))


def _are_dimensions(value: object) -> TypeGuard[tuple[int, ...]]:
    return is_tuple(value) and bool(value) and all(type(dim) is int and 0 <= dim < 8 for dim in value)


def _first(known: Sequence[Type | None]) -> TensorType | None:
    return next((array_type for array_type in known if isinstance(array_type, TensorType)), None)


def _selecting(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    others = _first(known[1:])
    if operand_index == 0:
        dims = others.dims if others else sampler.dims
        return TensorType(DTYPES["pred"], dims if sampler.likely(0.8) else ())
    if others:
        return others
    return TensorType(sampler.element, known[0].dims if isinstance(known[0], TensorType) else sampler.dims)


def _moved(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    array_type = sampler.some_type()
    order = fixed.get("dimensions")
    if is_tuple(order) and len(order) != array_type.rank:
        return TensorType(array_type.dtype, sampler.some_dims(len(order)))
    return TensorType(array_type.dtype, tuple(array_type.dims[axis] for axis in sampler.order(array_type.rank)))


def _spread(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if isinstance(fixed.get("dimensions"), tuple):
        return TensorType(sampler.element, sampler.some_dims(len(fixed["dimensions"])))
    return TensorType(sampler.element, tuple(sampler.dims[axis] for axis in sampler.subset(len(sampler.dims))))


def _reduced(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    half = len(known) // 2
    if operand_index >= half:
        other = known[operand_index - half]
        return TensorType(other.dtype if isinstance(other, TensorType) else sampler.element)
    first = _first(known[:half])
    if first:
        return first
    init = known[operand_index + half]
    array_type = _with_rank(sampler, sampler.some_type(), fixed)
    return array_type.with_dtype(init.dtype) if isinstance(init, TensorType) else array_type


def _scalar_second(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if operand_index == 0:
        other = known[1]
        array_type = _with_rank(sampler, sampler.some_type(), fixed)
        return array_type.with_dtype(other.dtype) if isinstance(other, TensorType) else array_type
    return TensorType((_first(known) or _with_rank(sampler, sampler.some_type(), fixed)).dtype)


def _indexed(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    return (
        TensorType(DTYPES["s32"])
        if operand_index
        else TensorType(sampler.element, sampler.some_dims(max(1, len(known) - 1)))
    )


def _updated(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if operand_index >= 2:
        return TensorType(DTYPES["s32"])
    first = _first(known[:2])
    if first is None:
        return TensorType(sampler.element, sampler.some_dims(max(0, len(known) - 2)))
    if operand_index == 0:
        return first
    return TensorType(first.dtype, tuple(sampler.random.randint(min(1, size), size) for size in first.dims))


def _multiplied(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    other = _first(known)
    rank = max(2 if sampler.likely(0.7) else sampler.random.choice((1, 2, 3)), 1)
    names = (
        ("lhs_batch_dims", "lhs_contracting_dims") if operand_index == 0 else ("rhs_batch_dims", "rhs_contracting_dims")
    )
    told = [max(fixed[name]) + 1 for name in names if _are_dimensions(fixed.get(name))]
    element = other.dtype if other else sampler.element
    pool = [*(other.dims if other else ()), *sampler.sizes]
    return TensorType(element, tuple(sampler.random.choice(pool) for _ in range(max([rank, *told]))))


def _joined(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    first = _first(known)
    if first is None:
        array_type = _with_rank(sampler, sampler.some_type(), fixed)
        return array_type if array_type.rank else TensorType(array_type.dtype, sampler.some_dims(1))
    axis = fixed.get("dimensions", (sampler.random.randrange(max(first.rank, 1)),))[0]
    return TensorType(
        first.dtype, tuple(sampler.random.choice(sampler.sizes) if a == axis else n for a, n in enumerate(first.dims))
    )


def _convolved(sampler: Sampler, operand_index: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    labels = fixed.get("dim_labels") or some_labels(4)
    other = _first(known)
    element = other.dtype if other else sampler.element
    letters = labels.lhs if operand_index == 0 else labels.rhs
    features = sampler.random.randint(1, 3)
    if other and other.rank == len(letters):
        features = other.dims[labels.rhs.index("i")] if operand_index == 0 else other.dims[labels.lhs.index("f")]
    sizes = {"f": features, "i": features, "b": sampler.random.randint(1, 3), "o": sampler.random.randint(1, 3)}
    window = (3, 5) if operand_index == 0 else (1, 3)
    return TensorType(element, tuple(sizes.get(letter) or sampler.random.randint(*window) for letter in letters))


OPERANDS: dict[str, Operand] = {
    "select": _selecting,
    "transpose": _moved,
    "reshape": _moved,
    "broadcast": _spread,
    "reduce": _reduced,
    "reduce-window": _reduced,
    "pad": _scalar_second,
    "dynamic-slice": _indexed,
    "dynamic-update-slice": _updated,
    "dot": _multiplied,
    "concatenate": _joined,
    "convolution": _convolved,
}


def some_labels(rank: int) -> ConvolutionDimensions:
    """Convolution labels for arrays of this rank, features last."""
    spatial = "".join(map(str, range(rank - 2)))
    return ConvolutionDimensions(f"b{spatial}f", f"{spatial}io", f"b{spatial}f")

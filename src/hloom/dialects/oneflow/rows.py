"""How the family files make their rows: an op's own attributes, and those that OneFlow gives to all ops.

Attribute values are those of the package `mlir`: `plain` makes Python's numbers of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hloom.formats.mlir import CARRIED, Dense
from hloom.ir import Attribute, AttributeKind, DType, Effect, Op, TensorType, Type, TypeProblem, dtype, optional

_SHARED = "device_name device_tag hierarchy nd_sbp op_name op_type_name output_lbns parallel scope_symbol_id"
SEGMENTS = "operand_segment_sizes"
RESULT_SEGMENTS = "result_segment_sizes"
SHARED: Mapping[str, Attribute] = MappingProxyType(
    {name: optional(AttributeKind.ANY, carried=True) for name in _SHARED.split()}
    | {name: optional(AttributeKind.ANY) for name in (SEGMENTS, RESULT_SEGMENTS)}
)
"""What any op may have: what does not change its value, and which of its optional operands and results there are."""

DATA_TYPES: Mapping[int, DType] = MappingProxyType(
    {
        number: dtype(name)
        for number, name in {
            1: "s8",
            2: "f32",
            3: "f64",
            4: "s8",
            5: "s32",
            6: "s64",
            7: "u8",
            9: "f16",
            11: "bf16",
            12: "pred",
            13: "u16",
            14: "u32",
            15: "u64",
            17: "s16",
            20: "c64",
            21: "c128",
        }.items()
    }
)
"""OneFlow's numbers of element types. Source: oneflow/core/common/data_type.proto."""


def row(
    name: str,
    arity: int | tuple[int, int | None],
    infer: Callable[..., Type],
    defaults: Mapping[str, Any] | None = None,
    *,
    carried: Sequence[str] = (),
    effect: Effect | None = None,
) -> Op:
    """One op; `defaults` are its attributes with what their absence means, as plain Python values."""
    own = {key: optional(AttributeKind.ANY, value, written=True) for key, value in (defaults or {}).items()}
    own |= {key: optional(AttributeKind.ANY, carried=True) for key in carried}
    return Op(
        f"oneflow.{name}",
        (arity, arity) if isinstance(arity, int) else arity,
        attributes={**own, **SHARED, **CARRIED},
        infer=infer,
        effect=effect,
    )


def table(*rows: Op) -> dict[str, Op]:
    """Rows by name."""
    return {row.name: row for row in rows}


def plain(value: Any) -> Any:
    """A typed value's number, or the plain values of an array's elements; other values as they are."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return getattr(value, "value", value)


def optional_operands(names: str, count: int, sizes: Any) -> dict[str, int]:
    """Where each operand stands, by name; those left out are missing.

    `sizes` are the segment sizes, one per name; without them the first `count` names are there.
    """
    words = names.split()
    result = plain(sizes)
    if isinstance(sizes, Dense) and not isinstance(result, tuple):
        result = (result,) * len(words)
    if not isinstance(result, tuple) or len(result) != len(words) or sum(result) != count:
        result = (1,) * count + (0,) * (len(words) - count)
    places: dict[str, int] = {}
    for word, size in zip(words, result, strict=True):
        if size:
            places[word] = len(places)
    return places


def array(type_: Type, role: str = "the operand") -> TensorType:
    """A type that must be an array's; raises TypeProblem."""
    if not isinstance(type_, TensorType):
        raise TypeProblem(f"{role} must be a tensor, not {type_}")
    return type_


def data_type(number: Any) -> DType:
    """The element type of OneFlow's number; raises TypeProblem."""
    result = DATA_TYPES.get(plain(number))
    if result is None:
        raise TypeProblem(f"{plain(number)} is not data type that can be computed with")
    return result


def axis_in(axis: Any, array_type: TensorType, what: str = "axis") -> int:
    """An axis, negative ones counted from the end; raises TypeProblem."""
    result = plain(axis)
    if not -array_type.rank <= result < array_type.rank:
        raise TypeProblem(f"{what}={result} is not one of the {array_type.rank} dimensions of {array_type}")
    return result % array_type.rank

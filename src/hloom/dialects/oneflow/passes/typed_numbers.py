"""Typed numbers in what a rule makes: `f32(1 / (1 - rate))` prints as MLIR's `2.000000e+00 : f32`."""

from __future__ import annotations

from functools import partial
from typing import Any

from hloom.formats.mlir import Dense, TypedNumber
from hloom.rewrite import Expression, call, number, register, register_dataclass


def typed(array_type: str, value: Any) -> TypedNumber:
    """A number, plain or of another type, as one of this type."""
    plain = number(value)
    return TypedNumber(float(plain) if array_type.startswith("f") else int(plain), array_type)


for _kind in ("f32", "f64", "si32", "si64"):
    register(f"mlir.{_kind}", partial(typed, _kind))
register_dataclass("mlir.number", TypedNumber)
register_dataclass("mlir.dense", Dense)


def f32(value: Any) -> Expression:
    """A number of 32 floating-point bits."""
    return call("mlir.f32", value)


def f64(value: Any) -> Expression:
    """A number of 64 floating-point bits."""
    return call("mlir.f64", value)


def si32(value: Any) -> Expression:
    """A signed integer of 32 bits."""
    return call("mlir.si32", value)


def si64(value: Any) -> Expression:
    """A signed integer of 64 bits."""
    return call("mlir.si64", value)


def segments(*sizes: int) -> Dense:
    """Which of an op's optional operands or results there are."""
    return Dense(sizes, f"vector<{len(sizes)}xi32>")

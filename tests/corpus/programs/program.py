"""One JAX program of the corpus, and how a family file declares it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

BOTH = ("before", "after")


@dataclass(frozen=True, slots=True)
class Program:
    """A function, the shapes it is lowered with, and what to hand to `jax.jit` beside it."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    jit: dict[str, Any] = field(default_factory=dict)
    shardy: bool = True
    platform: str = ""
    stages: tuple[str, ...] = BOTH
    because: str = ""


class Family(dict[str, Program]):
    """The programs of one file, by name; calling it declares one: `@family(f32(2, 3))`."""

    def __call__(
        self,
        *arguments: Any,
        name: str = "",
        jit: dict[str, Any] | None = None,
        shardy: bool = True,
        platform: str = "",
        stages: tuple[str, ...] = BOTH,
        because: str = "",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            key = name or function.__name__
            if key in self:
                raise ValueError(f"two programs are named {key}")
            reached = ("before",) if platform else stages
            reason = because or (platform and f"lowered for {platform}, and the corpus compiles for the CPU")
            self[key] = Program(key, function, arguments, jit or {}, shardy, platform, reached, reason)
            return function

        return declare


def shape(dtype: Any, *dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.float32, *dims)


def f64(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.float64, *dims)


def bf16(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.bfloat16, *dims)


def s32(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.int32, *dims)


def u32(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.uint32, *dims)


def pred(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.bool_, *dims)


def c64(*dims: int) -> jax.ShapeDtypeStruct:
    return shape(jnp.complex64, *dims)

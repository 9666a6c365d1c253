"""JAX functions differentiated by hloom, through loops that jax itself refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from hloom import autodiff, runtime
from hloom.ir import Module

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Derivatives:
    checkpoints: int | None
    max_iterations: int | None

    def parts(self, module: Module, wrt: Sequence[int]) -> tuple[Module, Module]:
        return autodiff.vjp_parts(module, wrt, checkpoints=self.checkpoints, max_iterations=self.max_iterations)

    def forward(self, module: Module, wrt: Sequence[int]) -> Module:
        return autodiff.jvp(module, wrt)

    def backward(self, module: Module, wrt: Sequence[int]) -> Module:
        return autodiff.vjp(module, wrt, checkpoints=self.checkpoints, max_iterations=self.max_iterations)


class _Decorator(Protocol):
    def __call__(self, function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]: ...


@overload
def differentiable(
    function: Callable[Parameters, Result],
    *,
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> Callable[Parameters, Result]: ...


@overload
def differentiable(
    function: None = None, *, checkpoints: int | None = None, max_iterations: int | None = None
) -> _Decorator: ...


def differentiable(
    function: Callable[..., Any] | None = None,
    *,
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> Any:
    """A JAX function whose derivatives hloom makes: `lax.while_loop` and all else that HLO has included.

        @hloom.differentiable
        def solve(a):
            return lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-9, newton_step(a), (a, 0.0))[0]

        jax.grad(solve)(2.0)

    `jax.grad`, `value_and_grad`, `vjp`, `jvp`, `jit`, `vmap` and higher orders work on it, and on its callers. Its
    arguments are trees of arrays. `checkpoints` and `max_iterations` are those of `hloom.vjp`. Without a function, this
    is a decorator. Differentiating a function that has no derivative raises HloomError.
    """
    if function is None:
        return partial(differentiable, checkpoints=checkpoints, max_iterations=max_iterations)
    return runtime.differentiable(function, _Derivatives(checkpoints, max_iterations))


def module_derivatives() -> _Derivatives:
    """hloom's own derivatives of modules, as `hloom.runtime` takes them."""
    return _Derivatives(None, None)

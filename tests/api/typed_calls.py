# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What a type checker knows of the public functions: `make lint` checks it, and each error that is ignored must be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import hloom

if TYPE_CHECKING:
    from hloom.distribute.planner import FamilyTable

    def scaled(x: float, times: int) -> float:
        return x * times

    @hloom.function(static="times")
    def compiled(x: float, times: int) -> float:
        return x * times

    @hloom.jit(passes="simplify")
    def jitted(x: float, times: int) -> float:
        return x * times

    @hloom.differentiable(max_iterations=8)
    def derived(x: float, times: int) -> float:
        return x * times

    @hloom.auto_shard(mesh="data=2")
    def sharded(x: float, times: int) -> float:
        return x * times

    assert_type(hloom.function(scaled)(1.0, 2), float)
    assert_type(compiled(1.0, times=2), float)
    assert_type(jitted(1.0, 2), float)
    assert_type(hloom.jit(scaled, ["cse"])(1.0, 2), float)
    assert_type(hloom.value_and_grad(scaled)(1.0, 2)[0], float)
    assert_type(hloom.vjp(scaled, 1.0, 2)[0], float)
    assert_type(hloom.jvp(scaled, (1.0, 2), (1.0, None)), tuple[float, float])
    assert_type(hloom.differentiable(scaled)(1.0, 2), float)
    assert_type(derived(1.0, times=2), float)
    assert_type(hloom.auto_shard(scaled, "data=2")(1.0, 2), float)
    assert_type(sharded(1.0, times=2), float)
    assert_type(hloom.load("step.hlo"), hloom.Module)
    assert_type(hloom.plan("step.hlo", "data=2").table(), FamilyTable)
    assert_type(hloom.grad("step.hlo", wrt="w"), hloom.Module)
    assert_type(hloom.cost("step.hlo"), hloom.CostReport)

    hloom.grad(scaled)(1.0)  # pyright: ignore[reportCallIssue]
    hloom.jit(scaled)("x", 2)  # pyright: ignore[reportArgumentType]
    compiled(1.0, count=2)  # pyright: ignore[reportCallIssue]
    hloom.vjp(scaled, "x", 2)  # pyright: ignore[reportArgumentType]
    hloom.hessian(scaled)(1.0)  # pyright: ignore[reportCallIssue]
    hloom.jacobian(scaled)("x", 2)  # pyright: ignore[reportArgumentType]
    hloom.differentiable(scaled)(1.0)  # pyright: ignore[reportCallIssue]
    derived(1.0, count=2)  # pyright: ignore[reportCallIssue]
    hloom.auto_shard(scaled, "data=2")("x", 2)  # pyright: ignore[reportArgumentType]
    sharded(1.0)  # pyright: ignore[reportCallIssue]
    hloom.auto_shard(scaled)  # pyright: ignore[reportCallIssue]
    hloom.cost(3)  # pyright: ignore[reportArgumentType]
    hloom.plann("step.hlo")  # pyright: ignore

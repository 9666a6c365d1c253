"""`jax.jit` of a function that the planner shards over several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from hloom import runtime
from hloom.analysis import Device, as_device
from hloom.api.jax_specs import MeshLike, mesh_of
from hloom.api.plan import plan
from hloom.api.plan_like import PlanLike, as_plan
from hloom.distribute.planner import Plan, annotation, solver_of
from hloom.ir import Module
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError

PlannerLike: TypeAlias = PlanLike | Callable[[Module, Mesh], Plan]
"""The name of a planner, a plan (its JSON, or a file of it), or a function that makes a plan for a module and a mesh.
"""
PLAN_FILE = ".json"
"""How the name of a plan's file ends: any other text names a planner."""


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Decorator(Protocol):
    def __call__(self, function: Callable[Parameters, Result], /) -> runtime.AutoShard[Parameters, Result]: ...


@overload
def auto_shard(
    function: Callable[Parameters, Result],
    mesh: MeshLike,
    *,
    planner: PlannerLike = "ilp",
    memory: float | str | None = None,
    measure: int = 0,
    pins: Mapping[str, Spec | str] | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> runtime.AutoShard[Parameters, Result]: ...


@overload
def auto_shard(
    function: None = None,
    *,
    mesh: MeshLike,
    planner: PlannerLike = "ilp",
    memory: float | str | None = None,
    measure: int = 0,
    pins: Mapping[str, Spec | str] | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> _Decorator: ...


def auto_shard(
    function: Callable[..., Any] | None = None,
    mesh: MeshLike | None = None,
    *,
    planner: PlannerLike = "ilp",
    memory: float | str | None = None,
    measure: int = 0,
    pins: Mapping[str, Spec | str] | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> Any:
    """A function as `jax.jit` makes it, sharded over a mesh by the planner: `step = auto_shard(f, mesh="data=8")`.

    `step(*args)` plans, compiles and runs on its first call with arguments of these types, and afterwards just runs.
    `step.planned(*args)` returns the plan, also for `jax.ShapeDtypeStruct`s, and computes nothing. Without a function,
    this is a decorator: `@auto_shard(mesh="data=8")`.

    The mesh is a `Mesh`, its axes as a dict or a text (`data=2,model=4`, or `2x4`), or a `jax.sharding.Mesh`; a named
    planner gets `memory`, `measure`, `pins` and `device` as in `hloom.plan`; `options` are those of `jax.jit` except
    shardings. The program is planned as one device would run it. It runs under GSPMD or Shardy, as
    `jax_use_shardy_partitioner` says.
    """
    if mesh is None:
        raise HloomError("auto_shard needs a mesh", hint='mesh="data=2,model=4"')
    space = mesh_of(mesh)
    demands = {"memory": memory, "measure": measure, "pins": pins, "device": device}
    named = planner if isinstance(planner, str) and not planner.endswith(PLAN_FILE) else None
    unused = [name for name, value in demands.items() if value and named is None]
    if unused:
        raise HloomError(
            f"{unused[0]}= only applies to a planner of hloom's, named by planner=: here a plan or a function decides"
        )

    if device is not None:
        as_device(device)
    if function is None:
        return partial(auto_shard, mesh=space, planner=planner, **demands, **options)
    if named is not None:
        solver_of(named)
    elif not callable(planner):
        as_plan(planner)

    def planned(module: Module) -> Plan:
        if named is not None:
            return plan(module, space, planner=named, **demands).plan
        return planner(module, space) if callable(planner) else as_plan(planner, module)

    def shardings(module: Module) -> runtime.ProgramShardings:
        plan = planned(module)
        parameters = annotation.parameter_shardings(plan, module)
        results = annotation.result_shardings(plan, module)
        for_gspmd, for_shardy = partial(annotation.constrain, plan), partial(annotation.constrain_for_shardy, plan)
        return runtime.ProgramShardings(parameters, results, for_gspmd, for_shardy, plan)

    return runtime.auto_shard(function, shardings, **options)

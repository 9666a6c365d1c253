"""`jax.jit` of a function that the planner shards over several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hloom import runtime
from hloom.analysis import Device
from hloom.api.jax_specs import mesh_of
from hloom.api.plan import plan
from hloom.ir import Module
from hloom.planner import Plan, annotation, solver_of
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError

PlanLike = Plan | str | Callable[[Module, Mesh], Plan]
"""A plan, what makes one for a module and a mesh, or the name of one of our planners."""


def auto_shard(
    function: Callable[..., Any],
    mesh: Mesh | str | Any,
    *,
    planner: PlanLike = "ilp",
    memory: float | str | None = None,
    measure: int = 0,
    pins: Mapping[str, Spec | str] | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> runtime.AutoShard:
    """What plans a function for arguments and returns it jitted and sharded: `auto_shard(f, mesh)(*args)`.

    The mesh is a `Mesh`, its text (`data=2,model=4`), or a `jax.sharding.Mesh`; a named planner gets `memory`,
    `measure`, `pins` and `device` as `hloom.plan` does; `options` are those of `jax.jit`, but for the shardings. The
    program is planned as one device would run it, and nothing is computed: what comes back is called as `f` is, and
    keeps the plan in `plan`. It runs under GSPMD or Shardy, whichever `jax_use_shardy_partitioner` says.
    """
    space = mesh_of(mesh)
    demands = {"memory": memory, "measure": measure, "pins": pins, "device": device}
    unused = [name for name, value in demands.items() if value and not isinstance(planner, str)]
    if unused:
        raise HloomError(f"{unused[0]} is for our planners: another planner, or a plan, has decided already")

    if isinstance(planner, str):
        solver_of(planner)

    def planned(module: Module) -> Plan:
        if isinstance(planner, str):
            return plan(module, space, planner=planner, **demands).plan
        return planner if isinstance(planner, Plan) else planner(module, space)

    def shardings(module: Module) -> runtime.ProgramShardings:
        plan = planned(module)
        parameters = annotation.parameter_shardings(plan, module)
        results = annotation.result_shardings(plan, module)
        for_gspmd, for_shardy = partial(annotation.constrain, plan), partial(annotation.constrain_for_shardy, plan)
        return runtime.ProgramShardings(parameters, results, for_gspmd, for_shardy, plan)

    return runtime.auto_shard(function, shardings, **options)

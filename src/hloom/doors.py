"""The doors into jax.jit, for passes and plans: `runtime` takes any change of a module, or any shardings of one.

The rooms `passes` and `sharding` make them, and know no jax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from hloom import runtime
from hloom.analysis import Device
from hloom.ir import Module
from hloom.passes import PassLike, apply_in_place, resolve
from hloom.runtime.inside_jit import Stage
from hloom.runtime.jax_shardings import hlo_mesh
from hloom.sharding import Mesh, Spec, handover
from hloom.sharding.forms import from_hlo_mesh, to_mesh_sharding
from hloom.sharding.plan import Plan
from hloom.text import HloomError

PlanLike = Plan | str | Callable[[Module, Mesh], Plan]
"""A plan, what makes one for a module and a mesh, or the name of one of our planners."""


def jit(
    function: Callable[..., Any] | None = None, passes: PassLike | Iterable[PassLike] = (), **options: Any
) -> Any:
    """A function as `jax.jit(function, **options)` makes it, its program rewritten by passes before XLA optimises it.

    Without a function, a decorator: `@hloom.jit(passes=[...])`. What comes back is jax.jit's own object, with
    `rewritten(*args)` beside, the module that XLA gets. Raises HloomError for passes that are not there, and
    RewriteError, when it is called, where a pass fails or leaves a broken module.
    """
    if function is None:
        return partial(jit, passes=passes, **options)
    return runtime.jit(function, _change(passes), **options)


def inside_jit(
    passes: PassLike | Iterable[PassLike],
    *,
    stage: Stage = "pre_scheduler",
    platforms: str | Sequence[str] = "cpu",
) -> AbstractContextManager[None]:
    """While the `with` block runs, passes over every module that XLA compiles, once XLA has optimised it.

    `stage` is `pre_scheduler` or `post_scheduler`. Raises RewriteError, out of the block, where a pass fails.
    """
    return runtime.inside_jit(_change(passes), stage=stage, platforms=platforms)


def auto_shard(
    function: Callable[..., Any],
    mesh: Mesh | str | Any,
    *,
    planner: PlanLike = "ilp",
    memory: float | str | None = None,
    judge: int = 0,
    pins: Mapping[str, Spec | str] | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> runtime.AutoShard:
    """What plans a function for arguments and returns it jitted and sharded: `auto_shard(f, mesh)(*args)`.

    The mesh is a `Mesh`, its text (`data=2,model=4`), or a `jax.sharding.Mesh`; a named planner gets `memory`, `judge`,
    `pins` and `device` as `hloom.plan` does; `options` are those of `jax.jit`, but for the shardings. The program is
    planned as one device would run it, and nothing is computed: what comes back is called as `f` is, and keeps the plan
    in `plan`. It runs under GSPMD and Shardy alike, whichever `jax_use_shardy_partitioner` says.
    """
    space = mesh_of(mesh)
    demands = {"memory": memory, "judge": judge, "pins": pins, "device": device}
    unused = [name for name, value in demands.items() if value and not isinstance(planner, str)]
    if unused:
        raise HloomError(f"{unused[0]} is for our planners: another planner, or a plan, has decided already")

    if isinstance(planner, str):
        from hloom.sharding.choosing import solver  # late: it loads one

        solver(planner)

    def planned(module: Module) -> Plan:
        if isinstance(planner, str):
            from hloom.planning import plan

            return plan(module, space, planner=planner, marks=False, **demands).plan
        return planner if isinstance(planner, Plan) else planner(module, space)

    def spread(module: Module) -> runtime.Spread:
        plan = planned(module)
        parameters = handover.parameter_shardings(plan, module)
        results = handover.result_shardings(plan, module)
        for_gspmd, for_shardy = partial(handover.constrain, plan), partial(handover.constrain_for_shardy, plan)
        return runtime.Spread(parameters, results, for_gspmd, for_shardy, plan)

    return runtime.auto_shard(function, spread, **options)


def partition_specs(plan: Plan, tree: Any) -> Any:
    """A tree of arguments with jax's `PartitionSpec`s as leaves, for `in_shardings`: the leaves are the parameters.

    So the program must have been lowered with `keep_unused=True` where it leaves arguments unused. Axes that do not
    divide an argument's dimension are left out, which jax would refuse.
    """
    leaves = runtime.leaves(tree)
    missing = [number for number in plan.parameters if number >= len(leaves)]
    if missing:
        raise HloomError(f"the plan splits parameter {missing[0]}, and the tree has {len(leaves)} leaves")
    specs = [plan.parameters.get(number, Spec.replicated(np.ndim(leaf))) for number, leaf in enumerate(leaves)]
    found = [handover.placed(spec, np.shape(leaf), plan.mesh) for spec, leaf in zip(specs, leaves, strict=True)]
    return runtime.partition_specs(tree, [to_mesh_sharding(each, plan.mesh) for each in found])


def result_partition_specs(plan: Plan, module: Module, tree: Any) -> Any:
    """The same of a tree of results, for `out_shardings`: of the module that is planned."""
    return runtime.partition_specs(tree, handover.result_shardings(plan, module))


def shardy_stablehlo(plan: Plan, module: Module) -> str:
    """StableHLO that says what `plan.annotate(module)` says, in Shardy's own words: `sdy.sharding` and its like."""
    return runtime.shardy_text(handover.annotate_for_shardy(plan, module))


def mesh_of(mesh: Any) -> Mesh:
    if isinstance(mesh, Mesh):
        return mesh
    return Mesh.parse(mesh) if isinstance(mesh, str) else from_hlo_mesh(hlo_mesh(mesh))


def _change(passes: PassLike | Iterable[PassLike]) -> Callable[[Module], bool]:
    """Passes as one change, which says whether it changed anything; names are looked up now."""
    resolved = resolve(passes)
    return lambda module: apply_in_place(module, resolved).changed

"""Meshes and plans in jax's terms: `jax.sharding.Mesh`, `PartitionSpec`, and StableHLO with Shardy's attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hloom import runtime
from hloom.api.plan_like import PlanLike, as_plan
from hloom.distribute.planner import annotation
from hloom.ir import ModuleLike, as_module
from hloom.runtime import hlo_mesh
from hloom.sharding import Mesh, Spec, as_mesh, from_hlo_mesh, to_mesh_sharding
from hloom.text import HloomError


@runtime_checkable
class JaxMesh(Protocol):
    """A `jax.sharding.Mesh` or `AbstractMesh`."""

    @property
    def axis_names(self) -> Any: ...

    @property
    def shape(self) -> Any: ...


MeshLike: TypeAlias = Mesh | Mapping[str, int] | str | JaxMesh
"""A mesh, the sizes of its axes by name, its text (`data=2,model=4`, `2x4`), or jax's."""


def partition_specs(plan: PlanLike, tree: Any) -> Any:
    """A tree of arguments with jax's `PartitionSpec`s as leaves, for `in_shardings`: the leaves are the parameters.

    So lower the program with `keep_unused=True` if it does not use all arguments. Axes that do not divide an argument's
    dimension are dropped, since jax would reject them.
    """
    plan = as_plan(plan)
    leaves = runtime.leaves(tree)
    missing = [number for number in plan.parameters if number >= len(leaves)]
    if missing:
        raise HloomError(f"the plan splits parameter {missing[0]}, and the tree has {len(leaves)} leaves")
    specs = [plan.parameters.get(number, Spec.replicated(np.ndim(leaf))) for number, leaf in enumerate(leaves)]
    placed_specs = [
        annotation.even_spec(spec, np.shape(leaf), plan.mesh) for spec, leaf in zip(specs, leaves, strict=True)
    ]
    return runtime.partition_specs(tree, [to_mesh_sharding(spec, plan.mesh) for spec in placed_specs])


def result_partition_specs(plan: PlanLike, module: ModuleLike, tree: Any) -> Any:
    """The same of a tree of results, for `out_shardings`: of the module that is planned."""
    module = as_module(module)
    return runtime.partition_specs(tree, annotation.result_shardings(as_plan(plan, module), module))


def shardy_stablehlo(plan: PlanLike, module: ModuleLike) -> str:
    """StableHLO equivalent to `plan.annotate(module)`, with Shardy's own attributes (`sdy.sharding`)."""
    module = as_module(module)
    return runtime.shardy_text(annotation.annotate_for_shardy(as_plan(plan, module), module))


def mesh_of(mesh: MeshLike) -> Mesh:
    """A mesh from anything that `hloom.sharding.as_mesh` accepts, or from a jax mesh."""
    if isinstance(mesh, JaxMesh) and not isinstance(mesh, Mesh):
        return from_hlo_mesh(hlo_mesh(mesh))
    return as_mesh(mesh)

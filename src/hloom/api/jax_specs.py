"""Meshes and plans as jax has them: `jax.sharding.Mesh`, `PartitionSpec`, and StableHLO with Shardy's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom import runtime
from hloom.ir import Module
from hloom.planner import Plan, annotation
from hloom.runtime import hlo_mesh
from hloom.sharding import Mesh, Spec, from_hlo_mesh, to_mesh_sharding
from hloom.text import HloomError


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
    placed_specs = [
        annotation.even_spec(spec, np.shape(leaf), plan.mesh) for spec, leaf in zip(specs, leaves, strict=True)
    ]
    return runtime.partition_specs(tree, [to_mesh_sharding(spec, plan.mesh) for spec in placed_specs])


def result_partition_specs(plan: Plan, module: Module, tree: Any) -> Any:
    """The same of a tree of results, for `out_shardings`: of the module that is planned."""
    return runtime.partition_specs(tree, annotation.result_shardings(plan, module))


def shardy_stablehlo(plan: Plan, module: Module) -> str:
    """StableHLO that says what `plan.annotate(module)` says, in Shardy's own words: `sdy.sharding` and its like."""
    return runtime.shardy_text(annotation.annotate_for_shardy(plan, module))


def mesh_of(mesh: Any) -> Mesh:
    if isinstance(mesh, Mesh):
        return mesh
    return Mesh.parse(mesh) if isinstance(mesh, str) else from_hlo_mesh(hlo_mesh(mesh))

"""Whether a module is still the unpartitioned program rather than one device's part of it."""

from __future__ import annotations

from hloom.ir import Constant, Module, Node

PARTITIONED_SUFFIX = "_spmd"
"""The suffix that XLA's partitioner appends to the entry's name."""
MESHES = "xla.sdy.meshes"
"""The frontend attribute in which JAX passes Shardy's meshes."""
BOUNDARIES = frozenset(("SPMDFullToShardShape", "SPMDShardToFullShape"))
"""Custom calls that convert between full arrays and shards: the partitioner removes them."""


def awaits_partitioning(module: Module) -> bool:
    """Whether shardings are present that no partitioner has applied yet, so that shapes are those of full arrays.

    XLA's partitioner leaves the shardings of parameters in place, so a partitioned module is recognised by its entry's
    name and its schedule.
    """
    if module.is_scheduled or module.entry.name.endswith(PARTITIONED_SUFFIX):
        return False
    if MESHES in dict(module.attributes.get("frontend_attributes") or ()):
        return True
    return any(_is_cut(node) for node in module.entry.nodes)


def _is_cut(node: Node) -> bool:
    if isinstance(node, Constant):
        return False
    is_replicated = getattr(node.attributes.get("sharding"), "is_replicated", True)
    return not is_replicated or node.attributes.get("custom_call_target") in BOUNDARIES

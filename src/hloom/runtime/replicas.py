"""A partitioned program, one device's share, as replicas: what its devices do is the same, and nobody splits it again.

XLA's client either partitions a program or takes it as replicas. A scheduled module with num_partitions=8 has been
partitioned already:

    partition-id()                                          ->  replica-id()
    all-reduce(x), channel_id=1, use_global_device_ids=true ->  all-reduce(x)
"""

from __future__ import annotations

from hloom.ir import Apply, ExplicitGroups, Module, Node
from hloom.ops import OPS
from hloom.text import Unsupported

_GLOBAL_IDS = frozenset(("all-gather", "all-reduce", "reduce-scatter"))
"""Collectives whose groups hold replicas, not partitions, unless use_global_device_ids is set."""

_OF_PARTITIONS = ("channel_id", "use_global_device_ids", "sharding")


def partitions_to_replicas(module: Module, partitions: int) -> None:
    """Let a module's partitions be replicas; raises Unsupported where it has replicas already."""
    if (module.attributes.get("replica_count") or 1) > 1:
        raise Unsupported("a partitioned program with replicas cannot be run: only one of the two")
    for node in list(module.nodes()):
        _rewrite(node, partitions)
    module.attributes = module.attributes.changed(num_partitions=None, replica_count=partitions)


def _rewrite(node: Node, partitions: int) -> None:
    if node.opcode == "partition-id":
        assert isinstance(node, Apply)
        node.graph.set_function(node, OPS["replica-id"])
    elif node.opcode == "replica-id":
        raise Unsupported(f"{node.name}: replica-id in a partitioned program, whose devices are one replica")
    elif node.opcode in _GLOBAL_IDS:
        _rewrite_groups(node, partitions)
    dropped = [name for name in _OF_PARTITIONS if name in node.attributes]
    if dropped:
        node.graph.set_attributes(node, node.attributes.changed(dict.fromkeys(dropped)))


def _rewrite_groups(node: Node, partitions: int) -> None:
    """Groups of partitions, where they were groups of the one replica: all partitions, or each on its own."""
    attributes = node.attributes
    if attributes.get("use_global_device_ids") or not attributes.get("replica_groups"):
        return
    together = attributes.get("channel_id") is not None
    groups = ExplicitGroups(() if together else tuple((number,) for number in range(partitions)))
    node.graph.set_attributes(node, attributes.changed(replica_groups=groups))

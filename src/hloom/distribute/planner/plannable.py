"""Which modules can be sharded: not those that already describe each device's part."""

from __future__ import annotations

from hloom.analysis import BOUNDARIES
from hloom.ir import UNBOUNDED, Apply, Module, Node, TensorType, Trait, TupleType, verify
from hloom.ops import with_trait
from hloom.text import HloomError

OF_ONE_DEVICE = BOUNDARIES | {"xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"}
"""Custom calls, GSPMD's and Shardy's, where a program becomes that of one device or that of all again."""
FEEDS = with_trait(Trait.HOST_FEED) | {"recv", "send"}
"""Opcodes that move data between a device and its host."""

MAX_RANK = 30
"""Dimensions of one array. Tiles of devices are arrays of numpy's, which have at most 64 dimensions, the mesh's among
them; and the time to plan grows with the square (beyond a minute at 50,000)."""
NEEDED = frozenset(("computation", "operand", "type"))
"""The kinds of names that must be resolved in a program to plan."""


def check_plannable(module: Module) -> None:
    """Raise HloomError for incomplete or unsound modules, and for those that XLA's partitioner cannot shard in any
    plan.
    """
    gaps = [gap for gap in verify(module).unresolved if gap.referent in NEEDED]
    if gaps:
        raise HloomError(f"{module.name} is a fragment, and cannot be planned: the {gaps[0]} is not known")
    for node in module.nodes():
        _check_sizes(node)
    nodes = [node for node in module.nodes() if isinstance(node, Apply)]
    for check in (_check_boundaries, _check_feeds, _check_collectives):
        for node in nodes:
            check(node)
    root_type = module.entry.output.type if module.entry.output is not None else None
    if isinstance(root_type, TupleType) and not all(isinstance(element, TensorType) for element in root_type.elements):
        raise HloomError(
            f"{module.name} yields {root_type}: only arrays, and tuples of arrays, can be planned",
            hint="yield the arrays in one tuple",
        )


def _check_sizes(node: Node) -> None:
    for leaf in node.type.leaves() if node.type is not None else ():
        if not isinstance(leaf, TensorType):
            continue
        if leaf.rank > MAX_RANK:
            raise HloomError(
                f"{node.name}: an array of {leaf.rank:,} dimensions cannot be planned: at most {MAX_RANK} are",
                hint="reshape it to fewer dimensions: those of size 1 are never split",
            )
        if UNBOUNDED in leaf.dims:
            raise HloomError(
                f"{node.name}: {leaf} has an unbounded dimension: what it costs is not known, and it cannot be planned",
                hint="compile the program for sizes that are known, or bounded",
            )


def _check_boundaries(node: Node) -> None:
    if node.attributes.get("custom_call_target") in OF_ONE_DEVICE:
        raise HloomError(
            f"{node.name}: a part of this program is one device's already (shard_map), and cannot be planned",
            hint="plan the program without it, or write the plan by hand",
        )


def _check_feeds(node: Node) -> None:
    if node.opcode in FEEDS:
        raise HloomError(
            f"{node.name}: {node.opcode} is one device's: XLA's partitioner does not spread it",
            hint="make what is fed a parameter or a result",
        )


def _check_collectives(node: Node) -> None:
    if node.attributes.get("channel_id") is not None:
        raise HloomError(
            f"{node.name}: {node.opcode} between partitions: this program is one device's already",
            hint="plan the program as it was before it was partitioned",
        )

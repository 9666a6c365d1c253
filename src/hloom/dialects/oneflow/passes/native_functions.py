"""What rules of this dialect ask of nodes beyond types and attributes: native functions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from hloom.dialects.oneflow.linear import CONVOLUTION
from hloom.dialects.oneflow.normalisation import OPERANDS
from hloom.dialects.oneflow.rows import SEGMENTS, optional_operands, plain
from hloom.ir import Apply, Node
from hloom.rewrite import register
from hloom.text import HloomError

_OPERANDS: Mapping[str, str] = {"oneflow.conv2d": CONVOLUTION, "oneflow.normalization": OPERANDS}
_MASK = "oneflow.random_mask_like"
_SEED_BITS = 63
"""The width of seeds, in bits: OneFlow's are signed and of 64 bits, and those made here are not negative."""


def operands_of(node: Node) -> str:
    """The names of the operands that are given to an op with optional ones; of its results, any may stand for it."""
    if node.opcode == "get-tuple-element":
        node = node.operands[0]
    assert isinstance(node, Apply), "only ops have operands by name"
    return " ".join(optional_operands(_OPERANDS[node.opcode], len(node.operands), node.attribute(SEGMENTS)))


def named_after(node: Apply, suffix: str) -> str | None:
    """The op_name of an op made beside another; None where that has none."""
    name = node.attributes.get("op_name")
    return f"{name}-{suffix}" if name else None


def seed_for(node: Apply, first: int | None) -> int:
    """The seed of the mask that stands for a node.

    The given seed, as long as no mask of the module has it; else 63 bits of a hash of that seed, the node's op_name,
    its name and its graph's. So the first match gets the given one and later ones get distinct ones, whatever else is
    rewritten in between; without a given one all are such hashes.
    """
    if first is not None and not -(1 << _SEED_BITS) <= first < 1 << _SEED_BITS:
        raise HloomError(f"the seed {first} does not fit into 64 bits")
    if first is not None and not _is_taken(first, node):
        return first
    key = (first, node.attributes.get("op_name"), node.name, node.graph.name)
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "big") >> (64 - _SEED_BITS)


def _is_taken(seed: int, node: Node) -> bool:
    return any(
        isinstance(member, Apply) and member.opcode == _MASK and plain(member.attribute("seed")) == seed
        for graph in node.graph.module.graphs
        for member in graph.nodes
    )


register("oneflow.operands", operands_of)
register("oneflow.named-after", named_after)
register("oneflow.seed", seed_for)
register("oneflow.short-name", lambda opcode: opcode.removeprefix("oneflow."))

"""Views: the value that an operand is transposed and reshaped from, and how their dimensions correspond.

`dot_merger.py` uses them to find operands that several dots share.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from hloom.ir import Apply, Node, node_axes

MOST_VIEWS = 8
"""The maximum number of stacked transposes and reshapes to look through."""
Label = int | None
"""The dimension of the shared value that a dimension corresponds to; None for size 1."""
Places = dict[int, tuple[int, ...]]
"""For each dimension of an operand, the dimensions it is split into."""


def view_of(node: Node) -> tuple[Node, tuple[Label, ...], Places]:
    """The value that a node is a view of, and the value's dimension for each dimension of the node."""
    labels: list[Label] = [dim if size != 1 else None for dim, size in enumerate(node.dims)]
    order: list[Label] = list(labels)
    for _ in range(MOST_VIEWS):
        if node.opcode != "transpose" and (node.opcode != "reshape" or _large(node) != _large(node.operands[0])):
            break
        axes = node_axes(node) if isinstance(node, Apply) else None
        assert axes is not None, "every op that moves elements has axes"
        order = [None if label is None else axes.source_dims()[label] for label in order]
        node = node.operands[0]
    return node, tuple(order), {dim: (dim,) for dim in range(len(order))}


@dataclass(frozen=True, slots=True)
class _Block:
    """Some dimensions one after the other, and the dimensions of a value that they are made of, in order."""

    count: int
    made_of: tuple[int, ...]


def split_view_of(node: Node, fixed: Collection[int]) -> tuple[Node, tuple[Label, ...], Places] | None:
    """As `view_of`, with the node reshaped so that no dimension joins several; None if it is not such a view.

    The fixed dimensions must be one or several whole dimensions of the value.
    """
    chain: list[Node] = []
    while len(chain) < MOST_VIEWS and node.opcode in ("reshape", "transpose") and "sharding" not in node.attributes:
        chain.append(node)
        node = node.operands[0]
    for length in range(len(chain), 0, -1):
        source = chain[length - 1].operands[0]
        blocks = _blocks(source, chain[:length][::-1])
        if blocks is None:
            continue
        labels, places, dim = list[Label](), Places(), 0
        for block in blocks:
            if block.count == 1:
                places[dim] = tuple(range(len(labels), len(labels) + max(len(block.made_of), 1)))
            labels += block.made_of or (None,)
            dim += block.count
        if all(dim in places for dim in fixed):
            return source, tuple(labels), places
    return None


def _blocks(source: Node, chain: Sequence[Node]) -> list[_Block] | None:
    """How transposes and reshapes map a value's dimensions; None if a part of one is moved separately."""
    sizes = source.dims
    if 0 in sizes:
        return None
    blocks: list[_Block] | None = [_Block(1, () if size == 1 else (dim,)) for dim, size in enumerate(sizes)]
    for node in chain:
        if node.opcode == "transpose":
            blocks = _transposed(blocks, node.attributes["dimensions"])
        else:
            blocks = _reshaped(blocks, sizes, node.dims)
        if blocks is None:
            return None
    return blocks


def _transposed(blocks: Sequence[_Block], order: Sequence[int]) -> list[_Block] | None:
    starts: dict[int, _Block] = {}
    start = 0
    for block in blocks:
        starts[start] = block
        start += block.count
    moved: list[_Block] = []
    at = 0
    while at < len(order):
        block = starts.get(order[at])
        if block is None or tuple(order[at : at + block.count]) != tuple(range(order[at], order[at] + block.count)):
            return None
        moved.append(block)
        at += block.count
    return moved


def _reshaped(blocks: Sequence[_Block], sizes: Sequence[int], dims: Sequence[int]) -> list[_Block]:
    """Blocks of the fewest dimensions that are made of whole blocks; dimensions of size 1 are made of nothing."""
    left = [block for block in blocks if block.made_of]
    result: list[_Block] = []
    at = 0
    while at < len(dims):
        if dims[at] == 1:
            result.append(_Block(1, ()))
            at += 1
            continue
        block, count = left.pop(0), 1
        made_of, before, after = block.made_of, prod(sizes[dim] for dim in block.made_of), dims[at]
        while before != after:
            if before < after:
                more = left.pop(0).made_of
                made_of, before = made_of + more, before * prod(sizes[dim] for dim in more)
            else:
                after *= dims[at + count]
                count += 1
        if [sizes[dim] for dim in made_of] == list(dims[at : at + count]):
            result += [_Block(1, (dim,)) for dim in made_of]
        else:
            result.append(_Block(count, made_of))
        at += count
    return result


def is_split_or_joined(node: Node) -> bool:
    """Whether an operand is made by a reshape that does more than to add and drop dimensions of size 1."""
    for _ in range(MOST_VIEWS):
        if node.opcode not in ("reshape", "transpose"):
            return False
        if node.opcode == "reshape" and _large(node) != _large(node.operands[0]):
            return True
        node = node.operands[0]
    return False


def _large(node: Node) -> list[int]:
    return [size for size in node.dims if size != 1]

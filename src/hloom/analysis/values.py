"""The values of a program as it runs: each array that an instruction makes, from when on and until when it is needed.

Called graphs run where they are called, so there is one line of time for the whole program; the body of a loop runs
once on it. Times count instructions from nought, callees before their callers (xla/hlo/utils/hlo_live_range.cc).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.analysis.sharing import Index
from hloom.ir import Node

Tree = int | tuple
"""The number of a value, or for a tuple the trees of its elements."""


class Merge(NamedTuple):
    """Two values that want one buffer; `may_touch` where the later may be written while the earlier is last read."""

    earlier: int
    later: int
    may_touch: bool


@dataclass(slots=True)
class Values:
    """The values by number, column by column, and what is known of how they share.

    A value is needed from `starts` up to and with `ends`. `overwrites` are the values that an instruction may write
    its result over if they die there; with them, whether the value's own maker is the operand. `steps` is the
    instruction at each time.
    """

    nodes: list[Node] = field(default_factory=list)
    indices: list[Index] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    overwrites: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    merges: list[Merge] = field(default_factory=list)
    steps: list[Node] = field(default_factory=list)
    parameters: list[Tree] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    output: Tree = ()
    opaque_calls: int = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: Node, size: int, start: int, index: Index = ()) -> int:
        """A further value; its number."""
        number = len(self.nodes)
        self.nodes.append(node)
        self.indices.append(index)
        self.sizes.append(size)
        self.starts.append(start)
        self.ends.append(start)
        return number


def leaves(tree: Tree) -> list[int]:
    """The numbers of all values in a tree, in order."""
    found: list[int] = []
    pending: list[Tree] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, int):
            found.append(part)
        else:
            pending.extend(reversed(part))
    return found


def part_at(tree: Tree | None, index: Index) -> Tree | None:
    """The element of a tree that stands there; None where there is none."""
    for place in index:
        if not isinstance(tree, tuple) or place >= len(tree):
            return None
        tree = tree[place]
    return tree

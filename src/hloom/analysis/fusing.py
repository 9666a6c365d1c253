"""What a compiler would fuse: groups of instructions of a text before optimisation that run as one.

The model is simple and meant for estimates. An instruction that works element by element, or only chooses or moves
elements, joins the group of its users where they all are in one group that takes it in; a reduction takes in but does
not join. So only the last instruction of a group is written to memory. Broadcasts and iotas are made anew in every
group that reads them. Reshapes cost nothing, nor do transposes that only dots read. Compilers fuse more (producers
into several users, siblings) and less (too large groups, bad access patterns).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hloom.analysis.sharing import ELEMENTWISE
from hloom.analysis.sizes import elements, leaf_bytes
from hloom.ir import Apply, Constant, Graph, Module, Node, Type

SLICES = frozenset(("slice", "dynamic-slice", "gather"))
"""Opcodes that read of their first operand only what they give."""
MOVES = frozenset(("broadcast", "concatenate", "iota", "pad", "reverse", "transpose"))
FREE = frozenset(("bitcast", "reshape"))
PLUMBING = frozenset(
    ("add-dependency", "after-all", "domain", "get-tuple-element", "opt-barrier", "parameter", "tuple", "tuple-select")
)
"""Opcodes that pass values on without touching them."""
REMADE = frozenset(("broadcast", "iota"))
"""Opcodes so cheap that every group makes their values anew."""
JOINS = ELEMENTWISE | SLICES | MOVES | FREE
"""Opcodes that become part of their users' group."""
TAKES = JOINS | {"reduce", "dynamic-update-slice", "map"} - {"gather"}
"""Opcodes whose group takes in what makes their operands."""
DOTS = frozenset(("convolution", "dot", "ragged-dot", "scaled-dot"))
"""Opcodes that read their operands in any order of dimensions."""


@dataclass(slots=True, eq=False)
class Group:
    """Instructions that run as one: the last of them, which alone is written, and all, the last one first."""

    root: Apply
    members: list[Apply] = field(default_factory=list)


def is_fused(module: Module) -> bool:
    """Whether a compiler has made fusions already."""
    return any(node.opcode == "fusion" for node in module.nodes())


class Fusing:
    """The groups of a module's graphs; `is_done` says that the compiler has made its own, and each is alone."""

    def __init__(self, is_done: bool) -> None:
        self.is_done = is_done
        self._inlined: dict[Graph, bool] = {}

    def groups(self, graph: Graph) -> list[Group]:
        """The groups of a graph, the last one first; instructions that only pass values on are in none."""
        if self.is_done:
            return [Group(node, [node]) for node in _work(graph) if node.opcode not in FREE]
        made = _Assigned(self)
        for node in _work(graph):
            made.enter(node, node is graph.output)
        return [group for group in made.groups if not made.is_free(group)]

    def takes(self, node: Node) -> bool:
        """Whether an instruction's group takes in what makes its operands."""
        return node.opcode in TAKES or self.is_inlined(node)

    def joins(self, node: Node) -> bool:
        """Whether an instruction may become part of its user's group."""
        return node.opcode in JOINS or self.is_inlined(node)

    def is_inlined(self, node: Node) -> bool:
        """Whether a call is of a function that only works element by element, so that it is one operation here."""
        graph = node.attributes.get("to_apply") if node.opcode == "call" else None
        return isinstance(graph, Graph) and self.is_pointwise(graph)

    def is_pointwise(self, graph: Graph) -> bool:
        """Whether all of a graph would become part of a caller's group."""
        if self.is_done or graph is graph.module.entry:
            return False
        if graph not in self._inlined:
            self._inlined[graph] = False  # a circle of calls ends here
            inside = [each for each in graph.nodes if isinstance(each, Apply)]
            self._inlined[graph] = all(each.opcode not in SLICES and self.joins(each) for each in inside)
        return self._inlined[graph]


def _work(graph: Graph) -> Iterator[Apply]:
    """The instructions that do something, the last one first."""
    return (node for node in reversed(graph.nodes) if isinstance(node, Apply))


class _Assigned:
    """The groups that a graph's instructions are in, as they are entered from the last to the first."""

    def __init__(self, fusing: Fusing) -> None:
        self.fusing = fusing
        self.groups: list[Group] = []
        self._user: dict[Node, Group | None] = {}  # the one group of all users so far; None where there are several
        self._needed: set[Node] = set()  # read by what does not take in what makes its operands

    def enter(self, node: Apply, is_output: bool) -> None:
        """Put an instruction into its user's group, or into one of its own; all its users are in theirs."""
        takes = self.fusing.takes(node)
        group = None if is_output else self._user.get(node)
        joins = node not in self._needed and self.fusing.joins(node)
        if group is None and joins and not is_output and node.opcode in REMADE and node in self._user:
            return
        if group is None or not joins:
            group = Group(node)
            if node.opcode not in PLUMBING:
                self.groups.append(group)
        group.members.append(node)
        for operand in node.inputs:
            if self._user.setdefault(operand, group) is not group:
                self._user[operand] = None
            if not takes:
                self._needed.add(operand)

    def is_free(self, group: Group) -> bool:
        """Whether a group only looks at memory in another way."""
        if all(member.opcode in FREE for member in group.members):
            return True
        only = group.root.opcode == "transpose" and len(group.members) == 1
        user = self._user.get(group.root)
        return only and user is not None and user.root.opcode in DOTS


def border_bytes(group: Group, type_of: Callable[[Node], Type | None]) -> int:
    """The bytes that cross a group's border: what its instructions read from outside, once each, and the result."""
    inside = set(group.members)
    read = 0
    seen: set[Node] = set()
    for member in group.members:
        for place, operand in enumerate(member.inputs):
            if operand in inside or operand in seen:
                continue
            if place == 0 and member.opcode in SLICES:
                read += leaf_bytes(type_of(member))
            elif place == 0 and member.opcode == "dynamic-update-slice":
                continue  # changed where it lies
            else:
                seen.add(operand)
                read += _operand_bytes(operand, type_of)
    return read + leaf_bytes(type_of(_written(group.root)))


def _operand_bytes(operand: Node, type_of: Callable[[Node], Type | None]) -> int:
    """What reading an operand takes; what is made anew takes what it is made of."""
    if isinstance(operand, Constant) and elements(operand.type) <= 1:
        return 0
    if operand.opcode in REMADE:
        return sum(leaf_bytes(type_of(each)) for each in operand.inputs)
    return leaf_bytes(type_of(operand))


def _written(root: Apply) -> Node:
    """What is written of a group's last instruction: an array that is updated is written where it changes."""
    return root.inputs[1] if root.opcode == "dynamic-update-slice" and len(root.inputs) > 1 else root

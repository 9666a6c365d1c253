"""What a module's figures omit or assume because of dimensions that vary; empty if all sizes are known.

A dimension without a bound counts as 0 (`sizes.py`), as in XLA; one with a bound counts as the bound.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from hloom.ir import UNBOUNDED, Module, Node, TensorType, Type
from hloom.text import count_text


@dataclass(frozen=True, slots=True)
class SizeNote:
    """How many instructions have a dimension without a bound, and how many have only bounded ones.

    `unbounded` and `bounded` are the texts of the first of each.
    """

    unbounded_count: int = 0
    bounded_count: int = 0
    unbounded: str = ""
    bounded: str = ""

    def __bool__(self) -> bool:
        return bool(self.unbounded_count or self.bounded_count)

    @property
    def qualifier(self) -> str:
        """The word before a figure: "at least" if sizes count as 0, "at most" if they count as bounds."""
        return _QUALIFIERS[bool(self.unbounded_count), bool(self.bounded_count)]

    def __str__(self) -> str:
        parts: list[str] = []
        if self.unbounded_count:
            parts.append(
                f"without the sizes of {count_text(self.unbounded_count, 'instruction')} that have a dimension without "
                f"a bound, such as {self.unbounded}"
            )
        if self.bounded_count:
            parts.append(
                f"{count_text(self.bounded_count, 'instruction')} of dynamic sizes count at their bounds, such as "
                f"{self.bounded}"
            )
        return "; ".join(parts)


_QUALIFIERS = {
    (False, False): "", (True, False): "at least ", (False, True): "at most ", (True, True): "roughly ",
}  # fmt: skip
"""The qualifier, by whether unbounded sizes are omitted and whether bounds count as sizes."""
ALL_KNOWN = SizeNote()
"""For a module whose sizes are all known."""


def size_note(module: Module) -> SizeNote:
    """What a module's figures omit or assume; false if all sizes are known."""
    known: dict[Type | None, str] = {}
    first: dict[str, str] = {}
    counts = {"unbounded": 0, "bounded": 0}
    for node in _nodes(module):
        name = known.get(node.type)
        if name is None:
            name = known[node.type] = _variety(node.type)
        if name:
            counts[name] += 1
            first.setdefault(name, f"{node.name}: {node.type}")
    return SizeNote(counts["unbounded"], counts["bounded"], first.get("unbounded", ""), first.get("bounded", ""))


def varieties(nodes: Iterable[Node]) -> frozenset[str]:
    """The kinds of varying sizes that some instructions read or write: "unbounded", "bounded"."""
    types = {value.type for node in nodes for value in (node, *node.operands)}
    return frozenset(filter(None, map(_variety, types)))


def qualifier(kinds: Container[str]) -> str:
    """The word before a figure for instructions with these kinds of sizes."""
    return _QUALIFIERS["unbounded" in kinds, "bounded" in kinds]


def type_qualifier(value_type: Type | None) -> str:
    """The word before the bytes of a value."""
    return qualifier((_variety(value_type),))


def _nodes(module: Module) -> Iterator[Node]:
    for graph in module.graphs:
        yield from graph.parameters
        yield from (node for node in graph.nodes if node.opcode != "parameter")


def _variety(value_type: Type | None) -> str:
    """Whether a type's arrays have a dimension without a bound, or with one; empty if all sizes are known."""
    variety = ""
    for leaf in value_type.leaves() if value_type is not None else ():
        if isinstance(leaf, TensorType) and UNBOUNDED in leaf.dims:
            return "unbounded"
        if isinstance(leaf, TensorType) and leaf.dynamic is not None:
            variety = "bounded"
    return variety

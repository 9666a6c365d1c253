"""Instructions computed twice, so that readers of one value can have it in two layouts.

A duplicate copies cheap instructions, so that a value is recomputed in another layout instead of being resharded:

    mask = f32[64,64] broadcast(row), dimensions={1}
    y = f32[64,64] multiply(x, mask)                      mask: [data,-]
    z = f32[64,8] dot(mask, w), ...                       mask: [-,data], an all-to-all
      ->
    mask = f32[64,64] broadcast(row), dimensions={1}
    mask.clone = f32[64,64] broadcast(row), dimensions={1}
    y = f32[64,64] multiply(x, mask)
    z = f32[64,8] dot(mask.clone, w), ...

XLA's CSE compares shardings (HloCSE in xla/service/hlo_cse.cc, `sharding_sensitive`), so clones with other shardings
survive until partitioning. Broadcasts of scalars do not: XLA recomputes these in any sharding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Graph, Module, Node, reachable
from hloom.sharding import Spec
from hloom.text import HloomError

ENTRY = "entry"
"""The name of the entry in plans."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Instructions of a computation with the names of their clones, operands first, and who reads the clones.

    `reads` are operands, by the reader's name and the operand's index: each is a cloned instruction, and becomes its
    clone. Clones read clones.
    """

    computation: str
    clones: tuple[tuple[str, str], ...]
    reads: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object of the three."""
        return {
            "computation": self.computation,
            "clones": [list(pair) for pair in self.clones],
            "reads": [list(read) for read in self.reads],
        }

    @classmethod
    def from_json(cls, value: Any) -> Duplicate:
        """From its JSON; raises HloomError where that is none."""
        try:
            clones = tuple((_name(name), _name(clone)) for name, clone in value["clones"])
            reads = tuple((_name(reader), _index(operand_index)) for reader, operand_index in value["reads"])
            return cls(_name(value["computation"]), clones, reads)
        except (KeyError, TypeError, ValueError):
            hint = '{"computation": "entry", "clones": [["mask", "mask.clone"]], "reads": [["dot.1", 0]]}'
            raise HloomError(f"{value!r} is not a duplicate", hint=hint) from None

    def put(self, graph: Graph) -> None:
        """Put the clones into a computation, before the first of the readers, and let these read them.

        Raises HloomError, before anything is changed, where it has no such instructions, or has a clone's name already.
        """
        first = self._checked(graph)
        mapping: dict[Node, Node] = {}
        for name, clone in self.clones:
            graph.rename(graph.copy_node(graph[name], mapping, before=first), clone)
        for name, operand_index in self.reads:
            reader = graph[name]
            inputs = list(reader.operands)
            inputs[operand_index] = mapping[inputs[operand_index]]
            graph.set_operands(reader, inputs)

    def _checked(self, graph: Graph) -> Node:
        """The first of the readers in a computation that has all that is named."""
        for name in (*(name for name, _ in self.clones), *(name for name, _ in self.reads)):
            if name not in graph:
                hint = "is it another module's plan?"
                raise HloomError(f"the plan names {name}, which {graph.name} has not", hint=hint)
        if not self.reads:
            raise HloomError(f"the plan clones instructions of {graph.name} that nothing reads")
        cloned = {graph[name] for name, _ in self.clones}
        for name, operand_index in self.reads:
            inputs = graph[name].operands
            if not 0 <= operand_index < len(inputs) or inputs[operand_index] not in cloned:
                raise HloomError(f"the plan lets {name} read a clone as operand {operand_index}, which has none")
        first = min((graph[name] for name, _ in self.reads), key=graph.nodes.index)
        for name, clone in self.clones:
            if clone in graph:
                raise HloomError(f"the plan clones {name} as {clone}, which {graph.name} has already")
            if not isinstance(graph[name], Apply) or not graph.comes_before(graph[name], first):
                raise HloomError(f"the plan clones {name}, which is not an instruction before {first.name}")
        return first


def clone_name(name: str, taken: set[str]) -> str:
    """A name for a clone, which joins those that are taken."""
    clone, number = f"{name}.clone", 0
    while clone in taken:
        number += 1
        clone = f"{name}.clone.{number}"
    taken.add(clone)
    return clone


def put_duplicates(module: Module, duplicates: Iterable[Duplicate]) -> None:
    """Put duplicates into a module in canonical form; raises HloomError if it lacks what they name."""
    graphs = _graphs(module)
    for duplicate in duplicates:
        if duplicate.computation not in graphs:
            what = f"the plan names {duplicate.computation}, which {module.name} has not"
            raise HloomError(what, hint="is it another module's plan?")
        duplicate.put(graphs[duplicate.computation])


def put_known_duplicates(module: Module, duplicates: Iterable[Duplicate]) -> list[Duplicate]:
    """Put those duplicates into a module that it has the instructions for; which these are."""
    known: list[Duplicate] = []
    for duplicate in duplicates:
        try:
            put_duplicates(module, [duplicate])
        except HloomError:
            continue
        known.append(duplicate)
    return known


def needed_duplicates(module: Module, duplicates: Sequence[Duplicate], specs: Mapping[Node, Spec]) -> list[Duplicate]:
    """The part of the duplicates a module has whose clones have other specs than their originals.

    A clone with its original's spec is dropped, and its readers read the original.
    """
    graphs = _graphs(module)
    needed = [_needed(duplicate, graphs[duplicate.computation], specs) for duplicate in duplicates]
    return [duplicate for duplicate in needed if duplicate.reads]


def _needed(duplicate: Duplicate, graph: Graph, specs: Mapping[Node, Spec]) -> Duplicate:
    apart = {graph[clone] for name, clone in duplicate.clones if _is_apart(graph[clone], graph[name], specs)}
    reads = tuple(read for read in duplicate.reads if graph[read[0]].operands[read[1]] in apart)
    read = [graph[name].operands[operand_index] for name, operand_index in reads]
    kept = reachable(read, lambda clone: [operand for operand in clone.operands if operand in apart])
    clones = tuple(pair for pair in duplicate.clones if graph[pair[1]] in kept)
    return Duplicate(duplicate.computation, clones, reads)


def _is_apart(clone: Node, original: Node, specs: Mapping[Node, Spec]) -> bool:
    """Whether a clone has a spec of its own, as a free one has that of its reader."""
    return clone not in specs or specs[clone] != specs.get(original)


def _graphs(module: Module) -> dict[str, Graph]:
    return {graph.name: graph for graph in module.graphs} | {ENTRY: module.entry}


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _index(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value

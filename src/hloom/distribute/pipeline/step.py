"""Splits a step over a batch into three parts: before its microbatches, per microbatch, and after them.

`hloom.microbatch` writes a step as a loop over slices of its batch; a step that accumulates gradients has such a loop
(`accumulation.py`). What its entry holds before the loop is the same for all microbatches (weights converted, masks),
its body is the program of one microbatch, and what follows the loop needs the sums over all of them (the optimizer).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hloom.analysis import BROADCASTS, ELEMENTWISE, called_computations
from hloom.distribute.microbatch import Batch, check_likeliest_batch, microbatch_loop
from hloom.distribute.pipeline.accumulation import accumulation_loop
from hloom.ir import (
    Apply,
    Constant,
    Effect,
    Graph,
    Module,
    Node,
    Parameter,
    TensorType,
    Trait,
    operands_of,
    reachable,
    verify,
)
from hloom.ops import OPS, effect_of, may_merge, with_trait
from hloom.text import HloomError

GET = "get-tuple-element"
MOVING = BROADCASTS | (with_trait(Trait.MOVES_DATA) - {"dynamic-reshape", "dynamic-update-slice", "gather"})
"""Opcodes that move elements: with elementwise ones they cost next to nothing, unlike updates and what looks up."""
NEEDED = frozenset(("computation", "operand", "type"))
"""The kinds of names that must be resolved in a program to split."""
LEAST_SHARE = 0.5
"""The minimum share of the work that must depend on the microbatch if the user did not name the batch."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value that is carried from microbatch to microbatch.

    `before` and `after` are nodes of the body: the value as it was, and as this microbatch leaves it. `initial` and
    `total` are nodes of the entry: what it starts from, and what all microbatches make of it.
    """

    before: Node
    after: Node
    initial: Node
    total: Node


class BatchedStep:
    """A step, and the program of one of its microbatches."""

    def __init__(self, module: Module, microbatches: int, batch: Batch | str | None = None) -> None:
        """Cut the batch of a step; raises HloomError, or MixedExamples, naming the instruction that forbids it."""
        check_effects(module)
        own = accumulation_loop(module, microbatches)
        written = own if own is not None else microbatch_loop(module, microbatches, batch=batch)
        self.microbatches, self.batch = microbatches, written.batch
        if batch is None and written.share < LEAST_SHARE:
            check_likeliest_batch(module, microbatches)
            names = ", ".join(f"{name} along dimension {dim}" for name, dim in written.batch.items())
            raise HloomError(
                f"{module.name}: with the batch that is proposed, {names}, only {written.share:.0%} of the work is "
                "done microbatch by microbatch",
                hint="name the batch (batch={'inputs': 0}, or --batch inputs:0) to see where examples mix",
            )
        self.module, self.loop, self.batch_dims = written.module, written.loop, written.batch_dims
        self.entry, self.body = self.module.entry, written.body
        _drop_annotations(self.module)
        self.module.index_users()
        self._take_apart(written.counter)

    def _take_apart(self, counter: int) -> None:
        """Tell the elements of the loop's state apart, of which one counts."""
        (state,) = self.body.parameters
        inside = {user.attributes["index"]: user for user in state.users}
        outside = {user.attributes["index"]: user for user in self.loop.users}
        initial = self.loop.operands[0].operands
        self.counter: Node | None = inside.get(counter)
        self.captured: dict[Node, Node] = {}
        self.accumulators: list[Accumulator] = []
        for index, after in enumerate(self.body.root.operands):
            if index == counter:
                continue
            before = inside.get(index)
            if before is not None and after is before:
                self.captured[before] = initial[index]
                if index in outside:
                    self.entry.replace_uses(outside[index], initial[index])
            elif index in outside:
                if before is None:  # nothing is added up: the value of the last microbatch stays
                    before = self.body.add_apply(OPS[GET], (state,), after.type, {"index": index})
                self.accumulators.append(Accumulator(before, after, initial[index], outside[index]))
        self._copy_constants()

    def _copy_constants(self) -> None:
        """Let what is made of constants alone, at no cost, be made in the body."""
        nodes = [node for node in self.body.nodes if not isinstance(node, Parameter)]
        mapping: dict[Any, Any] = {}
        for before, initial in list(self.captured.items()):
            made_of = entry_ancestors(self.entry, [initial])
            if all(isinstance(node, Constant) or node.opcode in ELEMENTWISE | MOVING for node in made_of):
                self.body.copy_nodes(made_of, mapping, before=nodes[0])
                self.body.replace_uses(before, mapping[initial])
                del self.captured[before]

    def add_accumulator(self, like: Accumulator, value: Node, operation: Node) -> Accumulator:
        """A further accumulator, which starts as another does and to which `value` is added as `operation` adds."""
        held = like.before.type
        before = self.body.add_parameter(held, f"{like.before.name}.part")
        assert isinstance(operation, Apply)
        after = self.body.add_apply(operation.function, (before, value), held)
        total = self.entry.add_apply(OPS[GET], (self.loop,), held, like.total.attributes, before=like.total)
        return Accumulator(before, after, like.initial, total)

    @cached_property
    def order(self) -> dict[Node, int]:
        """The position of each node of the body."""
        return {node: number for number, node in enumerate(self.body.nodes)}

    @cached_property
    def batches(self) -> frozenset[Node]:
        """The captured values of which each microbatch reads its slice."""
        if self.counter is None:
            return frozenset()
        counted = {self.counter}
        for node in self.body.nodes:
            if node.opcode in ELEMENTWISE and any(operand in counted for operand in node.operands):
                counted.add(node)
        taken = (node for node in self.body.nodes if node.opcode == "dynamic-slice")
        sliced = {_source(node.operands[0]) for node in taken if any(start in counted for start in node.operands[1:])}
        return frozenset(sliced & self.captured.keys())

    @property
    def batch_parameters(self) -> frozenset[int]:
        """The numbers of the parameters of which microbatches read slices."""
        initial = (self.captured[batch] for batch in self.batches)
        return frozenset(parameter.number for node in initial for parameter in parameters_of(node))

    @cached_property
    def weights(self) -> frozenset[Node]:
        """The captured floating-point arrays that are not batch."""
        return frozenset(
            node
            for node in self.captured
            if node not in self.batches
            and isinstance(node.type, TensorType)
            and node.type.rank
            and node.type.dtype.is_float
        )

    @cached_property
    def free(self) -> frozenset[Node]:
        """The nodes of the body that each stage computes for itself: cheap ones, of the batch and of constants alone.

        Tuples are among them: they are put together where they are read.
        """
        free: set[Node] = set()
        given = self.captured.keys() - self.weights
        for node in self.body.nodes:
            if node.opcode == "tuple" or isinstance(node, Constant):
                free.add(node)
            elif node.opcode in ELEMENTWISE or node.opcode in MOVING:
                known = all(operand in free or operand in given or operand is self.counter for operand in node.operands)
                if known and node not in given and not any(operand.opcode == "tuple" for operand in node.operands):
                    free.add(node)
        return frozenset(free)

    @property
    def given(self) -> frozenset[Node]:
        """The nodes of the body that no instruction computes."""
        (state, *added) = self.body.parameters
        known = {state, *added, *self.captured, *(accumulator.before for accumulator in self.accumulators)}
        return frozenset(known | ({self.counter} if self.counter is not None else set()))

    def reads(self, node: Node) -> tuple[Node, ...]:
        """The arrays that a node reads, those that are computed anywhere followed to what they are made of.

        Of a tuple that an instruction yields these are its elements, as `get-tuple-element`s.
        """
        reached = reachable(reversed(node.operands), lambda read: read.operands[::-1] if read in self.free else ())
        return tuple(operand for operand in reached if operand not in self.free)


def owner(node: Node) -> Node:
    """The instruction that makes a value: elements of a tuple belong to what yields it, but for those of parameters."""
    while node.opcode == GET and not isinstance(node.operands[0], Parameter):
        node = node.operands[0]
    return node


def check_effects(module: Module) -> None:
    """Raise HloomError for an instruction that does more than to yield its value, or that talks to other devices.

    And for a fragment, of which something that is needed is not known.
    """
    gaps = [gap for gap in verify(module).unresolved if gap.referent in NEEDED]
    if gaps:
        raise HloomError(
            f"{module.name} is a fragment, and cannot be cut into pipeline stages: the {gaps[0]} is not known",
            hint="cut the whole program",
        )
    for node in module.nodes():
        if isinstance(node, Apply) and not may_merge(node) and not called_computations(node):
            effect = effect_of(node)
            if effect is Effect.ORDER and node.opcode in ("after-all", "opt-barrier"):
                continue
            what = effect.value if effect is not None else "an effect"
            raise HloomError(
                f"{node.name} ({node.opcode}) in {node.graph.name} has an effect beyond its result ({what}): "
                "its program cannot be cut into pipeline stages",
                hint="cut the program of one device, before it is partitioned, with random numbers from keys",
            )


def _drop_annotations(module: Module) -> None:
    """Leave out what is said about devices and about order: the stages have others."""
    for graph in module.graphs:
        for node in graph.nodes:
            dropped = [name for name in ("sharding", "control-predecessors") if name in node.attributes]
            if dropped:
                graph.set_attributes(node, node.attributes.changed(dict.fromkeys(dropped)))


def _source(node: Node) -> Node:
    """What a value is a reshape or a copy of."""
    while node.opcode in ("reshape", "copy"):
        node = node.operands[0]
    return node


def byte_count(node: Node) -> int:
    """The bytes of a value."""
    return node.type.byte_count if node.type is not None else 0


def entry_ancestors(graph: Graph, outputs: list[Node]) -> list[Node]:
    """The nodes that some nodes of a graph are made of, in order, with these."""
    needed = reachable(outputs, operands_of)
    return [node for node in graph.nodes if node in needed]


def parameters_of(node: Node) -> list[Parameter]:
    """The parameters of the entry that a value is made of, by number."""
    made_of = (other for other in reachable([node], operands_of) if isinstance(other, Parameter))
    return sorted(made_of, key=lambda parameter: parameter.number)

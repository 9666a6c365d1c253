"""Observes which elements of a weight a product reads, and with which activations, as a program is evaluated.

A weight that a loop slices out of a stack is read in pieces: positions are tracked through the movements between the
parameter and the product, with the slice starts at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hloom.compress.quantization.weight_slices import MovementPath, matrices, moved_positions, movement_path
from hloom.compress.quantization.weights import WeightUse, uses_of
from hloom.evaluator import Value, evaluate
from hloom.ir import Module, Node


@dataclass(frozen=True, slots=True)
class Observation:
    """One execution of a product.

    `positions` of the weight's elements are [batch, summed, free], the activation is [batch, rows, summed]; batch and
    summed dimensions are in the activation's order, so that they are alike for all readers of one activation.
    """

    number: int
    positions: np.ndarray
    activation: np.ndarray
    positions_of: Callable[[MovementPath], np.ndarray]
    """The positions of the elements that another path reads of its parameter, in this round."""

    @property
    def key(self) -> int:
        """Which piece of the weight it is: its first position."""
        return int(self.positions.flat[0]) if self.positions.size else 0


def sole_dots(module: Module, numbers: Iterable[int]) -> dict[int, WeightUse]:
    """By a parameter's number its use, for those that one dot alone reads, by movements alone."""
    entry, readers = module.entry, dict[int, WeightUse]()
    for number in numbers:
        parameter = entry.parameters[number]
        uses = uses_of(parameter)
        if len(uses) == 1 and uses[0].node.opcode == "dot":
            use = uses[0]
            if movement_path(use.node.operands[use.operand_index]).source is parameter:
                readers[number] = use
    return readers


def observe_products(
    module: Module,
    readers: Mapping[int, WeightUse],
    batches: Sequence[Sequence[Any]],
    see: Callable[[Observation], None],
    further: Iterable[MovementPath] = (),
) -> None:
    """Evaluate a module on all inputs, and call `see` for every execution of the products that read these parameters.

    `further` are paths whose positions may be asked for.
    """
    paths = {number: movement_path(use.node.operands[use.operand_index]) for number, use in readers.items()}
    starts = {start for path in (*paths.values(), *further) for step in path.steps for start in step.operands[1:]}
    activations = {use.node.operands[1 - use.operand_index] for use in readers.values()}
    products: dict[Node, list[int]] = {}
    for number, use in readers.items():
        products.setdefault(use.node, []).append(number)
    latest: dict[Node, np.ndarray] = {}

    def positions_of(path: MovementPath) -> np.ndarray:
        dims = path.source.array_type.dims
        positions = np.arange(prod(dims)).reshape(dims)
        for step in path.steps:
            positions = moved_positions(step, positions, latest)
        return positions

    def watch(node: Node, value: Value) -> None:
        if node in starts or node in activations:
            latest[node] = np.asarray(value)
        for number in products.get(node, ()):
            use = readers[number]
            activation = latest[use.node.operands[1 - use.operand_index]]
            see(Observation(number, *matrices(use, positions_of(paths[number]), activation), positions_of))

    for arrays in batches:
        evaluate(module, list(arrays), observe=watch)

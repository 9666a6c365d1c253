"""The state of a value when the program runs on one slice of the batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hloom.distribute.propagation import Leaf
from hloom.ir import Node, TensorType, Type
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class Sliced:
    """A value of which each iteration has a part: of `dimension`, in each of its `front` equal parts.

    With front 1 the iterations have consecutive pieces. A reshape of [8,32] to [256] puts 8 parts before a dimension
    of 32: slices of it are then pieces of each of these.
    """

    dimension: int
    front: int = 1


@dataclass(frozen=True, slots=True)
class PartialResult:
    """A value that is combined from those of all iterations, by an opcode: `add` for sums."""

    reducer: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A value that is the same in every iteration."""


@dataclass(frozen=True, slots=True)
class Final:
    """A value that needs what all iterations yield together, so it comes after the loop."""


State: TypeAlias = Whole | Sliced | PartialResult | Final
WHOLE, FINAL = Whole(), Final()


class MixedExamples(HloomError):
    """An instruction that needs several examples of a batch together, so the batch cannot be cut.

    `node` is the instruction, `path` the way from the batch to it, and `combined` the first instruction on it that
    yields a sum (or a maximum, ...) over the batch; None where there is none.
    """

    def __init__(self, node: Node, reason: str, path: tuple[Leaf, ...], combined: Node | None = None) -> None:
        self.node, self.path, self.combined = node, path, combined
        way = " -> ".join(_shortened([leaf.node.name for leaf in path]))
        super().__init__(
            f"{node.name} ({node.opcode}) in {node.graph.name} mixes the examples of the batch: {reason}",
            hint=f"the way from the batch to it: {way}" if way else None,
        )


def _shortened(names: list[str], most: int = 12) -> list[str]:
    """A list of names with its middle left out where it is long."""
    return names if len(names) <= most else [*names[: most // 2], "...", *names[-most // 2 :]]


def local_type(value_type: Type, state: State, count: int) -> Type:
    """The type that a value has in one of `count` iterations."""
    if not isinstance(state, Sliced) or not isinstance(value_type, TensorType):
        return value_type
    dims = list(value_type.dims)
    dims[state.dimension] //= count
    return TensorType(value_type.dtype, dims, value_type.layout, value_type.dynamic)

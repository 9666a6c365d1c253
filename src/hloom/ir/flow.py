"""How values flow through an op: the computations it calls and the operands it passes on.

Source: xla/service/call_graph.cc, GetInstructionCallContext; xla/hlo/analysis/hlo_dataflow_analysis.cc,
HloDataflowAnalysis::UpdateInstructionValueSet and what it calls (jaxlib 0.10.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Index = tuple[int, ...]
"""A shape index: the path to an element of nested tuples; () is the array or tuple itself."""


class Runs(Enum):
    """How often a computation runs each time its caller runs."""

    ONCE = "once"
    PER_ITERATION = "once per iteration of the loop"
    PER_TEST = "once before each iteration of the loop, and once at its end"
    IF_TAKEN = "once if its branch is taken"


class Arguments(Enum):
    """Which operands become a callee's parameters."""

    SHARED = "every callee takes all operands, in order"
    SEPARATE = "the k-th callee takes the k-th operand alone"


class Forwarding(Enum):
    """What an element of a result shares with the operand it comes from."""

    VALUE = "another name of the same value"
    BUFFER = "the same bytes; its type or its sharding may be another"
    COPY = "an equal value in a buffer of its own"

    @property
    def shares_buffer(self) -> bool:
        """Whether the element occupies the operand's buffer."""
        return self is not Forwarding.COPY


@dataclass(frozen=True, slots=True)
class Callee:
    """The attribute that holds a computation, or a tuple of them, and how often each one runs."""

    attribute: str
    runs: Runs = Runs.ONCE


@dataclass(frozen=True, slots=True)
class ForwardedElement:
    """An element of a result that an operand determines.

    `source` is an index into the tuple of all operands, in which a string stands for an attribute's value: (0, 1) is
    element 1 of the first operand, () all operands as a tuple, or the first where the result's element is an array.
    `target` is the index of the result's element.
    """

    source: tuple[int | str, ...]
    target: Index
    forwarding: Forwarding = Forwarding.VALUE


@dataclass(frozen=True, slots=True)
class OpFlow:
    """How values pass through one opcode.

    Operands from `first_operand` on go to the parameters of the callees, as `arguments` says. What a callee yields is
    the result, or its element at `result_index`; a loop's body yields the state for the next iteration, and its
    condition nothing that stays. `is_embedded` says that the callees are part of the instruction (as in a fusion):
    their values have no buffers. `holds_operands` says that operands are in use until the instruction ends, and not
    only until the callees have read them for the last time. `trip_count` reads from a loop's attributes how often its
    body runs: None where they do not say.
    """

    callees: tuple[Callee, ...] = ()
    arguments: Arguments = Arguments.SHARED
    first_operand: int = 0
    result_index: Index = ()
    is_embedded: bool = False
    holds_operands: bool = False
    forwards: tuple[ForwardedElement, ...] = ()
    trip_count: Callable[[Mapping[str, Any]], int | None] | None = None

    is_control_flow: bool = field(init=False)
    """Whether the callees run in place of the instruction and allocate their own buffers."""
    is_plain_call: bool = field(init=False)
    """Whether it runs one computation once on all operands and returns its result unchanged."""
    is_loop: bool = field(init=False)
    """Whether a callee may run any number of times, each time on its previous result."""
    is_branch: bool = field(init=False)
    """Whether only one of the callees runs."""
    attributes: frozenset[str] = field(init=False)
    """The attributes that hold the callees."""
    names_values: bool = field(init=False)
    """Whether it forwards the operands' values, or copies of them, and therefore their shardings."""

    def __post_init__(self) -> None:
        runs = [callee.runs for callee in self.callees]
        is_single = runs == [Runs.ONCE] and not (self.first_operand or self.result_index or self.forwards)
        is_buffer = any(forward.forwarding is Forwarding.BUFFER for forward in self.forwards)
        object.__setattr__(self, "is_control_flow", bool(runs) and not self.is_embedded)
        object.__setattr__(self, "is_plain_call", is_single and not self.is_embedded)
        object.__setattr__(self, "is_loop", Runs.PER_ITERATION in runs)
        object.__setattr__(self, "is_branch", Runs.IF_TAKEN in runs)
        object.__setattr__(self, "attributes", frozenset(callee.attribute for callee in self.callees))
        object.__setattr__(self, "names_values", bool(self.forwards) and not is_buffer)

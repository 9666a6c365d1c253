"""Trip counts of loops: as written, or derived from the loop's condition and body.

A loop is countable if its condition compares linear expressions of state elements that each iteration changes by a
constant; the difference of both sides then changes by a constant too, which gives the number of iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hloom.analysis.call_graph import CallGraph
from hloom.analysis.control_flow import called_computations, callee_of, flow_of, initial_state, is_loop
from hloom.analysis.scalar_evolution import Frame, LinearExpression, ScalarEvolution, Value
from hloom.ir import Apply, DTypeKind, Module, Runs, TensorType
from hloom.text import HloomError, resolve_name

GIVEN, WRITTEN, DERIVED, UNKNOWN = "given", "known_trip_count", "derived", "unknown"
"""How a trip count is known: given by the caller, written in the text, derived, or unknown because it depends on the
data.
"""
_OPPOSITE = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}


@dataclass(frozen=True, slots=True)
class TripCount:
    """The number of iterations of a loop, None if it depends on the data, and how it is known."""

    count: int | None
    source: str


def find_trip_counts(call_graph: CallGraph, given: Mapping[str, int]) -> dict[Apply, TripCount]:
    """The trip count of every loop that runs; `given` is keyed by the name of the while, or `computation/name`.

    Raises HloomError for a name that no loop has, and for a negative count.
    """
    loops = [call for counts in call_graph.computations.values() for call in counts.calls if is_loop(call)]
    stated = _stated(loops, given)
    tracer = ScalarEvolution(call_graph.callers)
    return {loop: stated.get(loop) or _written(loop) or derive_trip_count(loop, tracer) for loop in loops}


def loop_names(module: Module, given: Mapping[str, int]) -> dict[str, int]:
    """The given trip counts by the full names of the loops; raises HloomError for a name that no loop has."""
    loops = [node for node in module.nodes() if isinstance(node, Apply) and is_loop(node)]
    return {loop.name: stated.count for loop, stated in _stated(loops, given).items() if stated.count is not None}


def _stated(loops: list[Apply], given: Mapping[str, int]) -> dict[Apply, TripCount]:
    if not given:
        return {}
    names: dict[str, list[Apply]] = {}
    for loop in loops:
        names.setdefault(loop.name, []).append(loop)
        names.setdefault(f"{loop.graph.name}/{loop.name}", []).append(loop)
    stated: dict[Apply, TripCount] = {}
    for name, count in given.items():
        own = resolve_name(name, names, "the program", "loop")
        if count < 0:
            raise HloomError(f"loop {name} cannot run {count} times")
        stated |= {loop: TripCount(count, GIVEN) for loop in names[own]}
    return stated


def _written(loop: Apply) -> TripCount | None:
    flow = flow_of(loop)
    count = flow.trip_count(loop.attributes) if flow is not None and flow.trip_count is not None else None
    return None if count is None else TripCount(count, WRITTEN)


def derive_trip_count(loop: Apply, tracer: ScalarEvolution) -> TripCount:
    """Derive a loop's trip count, ignoring what the text says."""
    try:
        return _derived(loop, tracer)
    except (LookupError, ValueError):  # a malformed text: a missing attribute, operand or element
        return TripCount(None, UNKNOWN)


def _derived(loop: Apply, tracer: ScalarEvolution) -> TripCount:
    condition, body = callee_of(loop, Runs.PER_TEST), callee_of(loop, Runs.PER_ITERATION)
    if condition is None or body is None or condition.output is None or body.output is None:
        return TripCount(None, UNKNOWN)
    asked = tracer.source(Value(condition.output, (), Frame(loop, None)))
    is_negated = asked.node.opcode == "not"
    if is_negated:
        asked = tracer.source(Value(asked.node.operands[0], (), asked.frame))
    constant = tracer.linear(asked)
    if constant.is_constant:
        return TripCount(0, DERIVED) if bool(constant.constant) == is_negated else TripCount(None, UNKNOWN)
    if asked.node.opcode != "compare" or asked.index:
        return TripCount(None, UNKNOWN)
    direction = asked.node.attributes["direction"]
    return _compared(loop, asked, _OPPOSITE[direction] if is_negated else direction, tracer)


def _compared(loop: Apply, asked: Value, direction: str, tracer: ScalarEvolution) -> TripCount:
    limits = _limits(asked.node.operands[0].type)
    left, right = (_course(loop, tracer.linear(Value(side, (), asked.frame)), tracer) for side in asked.node.operands)
    if limits is None or left is None or right is None:
        return TripCount(None, UNKNOWN)
    start = left[0] - right[0]
    if not start.is_constant:
        return TripCount(None, UNKNOWN)
    count = runs(start.constant, left[1] - right[1], direction)
    if count is None or any(_leaves(first, step, count, limits) for first, step in (left, right) if first.is_constant):
        return TripCount(None, UNKNOWN)
    return TripCount(count, DERIVED)


def _course(loop: Apply, side: LinearExpression, tracer: ScalarEvolution) -> tuple[LinearExpression, int] | None:
    """A side's initial value, and its change per iteration; None if unknown."""
    start, step = LinearExpression(side.constant), 0
    for value, times in side.terms.items():
        if value.frame is None or value.frame.call is not loop or not _is_state(loop, value):
            return None
        change = _constant_step(loop, value.index, tracer)
        if change is None:
            return None
        start += tracer.linear(Value(initial_state(loop), value.index)) * times
        step += change * times
    return start, step


def _is_state(loop: Apply, value: Value) -> bool:
    return any(graph.parameters[:1] == [value.node] for graph in called_computations(loop))


def _constant_step(loop: Apply, index: tuple[int, ...], tracer: ScalarEvolution) -> int | None:
    """The change of an element per iteration; it may depend on elements that do not change."""
    step = tracer.step(loop, index)
    total = LinearExpression(step.constant)
    for value, times in step.terms.items():
        if value.frame is None or value.frame.call is not loop or not _is_state(loop, value):
            return None
        own = tracer.step(loop, value.index)
        if not own.is_constant or own.constant:
            return None
        total += tracer.linear(Value(initial_state(loop), value.index)) * times
    return total.constant if total.is_constant else None


def runs(start: int, step: int, direction: str) -> int | None:
    """For how many k from 0 on `start + k * step` compares this way with 0 before it first fails; None if it never
    does.

    >>> runs(-10, 3, "LT"), runs(10, -3, "GE"), runs(-9, 3, "NE"), runs(1, 1, "GT")
    (4, 4, 3, None)
    """
    if not _HOLDS[direction](start):
        return 0
    if direction == "EQ":
        return 1 if step else None
    if direction == "NE":
        return -start // step if step and start % step == 0 and -start // step > 0 else None
    if direction in ("GT", "GE"):
        start, step = -start, -step
    if step <= 0:
        return None
    return -(start // step) if direction in ("LT", "GT") else -start // step + 1


_HOLDS = {
    "LT": lambda number: number < 0,
    "LE": lambda number: number <= 0,
    "GT": lambda number: number > 0,
    "GE": lambda number: number >= 0,
    "EQ": lambda number: number == 0,
    "NE": lambda number: number != 0,
}


def _limits(value_type: object) -> tuple[int, int] | None:
    """The minimum and the maximum of an integer type."""
    if not isinstance(value_type, TensorType) or not value_type.dtype.is_integer:
        return None
    bits = value_type.dtype.bits
    return (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if value_type.dtype.kind is DTypeKind.SIGNED else (0, (1 << bits) - 1)
    )


def _leaves(start: LinearExpression, step: int, count: int, limits: tuple[int, int]) -> bool:
    """Whether a side leaves its type's range before the loop ends, and would wrap around."""
    return not all(limits[0] <= number <= limits[1] for number in (start.constant, start.constant + step * count))

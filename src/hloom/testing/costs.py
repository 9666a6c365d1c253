"""Assertions about what a program costs and whether it talks to other devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloom.analysis import Cost, CostReport, NodeCost, cost, source_of
from hloom.ir import Module, Node
from hloom.ops import collective

SHOWN = 5
"""How many instructions a message names."""
_MOVES_NOTHING = frozenset(("partition-id", "replica-id"))


def assert_flops(
    module: Module,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    trip_counts: Mapping[str, int] | None = None,
) -> None:
    """Assert that the FLOPs of one run lie within bounds, loops counted as often as they run.

    `trip_counts` say how often loops run whose counts depend on the data; without them such a loop fails the
    assertion of an upper bound, since it might run for ever.
    """
    _assert_within("FLOPs", lambda each: each.flops, cost(module, trip_counts=trip_counts), at_most, at_least)


def assert_bytes_accessed(
    module: Module,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    trip_counts: Mapping[str, int] | None = None,
) -> None:
    """Assert that the bytes that one run reads and writes lie within bounds; otherwise as `assert_flops`."""
    found = cost(module, trip_counts=trip_counts)
    _assert_within("bytes", lambda each: each.bytes_accessed, found, at_most, at_least)


def assert_no_collective(module: Module, *opcodes: str) -> None:
    """Assert that a module holds no instruction of these opcodes; without opcodes, none that talks to other devices.

    An opcode stands for its asynchronous form too: `all-gather` for `all-gather-start`. Computations that nothing calls
    count as well. Raises ValueError for an opcode that does not communicate.
    """
    known = [name for name in collective.ROWS if name not in _MOVES_NOTHING]
    for opcode in opcodes:
        if opcode not in known:
            raise ValueError(f"{opcode} is no collective: they are {', '.join(known)}")
    wanted = {name for opcode in opcodes or known for name in (opcode, f"{opcode}-start")}
    blamed = [node for node in module.nodes() if node.opcode in wanted]
    if not blamed:
        return
    lines = "".join(f"\n  {_place(node, module)}" for node in blamed[:SHOWN])
    more = f"\n  and {len(blamed) - SHOWN:,} more" if len(blamed) > SHOWN else ""
    what = " or ".join(opcodes) or "collective"
    raise AssertionError(f"{module.name} should hold no {what}, but holds {len(blamed):,}:{lines}{more}")


def _assert_within(
    unit: str, measure: Callable[[Cost], int], found: CostReport, at_most: float | None, at_least: float | None
) -> None:
    total, name = measure(found.total), found.module.name
    if at_most is not None and total > at_most:
        raise AssertionError(f"{name} takes {total:,} {unit}, more than {at_most:,}:{_greatest(unit, measure, found)}")
    if at_most is not None and found.unknown_loops:
        names = ", ".join(loop.name for loop in found.unknown_loops[:SHOWN])
        raise AssertionError(
            f"{name} takes at least {total:,} {unit}; how many is not known: the data decide how often {names} run. "
            "Give their trip_counts"
        )
    if at_least is not None and total < at_least:
        raise AssertionError(f"{name} takes {total:,} {unit}, fewer than {at_least:,}")


def _greatest(unit: str, measure: Callable[[Cost], int], found: CostReport) -> str:
    ordered = sorted(found.per_node, key=lambda each: -measure(each.total))
    return "".join(f"\n  {_line(each, measure, unit, found.module)}" for each in ordered[:SHOWN])


def _line(each: NodeCost, measure: Callable[[Cost], int], unit: str, module: Module) -> str:
    times = measure(each.times)
    often = f" in {times:,} runs" if times != 1 else ""
    return f"{measure(each.total):,} {unit}{often}: {_place(each.node, module)}"


def _place(node: Node, module: Module) -> str:
    return f"{node.graph.name}/{node.name} = {node.type} {node.opcode}  {source_of(node, module.stack_tables)}"

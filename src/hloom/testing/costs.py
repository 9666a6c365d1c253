"""Assertions about a program's FLOPs, bytes accessed and collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloom.analysis import Cost, CostReport, LiveBuffer, NodeCost, cost, source_of
from hloom.ir import Module, Node, Trait
from hloom.ops import collective, with_trait
from hloom.targets.memory import memory
from hloom.text import parse_bytes

SHOWN = 5
"""How many instructions a message names."""
_MOVES_NOTHING = with_trait(Trait.DEVICE_ID)


def assert_flops(
    module: Module,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    trip_counts: Mapping[str, int] | None = None,
) -> None:
    """Assert that the FLOPs of one run are within bounds, loops counted as often as they run.

    `trip_counts` say how often loops run whose counts depend on the data; without them such a loop fails the
    assertion of an upper bound, since it might run for ever.
    """
    _assert_within("FLOPs", lambda total: total.flops, cost(module, trip_counts=trip_counts), at_most, at_least)


def assert_bytes_accessed(
    module: Module,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    trip_counts: Mapping[str, int] | None = None,
) -> None:
    """Assert that the bytes that one run reads and writes are within bounds; otherwise as `assert_flops`."""
    report = cost(module, trip_counts=trip_counts)
    _assert_within("bytes", lambda total: total.bytes_accessed, report, at_most, at_least)


def assert_no_collective(module: Module, *opcodes: str) -> None:
    """Assert that a module holds no instruction of these opcodes; without opcodes, no collective at all.

    An opcode stands for its asynchronous form too: `all-gather` for `all-gather-start`. Computations that nothing calls
    count as well. Raises ValueError for an opcode that does not communicate.
    """
    known = [name for name in collective.ROWS if name not in _MOVES_NOTHING]
    for opcode in opcodes:
        if opcode not in known:
            raise ValueError(f"{opcode} is not a collective: they are {', '.join(known)}")
    wanted = {name for opcode in opcodes or known for name in (opcode, f"{opcode}-start")}
    blamed = [node for node in module.nodes() if node.opcode in wanted]
    if not blamed:
        return
    lines = "".join(f"\n  {_place(node, module)}" for node in blamed[:SHOWN])
    more = f"\n  and {len(blamed) - SHOWN:,} more" if len(blamed) > SHOWN else ""
    what = " or ".join(opcodes) or "collective"
    raise AssertionError(f"{module.name} should hold no {what}, but holds {len(blamed):,}:{lines}{more}")


def _assert_within(
    unit: str, measure: Callable[[Cost], int], report: CostReport, at_most: float | None, at_least: float | None
) -> None:
    total, name = measure(report.total), report.module.name
    if at_most is not None and total > at_most:
        raise AssertionError(f"{name} takes {total:,} {unit}, more than {at_most:,}:{_greatest(unit, measure, report)}")
    if at_most is not None and report.unknown_loops:
        names = ", ".join(loop.name for loop in report.unknown_loops[:SHOWN])
        raise AssertionError(
            f"{name} takes at least {total:,} {unit}; how many is not known: the data decide how often {names} run. "
            "Give their trip_counts"
        )
    if at_least is not None and total < at_least:
        raise AssertionError(f"{name} takes {total:,} {unit}, fewer than {at_least:,}")


def _greatest(unit: str, measure: Callable[[Cost], int], report: CostReport) -> str:
    ordered = sorted(report.per_node, key=lambda node_cost: -measure(node_cost.total))
    return "".join(f"\n  {_line(node_cost, measure, unit, report.module)}" for node_cost in ordered[:SHOWN])


def _line(node_cost: NodeCost, measure: Callable[[Cost], int], unit: str, module: Module) -> str:
    times = measure(node_cost.times)
    often = f" in {times:,} runs" if times != 1 else ""
    return f"{measure(node_cost.total):,} {unit}{often}: {_place(node_cost.node, module)}"


def _place(node: Node, module: Module) -> str:
    return f"{node.graph.name}/{node.name} = {node.type} {node.opcode}  {source_of(node, module.stack_tables)}"


def assert_peak_memory(module: Module, *, at_most: float | str, schedule: str | None = None) -> None:
    """Assert that a run needs no more than this many bytes: a number, or a text such as "80GiB".

    `schedule` is as `hloom.memory` takes it. Raises AssertionError, which names the largest buffers in use at
    the peak with their source lines, and HloomError for a text that is not a number of bytes.
    """
    limit = parse_bytes(at_most)
    report = memory(module, schedule=schedule)
    if report.peak <= limit:
        return
    lines = "".join(f"\n  {_buffer_line(buffer)}" for buffer in report.at_peak[:SHOWN])
    given = f"; donating these inputs would save {report.donatable_bytes:,}" if report.donatable_bytes else ""
    raise AssertionError(
        f"{report.module} takes {report.peak:,} bytes, more than {limit:,}, at {report.peak_instruction}{given}:{lines}"
    )


def _buffer_line(buffer: LiveBuffer) -> str:
    element = "".join(f"{{{index}}}" for index in buffer.index)
    return (
        f"{buffer.bytes:,} bytes, {buffer.role}: {buffer.computation}/{buffer.name}{element} = {buffer.type} "
        f"{buffer.opcode}  {buffer.source}"
    )

"""The panels next to the graph: costs by scope, memory over time, the roofline, collectives; as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hloom.analysis import MemoryReport, Roofline, ScopePath, ScopePaths
from hloom.inspection.page.figures import SECTIONS, Figures
from hloom.inspection.viz import clean, shorten
from hloom.ir import Node, dtype

MOST_BUFFERS = 500
MOST_POINTS = 3000
MOST_COLLECTIVES = 5000
LONGEST_TEXT = 200
OTHER = "(unknown)"

Record = dict[str, Any]


def panels(numbers: Figures, scopes: ScopePaths) -> Record:
    """The data of all panels; those of which nothing is known are None."""
    return {
        "module": clean(numbers.module.name),
        "instructions": numbers.module.node_count,
        "computations": len(numbers.module.graphs),
        "notes": [clean(note) for note in numbers.notes],
        "totals": _totals(numbers),
        "scopes": list(_scope_rows(numbers, scopes)),
        "memory": None if numbers.memory is None else _memory(numbers, numbers.memory, scopes),
        "roofline": None if numbers.roofline is None else _roofline(numbers.roofline, scopes),
        "collectives": list(_collectives(numbers, scopes)),
    }


def _totals(numbers: Figures) -> Record:
    totals: Record = {}
    if numbers.roofline is not None:
        total = numbers.roofline.report.total
        totals = {
            "FLOPs": max(total.flops, 0),
            "is_lower_bound": numbers.roofline.report.is_lower_bound,
            "bytes accessed": max(total.bytes_accessed, 0),
            "seconds": numbers.roofline.seconds,
            "device": numbers.roofline.device.title,
        }
    if numbers.memory is not None:
        totals["peak memory"] = numbers.memory.peak
    return totals


def _scope_rows(numbers: Figures, scopes: ScopePaths) -> Iterator[list[Any]]:
    """The scopes with the sums of their own instructions: levels, how many, then one number for each of SECTIONS."""
    counts: dict[ScopePath, int] = {}
    for node in numbers.module.nodes():
        counts[scopes[node]] = counts.get(scopes[node], 0) + 1
    sums: dict[ScopePath, list[float]] = {scope: [0.0] * len(SECTIONS) for scope in counts}
    for column, section in enumerate(SECTIONS):
        for node, value in numbers.values[section].items():
            sums[scopes[node]][column] += value
    for scope, row in sums.items():
        yield [[shorten(clean(level), LONGEST_TEXT) for level in scope], counts[scope], *map(_plain, row)]


def _plain(value: float) -> float | int:
    return int(value) if value == math.floor(value) else float(f"{value:.6g}")


def _memory(numbers: Figures, report: MemoryReport, scopes: ScopePaths) -> Record:
    by_scope: dict[str, int] = {}
    rows: list[list[Any]] = []
    for buffer, node in zip(report.at_peak, numbers.peak_nodes, strict=True):
        scope = _scope_text(node, scopes) if node is not None else buffer.scope
        by_scope[scope] = by_scope.get(scope, 0) + buffer.bytes
        if len(rows) < MOST_BUFFERS:
            texts = (buffer.name, buffer.computation, buffer.opcode, buffer.type, scope, buffer.source)
            rows.append([*(shorten(clean(text), LONGEST_TEXT) for text in texts), buffer.role, buffer.bytes])
    return {
        "schedule": report.schedule,
        "peak": report.peak,
        "arguments": report.arguments,
        "outputs": report.outputs,
        "aliases": report.aliases,
        "temporaries": report.temporaries,
        "peak_time": report.peak_time,
        "peak_instruction": clean(report.peak_instruction),
        "times": [time for time, _ in report.timeline],
        "sizes": [size for _, size in report.timeline],
        "by_scope": sorted(by_scope.items(), key=lambda item: -item[1]),
        "buffers": rows,
        "buffer_count": len(report.at_peak),
    }


def _roofline(report: Roofline, scopes: ScopePaths) -> Record:
    points = [
        [
            float(f"{timing.intensity:.4g}"),
            float(f"{timing.achieved:.4g}"),
            float(f"{timing.total:.4g}"),
            timing.bound,
            shorten(clean(timing.node.name), LONGEST_TEXT),
            clean(timing.node.opcode),
            _scope_text(timing.node, scopes),
        ]
        for timing in report.timings[:MOST_POINTS]
    ]
    device = report.device
    return {
        "device": device.title,
        "seconds": report.seconds,
        "is_fused": report.is_fused,
        "bounds": report.bounds(),
        "bandwidth": device.memory_bandwidth,
        "rates": {name: device.matrix_rate(dtype(name)) for name in ("f32", "bf16")},
        "points": points,
        "point_count": len(report.timings),
    }


def _collectives(numbers: Figures, scopes: ScopePaths) -> Iterator[list[Any]]:
    ordered = sorted(
        numbers.collectives.items(), key=lambda item: -item[1].times * (item[1].comm_bytes + item[1].host_bytes)
    )
    for node, transfer in ordered[:MOST_COLLECTIVES]:
        texts = (transfer.name, transfer.computation, transfer.opcode, _scope_text(node, scopes))
        numbers_of_run = (transfer.group_size, transfer.times, transfer.comm_bytes, transfer.host_bytes, transfer.steps)
        yield [*(shorten(clean(text), LONGEST_TEXT) for text in texts), *numbers_of_run]


def _scope_text(node: Node, scopes: ScopePaths) -> str:
    return shorten(clean(scopes.text(node)), LONGEST_TEXT)

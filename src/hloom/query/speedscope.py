"""Costs as a flame graph in speedscope's file format: one profile of FLOPs and one of bytes accessed.

Source: speedscope's src/lib/file-format-spec.ts (FileFormat.File, FileFormat.SampledProfile).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.analysis import OUTSIDE, UNKNOWN, CostReport, NodeCost, layer, op_name_of, scopes, source_of
from hloom.ir import Node

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
PROFILES = (("FLOPs", "none", "flops"), ("bytes accessed", "bytes", "bytes_accessed"))
"""The name of each profile, its unit in speedscope's words, and the property that it adds up."""
Frame = tuple[str, str, int]
"""What a level of the graph is called, and the file and line that it stands for, if any."""


def speedscope(report: CostReport, by: str = "scope", depth: int | None = None) -> dict[str, Any]:
    """The costs of a module as the JSON value of a speedscope file, whose weights add up to the module's total.

    `by` says what the levels are: the scope's (`depth` of them), the layer's, the stack of source lines, the opcode, or
    the computation; instructions are the leaves. Raises ValueError for another name.
    """
    stack_of = _stacks(report, by, depth)
    frames: dict[Frame, int] = {}
    stacks: dict[tuple[int, ...], NodeSums] = {}
    for entry in report.per_node:
        stack = tuple(frames.setdefault(frame, len(frames)) for frame in stack_of(entry.node))
        _add(stacks.setdefault(stack, [0] * len(PROFILES)), entry)
    shared = [_frame(*frame) for frame in frames]
    profiles = [_profile(name, unit, index, stacks) for index, (name, unit, _) in enumerate(PROFILES)]
    name = report.module.name
    return {
        "$schema": SCHEMA,
        "exporter": "hloom",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": shared},
        "profiles": profiles,
    }


NodeSums = list[int]
"""The sum of each of PROFILES."""


def _add(sums: NodeSums, entry: NodeCost) -> None:
    total = entry.total
    for index, (_, _, attribute) in enumerate(PROFILES):
        sums[index] += max(0, getattr(total, attribute))


def _frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {"name": name, "file": file, "line": line} if file else {"name": name}


def _profile(name: str, unit: str, index: int, stacks: dict[tuple[int, ...], NodeSums]) -> dict[str, Any]:
    """One sample for each stack that costs something, in the order of stacks, so that equal levels come together."""
    samples = sorted((stack, sums[index]) for stack, sums in stacks.items() if sums[index])
    weights = [weight for _, weight in samples]
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [list(stack) for stack, _ in samples],
        "weights": weights,
    }


def _stacks(report: CostReport, by: str, depth: int | None) -> Callable[[Node], list[Frame]]:
    """What gives an instruction's levels, outermost first."""
    if by == "scope":
        paths = scopes(report.module)
        return lambda node: [*((level, "", 0) for level in paths[node][:depth]), (node.opcode, "", 0)]
    if by == "layer":
        return lambda node: [
            *((level, "", 0) for level in (layer(op_name_of(node)) or OUTSIDE).split("/")[:depth]),
            (node.opcode, "", 0),
        ]
    if by == "source":
        return lambda node: [*_source_levels(report, node)[:depth], (node.opcode, "", 0)]
    if by == "opcode":
        return lambda node: [(node.opcode, "", 0), (node.name, "", 0)]
    if by == "computation":
        return lambda node: [(node.graph.name, "", 0), (node.opcode, "", 0)]
    raise ValueError(f"a flame graph has no levels of '{by}'")


def _source_levels(report: CostReport, node: Node) -> list[Frame]:
    """The stack of source lines where the module has one, else the file and the line."""
    tables = report.module.stack_tables
    source = source_of(node, tables)
    if source == UNKNOWN:
        return [(UNKNOWN, "", 0)]
    metadata = node.metadata
    if tables is not None and metadata is not None and metadata.stack_frame_id and not metadata.source_file:
        trace = reversed(tables.trace(metadata.stack_frame_id))
        return [(f"{frame.function} ({frame.file}:{frame.line})", frame.file, frame.line) for frame in trace]
    file, _, line = source.rpartition(":")
    return [(file, file, 0), (source, file, int(line))]

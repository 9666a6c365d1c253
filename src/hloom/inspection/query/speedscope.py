"""Costs as a flame graph in speedscope's file format: one profile of FLOPs and one of bytes accessed.

Source: speedscope's src/lib/file-format-spec.ts (FileFormat.File, FileFormat.SampledProfile).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hloom.analysis import LOOPED, Cost, CostReport, GroupLevel, cost_groups
from hloom.ir import Apply, Graph

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
PROFILES = (("FLOPs", "none", "flops"), ("bytes accessed", "bytes", "bytes_accessed"))
"""The name of each profile, its unit in speedscope's words, and the property that it adds up."""


def speedscope(report: CostReport, by: str = "scope", depth: int | None = None) -> dict[str, Any]:
    """The costs of a module as the JSON value of a speedscope file, whose weights add up to the module's total.

    `by` says what the levels are: the scope's (`depth` of them), the layer's, the stack of source lines, the opcode, or
    the computation, as in `report.by(by, depth=depth)`; opcodes are the leaves, and by opcode the instructions. Raises
    ValueError for another name.
    """
    frames: dict[GroupLevel, int] = {}
    stacks: dict[tuple[int, ...], NodeSums] = {}
    for node, levels, total in _runs(report, by, depth):
        leaf = GroupLevel(node.name if by == "opcode" else node.opcode)
        stack = tuple(frames.setdefault(level, len(frames)) for level in (*levels, leaf))
        _add(stacks.setdefault(stack, [0] * len(PROFILES)), total)
    shared = [_frame(frame) for frame in frames]
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


ALL_LEVELS = 1 << 20
"""A depth that takes whole stacks of source lines."""
NodeSums = list[int]
"""The sum of each of PROFILES."""


def _runs(report: CostReport, by: str, depth: int | None) -> Iterator[tuple[Apply, tuple[GroupLevel, ...], Cost]]:
    """Every instruction in every context that the groups tell apart, with its levels and what all its runs cost."""
    groups = cost_groups(by, report.module, ALL_LEVELS if by == "source" and depth is None else depth)
    own = report.analysis(LOOPED).own
    nodes: dict[Graph, list[Apply]] = {}
    for counted in report.per_node:
        nodes.setdefault(counted.node.graph, []).append(counted.node)
    for graph, context, runs, _ in report.contexts(groups):
        for node in nodes.get(graph, ()):
            yield node, groups.levels(node, context), own(node).times(runs)


def _add(sums: NodeSums, total: Cost) -> None:
    for index, (_, _, attribute) in enumerate(PROFILES):
        sums[index] += max(0, getattr(total, attribute))


def _frame(level: GroupLevel) -> dict[str, Any]:
    return {"name": level.name, "file": level.file, "line": level.line} if level.file else {"name": level.name}


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

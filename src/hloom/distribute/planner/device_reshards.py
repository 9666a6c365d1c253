"""Writes reshards into one device's program as the partitioner does: collectives and the ops around them.

Follows `PartitionedHlo::ReshardNoCache` and `ReshardWithAllToAll` (xla/service/spmd/spmd_partitioner.cc).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.distribute.partitioner import TracedCollective
from hloom.ir import DType, Graph, IotaDevices, IotaGroups, Module, Node, TensorType
from hloom.ops import OPS

Dims = tuple[int, ...]


@dataclass(slots=True)
class ReshardWriter:
    """Writes reshards into the graphs of a module; what adds partial results is made once per element type."""

    module: Module
    _sums: dict[DType, Graph] = field(default_factory=dict)

    def write(
        self,
        graph: Graph,
        before: Node | None,
        array: Node,
        dims: Dims,
        source: Dims,
        target: Dims,
        steps: Sequence[TracedCollective],
    ) -> list[Node]:
        """The nodes that take an array from its local dimensions `source` to `target`, the last one being the result.

        `dims` are those of the full array.
        """
        known = {math.prod(shape): shape for shape in (dims, source, target)}
        reshard = _Reshard(graph, before, array)
        for step in steps:
            now = reshard.dims
            if step.opcode != "all-gather" and step.elements < math.prod(now):
                reshard.add("dynamic-slice", known.get(step.elements, (step.elements,)))
            if step.opcode == "reduce-scatter":
                reshard.add("all-reduce", reshard.dims, to_apply=self._sum(reshard.dtype))
                parts = step.elements // step.group_size
                reshard.add("dynamic-slice", known.get(parts, (parts,)))
            elif step.opcode == "all-to-all":
                reshard.exchange(target, step)
            elif step.opcode == "all-reduce":
                reshard.add("all-reduce", reshard.dims, to_apply=self._sum(reshard.dtype))
            elif step.opcode == "all-gather":
                gathered = known.get(step.elements, (step.elements,))
                reshard.add("all-gather", gathered, dimensions=(_changed(reshard.dims, gathered),))
            else:
                reshard.add(step.opcode, known.get(step.elements, (step.elements,)), source_target_pairs=())
        if reshard.dims != target:
            reshard.add("dynamic-slice" if math.prod(target) < math.prod(reshard.dims) else "copy", target)
        return reshard.nodes

    def _sum(self, dtype: DType) -> Graph:
        """A computation that adds two scalars."""
        if dtype not in self._sums:
            scalar = TensorType(dtype)
            graph = self.module.add_graph(f"sum_{dtype}")
            self.module.graphs.remove(graph)
            self.module.graphs.insert(0, graph)
            operands = graph.add_parameter(scalar, "lhs"), graph.add_parameter(scalar, "rhs")
            graph.set_output(graph.add_apply(OPS["or" if dtype.name == "pred" else "add"], operands, scalar))
            self._sums[dtype] = graph
        return self._sums[dtype]


@dataclass(slots=True)
class _Reshard:
    """The nodes of one reshard so far."""

    graph: Graph
    before: Node | None
    array: Node
    nodes: list[Node] = field(default_factory=list)

    @property
    def last(self) -> Node:
        return self.nodes[-1] if self.nodes else self.array

    @property
    def dims(self) -> Dims:
        assert isinstance(self.last.type, TensorType)
        return tuple(self.last.type.dims)

    @property
    def dtype(self) -> DType:
        assert isinstance(self.last.type, TensorType)
        return self.last.type.dtype

    def add(self, opcode: str, dims: Dims, **attributes: Any) -> None:
        """Add an instruction that yields these dimensions."""
        own: Mapping[str, Any] = {"dynamic_slice_sizes": dims} if opcode == "dynamic-slice" else attributes
        self.nodes.append(
            self.graph.add_apply(OPS[opcode], (self.last,), TensorType(self.dtype, dims), own, before=self.before)
        )

    def exchange(self, target: Dims, step: TracedCollective) -> None:
        """Split a dimension into parts, send one to each device, and concatenate the received ones along another
        dimension.

        x[64,512,4000], over 8 devices, to [8,512,32000]
          ->
        reshape [8,8,512,4000], all-to-all dimensions={0}, transpose [8,512,8,4000], reshape [8,512,32000]
        """
        count, source = step.group_size, self.dims
        split, joined = _exchanged_dims(source, target, step)
        if split is None or joined is None:
            self._change("pad", (step.elements,))
            source, split, joined = self.dims, 0, 0
        else:
            padded = target[split] * count
            self._change("pad", (*source[:split], padded, *source[split + 1 :]))
            source = self.dims
        parts = (*source[:split], count, source[split] // count, *source[split + 1 :])
        devices = IotaGroups(1, count, IotaDevices((count,)))
        self.add("reshape", parts)
        self.add("all-to-all", parts, dimensions=(split,), replica_groups=devices)
        rest = [dim for dim in range(len(parts)) if dim != split]
        order = rest[: (joined + 1 if joined > split else joined)]
        order = [*order, split, *rest[len(order) :]]
        self.add("transpose", tuple(parts[dim] for dim in order), dimensions=tuple(order))
        result = list(source)
        result[split] //= count
        result[joined] *= count
        self.add("reshape", tuple(result))

    def _change(self, opcode: str, dims: Dims) -> None:
        if dims != self.dims:
            self.add(opcode if math.prod(dims) > math.prod(self.dims) else "reshape", dims)


def _exchanged_dims(source: Dims, target: Dims, step: TracedCollective) -> tuple[int | None, int | None]:
    """The dimensions that an all-to-all splits and joins, where it is the only change; else None."""
    smaller = [dim for dim, (a, b) in enumerate(zip(source, target, strict=False)) if b < a]
    larger = [dim for dim, (a, b) in enumerate(zip(source, target, strict=False)) if b > a]
    if len(source) != len(target) or len(smaller) != 1 or len(larger) != 1:
        return None, None
    padded = math.prod(source) // source[smaller[0]] * target[smaller[0]] * step.group_size
    return (smaller[0], larger[0]) if padded == step.elements else (None, None)


def _changed(before: Dims, after: Dims) -> int:
    """The first dimension whose size changes; the outermost where that cannot be said."""
    if len(before) != len(after):
        return 0
    return next((dim for dim, (a, b) in enumerate(zip(before, after, strict=True)) if a != b), 0)

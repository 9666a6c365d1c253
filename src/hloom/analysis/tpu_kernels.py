"""The times of a TPU program's instructions, for `roofline`: who is priced by `tpu_time`, who otherwise.

An asynchronous collective of the TPU compiler is three kinds of fusions around the same collective: one that starts it
(its root is a custom call, AsyncCollectiveStart), others that compute while it runs, and one that ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hloom.analysis.control_flow import called_computations
from hloom.analysis.devices import Device
from hloom.analysis.stored_sizes import memory_space, stored_in_all
from hloom.analysis.tpu_time import TpuParameters, is_scalar, scalar_cycles, tpu_cycles, tpu_parameters
from hloom.analysis.tpu_work import compiler_cycles, tpu_work
from hloom.ir import Apply, Graph, Module, TensorType, Trait, TupleType, Type

COLLECTIVE_START = "AsyncCollectiveStart"
COLLECTIVE_DONE = "AsyncCollectiveDone"
UNMODELLED = frozenset(("custom-call", "fft", "gather", "scatter", "select-and-scatter", "sort", "triangular-solve"))
"""Opcodes for which the compiler estimates nothing that a model could be fitted to: they run at the device's rates."""
_COMMUNICATES = (Trait.COLLECTIVE, Trait.POINT_TO_POINT, Trait.HOST_FEED)


class KernelSeconds(NamedTuple):
    """Seconds of one run: computing, moving data, the fixed part, and what of the shorter of the first two shows."""

    compute: float
    memory: float
    launch: float
    unhidden: float


NOTHING = KernelSeconds(0.0, 0.0, 0.0, 0.0)


class TpuKernels:
    """Prices the instructions of an optimised module for a TPU whose parameters are known."""

    def __init__(self, module: Module, on: TpuParameters, flops: Callable[[Apply], float]) -> None:
        self.on = on
        self._flops = flops
        starts = (node for node in module.nodes() if isinstance(node, Apply) and node.has_trait(Trait.ASYNC_START))
        self._transfers = frozenset(graph for start in starts for graph in called_computations(start))

    def seconds(self, node: Apply) -> KernelSeconds | None:
        """The seconds of one run of an instruction; None if the device's rates have to say them."""
        if any(map(node.has_trait, _COMMUNICATES)):
            return None
        if async_collective(node) is not None:
            return NOTHING
        if node.opcode == "copy-start" or node.graph in self._transfers:
            return self._transfer(node)
        if is_scalar(node):
            return KernelSeconds(0.0, 0.0, scalar_cycles(self.on) / self.on.clock, 0.0)
        if node.opcode in UNMODELLED or _contains_unmodelled(node):
            return None
        cycles = tpu_cycles(node, tpu_work(node, self._flops), self.on)
        rest = max(0.0, cycles.total - max(cycles.compute, cycles.memory))
        launch = min(rest, cycles.fixed)
        return KernelSeconds(*(part / self.on.clock for part in (cycles.compute, cycles.memory, launch, rest - launch)))

    def compiler_seconds(self, node: Apply) -> float | None:
        """The seconds that the TPU compiler itself estimates for an instruction, None if the module does not say."""
        cycles = compiler_cycles(node)
        return None if cycles is None else cycles / self.on.clock

    def launch(self, node: Apply) -> float:
        """Seconds that an instruction takes besides, where the device's rates say its time."""
        return 0.0 if any(map(node.has_trait, _COMMUNICATES)) else self.on.latency / self.on.clock

    def _transfer(self, node: Apply) -> KernelSeconds:
        """A copy between memories: its bytes in HBM at the bandwidth of HBM."""
        made: Type | None = node.type
        if node.opcode == "copy-start" and isinstance(made, TupleType) and made.elements:
            made = made.elements[0]
        source = node.operands[0].type if node.operands else None
        spaces = [_space(made), _space(source)]
        size = stored_in_all(made, spaces[0])
        moved = size * max(1, spaces.count(0))
        return KernelSeconds(0.0, moved / self.on.hbm / self.on.clock, self.on.latency / self.on.clock, 0.0)


def tpu_kernels(module: Module, device: Device, flops: Callable[[Apply], float]) -> TpuKernels | None:
    """The prices of a module's instructions, if the device is a TPU with known parameters and its compiler made them.

    Layouts with tiles say that it did.
    """
    known = tpu_parameters().get(device.name) if device.backend == "tpu" else None
    return TpuKernels(module, known, flops) if known is not None and _is_tiled(module) else None


def async_collective(node: Apply) -> str | None:
    """COLLECTIVE_START or COLLECTIVE_DONE for a fusion that starts or ends a collective, None for everything else."""
    called = node.attributes.get("calls") if node.opcode == "fusion" else None
    return collective_part(called) if isinstance(called, Graph) else None


def collective_part(fused: Graph) -> str | None:
    """The same for the computation of a fusion."""
    for member in reversed(fused.nodes):
        target = member.attributes.get("custom_call_target") if member.opcode == "custom-call" else None
        if target in (COLLECTIVE_START, COLLECTIVE_DONE):
            return target
    return None


def _is_tiled(module: Module) -> bool:
    kinds = (node.type for node in module.entry.nodes if node.type is not None)
    leaves = (leaf for kind in kinds for leaf in kind.leaves() if isinstance(leaf, TensorType))
    return any(leaf.layout is not None and leaf.layout.tiles for leaf in leaves)


def _contains_unmodelled(node: Apply) -> bool:
    called = node.attributes.get("calls") if node.opcode == "fusion" else None
    return isinstance(called, Graph) and any(member.opcode in UNMODELLED for member in called.nodes)


def _space(kind: Type | None) -> int:
    return next((memory_space(leaf) for leaf in kind.leaves()), 0) if kind is not None else 0

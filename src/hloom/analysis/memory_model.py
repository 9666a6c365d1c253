"""What a target's compiler does with memory, one row of facts per target, and which target a module was compiled for.

Source: xla/service/buffer_assignment.cc; xla/service/gpu/gpu_constants.h and gpu_memory_space_assignment.h for GPUs;
for TPUs, buffer assignments that libtpu 0.0.42 dumped for some hundred programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from hloom.analysis.alias_info import AliasInfo
from hloom.analysis.gpu_alias_info import GpuAliasInfo
from hloom.analysis.tpu_alias_info import TpuAliasInfo
from hloom.ir import Apply, Module, Node, TensorType, Type

DEVICE_MEMORY = 0
"""The memory space of a layout that names none: the device's main memory."""
MAIN_MEMORY = "memory"
"""The short name of the main memory."""


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """A memory of a device: its name, its short name in budgets, and how buffers are placed in it.

    `alignment` is that of offsets in the allocation of temporaries; an array without tiles takes a multiple of
    `granule` (both in bytes).
    """

    name: str
    short: str
    alignment: int
    granule: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class MemoryModel:
    """How a target's compiler stores values.

    A tuple's table has `pointer_bytes` for each element, rounded up to a multiple of `table_granule`. `alias_info` says
    which operands an instruction may overwrite; results of `temporary_opcodes` never share memory with a result of the
    program. `is_tpu` says that temporaries are placed in time order, and that tables take bytes in the allocation but
    never exist on the device.
    """

    target: str
    spaces: Mapping[int, MemorySpace]
    alias_info: type[AliasInfo] = AliasInfo
    pointer_bytes: int = 8
    table_granule: int = 1
    temporary_opcodes: frozenset[str] = frozenset()
    is_tpu: bool = False

    def space(self, number: int) -> MemorySpace:
        """The facts of a memory space; those of the main memory, without its name, for a number that has no row."""
        if number in self.spaces:
            return self.spaces[number]
        return MemorySpace("other memory", f"s{number}", self.spaces[DEVICE_MEMORY].alignment)


HOST = MemorySpace("host memory", "host", 64)
CPU = MemoryModel(
    "cpu",
    MappingProxyType(
        {
            0: MemorySpace("memory", MAIN_MEMORY, 64),
            1: MemorySpace("on-chip memory", "s1", 64),
            2: MemorySpace("synchronisation flags", "s2", 64),
            5: HOST,
        }
    ),
)
"""XLA's CPU compiler, and any program that does not say what it was compiled for."""
GPU = MemoryModel(
    "gpu",
    MappingProxyType(
        {
            0: MemorySpace("device memory", MAIN_MEMORY, 256),
            1: MemorySpace("collective memory", "collective", 256),
            5: HOST,
        }
    ),
    alias_info=GpuAliasInfo,
)
_TPU_SPACES = MappingProxyType(
    {
        0: MemorySpace("HBM", MAIN_MEMORY, 16384),
        1: MemorySpace("VMEM", "vmem", 4096),
        2: MemorySpace("synchronisation flags", "sflag", 4),
        4: MemorySpace("host staging memory", "s4", 4096, 4096),
        5: HOST,
        6: MemorySpace("SMEM", "smem", 512, 4096),
    }
)
_REMOTELY_WRITTEN = frozenset(
    f"{opcode}{suffix}"
    for opcode in ("all-gather", "all-to-all", "collective-permute")
    for suffix in ("", "-start")
)
"""Collectives into whose results other chips write (BufferAssigner's `must_not_live_out`, as seen in assignments)."""
TPU = MemoryModel(
    "tpu",
    _TPU_SPACES,
    TpuAliasInfo,
    pointer_bytes=4,
    table_granule=32,
    temporary_opcodes=_REMOTELY_WRITTEN,
    is_tpu=True,
)
"""v4, v5p and v6e."""
TPU_V5E = replace(TPU, target="tpu v5e", table_granule=512)
MODELS = (CPU, GPU, TPU, TPU_V5E)
SPACE_SHORT_NAMES = tuple(dict.fromkeys(space.short for model in MODELS for space in model.spaces.values()))
"""What budgets call the memories of all targets."""

TARGET = "target"
"""The name under which a module keeps the name of the target that it is compiled for, such as "v6e:2x2"."""
V5E_KERNEL_BYTES = 16 << 20
"""The most VMEM in bytes that libtpu gives one kernel of a v5e; a v6e's kernels take more."""
COLLECTIVE_BYTES = 64 << 20
"""What it writes for the kernels of collectives on any TPU."""
GPU_SCHEDULED = "fingerprint_before_lhs"
"""The frontend attribute that XLA's GPU scheduler leaves (xla/service/gpu/gpu_hlo_schedule.cc)."""
_GPU_CONFIG = re.compile(r'"operation_queue_id"|"(fusion|gemm|cudnn_\w+)_backend_config"')
_GPU_TARGET = re.compile(r"__(cublas|cudnn|cusolver|triton)|^cu(blas|dnn|solver|fft|b)")
_TPU_CONFIG = re.compile(r'"used_scoped_memory_configs"|"flag_configs"')
_TWO_CORES = '"megacore_config"'
_KERNEL_VMEM = re.compile(r'"memory_space":"1","offset":"0","size":"(\d{1,12})"')


def memory_model(module: Module) -> MemoryModel:
    """The memory model of the target that a module is for: as it was told, or as its text says; CPU if nothing does.

    Tiles and TPU backend configs mean a TPU: a v5e unless a kernel spans two cores or takes more VMEM than a v5e's may.
    If a v6e's program is so small that nothing tells it from a v5e's, tables are counted 480 bytes too large.
    """
    target = module.attachments.get(TARGET)
    if target is not None and (module.is_scheduled or not model_of_target(target).is_tpu):
        return model_of_target(target)  # how a TPU stores values is known once its compiler has scheduled them
    if any(name == GPU_SCHEDULED for name, _ in module.attributes.get("frontend_attributes") or ()):
        return GPU
    configs = [(str(node.attributes["backend_config"]), node) for node in module.nodes() if _has_config(node)]
    if any(map(_is_tiled, {node.type for node in module.nodes()})) or _any_match(_TPU_CONFIG, configs):
        return _tpu_generation(configs)
    called = [node for node in module.nodes() if node.opcode == "custom-call"]
    is_gpu = any(_GPU_TARGET.search(str(node.attributes.get("custom_call_target") or "")) for node in called)
    return GPU if is_gpu or _any_match(_GPU_CONFIG, configs) else CPU


def model_of_target(target: str) -> MemoryModel:
    """The memory model of a target, by its name."""
    if target.startswith("cpu"):
        return CPU
    if target.startswith("v"):
        return TPU_V5E if target.startswith("v5e") else TPU
    return GPU


def _has_config(node: Node) -> bool:
    return isinstance(node, Apply) and bool(node.attributes.get("backend_config"))


def _any_match(pattern: re.Pattern[str], configs: list[tuple[str, Node]]) -> bool:
    return any(pattern.search(config) for config, _ in configs)


def _is_tiled(value_type: Type | None) -> bool:
    leaves = () if value_type is None else value_type.leaves()
    return any(isinstance(leaf, TensorType) and leaf.layout is not None and leaf.layout.tiles for leaf in leaves)


def _tpu_generation(configs: list[tuple[str, Node]]) -> MemoryModel:
    for config, node in configs:
        if _TWO_CORES in config:
            return TPU
        if any(V5E_KERNEL_BYTES < int(size) < COLLECTIVE_BYTES for size in _KERNEL_VMEM.findall(config)):
            return TPU
        if node.opcode == "async-start" and _is_linear(node.operands[0].type):
            return TPU
    return TPU_V5E


def _is_linear(value_type: Type | None) -> bool:
    """Whether a slice is of bytes in one dimension, as libtpu slices arrays for a v6e."""
    return isinstance(value_type, TensorType) and value_type.rank == 1 and value_type.dtype.name == "s8"

"""What a backend's kernels may hold: which HLO fusions its compiler takes, and the limits of its devices.

Kinds of fusions as `HloInstruction::FusionKind` has them (xla/hlo/ir/hlo_instruction.h): kLoop computes each element of
the result by itself, kInput is a reduction with what it reads, kOutput a product with what is done to its result. XLA's
CPU client takes kLoop alone, of results of equal dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import Device

MAX_MEMBERS = 200
"""How many instructions a kernel has at most: compilers take long over larger ones."""
MAX_OPERANDS_AND_RESULTS = 96
"""How many arrays a kernel has at most (`MaxOperandsAndOutputsPerFusion`, xla/service/gpu/gpu_fusible.h)."""
MAX_REDUCTIONS = 8
"""How many reductions a kernel yields at most (xla/service/gpu/gpu_fusible.h)."""
MAX_SLICED_ELEMENTS = 128 * 2048
"""Elements of a result in a kernel of loops of different dimensions, at most: a thread computes one, and not several
(`kShapeThreshold`, xla/service/gpu/transforms/horizontal_loop_fusion.cc)."""
RESERVED_REGISTERS = 32
"""Registers of a thread that hold indices and addresses, and no values."""
ELEMENTS_PER_THREAD = 4
"""How many elements a thread of a GPU computes at a time (the unroll factor of XLA's loop emitters)."""
STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory that a block's code may have without asking the driver for more, as XLA's fusions do."""
CACHE_BYTES = 32 * 1024
"""What a core of a CPU keeps of arrays that a loop reads across their rows. Beyond that each read brings a line of the
cache, which is gone before its other elements are read where rows that are powers of two apart share few sets."""


@dataclass(frozen=True, slots=True)
class FusionTarget:
    """A device, and what kernels its backend makes.

    `has_input_fusions`: reductions are the results of kernels, never inside; several with the same operand dimensions
    may be in one, beside results of these dimensions. `has_output_fusions`: a product takes in what is done to its
    result element by element. `has_tiles`: arrays that are read across their rows go through tiles. `has_warps`: small
    reductions are computed element by element, as loops. `has_sliced_fusions`: a kernel goes through loops of different
    dimensions, one after the other. `has_several_updates`: a kernel updates parts of several arrays in place.
    """

    device: Device
    has_input_fusions: bool
    has_output_fusions: bool
    has_tiles: bool
    has_warps: bool
    has_sliced_fusions: bool
    has_several_updates: bool

    def seconds(self, compute: float, moved: float) -> float:
        """How long a kernel takes that computes so many seconds and moves so many bytes."""
        device = self.device
        return max(compute, device.memory_seconds(moved)) + device.launch_seconds + device.spreading_seconds(moved)

    def fusion_kind(self, has_reduction_root: bool, has_product: bool) -> str:
        """The kind of an HLO fusion."""
        if has_product:
            return "kOutput"
        return "kInput" if has_reduction_root and self.has_input_fusions else "kLoop"

    def has_registers_for(self, live_bytes: int) -> bool:
        """Whether a thread's registers hold so many bytes of values for one element."""
        limit = self.device.thread_registers
        return not limit or -(-live_bytes * ELEMENTS_PER_THREAD // 4) <= limit - RESERVED_REGISTERS

    def has_shared_memory_for(self, tile_bytes: int) -> bool:
        """Whether a block's shared memory holds so many bytes of tiles."""
        limit = self.device.block_shared_bytes
        return not limit or tile_bytes <= min(limit, STATIC_SHARED_BYTES)

    def keeps_in_cache(self, transposed: Sequence[int]) -> bool:
        """Whether a kernel may read arrays of so many bytes across their rows: one, or what a cache keeps."""
        return self.has_tiles or sum(size > 0 for size in transposed) < 2 or sum(transposed) <= CACHE_BYTES


def fusion_target(device: Device) -> FusionTarget:
    """What the kernels of a device may hold, by its backend."""
    is_gpu, is_tpu = device.backend == "gpu", device.backend == "tpu"
    return FusionTarget(
        device,
        has_input_fusions=is_gpu or is_tpu,
        has_output_fusions=is_tpu,
        has_tiles=is_gpu or is_tpu,
        has_warps=is_gpu,
        has_sliced_fusions=is_gpu,
        has_several_updates=is_gpu,
    )

"""The limits of a backend's kernels: which HLO fusions its compiler supports, and its devices' resources.

Kinds of fusions are those of `HloInstruction::FusionKind` (xla/hlo/ir/hlo_instruction.h): kLoop computes each element
of the result separately, kInput is a reduction with its producers, kOutput a product with its consumers. XLA's CPU
client supports only kLoop, with results of equal dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import Device

MAX_MEMBERS = 200
"""The maximum number of instructions in a kernel: compilers take long for larger ones."""
MAX_OPERANDS_AND_RESULTS = 96
"""The maximum number of arrays of a kernel (`MaxOperandsAndOutputsPerFusion`, xla/service/gpu/gpu_fusible.h)."""
MAX_REDUCTIONS = 8
"""The maximum number of reductions a kernel yields (xla/service/gpu/gpu_fusible.h)."""
MAX_SLICED_ELEMENTS = 128 * 2048
"""Elements of a result in a kernel of loops of different dimensions, at most: a thread computes one, and not several
(`kShapeThreshold`, xla/service/gpu/transforms/horizontal_loop_fusion.cc)."""
RESERVED_REGISTERS = 32
"""Registers of a thread reserved for indices and addresses."""
ELEMENTS_PER_THREAD = 4
"""The number of elements a GPU thread computes at a time (the unroll factor of XLA's loop emitters)."""
STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory that a block's code may have without asking the driver for more, as XLA's fusions do."""
CACHE_BYTES = 32 * 1024
"""Bytes of arrays read across their rows that a CPU core keeps in cache. Beyond that, each read fetches a cache line
that is evicted before its other elements are used if rows are a power of two apart and so share few sets.
"""


@dataclass(frozen=True, slots=True)
class FusionTarget:
    """A device and the kernels its backend can make.

    `has_input_fusions`: reductions are results of kernels, never inside; several with the same operand dimensions may
    share a kernel, along with results of these dimensions. `has_output_fusions`: a product absorbs elementwise
    consumers of its result. `has_tiles`: arrays read across their rows go through tiles. `has_warps`: small reductions
    are computed element by element, as loops. `has_sliced_fusions`: a kernel may run loops of different dimensions one
    after the other. `has_several_updates`: a kernel may update parts of several arrays in place.
    """

    device: Device
    has_input_fusions: bool
    has_output_fusions: bool
    has_tiles: bool
    has_warps: bool
    has_sliced_fusions: bool
    has_several_updates: bool

    def fusion_kind(self, has_reduction_root: bool, has_product: bool) -> str:
        """The kind of an HLO fusion."""
        if has_product:
            return "kOutput"
        return "kInput" if has_reduction_root and self.has_input_fusions else "kLoop"

    def has_registers_for(self, live_bytes: int) -> bool:
        """Whether a thread's registers can hold this many bytes of values per element."""
        limit = self.device.thread_registers
        return not limit or -(-live_bytes * ELEMENTS_PER_THREAD // 4) <= limit - RESERVED_REGISTERS

    def has_shared_memory_for(self, tile_bytes: int) -> bool:
        """Whether a block's shared memory can hold this many bytes of tiles."""
        limit = self.device.block_shared_bytes
        return not limit or tile_bytes <= min(limit, STATIC_SHARED_BYTES)

    def keeps_in_cache(self, transposed: Sequence[int]) -> bool:
        """Whether a kernel may read arrays of these sizes across their rows: a single one, or as much as the cache
        holds.
        """
        return self.has_tiles or sum(size > 0 for size in transposed) < 2 or sum(transposed) <= CACHE_BYTES


def fusion_target(device: Device) -> FusionTarget:
    """The kernel limits of a device, by its backend."""
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

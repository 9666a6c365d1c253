"""Kernels that a program brings along, sorting, random numbers, and calls out of the program."""

from __future__ import annotations

from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable
from hloom.analysis.rules.custom_calls.kinds import CallWork, array, first_result, kind
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements, shape_bytes
from hloom.ir import TensorType, TupleType

RADIX_BITS = 8
"""Bits of a key that one pass of CUB's radix sort distributes by (cub/device/dispatch/tuning/tuning_radix_sort.cuh)."""
THREEFRY_FLOPS = 117
"""Integer operations for two words of Threefry-2x32: 20 rounds of an addition, a rotation (3) and a xor, and the keys
that are added before, between and after them."""


def _pallas(instruction: Instruction, config: CallConfig) -> CallWork:
    """What the author of the kernel says, as XLA takes it too."""
    estimate = config.part("custom_call_config").message("cost_estimate")
    accessed = estimate.count("bytes_accessed") if "bytes_accessed" in estimate.values else None
    return CallWork(estimate.count("flops", 0), estimate.count("transcendentals", 0), accessed)


def _top_k(instruction: Instruction, config: CallConfig) -> CallWork:
    """As many comparisons for each element as a heap of k values has levels."""
    made = first_result(instruction)
    kept = made.dims[-1] if made.rank else 1
    return CallWork(elements(array(instruction.operand(0))) * max(1, (kept - 1).bit_length()))


def _partial_reduce(instruction: Instruction, config: CallConfig) -> CallWork:
    return CallWork(elements(array(instruction.operand(0))))


def _radix_sort(instruction: Instruction, config: CallConfig) -> CallWork:
    """No comparisons; keys are read once for the histogram, and every pass reads and writes all arrays."""
    keys = array(instruction.operand(0))
    arrays = [value for value in instruction.operands if isinstance(value, TensorType) and value.dims == keys.dims]
    passes = -(-keys.dtype.bits // RADIX_BITS)
    moved = sum(map(shape_bytes, arrays))
    return CallWork(bytes_accessed=shape_bytes(keys) + 2 * passes * moved)


def _threefry(instruction: Instruction, config: CallConfig) -> CallWork:
    result = instruction.result
    if not isinstance(result, TupleType):
        raise Uncountable("its result is not a pair of words")
    return CallWork(THREEFRY_FLOPS * elements(array(result.elements[0])))


kind(
    "tpu_custom_call",
    "Mosaic kernel (Pallas)",
    _pallas,
    because="the cost_estimate that its author gave",
)
kind(
    (r"mosaic_gpu\w*", r"__gpu\$xla\.gpu\.mosaic\w*"),
    "Mosaic GPU kernel (Pallas)",
    _pallas,
    because="the cost_estimate that its author gave",
)
kind(
    (r"(__gpu\$)?xla\.gpu\.triton", r"triton_kernel_call\w*", r"__triton\w*"),
    "Triton kernel",
    None,
    because="only the kernel's code says what it computes",
)
kind(
    r"__cudnn\$fusion",
    "cuDNN fusion",
    None,
    because="the computation that it refers to",
    runs_computation=True,
)
kind(r"(__gpu\$)?TopK", "top k", _top_k, because="log2 k comparisons per element")
kind("PartialReduce", "approximate top k", _partial_reduce, because="a comparison per element")
kind(
    r"__cub\$DeviceRadixSort\w*",
    "CUB radix sort",
    _radix_sort,
    because="no FLOPs; all arrays are read and written once for every 8 bits of a key",
    has_scratch=True,
)
kind(
    r"(cu|hip)_threefry2x32(_ffi)?",
    "random bits (Threefry)",
    _threefry,
    because=f"{THREEFRY_FLOPS} integer operations for two words",
)
kind(
    (r"xla_(ffi_)?(partitioned_)?python_(cpu|gpu|tpu)_callback", "CallbackToHost"),
    "Python callback",
    None,
    because="it runs Python on the host",
)
kind(r"(ducc|dynamic_ducc)_fft\w*", "Fourier transform", None, because="its operands hold the lengths")
kind(
    (r"cudnn_rnn\w*", r"miopen_rnn\w*"),
    "cuDNN recurrent network",
    None,
    because="its configuration is a binary record",
)

"""Access to XLA through jaxlib: the only file that uses jaxlib's private names.

Everything here runs in the calling process, where a crash of XLA ends the process: programs from files and users
therefore go to the worker, and what `hloom.jit` and `inside_jit` change is verified and then compiled in the user's
process anyway. `tests/runtime/test_process_boundary.py` lists who passes what to jaxlib, and where. Nothing is imported
from jax until a function needs it. Facts about jaxlib are in comments at the line they explain.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hloom.runtime.library_names import OLDEST, LibraryNames, jaxlib_version, numbers
from hloom.text import HloomError

ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
"""The environment variables to set before jax is imported: CPU only, and 64-bit types enabled."""
DEVICES_FLAG = "--xla_force_host_platform_device_count"
TOKEN = "token[]"
KEPT_EXECUTABLES = 16
"""The maximum number of compiled programs kept for rerunning the same text."""


def environment(devices: int, further_flags: str = "") -> dict[str, str]:
    """The environment of a process that runs programs on this many virtual CPU devices; further flags come last."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES_FLAG)]
    return {**ENVIRONMENT, "XLA_FLAGS": " ".join([*flags, f"{DEVICES_FLAG}={devices}", *further_flags.split()])}


_FEATURES = {
    "*": ("running", OLDEST),
    "hlo_module_cost_analysis": ("XLA's cost analysis", OLDEST),
    "mlir_module_to_xla_computation": ("reading StableHLO", OLDEST),
    "deserialize_portable_artifact": ("reading what jax.export wrote", OLDEST),
}
"""What needs a name, and the first version that has it; `*` is for all others."""


@dataclass(frozen=True, slots=True)
class Libraries:
    """jax, imported, and the names of jaxlib: no public module has them, except conversions to and from StableHLO."""

    jax: Any
    hlo = LibraryNames(_FEATURES, "jaxlib._hlo", "jaxlib._jax")  # HloModule and its kin; in _jax before 0.10
    private = LibraryNames(_FEATURES, "jaxlib._jax")  # 0.6.2 to 0.12
    mlir = LibraryNames(_FEATURES, "jax.extend.mlir", "jaxlib._jax.mlir")
    client = LibraryNames(_FEATURES, "jaxlib.xla_client", "jaxlib._jax")


@lru_cache(1)
def libraries() -> Libraries:
    """Import jax once, with the LAPACK kernels ready; raises HloomError where it is missing or cannot be imported."""
    jaxlib_version()
    try:
        import jax
        import jax.lax.linalg  # registers the LAPACK targets
        from jaxlib.cpu import _lapack  # pyright: ignore[reportAttributeAccessIssue]

        _lapack.initialize()  # without it the first LAPACK custom-call is a segmentation fault
    except ImportError as problem:
        raise HloomError(f"jax is installed, and cannot be imported: {problem}") from problem
    return Libraries(jax)


def parse_hlo(text: str) -> Any:
    """XLA's HloModule of a text; some malformed texts abort the process."""
    return libraries().hlo.hlo_module_from_text(text)


def canonical_text(text: str) -> str:
    """A text as XLA prints it with canonical names and whole constants, for comparing modules up to names."""
    options = libraries().hlo.HloPrintOptions.canonical()
    options.print_large_constants = True
    return parse_hlo(text).to_string(options)


def printed_text(text: str) -> str:
    """A text as XLA prints it with nothing left out: names, metadata, layouts and whole constants."""
    options = libraries().hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = True
    return parse_hlo(text).to_string(options)


def signature(text: str) -> tuple[list[str], list[str]]:
    """The types of the entry's parameters and results, tuples flattened, without layouts."""
    computation = libraries().hlo.XlaComputation(parse_hlo(text).as_serialized_hlo_module_proto())
    program = computation.program_shape()
    parameters = [leaf for shape in program.parameter_shapes() for leaf in _leaves(shape)]
    return parameters, _leaves(program.result_shape())


def _leaves(shape: Any) -> list[str]:
    if shape.is_tuple():
        return [leaf for part in shape.tuple_shapes() for leaf in _leaves(part)]
    return [TOKEN if shape.is_token() else str(shape).partition("{")[0]]


def cost_analysis(text: str) -> dict[str, float]:
    """XLA's own cost analysis (HloCostAnalysis) of a program, not optimised before; a while body counts once."""
    xla = libraries()
    return dict(xla.private.hlo_module_cost_analysis(_client(), parse_hlo(text)))


@dataclass(frozen=True, slots=True)
class Placement:
    """The devices a program runs on; `uses_shardy` says that Shardy rather than GSPMD reads its shardings."""

    replicas: int = 1
    partitions: int = 1
    uses_shardy: bool = False

    @property
    def devices(self) -> int:
        """The number of devices it needs."""
        return self.replicas * self.partitions


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A compiled program, its parameter and result types, and where it runs."""

    executable: Any
    parameters: list[str]
    results: list[str]
    placement: Placement
    compile_seconds: float


@lru_cache(KEPT_EXECUTABLES)
def compile_text(text: str, placement: Placement) -> LoadedProgram:
    """Compile a text for the CPU client; XLA's refusals come as jax's own errors.

    The client takes StableHLO, so anything without a counterpart there is rejected, and layouts become the default
    ones.
    """
    xla = libraries()
    parameters, results = signature(text)
    start = time.perf_counter()
    program = xla.mlir.hlo_to_stablehlo(parse_hlo(text).as_serialized_hlo_module_proto())
    devices = xla.client.DeviceList(tuple(_devices(placement)))
    executable = _client().compile_and_load(program, devices, _options(placement))
    return LoadedProgram(executable, parameters, results, placement, time.perf_counter() - start)


def compile_in_place_of(carrier: str, text: str) -> LoadedProgram:
    """Compile a text that is as XLA's own pipeline leaves it: with fusions, and a layout for each array.

    XLA's client takes no such text, so it compiles the carrier, a program with the same parameters and results, and
    gets the other at the end of the pipeline (`PipelineStage.PRE_SCHEDULER`), where only scheduling, the assignment of
    buffers and code are left to do.
    """
    from jax.extend import xla as extension

    proto = parse_hlo(text).as_serialized_hlo_module_proto()
    stage = extension.PipelineStage.PRE_SCHEDULER
    extension.register_hlo_module_transformation(lambda _: proto, name=_REPLACING, stage=stage, platforms="cpu")
    try:
        return compile_text.__wrapped__(carrier, Placement())
    finally:
        extension.clear_hlo_module_transformation(_REPLACING, stage=stage, platforms="cpu")


_REPLACING = "hloom-in-place-of"


def _options(placement: Placement) -> Any:
    client = libraries().client
    options = client.CompileOptions()
    build = options.executable_build_options
    order = np.arange(placement.devices).reshape(placement.replicas, placement.partitions)
    for target in (options, build):
        target.num_replicas, target.num_partitions = placement.replicas, placement.partitions
        target.device_assignment = client.DeviceAssignment.create(order)
    build.use_spmd_partitioning = placement.partitions > 1
    build.use_shardy_partitioner = placement.uses_shardy  # with Shardy, plain sharding= is silently ignored
    return options


def partition(text: str, partitions: int, directory: str) -> LoadedProgram:
    """Compile a text whose instructions carry shardings and leave the stages around the partitioner in a directory.

    Collectives stay as the partitioner makes them: not combined, the code generated without optimising.
    """
    xla = libraries()
    placement = Placement(1, partitions)
    options = _options(placement)
    build = options.executable_build_options
    build.allow_spmd_sharding_propagation_to_output = [False]
    build.allow_spmd_sharding_propagation_to_parameters = [False]
    build.debug_options.xla_disable_hlo_passes = "all-reduce-combiner,cpu-all-reduce-combiner"
    options.env_option_overrides = [
        ("xla_backend_optimization_level", 0),
        ("xla_cpu_enable_concurrency_optimized_scheduler", False),
        ("xla_dump_to", directory),
        ("xla_dump_hlo_pass_re", "spmd-partitioning"),
        ("xla_dump_hlo_as_text", True),
    ]
    parameters, results = signature(text)
    start = time.perf_counter()
    program = xla.mlir.hlo_to_stablehlo(parse_hlo(text).as_serialized_hlo_module_proto())
    devices = xla.client.DeviceList(tuple(_devices(placement)))
    executable = _client().compile_and_load(program, devices, options)
    return LoadedProgram(executable, parameters, results, placement, time.perf_counter() - start)


def memory(program: LoadedProgram) -> dict[str, int]:
    """Bytes per device of arguments, outputs, temporaries, and of outputs that reuse arguments."""
    stats = program.executable.get_compiled_memory_stats()
    arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
    temporaries, aliases = stats.temp_size_in_bytes, stats.alias_size_in_bytes
    peak = arguments + outputs - aliases + temporaries  # on the CPU, peak_memory_in_bytes leaves temporaries out
    return {"arguments": arguments, "outputs": outputs, "temporaries": temporaries, "aliases": aliases, "peak": peak}


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of one run: unsharded outputs, the shards of each device, and seconds. Tokens are left out."""

    outputs: list[np.ndarray]
    per_device: list[list[np.ndarray]]
    seconds: float


def execute(program: LoadedProgram, inputs: Sequence[np.ndarray]) -> Execution:
    """Run on unsharded inputs, one per flattened parameter, of the right types: XLA only compares byte counts."""
    put = libraries().jax.device_put
    shardings = _shardings(program.placement, program.executable.get_parameter_shardings(), len(inputs))
    placed = [put(_padded(array, sharding), sharding) for array, sharding in zip(inputs, shardings, strict=True)]
    return _execute(program, placed)


def _padded(array: np.ndarray, sharding: Any) -> np.ndarray:
    """The array padded with zeros where shards are uneven, which jax cannot place on devices and XLA ignores."""
    if sharding.is_fully_replicated:
        return array
    counts = sharding._hlo_sharding.tile_assignment_dimensions()[: array.ndim]
    missing = [-size % count for size, count in zip(array.shape, counts, strict=True)]
    return np.pad(array, [(0, amount) for amount in missing]) if any(missing) else array


def execute_each(program: LoadedProgram, inputs: Sequence[Sequence[np.ndarray]]) -> Execution:
    """Run replicas on separate inputs: one list of arrays per device."""
    jax = libraries().jax
    devices = _devices(program.placement)
    arrays = []
    for parts in zip(*inputs, strict=True):
        placed = [jax.device_put(part, device) for part, device in zip(parts, devices, strict=True)]
        sharding = _shardings(program.placement, None, 1)[0]
        arrays.append(jax.make_array_from_single_device_arrays(parts[0].shape, sharding, placed))
    return _execute(program, arrays)


def _execute(program: LoadedProgram, arrays: list[Any]) -> Execution:
    jax = libraries().jax
    jax.block_until_ready(arrays)
    start = time.perf_counter()
    shards = program.executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    jax.block_until_ready(shards)
    seconds = time.perf_counter() - start
    shardings = _shardings(program.placement, program.executable.get_output_shardings(), len(shards))
    results = [
        (parts, sharding, _dims(result_type))
        for parts, sharding, result_type in zip(shards, shardings, program.results, strict=True)
        if result_type != TOKEN  # a token cannot be fetched
    ]
    outputs = [_assembled(parts, sharding, dims) for parts, sharding, dims in results]
    devices = range(program.placement.devices)
    return Execution(outputs, [[np.asarray(parts[number]) for parts, _, _ in results] for number in devices], seconds)


def _dims(type_text: str) -> tuple[int, ...]:
    inside = type_text[type_text.index("[") + 1 : -1]
    return tuple(int(size.removeprefix("<=")) for size in inside.split(",") if size)


def _assembled(shards: list[Any], sharding: Any, dims: tuple[int, ...]) -> np.ndarray:
    """The unsharded array from its devices' shards, with the padding of uneven ones removed."""
    if sharding.is_fully_replicated:
        return np.asarray(shards[0])
    counts = sharding._hlo_sharding.tile_assignment_dimensions()[: len(dims)]
    padded = tuple(-(-size // count) * count for size, count in zip(dims, counts, strict=True))
    indices_map = sharding.devices_indices_map(padded)
    assembled = np.empty(padded, shards[0].dtype)
    for shard in shards:
        part, indices = np.asarray(shard), indices_map[next(iter(shard.devices()))]
        starts = [bounds.start or 0 for bounds in indices]
        assembled[tuple(slice(start, start + size) for start, size in zip(starts, part.shape, strict=True))] = part
    return assembled[tuple(slice(0, size) for size in dims)]


def _shardings(placement: Placement, compiled: Any, count: int) -> list[Any]:
    """The sharding of each value: as compiled, or replicated."""
    hlo, make = libraries().hlo, libraries().private.GSPMDSharding
    replicated = hlo.HloSharding.replicate()
    is_split = placement.partitions > 1 and bool(compiled)
    chosen = [hlo.HloSharding.from_proto(proto) for proto in compiled] if is_split else [replicated] * count
    devices = libraries().client.DeviceList(tuple(_devices(placement)))
    kept = [replicated if sharding.is_manual() or sharding.is_maximal() else sharding for sharding in chosen]
    return [make(devices, sharding) for sharding in kept]


def _client() -> Any:
    return libraries().jax.devices("cpu")[0].client


def _devices(placement: Placement) -> list[Any]:
    available = libraries().jax.devices("cpu")
    if placement.devices > len(available):
        raise HloomError(f"the program runs on {placement.devices} devices, and this process has {len(available)}")
    return available[: placement.devices]


def proto_of_stablehlo(program: bytes) -> bytes:
    """The HloModuleProto of StableHLO in MLIR bytecode; several results become a tuple, arguments stay separate."""
    return libraries().mlir.mlir_module_to_xla_computation(program).as_serialized_hlo_module_proto()


def stablehlo_of_proto(proto: bytes) -> bytes:
    """StableHLO, in MLIR's bytecode, of a HloModuleProto that no optimisation has touched."""
    return libraries().mlir.hlo_to_stablehlo(proto)


def upgraded_stablehlo(program: bytes, context: Any) -> Any:
    """What `jax.export` wrote, in this version's StableHLO: its MLIR module, a text before 0.10."""
    arguments = (program, context) if numbers(jaxlib_version()) >= (0, 10) else (program,)
    return libraries().mlir.deserialize_portable_artifact(*arguments)

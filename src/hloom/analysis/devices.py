"""Devices by name: compute rates, memory and link speeds; from `devices.toml` and from users' files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from hloom.analysis.collective_rates import CollectiveRates, law
from hloom.analysis.device_files import Table, read_tables
from hloom.analysis.matmul_time import MatmulRates
from hloom.ir import DType
from hloom.text import HloomError

DEFAULT_DEVICE = "h100"
"""The device to use if none is named."""
OWN_FILE = Path(__file__).with_name("devices.toml")
VARIABLE = "HLOOM_DEVICES"
"""The environment variable that names device files, separated as in PATH."""
FAST = "f32_fast"
"""The key of the f32 matrix rate at default precision."""
DEFAULT = "default"
"""The key of the rate for transcendental functions that have no rate of their own."""
FLOPS_EACH = 8
"""Vector operations assumed per transcendental function if a device gives no rate."""

_FLOATS_BY_BITS = {16: "bf16", 8: "f8"}
"""The types whose rates of products others of the same size take: tensor cores multiply them equally fast."""


@dataclass(frozen=True, slots=True)
class Interconnect:
    """A link between devices, or between a device and its host.

    `technology` is the link's name, such as NVLink or PCIe. `bandwidth` is in bytes per second that one device sends:
    in total through a `switch`, to each other device in a `mesh`, along one axis in a torus, to the host for `host`.
    `latency` is in seconds per step. `devices` is how many devices are joined, those with adjacent numbers; None for
    any number. `collectives` are the rates of collectives that were measured on it, by opcode.
    """

    name: str
    technology: str
    topology: str
    bandwidth: float
    latency: float
    devices: int | None = None
    collectives: Mapping[str, CollectiveRates] | None = None
    sources: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One device: dense peak rates in operations, bytes and functions per second, sizes in bytes, times in seconds.

    `matrix` and `vector` hold FLOP/s by element type, `transcendental` functions per second by opcode (`default` for
    the others), `opcodes` operations per second of opcodes that reach neither rate. `launch_seconds` is the overhead of
    each instruction, `start_seconds` the one-time overhead of a program run.

    `backend` is the XLA backend for it: `cpu`, `gpu` or `tpu`. `thread_registers` is the number of 32-bit registers of
    a GPU thread, `block_shared_bytes` the shared memory of a thread block; 0 means no limit. `multiprocessors` is the
    number of a GPU's, and `matmul` has the rates of its matrix products by element type, where they were measured.

    Three properties of CPUs that accelerators lack: for a program result of `fresh_bytes` or more, the system first has
    to allocate memory, at `fresh_bandwidth`, in addition to the writing. An elementwise operation that moves
    `spread_bytes` or more is spread over the cores, which takes `spread_seconds`. A loop that touches fewer than
    `small_loop_bytes` per iteration is compiled as a whole and launches nothing.
    """

    name: str
    title: str
    memory_bytes: float
    memory_bandwidth: float
    launch_seconds: float
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    transcendental: Mapping[str, float]
    opcodes: Mapping[str, float]
    links: tuple[Interconnect, ...]
    start_seconds: float = 0.0
    fresh_bytes: float = 0.0
    fresh_bandwidth: float = 0.0
    spread_bytes: float = 0.0
    spread_seconds: float = 0.0
    small_loop_bytes: float = 0.0
    devices_per_host: int = 1
    backend: str = "cpu"
    thread_registers: float = 0.0
    block_shared_bytes: float = 0.0
    multiprocessors: int = 0
    matmul: Mapping[str, MatmulRates] = field(default_factory=dict)
    sources: Mapping[str, str] | None = None

    def matrix_rate(self, dtype: DType, is_fast: bool = True) -> float:
        """FLOP/s of a dot or convolution; `is_fast` means default precision."""
        if is_fast and dtype.name == "f32" and FAST in self.matrix:
            return self.matrix[FAST]
        return _rate(self.matrix, dtype)

    def matmul_rates(self, dtype: DType, is_fast: bool = True) -> MatmulRates | None:
        """The measured rates of products of a type, or of another float type of its size; None if there are none."""
        if dtype.name == "f32":
            return self.matmul.get(FAST if is_fast else "f32")
        if dtype.is_complex or dtype.is_integer or dtype.name == "pred":
            return None
        return self.matmul.get(dtype.name) or self.matmul.get(_FLOATS_BY_BITS.get(dtype.bits, ""))

    def vector_rate(self, dtype: DType) -> float:
        """FLOP/s of elementwise operations."""
        return _rate(self.vector, dtype)

    def transcendental_rate(self, opcode: str) -> float:
        """Functions per second of a transcendental opcode."""
        known = self.transcendental
        return known.get(opcode) or known.get(DEFAULT) or self.vector["f32"] / FLOPS_EACH

    def memory_seconds(self, moved: float) -> float:
        """Seconds to move this many bytes."""
        return moved / self.memory_bandwidth

    def busy_seconds(self, compute: float, moved: float) -> float:
        """Seconds of work that computes for this many seconds and meanwhile moves this many bytes."""
        return max(compute, moved / self.memory_bandwidth)

    def kernel_seconds(self, compute: float, moved: float) -> float:
        """Seconds of a kernel with these compute seconds and bytes moved, including its launch."""
        return self.busy_seconds(compute, moved) + self.launch_seconds + self.spreading_seconds(moved)

    def fresh_seconds(self, written: float) -> float:
        """Seconds to get fresh memory for a result of this many bytes."""
        return written / self.fresh_bandwidth if self.fresh_bytes and written >= self.fresh_bytes else 0.0

    def spreading_seconds(self, moved: float) -> float:
        """Seconds to spread work that moves this many bytes over the cores."""
        return self.spread_seconds if self.spread_bytes and moved >= self.spread_bytes else 0.0


def device(name: str, file: str | os.PathLike[str] | None = None) -> Device:
    """The device with this name, from the given file, the files in HLOOM_DEVICES, or the package.

    Raises HloomError with similar names for an unknown name, and with the line for a fault in a file.
    """
    known = devices(file)
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"they are {', '.join(known)}"
    raise HloomError(f"no device is called '{name}'", hint=hint)


def as_device(device_or_name: Device | str) -> Device:
    """A device, given itself or by name; raises HloomError for anything else."""
    if isinstance(device_or_name, Device):
        return device_or_name
    if isinstance(device_or_name, str):
        return device(device_or_name)
    hint = "give a Device or the name of one: hloom.analysis.devices() has all"
    raise HloomError(f"expected a device or its name, not {type(device_or_name).__name__}", hint=hint)


def devices(file: str | os.PathLike[str] | None = None) -> dict[str, Device]:
    """All devices by name; those of later files replace earlier ones of the same name."""
    named = [Path(path) for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]
    known: dict[str, Device] = {}
    for path in (OWN_FILE, *named, *([Path(file)] if file is not None else [])):
        known |= shipped_devices() if path == OWN_FILE else _read(path)
    return known


@lru_cache(1)
def shipped_devices() -> dict[str, Device]:
    """The devices of the package's own file, by name."""
    return _read(OWN_FILE)


def _read(path: Path) -> dict[str, Device]:
    return {name.lower(): _device(name, table) for name, table in read_tables(path).items()}


def _device(name: str, table: Table) -> Device:
    links = tuple(Interconnect(**{**link, "collectives": _collectives(link)}) for link in table.get("links", ()))
    rates = {rate: dict(table.get(rate, {})) for rate in ("matrix", "vector", "transcendental", "opcodes")}
    matmul = {key: MatmulRates(**figures) for key, figures in table.get("matmul", {}).items()}
    return Device(name, **{**table, **rates, "links": links, "matmul": matmul})


def _collectives(link: Table) -> dict[str, CollectiveRates]:
    return {opcode: law(figures)(**figures) for opcode, figures in link.get("collectives", {}).items()}


def _rate(rates: Mapping[str, float], dtype: DType) -> float:
    """The rate of a type, else of the next wider known type, else of the widest narrower one."""
    if dtype.name in rates:
        return rates[dtype.name]
    bits = dtype.bits // 2 if dtype.is_complex else dtype.bits
    is_integer = dtype.is_integer or dtype.name == "pred"
    candidates = {name: int(_digits(name)) for name in rates if name != FAST and is_integer == name.startswith("s")}
    if not candidates:
        candidates = {name: int(_digits(name)) for name in rates if name != FAST}
    wider = [name for name in candidates if candidates[name] >= bits]
    return rates[min(wider, key=candidates.__getitem__) if wider else max(candidates, key=candidates.__getitem__)]


def _digits(name: str) -> str:
    """The bits in a type's name: `8` of f8 and of f8e4m3fn.

    >>> _digits("bf16"), _digits("f8e4m3fn")
    ('16', '8')
    """
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return digits[
        : next((position for position, character in enumerate(digits) if not character.isdecimal()), len(digits))
    ]

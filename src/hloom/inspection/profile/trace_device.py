"""The device of a trace, and whether it is the one whose rates the times are compared with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hloom.analysis import Device, devices, shipped_devices
from hloom.inspection.profile.trace import OpEvent, PlaneDevice, ProfilerTrace
from hloom.text import HloomError

BACKENDS = {"/device:GPU": "gpu", "/device:TPU": "tpu", "/host:CPU": "cpu"}
"""What the planes of a device's events are called (xla/tsl/profiler/utils/xplane_schema.cc), and the backend."""
MACHINE = "cpu"
"""The device that is taken for a trace of a CPU unless another is named: traces do not say which CPU it was."""
TPU_KINDS = {"tpu v5": "tpu-v5p"}
"""Titles of TPUs whose name says something else: libtpu calls a v5p `TPU v5`."""
VARIANTS = frozenset({"pcie", "nvl", "mig", "maxq", "sxm6"})
"""Words of titles that say that a device is slower than the one of that name, or a part of it; `b300` is that of GB300,
which is faster than a B300 SXM6."""
GB = 10**9


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a GPU's plane says where it has no title; `memory` is the least and the most of its bytes."""

    vendor: str
    capability: tuple[int, int]
    cores: int
    memory: tuple[int, int]


HARDWARE = {
    "a100-40": Hardware("nvidia", (8, 0), 108, (40 * GB, 44 * GB)),
    "a100-80": Hardware("nvidia", (8, 0), 108, (80 * GB, 88 * GB)),
    "h100": Hardware("nvidia", (9, 0), 132, (80 * GB, 88 * GB)),
    "h200": Hardware("nvidia", (9, 0), 132, (140 * GB, 155 * GB)),
    "b200": Hardware("nvidia", (10, 0), 148, (178 * GB, 198 * GB)),
    "mi300x": Hardware("amd", (9, 4), 304, (190 * GB, 208 * GB)),
}
"""Compute capabilities, multiprocessors and memory by NVIDIA's tuning guides and AMD's data sheets. Those of the PCIe
and NVL cards differ in one of them (H100: 114 cores; NVL: 94 GB), and so do parts of a GPU (MIG)."""
_TOKEN = re.compile(r"[a-z]*[0-9]+[a-z]*")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """The device whose rates count, and what is to be said of the choice."""

    device: Device
    notes: tuple[str, ...] = ()


def checked_device(trace: ProfilerTrace, events: Iterable[OpEvent], given: Device | None) -> ChosenDevice:
    """The device that is given, or else that of the events; raises HloomError where they differ or none is known."""
    planes = {event.device for event in events}
    backend = _backend(trace, planes)
    described = list(dict.fromkeys(trace.devices[plane] for plane in sorted(planes & trace.devices.keys())))
    what = " and ".join(filter(None, map(str, described))) or f"a device of the {backend or 'unknown'} backend"
    own = _common([_known(described_one, backend) for described_one in described or [PlaneDevice()]])
    if given is None:
        if own is None:
            raise HloomError(
                f"{trace.path} is a trace of {what}, whose rates are not known",
                hint="name a device (--device, device=); `hloom roofline --list` shows those known",
            )
        return ChosenDevice(own)
    if backend and given.backend != backend:
        raise HloomError(
            f"{trace.path} is a trace of {_article(backend)}, and {given.title} is {_article(given.backend)}: "
            "their times cannot be compared",
            hint="leave the device out to use the trace's own, or name one of its kind",
        )
    if own is not None and backend != MACHINE and given.name in devices() and own.name != given.name:
        raise HloomError(
            f"{trace.path} is a trace of {what}, not of {given.title}", hint=f"leave the device out, or name {own.name}"
        )
    if own is not None or given != shipped_devices().get(given.name):
        return ChosenDevice(given)
    if any(_contradicts(described_one, given) for described_one in described):
        raise HloomError(
            f"{trace.path} is a trace of {what}, not of {given.title}",
            hint="describe that device in a file of your own: docs/time.md says how",
        )
    if not any(map(str, described)):
        return ChosenDevice(given)
    return ChosenDevice(given, (f"this is a trace of {what}, beside the rates of {given.title}",))


def _backend(trace: ProfilerTrace, planes: Iterable[str]) -> str:
    """`cpu`, `gpu` or `tpu`, by the planes that hold the events; empty where none says it."""
    backends = {backend for plane in planes for start, backend in BACKENDS.items() if start in plane}
    if len(backends) > 1:
        raise HloomError(f"{trace.path}: the program ran on several kinds of devices ({', '.join(sorted(backends))})")
    return backends.pop() if backends else ""


def _common(known: list[Device | None]) -> Device | None:
    """The device that all are; None where they differ, or one is not known."""
    return known[0] if all(device == known[0] for device in known) else None


def _known(described: PlaneDevice, backend: str) -> Device | None:
    """The known device that a plane describes; None where it is not clear."""
    if backend == MACHINE:
        return devices().get(MACHINE)
    if described.title:
        return _named(described.title, backend)
    fitting = [
        name
        for name, hardware in HARDWARE.items()
        if (hardware.vendor, hardware.capability, hardware.cores)
        == (described.vendor.lower(), described.capability, described.cores)
        and hardware.memory[0] <= described.memory <= hardware.memory[1]
    ]
    return devices().get(fitting[0]) if backend == "gpu" and fitting else None


def _named(title: str, backend: str) -> Device | None:
    """The known device that a profiler's text means, as in `NVIDIA H100 80GB HBM3`; None where it is not clear."""
    if title.lower() in TPU_KINDS:
        return devices().get(TPU_KINDS[title.lower()])
    words = _tokens(title)
    candidates = {name: known for name, known in devices().items() if known.backend == backend}
    fitting = {name: words & set(_TOKEN.findall(name)) for name in candidates}
    most = max(map(len, fitting.values()), default=0)
    best = [name for name, common in fitting.items() if most and len(common) == most]
    if len(best) > 1:
        best = [name for name in best if any(word.removesuffix("gb") == name.rpartition("-")[2] for word in words)]
    if len(best) != 1 or _variants(title) - _variants(f"{best[0]} {candidates[best[0]].title}"):
        return None
    return candidates[best[0]]


def _contradicts(described: PlaneDevice, given: Device) -> bool:
    """Whether a plane says that its device is of another make than one of the package's."""
    if described.title:
        words = _tokens(described.title)
        return bool(words) and not words & _tokens(f"{given.name} {given.title}")
    hardware = HARDWARE.get(given.name)
    if not described.vendor or hardware is None:
        return False
    return (hardware.vendor, hardware.capability) != (described.vendor.lower(), described.capability)


def _tokens(title: str) -> set[str]:
    return set(_TOKEN.findall(title.lower().replace(" lite", "e")))


def _variants(title: str) -> frozenset[str]:
    return VARIANTS & frozenset(_WORD.findall(title.lower().replace("max-q", "maxq")))


def _article(backend: str) -> str:
    return f"a {backend.upper()}"

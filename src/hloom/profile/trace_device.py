"""On which device a trace was made, and whether that is the one whose rates the times are held against."""

from __future__ import annotations

import re

from hloom.analysis import Device, devices
from hloom.profile.trace import ProfilerTrace
from hloom.text import HloomError

BACKENDS = {"/device:GPU": "gpu", "/device:TPU": "tpu", "/host:CPU": "cpu"}
"""What the planes of a device's events are called (xla/tsl/profiler/utils/xplane_schema.cc), and the backend."""
_TOKEN = re.compile(r"[a-z]*[0-9]+[a-z]*")
MACHINE = "cpu"
"""The device that is taken for a trace of a CPU unless another is named: traces do not say which CPU it was."""


def checked_device(trace: ProfilerTrace, given: Device | None) -> Device:
    """The device that is given, or else that of the trace; raises HloomError where they differ or none is known."""
    backend, title = trace_backend(trace), trace.device_type
    if given is None:
        known = _named(title, backend)
        if known is None:
            what = title or f"a device of the {backend or 'unknown'} backend"
            raise HloomError(
                f"{trace.path} is a trace of {what}, whose rates are not known",
                hint="name a device (--device, device=); `hloom roofline --list` shows those known",
            )
        return known
    if backend and given.backend != backend:
        raise HloomError(
            f"{trace.path} is a trace of {_article(backend)}, and {given.title} is {_article(given.backend)}: "
            "their times cannot be compared",
            hint="leave the device out to use the trace's own, or name one of its kind",
        )
    own = _named(title, backend) if title else None
    if own is not None and given.name in devices() and own.name != given.name:
        raise HloomError(
            f"{trace.path} is a trace of {title}, not of {given.title}",
            hint=f"leave the device out, or name {own.name}",
        )
    return given


def trace_backend(trace: ProfilerTrace) -> str:
    """`cpu`, `gpu` or `tpu`, by the planes that hold the events of instructions; empty where none says it."""
    planes = {event.device for events in trace.programs.values() for event in events}
    backends = {backend for plane in planes for start, backend in BACKENDS.items() if start in plane}
    return backends.pop() if len(backends) == 1 else ""


def _named(title: str, backend: str) -> Device | None:
    """The known device that a profiler's text means, as in `NVIDIA H100 80GB HBM3`; None where it is not clear."""
    if backend == MACHINE:
        return devices().get(MACHINE)
    words = set(_TOKEN.findall(title.lower().replace(" lite", "e")))
    fitting = {
        name: words & set(_TOKEN.findall(name)) for name, known in devices().items() if known.backend == backend
    }
    most = max(map(len, fitting.values()), default=0)
    best = [name for name, common in fitting.items() if most and len(common) == most]
    if len(best) > 1:
        best = [name for name in best if any(word.removesuffix("gb") == name.rpartition("-")[2] for word in words)]
    return devices()[best[0]] if len(best) == 1 else None


def _article(backend: str) -> str:
    return f"a {backend.upper()}"

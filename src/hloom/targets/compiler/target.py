"""Targets that can be compiled for: names such as `v5e:4x4`, `h100x8` and `cpu`, and what each asks of its compiler.

    v5e:4x4     a TPU's generation and the chips of a slice
    h100x8      a GPU and how many
    cpu, cpux4  the host's XLA, on virtual devices

To add a device, add a row to TPUS or GPUS; a GPU also needs a `GpuTargetConfigProto` in gpu_specs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from hloom.analysis import Device
from hloom.analysis import device as device_of
from hloom.text import HloomError, near_names, visible

TPU, CUDA, CPU = "tpu", "cuda", "cpu"
"""PJRT's names of the platforms."""
GPUS_PER_HOST = 8
"""GPUs of one host, joined by NVLink: of DGX and HGX machines of these generations."""
MOST_GPUS = 4096
"""The maximum number of GPUs of a target; XLA compiles the same program for more."""
MOST_CPU_DEVICES = 256
"""The maximum number of virtual CPU devices of a target: each adds threads."""
_FLAT_SLICES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32")
"""Slices of TPUs whose chips are linked as a flat torus, smallest first."""
_CUBE = 4
"""Chips of the side of a cube: larger slices of TPUs with three dimensions are made of whole cubes."""
_SMALL_SLICES = ("1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4")
_TPU_NAME = re.compile(r"([a-z0-9]{1,20})(?::([0-9]{1,4}(?:x[0-9]{1,4}){0,3}))?")
_MEMORY_SIZE = re.compile(r"^\s*device_memory_size: (\d{1,18})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tpu:
    """A TPU generation: libtpu's name, the dimensions of its torus, its largest slice, and devices per chip.

    `chip_config` is libtpu's name of the chip's configuration: with `megacore` two cores are one device.
    """

    external_name: str
    dimensions: int
    largest: tuple[int, ...]
    devices_per_chip: int = 1
    chip_config: str = ""


# Largest slices: cloud.google.com/tpu/docs, the page of each generation; libtpu's names and devices: libtpu 0.0.42
TPUS = {
    "v2": Tpu("v2", 2, (16, 16), 2),
    "v3": Tpu("v3", 2, (32, 32), 2),
    "v4": Tpu("v4", 3, (16, 16, 16), 1, "megacore"),
    "v5e": Tpu("v5e", 2, (16, 16)),
    "v5p": Tpu("v5p", 3, (16, 20, 28)),
    "v6e": Tpu("v6e", 2, (16, 16)),
    "v7x": Tpu("tpu7x", 3, (16, 24, 24), 2),
}
GPUS = {"a100": "a100_sxm_80", "h100": "h100_sxm", "h200": "h200", "b200": "b200"}
"""The GPUs by name, with the file of each in gpu_specs."""
RATES = {
    "v4": "tpu-v4", "v5e": "tpu-v5e", "v5p": "tpu-v5p", "v6e": "tpu-v6e",
    "a100": "a100-80", "h100": "h100", "h200": "h200", "b200": "b200", "cpu": "cpu",
}  # fmt: skip
"""The device of `hloom roofline --list` that has a target's rates; v2, v3 and v7x have none."""
BACKENDS = {TPU: "tpu", CUDA: "gpu", CPU: "cpu"}
"""The backend of a platform's devices."""
EXAMPLES = "v5e:2x2, v5p:2x2x2, h100x8, a100, cpu"


class NoSuchTarget(HloomError):
    """A target with a number of devices that its machines are not made with."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a program is compiled for: the name, PJRT's platform, the number of devices, and the topology's arguments.

    `topology` holds the arguments of `jax.experimental.topologies.get_topology_desc`. `memory` is that of one device in
    bytes where the compiler compiles programs that exceed it, as XLA's GPU compiler does. `axes` is the mesh of its
    links, in the order of the devices' numbers: adjacent ones differ along the last axis.
    """

    name: str
    chip: str
    platform: str
    devices: int
    topology: dict[str, Any] = field(default_factory=dict, repr=False)
    memory: int | None = None
    axes: dict[str, int] = field(default_factory=dict, repr=False)


def parse_target(text: str, devices: int = 1) -> Target:
    """The target of a name; one without a topology or number is the smallest that has so many devices.

    Raises HloomError, with what exists, for an unknown device or topology.
    """
    name = text.strip().lower()
    chip = re.split(r"[:x]", name, maxsplit=1)[0] if name not in TPUS else name
    if name.split(":")[0] in TPUS:
        return _tpu(name, text, devices)
    if chip in GPUS:
        return _gpu(name, chip, text, devices)
    if chip == "cpu":
        return _cpu(name, text, devices)
    known = [*TPUS, *GPUS, "cpu"]
    raise HloomError(
        f"there is no target '{visible(text[:40])}'; known are {', '.join(known)}",
        hint=near_names(chip, known) or f"for example {EXAMPLES}",
    )


def parse_sized_target(text: str, devices: int | None) -> Target:
    """The target for a program that will be split over this many devices, or over all that its name says.

    Raises HloomError as `parse_target` does, if neither says the number, and if they contradict each other.
    """
    target = parse_target(text, devices or 1)
    if devices is None and text.strip().lower() == target.chip:
        raise HloomError(
            f"{target.chip} alone does not say how many devices there are", hint=f"name them all, as in {EXAMPLES}"
        )
    if devices not in (None, target.devices):
        raise HloomError(
            f"{target.name} has {target.devices:,} devices, and {devices:,} are asked for",
            hint=f"give {target.chip} alone for a target of {devices:,} devices, or ask for {target.devices:,}",
        )
    return target


def rates_for(target: Target, device: Device | None, listed: Path | None = None) -> Device | None:
    """The device whose rates price programs for a target: the one given, or its own; None if hloom has none.

    `listed` is a file of further devices. Raises HloomError if the device given is another machine.
    """
    own = RATES.get(target.chip)
    if device is None:
        return None if own is None else device_of(own, listed)
    if device.backend != BACKENDS[target.platform] or (device.name != own and device.name in RATES.values()):
        raise HloomError(f"{device.name} is no device of {target.name}", hint=own and f"its rates are those of {own}")
    return device


def slices(generation: str) -> Iterator[str]:
    """The topologies of a TPU generation, smallest first in each group."""
    tpu = TPUS[generation]
    if tpu.dimensions == 2:
        yield from (name for name in _FLAT_SLICES if _extents(name) <= tpu.largest)
        return
    yield from _SMALL_SLICES
    sides = [range(_CUBE, largest + 1, _CUBE) for largest in tpu.largest]
    cubes = [(a, b, c) for a in sides[0] for b in sides[1] for c in sides[2] if a <= b <= c]
    yield from ("x".join(map(str, sizes)) for sizes in sorted(cubes, key=lambda sizes: (math.prod(sizes), sizes)))


def _extents(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split("x")))


def _tpu(name: str, text: str, devices: int) -> Target:
    match = _TPU_NAME.fullmatch(name)
    generation = name.split(":")[0]
    tpu = TPUS[generation]
    known = list(slices(generation))
    if match is None or (match[2] is not None and match[2] not in known):
        shown = ", ".join(known[:12]) + (f" and multiples of {_CUBE} up to {'x'.join(map(str, tpu.largest))}"
                                         if tpu.dimensions == 3 else "")  # fmt: skip
        raise HloomError(f"'{visible(text[:40])}' is not a slice of TPU {generation}", hint=f"slices: {shown}")
    shape = match[2] or _smallest_slice(generation, devices)
    chips = math.prod(_extents(shape))
    arguments: dict[str, Any] = {"topology_name": f"{tpu.external_name}:{shape}"}
    if chips == 1:
        arguments["chips_per_host_bounds"] = [1, 1, 1]  # libtpu takes hosts of 2x2x1 chips unless told otherwise
    if tpu.chip_config:
        arguments["chip_config_name"] = tpu.chip_config
    torus = [*zip("xyz", _extents(shape), strict=False)]  # devices are numbered core by core, then along x
    axes = dict([*reversed(torus), ("core", tpu.devices_per_chip)])
    return Target(
        f"{generation}:{shape}", generation, TPU, chips * tpu.devices_per_chip, arguments, axes=_longer_axes(axes)
    )


def _longer_axes(axes: dict[str, int]) -> dict[str, int]:
    """The axes of more than one device."""
    return {name: size for name, size in axes.items() if size > 1} or {"x": 1}


def _smallest_slice(generation: str, devices: int) -> str:
    per_chip = TPUS[generation].devices_per_chip
    counts = {math.prod(_extents(name)) * per_chip: name for name in reversed(list(slices(generation)))}
    name = counts.get(per_chip if devices == 1 else devices)
    if name is None:
        shown = ", ".join(f"{count:,}" for count in sorted(counts)[:12])
        raise NoSuchTarget(
            f"no slice of TPU {generation} has {devices:,} devices",
            hint=f"shard the program for the devices of a slice: {shown}{', ...' if len(counts) > 12 else ''}",
        )
    return name


def _gpu(name: str, chip: str, text: str, devices: int) -> Target:
    count = _count(name, chip, text, devices, MOST_GPUS)
    if count > GPUS_PER_HOST and count % GPUS_PER_HOST:
        raise NoSuchTarget(
            f"'{visible(text[:40])}': {count:,} GPUs are no whole hosts",
            hint=f"give up to {GPUS_PER_HOST}, or a multiple of {GPUS_PER_HOST}",
        )
    hosts = max(1, count // GPUS_PER_HOST)
    specification = files("hloom.targets.compiler").joinpath("gpu_specs", f"{GPUS[chip]}.txtpb").read_text()
    arguments = {
        "topology_name": "",
        "target_config": specification,
        "topology": f"1x{hosts}x{count // hosts}",
    }
    memory = _MEMORY_SIZE.search(specification)
    name = chip if count == 1 else f"{chip}x{count}"
    axes = _longer_axes({"host": hosts, "gpu": count // hosts})
    return Target(name, chip, CUDA, count, arguments, int(memory[1]) if memory else None, axes)


def _cpu(name: str, text: str, devices: int) -> Target:
    count = _count(name, "cpu", text, devices, MOST_CPU_DEVICES)
    return Target("cpu" if count == 1 else f"cpux{count}", "cpu", CPU, count, axes={"cpu": count})


def _count(name: str, chip: str, text: str, devices: int, most: int) -> int:
    match = re.fullmatch(rf"{chip}(?:x([0-9]{{1,9}}))?", name)
    count = None if match is None else int(match[1]) if match[1] else devices
    if match is not None and not match[1] and devices > most:
        raise HloomError(f"the program asks for {devices:,} devices, and {most:,} of {chip} are the most")
    if count is None or count < 1 or count > most:
        raise HloomError(
            f"'{visible(text[:40])}' is not a number of {chip} devices",
            hint=f"give {chip} or {chip}xN, with N from 1 to {most:,}",
        )
    return count

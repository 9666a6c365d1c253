"""Reads the text of XLA's buffer assignment: the allocations, by memory space.

    allocation 58: size 836096, preallocated-temp:
    allocation 62: size 94720000, color 1, preallocated-temp:
    allocation 1: size 2097152, parameter 5, shape |bf16[1024,1024]| at ShapeIndex {}, maybe-live-out:

Source: xla/service/buffer_assignment.cc, BufferAllocation::ToString.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hloom.targets.compiler.target import CUDA, TPU
from hloom.text import Bytes

_ALLOCATION = re.compile(r"^allocation \d{1,9}: (?:0x[0-9a-f]+, )?size (\d{1,19}),?(.*)$", re.MULTILINE)
_COLOR = re.compile(r"(?:^|[ ,])color (\d{1,9})\b")
_NAMES = {
    TPU: {0: "HBM", 1: "VMEM", 2: "flags", 4: "SMEM", 5: "host"},
    CUDA: {0: "device", 1: "collective", 5: "host"},
}
"""Memory spaces by the numbers in layouts, S(n): xla/layout.h and xla/service/gpu/backend_configs.proto. Those of TPUs
are by what libtpu 0.0.42 keeps there: S(2) the u32[] that asynchronous copies signal with, S(4) scalars and offsets.
"""


@dataclass(frozen=True, slots=True)
class SpaceUse:
    """The bytes assigned in one memory space, by what they hold."""

    space: int
    name: str
    arguments: Bytes = 0
    outputs: Bytes = 0
    temporaries: Bytes = 0
    constants: Bytes = 0
    thread_local: Bytes = 0
    json_keys = "* total"

    @property
    def total(self) -> Bytes:
        """All of them."""
        return self.arguments + self.outputs + self.temporaries + self.constants + self.thread_local


def space_name(platform: str, space: int) -> str:
    """What a memory space is called; S(n) for one without a name."""
    return _NAMES.get(platform, {0: "memory"}).get(space, f"S({space})")


def spaces_in(text: str, platform: str) -> tuple[SpaceUse, ...]:
    """The use of each memory space, from the text of a buffer assignment; empty if there is none."""
    sums: dict[int, dict[str, int]] = {}
    for match in _ALLOCATION.finditer(text):
        color = _COLOR.search(match[2])
        row = sums.setdefault(int(color[1]) if color else 0, {})
        role = _role(match[2])
        row[role] = row.get(role, 0) + int(match[1])
    return tuple(SpaceUse(space, space_name(platform, space), **row) for space, row in sorted(sums.items()))


def _role(text: str) -> str:
    if " parameter " in text:
        return "arguments"
    if " constant" in text:
        return "constants"
    if " thread-local" in text:
        return "thread_local"
    return "outputs" if "maybe-live-out" in text else "temporaries"

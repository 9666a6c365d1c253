"""A row of devices, their memory, and the time to send bytes between them.

Interconnects are those of `hloom.analysis`: one that joins d devices joins 0 to d-1, d to 2d-1 and so on, so two
machines of eight devices are one interconnect of eight devices and one of any number behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import HOST, CollectiveLine, Device, Interconnect, MessageTime, collective_line, comm_factor
from hloom.text import HloomError

LARGEST_MACHINE = 4096
"""The maximum number of devices of a pipeline."""


class InvalidMachine(HloomError):
    """Devices, memory or interconnects of which no machine is made."""


@dataclass(frozen=True, slots=True)
class Machine:
    """`count` equal devices with this many bytes of memory each, and the interconnects between them, nearest first.

    >>> pair = Interconnect("nvlink", "NVLink", "ring", bandwidth=100e9, latency=1e-6, devices=2)
    >>> net = Interconnect("network", "InfiniBand", "ring", bandwidth=10e9, latency=1e-5)
    >>> machine = Machine(4, 16e9, (pair, net))
    >>> seconds = [machine.transfer_seconds((0,), (target,), 1e9) for target in (1, 2)]
    >>> [round(second, 6) for second in seconds]
    [0.010001, 0.10001]
    """

    count: int
    memory_bytes: float
    links: tuple[Interconnect, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.count <= LARGEST_MACHINE:
            raise InvalidMachine(f"a machine of {self.count} devices", hint=f"from 1 to {LARGEST_MACHINE} are possible")
        if not self.memory_bytes > 0:
            raise InvalidMachine(f"devices of {self.memory_bytes} bytes", hint="give each device's memory in bytes")
        for link in self.links:
            if not (link.bandwidth > 0 and link.latency >= 0):
                raise InvalidMachine(
                    f"interconnect {link.name}: {link.bandwidth} bytes/s after {link.latency} s",
                    hint="give a bandwidth above 0 and a latency of 0 or more",
                )
        if self.count > 1 and not self.links:
            raise InvalidMachine(
                f"{self.count} devices without an interconnect", hint="say how fast they send to one another"
            )

    @staticmethod
    def of(device: Device, count: int, memory_bytes: float | None = None) -> Machine:
        """So many devices of a kind that `hloom.analysis.device` knows, with its memory and its interconnects."""
        links = tuple(link for link in device.links if link.topology != HOST)
        return Machine(count, device.memory_bytes if memory_bytes is None else memory_bytes, links)

    def all_reduce_time(self, devices: Sequence[int]) -> MessageTime:
        """The time of summing up over these devices what each holds, by its bytes."""
        if len(devices) < 2:
            return CollectiveLine(0.0, 0.0)
        return collective_line("all-reduce", devices, self).scaled(comm_factor("all-reduce", len(devices)))

    def all_reduce_seconds(self, devices: Sequence[int], data_bytes: float) -> float:
        """Seconds for these devices to all-reduce this many bytes."""
        return self.all_reduce_time(devices).seconds(data_bytes)

    def transfer_time(self, sources: Sequence[int], targets: Sequence[int]) -> MessageTime:
        """The time of bringing what is split over `sources` to `targets`, split over those, by its bytes.

        The devices send side by side; the smaller of both sides, and the farthest pair, set the time.
        """
        each = collective_line("send", (*sources, *targets), self)
        return each.scaled(1 / min(len(sources), len(targets)))

    def transfer_seconds(self, sources: Sequence[int], targets: Sequence[int], data_bytes: float) -> float:
        """Seconds to bring this many bytes from `sources` to `targets`, as in `transfer_time`."""
        return self.transfer_time(sources, targets).seconds(data_bytes)

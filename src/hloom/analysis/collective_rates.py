"""Measured rates of collectives within one switched domain of GPUs, and the times that follow from them.

Three laws, each of a few figures for an opcode and a link:

- **Rings** (`RingRates`): a launch, a latency per step, and the bytes over the bandwidth. A long message is cut into
  chunks that follow one another through the steps. With A seconds of latency, X seconds of sending and chunks of the
  best size, that takes A + X + 2 sqrt(A X) (Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast,
  reduction and scan, 2009); `pipelining` is in place of the 2.
- **Peers** (`PeerRates`): each device sends another part to every other. Short parts travel eagerly, in a protocol of
  low latency and low bandwidth (LL in NCCL), longer ones in one of full bandwidth.
- **Pairs** (`PairRates`): one device sends to one other, eagerly if the message is short, else over as many channels
  as there are full parts of it, a power of two (NCCL, src/enqueue.cc, addP2pToPlan).

`scripts/calibrate_gpus.py` finds the figures from measured times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np


class MessageTime(Protocol):
    """The seconds of a collective between given devices as a function of its bytes; nothing takes no time."""

    @property
    def latency(self) -> float:
        """Seconds of the shortest message."""
        ...

    @property
    def byte_seconds(self) -> float:
        """Seconds of each byte of a long message."""
        ...

    def seconds(self, data: float, /) -> float:
        """Seconds for this many bytes."""
        ...

    def each(self, data: np.ndarray, /) -> np.ndarray:
        """Seconds for each of these numbers of bytes."""
        ...

    def scaled(self, factor: float, /) -> MessageTime:
        """The function of numbers of which each stands for `factor` bytes."""
        ...


class CollectiveLine(NamedTuple):
    """A time in proportion to the bytes: seconds of latency, and seconds per byte."""

    latency: float
    byte_seconds: float

    def seconds(self, sent: float) -> float:
        return self.latency + sent * self.byte_seconds if sent else 0.0

    def each(self, sent: np.ndarray) -> np.ndarray:
        return np.where(sent > 0, self.latency + sent * self.byte_seconds, 0.0)

    def scaled(self, factor: float) -> CollectiveLine:
        return CollectiveLine(self.latency, self.byte_seconds * factor)


class ChunkedTime(NamedTuple):
    """The time of a message that travels in chunks: a latency, and seconds per byte and per square root of bytes."""

    latency: float
    byte_seconds: float
    root_seconds: float

    def seconds(self, data: float) -> float:
        return self.latency + data * self.byte_seconds + data**0.5 * self.root_seconds if data else 0.0

    def each(self, data: np.ndarray) -> np.ndarray:
        return np.where(data > 0, self.latency + data * self.byte_seconds + data**0.5 * self.root_seconds, 0.0)

    def scaled(self, factor: float) -> ChunkedTime:
        return ChunkedTime(self.latency, self.byte_seconds * factor, self.root_seconds * factor**0.5)


@dataclass(frozen=True, slots=True)
class RingRates:
    """Rates of all-gathers, reduce-scatters or all-reduces, and of all-to-alls within a host.

    `launch_seconds` is the fixed time; `bandwidth` is in bytes per second that a device sends; `own_share` is how much
    of a step's time a device takes to copy its own part.

    Three are 0 where they do not apply. `step_seconds` is the latency of a step. `doubling_seconds` is what twice as
    many devices wait longer for the last one: in a host of eight, each is launched by a thread of its own, and the last
    of n random delays grows with log n. The latency grows no further than `latency_limit` seconds, from which the
    switch reduces in the network.
    """

    launch_seconds: float
    bandwidth: float
    own_share: float
    pipelining: float
    step_seconds: float = 0.0
    doubling_seconds: float = 0.0
    latency_limit: float = 0.0

    def launch(self, size: int) -> float:
        """Seconds until the last of `size` devices starts."""
        return self.launch_seconds + self.doubling_seconds * math.log2(size)

    def time(self, size: int, halves: int) -> ChunkedTime:
        """The time among `size` devices, by the bytes of the whole array; an all-reduce has two halves."""
        latency = self.launch(size) + self.step_seconds * (size - 1) * halves
        latency = min(latency, self.latency_limit) if self.latency_limit else latency
        byte_seconds = halves * (size - 1 + self.own_share) / size / self.bandwidth
        return ChunkedTime(latency, byte_seconds, self.pipelining * (latency * byte_seconds) ** 0.5)


class PeerTime(NamedTuple):
    """The time of an all-to-all, eager up to some bytes.

    `narrow_share` is the extra time where channels are idle, as a share of that of the bytes, up to `narrow_limit`.
    """

    eager_bytes: float
    shortest: float
    launch: float
    eager_byte_seconds: float
    chunked: ChunkedTime
    narrow_share: float
    narrow_limit: float

    @property
    def latency(self) -> float:
        return max(self.shortest, self.launch)

    @property
    def byte_seconds(self) -> float:
        return self.chunked.byte_seconds

    def seconds(self, data: float) -> float:
        return float(self.each(np.array(data)))

    def each(self, data: np.ndarray) -> np.ndarray:
        eager = np.maximum(self.shortest, self.launch + data * self.eager_byte_seconds)
        narrow = np.minimum(data * self.byte_seconds * self.narrow_share, self.narrow_limit)
        longer = self.chunked.each(data + narrow / self.byte_seconds)
        return np.where(data > 0, np.where(data <= self.eager_bytes, eager, longer), 0.0)

    def scaled(self, factor: float) -> PeerTime:
        return self._replace(
            eager_bytes=self.eager_bytes / factor,
            eager_byte_seconds=self.eager_byte_seconds * factor,
            chunked=self.chunked.scaled(factor),
        )


class PairTime(NamedTuple):
    """The time of sending to one device, eager up to some bytes, else in parts of up to `channel_bytes`."""

    latency: float
    eager_bytes: float
    eager_byte_seconds: float
    byte_seconds: float
    channel_bytes: float
    channel_byte_seconds: float
    handshake: float
    overlap: float

    def seconds(self, data: float) -> float:
        return float(self.each(np.array(data)))

    def each(self, data: np.ndarray) -> np.ndarray:
        channels = np.exp2(np.ceil(np.log2(np.maximum(data / self.channel_bytes, 1.0))))
        channel, whole = data / channels * self.channel_byte_seconds, data * self.byte_seconds
        sending = np.maximum(channel, whole) + (1 - self.overlap) * np.minimum(channel, whole)
        longer = self.handshake + sending
        eager = data * self.eager_byte_seconds
        return np.where(data > 0, self.latency + np.where(data <= self.eager_bytes, eager, longer), 0.0)

    def scaled(self, factor: float) -> PairTime:
        return self._replace(
            eager_bytes=self.eager_bytes / factor,
            eager_byte_seconds=self.eager_byte_seconds * factor,
            byte_seconds=self.byte_seconds * factor,
            channel_bytes=self.channel_bytes / factor,
            channel_byte_seconds=self.channel_byte_seconds * factor,
        )


@dataclass(frozen=True, slots=True)
class PeerRates:
    """Rates of all-to-alls between hosts: of parts up to `eager_bytes` for each peer, and of longer ones.

    `launch_seconds` is the fixed time and `peer_seconds` that of each peer; they overlap. Channels are handed out to a
    power of two of peers, so those of 18 peers are idle half the time; `narrow_seconds` is the most that this costs,
    since long messages use all channels for each peer. The others are as in `RingRates`.
    """

    launch_seconds: float
    peer_seconds: float
    eager_bytes: float
    eager_bandwidth: float
    bandwidth: float
    own_share: float
    pipelining: float
    narrow_seconds: float

    def launch(self, size: int) -> float:
        return self.launch_seconds

    def time(self, size: int, halves: int) -> PeerTime:
        """The time among `size` devices, by the bytes of the whole array."""
        slots = 1 << (size - 1).bit_length()
        shortest = self.peer_seconds * size
        latency = max(self.launch_seconds, shortest)
        byte_seconds = (size - 1 + self.own_share) / size / self.bandwidth
        chunked = ChunkedTime(latency, byte_seconds, self.pipelining * (latency * byte_seconds) ** 0.5)
        eager = slots / size / self.eager_bandwidth
        share = slots / size - 1
        return PeerTime(
            self.eager_bytes * size, shortest, self.launch_seconds, eager, chunked, share, self.narrow_seconds
        )


@dataclass(frozen=True, slots=True)
class PairRates:
    """Rates of sending from one device to another: of messages up to `eager_bytes`, and of longer ones.

    A longer one starts with a handshake of `handshake_seconds`. A channel takes parts of up to `channel_bytes` at
    `channel_bandwidth`; all channels together reach `bandwidth`.
    `overlap` is the share of the shorter of both times that the longer one hides.
    """

    launch_seconds: float
    eager_bytes: float
    eager_bandwidth: float
    bandwidth: float
    channel_bytes: float
    channel_bandwidth: float
    handshake_seconds: float
    overlap: float

    def launch(self, size: int) -> float:
        return self.launch_seconds

    def time(self, size: int, halves: int) -> PairTime:
        """The time by the bytes that a device sends, the same among any number of devices."""
        return PairTime(
            self.launch_seconds,
            self.eager_bytes,
            1 / self.eager_bandwidth,
            1 / self.bandwidth,
            self.channel_bytes,
            1 / self.channel_bandwidth,
            self.handshake_seconds,
            self.overlap,
        )


CollectiveRates = RingRates | PeerRates | PairRates
"""The rates of an opcode on a link."""


def law(names: Iterable[str]) -> type[CollectiveRates]:
    """The class of rates that has most of these fields."""
    given = frozenset(names)
    laws = (RingRates, PeerRates, PairRates)
    return max(laws, key=lambda rates: len(given & {field.name for field in fields(rates)}))

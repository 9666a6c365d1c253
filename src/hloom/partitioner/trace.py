"""The collectives that the partitioner would emit, as they come up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.partitioner.collective import Step
from hloom.partitioner.tile_assignment import Tiles
from hloom.sharding.mesh import Mesh


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All devices: how many there are, and where each stands on the axes of the mesh."""

    names: tuple[str, ...]
    places: np.ndarray

    @classmethod
    def of(cls, mesh: Mesh) -> World:
        """The devices of a mesh."""
        places = np.empty((mesh.device_count, len(mesh.names)), dtype=int)
        places[np.asarray(mesh.order.ids()).ravel()] = np.indices(mesh.sizes).reshape(len(mesh.sizes), -1).T
        return cls(mesh.names, places)


@dataclass(slots=True)
class Trace:
    """The collectives so far; the values that they are about have elements of `width` bytes.

    Groups of devices in another order than their own are charged as if they were all devices, which is how
    plans are measured, unless they are formed inside of groups (`inner` are then the devices of the first) or listed
    one by one.
    """

    world: World
    width: int = 1
    steps: list[Step] = field(default_factory=list)
    inner: tuple[int, ...] | None = None
    side: int | None = None

    def inside(self, groups: Sequence[tuple[int, ...]]) -> Trace:
        """The same trace, inside of groups."""
        first = groups[0]
        return replace(self, inner=first if self.inner is None else tuple(self.inner[device] for device in first))

    def of(self, width: int) -> Trace:
        """The same trace, for a value whose elements are so wide."""
        return self if width == self.width else replace(self, width=width)

    def moving(self, side: int, width: int) -> Trace:
        """The same trace, for changes of an operand."""
        return replace(self, side=side, width=width)

    def add(self, kind: str, minor: Mapping[int, int], elements: int, tiles: Tiles, *, is_inner: bool = False) -> None:
        """A collective among those that hold the last so many parts of some dimensions, copies being the last."""
        size = math.prod(minor.values())
        if size == 1:
            return
        is_plain = is_inner or self.inner is not None or tiles.is_listed or tiles.is_ordered
        members = tiles.array()
        for place, count in minor.items():
            members = np.moveaxis(members, place, 0)[:count]
            members = np.moveaxis(members, 0, place)
        index = tuple(slice(None) if place in minor else 0 for place in range(members.ndim))
        charged = size if is_plain else len(self.world.places)
        found = self._known(members[index].ravel())
        places = self.world.places[found]
        mark = (kind, *minor, *found.tolist())
        axes = self._differing(places != places[0])
        self.steps.append(Step(kind, charged, elements * self.width, axes, self.side, mark))

    def permute(self, elements: int, source: Tiles, target: Tiles) -> None:
        """A permute from the devices of a part to those that shall have it."""
        have, want = (self._known(each.devices) for each in (source, target))
        axes = self._differing(self.world.places[have] != self.world.places[want])
        mark = ("collective-permute", *have.tolist(), *want.tolist())
        self.steps.append(Step("collective-permute", 2, elements * self.width, axes, self.side, mark))

    def cut(self, parts: int) -> None:
        """What an all-reduce was the last step of is cut into parts: so much of it is a reduce-scatter."""
        if parts < 2 or not self.steps or self.steps[-1].kind != "all-reduce":
            return
        last = self.steps.pop()
        scattered = math.gcd(last.group, parts)
        if scattered > 1:
            self.steps.append(Step("reduce-scatter", scattered, last.elements, last.axes))
        if last.group > scattered:
            self.steps.append(Step("all-reduce", last.group // scattered, last.elements // scattered, last.axes))

    def _known(self, devices: Sequence[int] | np.ndarray) -> np.ndarray:
        """Devices by their numbers in the mesh."""
        found = np.asarray(devices)
        return found if self.inner is None else np.asarray(self.inner)[found]

    def _differing(self, found: np.ndarray) -> tuple[str, ...]:
        return tuple(name for place, name in enumerate(self.world.names) if found[:, place].any())

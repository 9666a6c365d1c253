"""Arrays whose rows are distributed over several device groups: joining and splitting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.runtime.device_group import BATCH_AXIS, STAGE_AXIS, DeviceGroup
from hloom.runtime.jax_internals import jax_internals


class ArrayRows:
    """An array whose rows are on several groups of devices, in parts that jax has no sharding for.

    numpy puts it together: `np.asarray(rows)`.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.concatenate([np.asarray(part) for part in self.parts]).astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        rows = ", ".join(str(part.shape[0]) for part in self.parts)
        return f"<{self.dtype}{list(self.shape)} in parts of {rows} rows>"

    @property
    def nbytes(self) -> int:
        """The bytes of all parts together."""
        return sum(part.nbytes for part in self.parts)


def join_rows(parts: Sequence[Any], groups: Sequence[DeviceGroup]) -> Any:
    """An array of rows that groups of devices hold: jax's, where all have as many, and ArrayRows otherwise.

    It is ArrayRows too where the devices of a group hold different parts of its rows.
    """
    jax = jax_internals().jax
    devices = [device for group in groups for device in group.devices]
    counts = {(part.shape[0], len(group.devices)) for part, group in zip(parts, groups, strict=True)}
    are_whole = all(part.sharding.is_fully_replicated for part in parts)
    if len(counts) > 1 or len(set(devices)) != len(devices) or not are_whole:
        return ArrayRows(parts)
    mesh = jax.sharding.Mesh(np.array(devices).reshape(len(groups), -1), (STAGE_AXIS, BATCH_AXIS))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(STAGE_AXIS))
    shards = {shard.device: shard.data for part in parts for shard in part.addressable_shards}
    dims = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
    local = [shards[device] for device in devices if device in shards]
    return jax.make_array_from_single_device_arrays(dims, sharding, local, dtype=parts[0].dtype)


def take_rows(array: Any, rows: tuple[int, int], group: DeviceGroup) -> Any:
    """Rows of an array; of one that `join_rows` made, the part that is on these devices already."""
    if not group.is_local:
        return group.without_data((rows[1] - rows[0], *array.shape[1:]), array.dtype)
    if isinstance(array, ArrayRows):
        start = 0
        for part in array.parts:
            if (start, start + part.shape[0]) == rows:
                return part
            start += part.shape[0]
        array = np.asarray(array)
    for shard in getattr(array, "addressable_shards", ()):
        index = shard.index[0] if shard.index else slice(None)
        if (index.start, index.stop) == rows and shard.device in group.devices:
            return shard.data if len(group.devices) == 1 else _replicas(array, rows, group)
    return array[rows[0] : rows[1]]


def _replicas(array: Any, rows: tuple[int, int], group: DeviceGroup) -> Any:
    """Rows of an array that each device of a group has, as an array of that group."""
    shards = {
        shard.device: shard.data
        for shard in array.addressable_shards
        if (shard.index[0].start, shard.index[0].stop) == rows
    }
    if any(device not in shards for device in group.devices):
        return array[rows[0] : rows[1]]
    dims = (rows[1] - rows[0], *array.shape[1:])
    local = [shards[device] for device in group.devices]
    return jax_internals().jax.make_array_from_single_device_arrays(dims, group.sharding(dims), local)

"""Modules and arrays on a group of jax devices, such as one pipeline stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hloom.ir import Module, TensorType, TupleType
from hloom.runtime.differentiation import Program, program_call
from hloom.runtime.jax_internals import jax_internals
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError

BATCH_AXIS = "batch"
"""The mesh axis of a group's devices along which arrays are split."""
STAGE_AXIS = "stage"
"""The name of the axis of the groups of devices that share the rows of an array."""
Split = int | Spec | None
"""How a group holds an array: split along a dimension, by a spec on the group's mesh, or replicated."""


def uses_shardy() -> bool:
    """Whether jax's programs are partitioned by Shardy, and not by GSPMD."""
    return bool(jax_internals().jax.config.jax_use_shardy_partitioner)


def device_groups(
    numbers: Sequence[Sequence[int]],
    devices: Sequence[Any] | None = None,
    meshes: Sequence[Mesh | None] | None = None,
) -> list[DeviceGroup]:
    """Groups of jax's devices, by their numbers among `devices`, which are all of them by default."""
    known = list(devices) if devices is not None else jax_internals().jax.devices()
    wanted = 1 + max(number for group in numbers for number in group)
    if wanted > len(known):
        raise HloomError(
            f"the plan uses {wanted} devices, and there are {len(known)}",
            hint=f"on the CPU: XLA_FLAGS=--xla_force_host_platform_device_count={wanted}",
        )
    given = meshes if meshes is not None else [None] * len(numbers)
    return [DeviceGroup([known[number] for number in group], mesh) for group, mesh in zip(numbers, given, strict=True)]


class DeviceGroup:
    """Devices of one process that share the work of modules: arrays are split along one dimension, or replicated.

    On a mesh, whose positions the devices have in this order, arrays are split by specs too.
    In the other processes its arrays are jax's, without data, and its modules yield such.
    """

    def __init__(self, devices: list[Any], mesh: Mesh | None = None) -> None:
        self.devices, self.mesh = devices, mesh
        processes = {getattr(device, "process_index", 0) for device in devices}
        if len(processes) > 1:
            raise HloomError(
                f"devices {[device.id for device in devices]} share a stage, and are of processes {sorted(processes)}",
                hint="a stage's devices are those of one process",
            )
        (self.process,) = processes

    @cached_property
    def is_local(self) -> bool:
        """Whether the devices are those of this process."""
        return self.process == jax_internals().jax.process_index()

    @cached_property
    def _mesh(self) -> Any:
        make = jax_internals().jax.sharding.Mesh
        if self.mesh is not None:
            return make(np.array(self.devices).reshape(self.mesh.sizes), self.mesh.names)
        return make(np.array(self.devices), (BATCH_AXIS,))

    def sharding(self, dims: Sequence[int], split: Split = None) -> Any:
        """jax's sharding of an array on these devices."""
        sharding = jax_internals().jax.sharding
        if isinstance(split, Spec):
            axes = [dim_axes if len(dim_axes) > 1 else next(iter(dim_axes), None) for dim_axes in split.dims]
            return sharding.NamedSharding(self._mesh, sharding.PartitionSpec(*axes))
        if len(self.devices) == 1:
            return sharding.SingleDeviceSharding(self.devices[0])
        spec: list[str | None] = [None] * len(dims)
        if split is not None and self.mesh is None and dims[split] % len(self.devices) == 0:
            spec[split] = BATCH_AXIS
        return sharding.NamedSharding(self._mesh, sharding.PartitionSpec(*spec))

    def holds(self, array: Any, split: Split = None) -> bool:
        """Whether an array is on these devices, split so."""
        return getattr(array, "sharding", None) == self.sharding(np.shape(array), split)

    def put(self, array: Any, split: Split = None) -> Any:
        """An array on these devices, split by a spec or along a divisible dimension; unchanged if it is there already.

        Between processes it uses a collective: all of them must call it in the same order.
        """
        if self.holds(array, split):
            return array
        jax = jax_internals().jax
        with jax_internals().enable_x64():
            source = _process_of(array)
            here = jax.process_index()
            if source not in (None, self.process) and here in (source, self.process):
                array = self._received(array, source)
            if not self.is_local:
                return self.without_data(np.shape(array), array.dtype, split)
            return jax.device_put(array, self.sharding(np.shape(array), split))

    def without_data(self, dims: Sequence[int], element_type: Any, split: Split = None) -> Any:
        """An array of another process, as jax represents it in this one."""
        sharding = self.sharding(dims, split)
        make = jax_internals().jax.make_array_from_single_device_arrays
        return make(tuple(dims), sharding, [], dtype=element_type)

    def _received(self, array: Any, source: int) -> Any:
        """An array of another process on the first of these devices; in the process that sends it, the array."""
        jax = jax_internals().jax
        first = min((device for device in array.sharding.device_set), key=lambda device: device.id)
        mesh = jax.sharding.Mesh(np.array([first, self.devices[0]]), (STAGE_AXIS,))
        spec = jax.sharding.PartitionSpec(STAGE_AXIS)
        sharding = jax.sharding.NamedSharding(mesh, spec)
        if jax.process_index() == source:
            local = jax.device_put(array, first)[None]
        else:
            local = jax.device_put(np.zeros((1, *array.shape), array.dtype), self.devices[0])
        both = jax.make_array_from_single_device_arrays((2, *array.shape), sharding, [local])
        moved = _permutation(mesh)(both)
        if jax.process_index() == source:
            return array
        return moved.addressable_shards[0].data[0]

    def compiled(
        self, module: Module, splits: Sequence[Split], donated: Sequence[int] = ()
    ) -> Callable[..., tuple[Any, ...]]:
        """A module as a function of arrays on these devices, compiled when it is first called.

        Its result is a tuple of arrays, split along `splits`; the memory of `donated` operands is taken over.
        """
        internals = jax_internals()
        root_type = module.entry.root.type
        assert isinstance(root_type, TupleType)
        inputs = [_aval(parameter.type) for parameter in module.entry.parameters]
        outputs = [_aval(element) for element in root_type.elements]
        program = Program(module.name, inputs, outputs, _NoDerivatives(), module=module)

        def apply(*arrays: Any) -> Any:
            return tuple(program_call().bind(*arrays, program=program))

        def absent(*arrays: Any) -> tuple[Any, ...]:
            del arrays
            pairs = zip(outputs, splits, strict=True)
            return tuple(self.without_data(aval.shape, aval.dtype, split) for aval, split in pairs)

        if not self.is_local:
            return absent
        apply.__name__ = apply.__qualname__ = module.name
        shardings = tuple(self.sharding(aval.shape, split) for aval, split in zip(outputs, splits, strict=True))
        jitted = internals.jax.jit(apply, out_shardings=shardings, donate_argnums=tuple(donated))

        def run(*arrays: Any) -> Any:
            with internals.enable_x64():
                return jitted(*arrays)

        return run


def _process_of(array: Any) -> int | None:
    """The process whose devices an array is on; None where this process has all of it."""
    sharding = getattr(array, "sharding", None)
    if sharding is None or array.is_fully_addressable:
        return None if sharding is None else jax_internals().jax.process_index()
    processes = {device.process_index for device in sharding.device_set}
    return min(processes)


@lru_cache(64)
def _permutation(mesh: Any) -> Any:
    """The function that sends what the first of two devices has to the second."""
    jax = jax_internals().jax
    spec = jax.sharding.PartitionSpec(STAGE_AXIS)

    def send(part: Any) -> Any:
        return jax.lax.ppermute(part, STAGE_AXIS, [(0, 1)])

    return jax.jit(jax.shard_map(send, mesh=mesh, in_specs=spec, out_specs=spec))


class _NoDerivatives:
    """For programs that nobody differentiates."""

    def parts(self, module: Module, wrt: Sequence[int]) -> tuple[Module, Module]:
        raise HloomError(f"{module.name} is a part of a step, and has no derivative")

    def forward(self, module: Module, wrt: Sequence[int]) -> Module:
        raise HloomError(f"{module.name} is a part of a step, and has no derivative")

    def backward(self, module: Module, wrt: Sequence[int]) -> Module:
        raise HloomError(f"{module.name} is a part of a step, and has no derivative")


def _aval(value_type: Any) -> Any:
    assert isinstance(value_type, TensorType)
    return jax_internals().core.ShapedArray(value_type.dims, value_type.dtype.numpy)

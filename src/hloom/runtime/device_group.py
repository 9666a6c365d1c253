"""Modules and arrays on a group of jax's devices: what one stage of a pipeline runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hloom.ir import Module, TensorType, TupleType
from hloom.runtime.differentiation import Program, program_call
from hloom.runtime.jax_internals import implementation_of_key, jax_internals, kept_arguments
from hloom.text import HloomError

BATCH_AXIS = "batch"
"""The name of the axis of a group's devices, along which arrays are split."""
STAGE_AXIS = "stage"
"""The name of the axis of the groups of devices that share the rows of an array."""


def device_groups(numbers: Sequence[Sequence[int]], devices: Sequence[Any] | None = None) -> list[DeviceGroup]:
    """Groups of jax's devices, by their numbers among `devices`, which are all of them by default."""
    known = list(devices) if devices is not None else jax_internals().jax.devices()
    wanted = 1 + max(number for group in numbers for number in group)
    if wanted > len(known):
        raise HloomError(
            f"the plan uses {wanted} devices, and there are {len(known)}",
            hint=f"on the CPU: XLA_FLAGS=--xla_force_host_platform_device_count={wanted}",
        )
    return [DeviceGroup([known[number] for number in group]) for group in numbers]


class DeviceGroup:
    """Devices of one process that share the work of modules: arrays are split along one dimension, or replicated.

    In the other processes its arrays are jax's, without data, and its modules yield such.
    """

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices
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
        return jax_internals().jax.sharding.Mesh(np.array(self.devices), (BATCH_AXIS,))

    def sharding(self, dims: Sequence[int], split_dim: int | None = None) -> Any:
        """jax's sharding of an array on these devices."""
        sharding = jax_internals().jax.sharding
        if len(self.devices) == 1:
            return sharding.SingleDeviceSharding(self.devices[0])
        spec: list[str | None] = [None] * len(dims)
        if split_dim is not None and dims[split_dim] % len(self.devices) == 0:
            spec[split_dim] = BATCH_AXIS
        return sharding.NamedSharding(self._mesh, sharding.PartitionSpec(*spec))

    def holds(self, array: Any, split_dim: int | None = None) -> bool:
        """Whether an array is on these devices, split so."""
        return getattr(array, "sharding", None) == self.sharding(np.shape(array), split_dim)

    def put(self, array: Any, split_dim: int | None = None) -> Any:
        """An array on these devices, split along a dimension where that is divisible; itself where it is there.

        Between processes it goes through a collective of theirs: they call in the same order.
        """
        if self.holds(array, split_dim):
            return array
        jax = jax_internals().jax
        with jax.enable_x64(True):
            source = _process_of(array)
            here = jax.process_index()
            if source not in (None, self.process) and here in (source, self.process):
                array = self._received(array, source)
            if not self.is_local:
                return self.without_data(np.shape(array), array.dtype, split_dim)
            return jax.device_put(array, self.sharding(np.shape(array), split_dim))

    def without_data(self, dims: Sequence[int], element_type: Any, split_dim: int | None = None) -> Any:
        """An array of another process, as jax represents it in this one."""
        sharding = self.sharding(dims, split_dim)
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
        self, module: Module, split_dims: Sequence[int | None], donated: Sequence[int] = ()
    ) -> Callable[..., tuple[Any, ...]]:
        """A module as a function of arrays on these devices, compiled when it is first called.

        Its result is a tuple of arrays, split along `split_dims`; the memory of `donated` operands is taken over.
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
            pairs = zip(outputs, split_dims, strict=True)
            return tuple(self.without_data(aval.shape, aval.dtype, dim) for aval, dim in pairs)

        if not self.is_local:
            return absent
        apply.__name__ = apply.__qualname__ = module.name
        shardings = tuple(self.sharding(aval.shape, dim) for aval, dim in zip(outputs, split_dims, strict=True))
        jitted = internals.jax.jit(apply, out_shardings=shardings, donate_argnums=tuple(donated))

        def run(*arrays: Any) -> Any:
            with internals.jax.enable_x64(True):
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
    """An array of rows that groups of devices hold: jax's, where all have as many, and ArrayRows otherwise."""
    jax = jax_internals().jax
    devices = [device for group in groups for device in group.devices]
    counts = {(part.shape[0], len(group.devices)) for part, group in zip(parts, groups, strict=True)}
    if len(counts) > 1 or len(set(devices)) != len(devices):
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


def checked_argument(argument: Any, expected: TensorType, number: int) -> Any:
    """An argument as an array of a type; raises HloomError where it is another."""
    is_array = isinstance(argument, (ArrayRows, jax_internals().jax.Array))
    array = argument if is_array else np.asarray(argument)
    if not is_array and array.shape == () and array.dtype != expected.dtype.numpy:
        array = array.astype(expected.dtype.numpy)
    if array.shape != expected.dims or array.dtype != expected.dtype.numpy:
        given = f"{array.dtype}{list(array.shape)}"
        raise HloomError(f"argument {number} is {given}, and the step takes {expected}")
    return array


@dataclass(frozen=True, slots=True)
class ProgramTrees:
    """The trees of a lowered program's arguments and results, around its flat parameters and results.

    `kept` are the numbers of the arguments that the program has: jax leaves out those that nothing uses. `keys` are by
    number of a result the types of random keys.
    """

    arguments_tree: Any
    results_tree: Any
    kept: frozenset[int] | None
    keys: dict[int, Any]

    @staticmethod
    def of(lowered: Any) -> ProgramTrees | None:
        """The trees of what `jax.jit(f).lower(...)` returns; None for anything else."""
        arguments, results = getattr(lowered, "in_tree", None), getattr(lowered, "out_tree", None)
        if arguments is None or results is None:
            return None
        jax = jax_internals().jax
        types = [getattr(leaf, "dtype", None) for leaf in jax.tree.leaves(getattr(lowered, "out_info", ()))]
        keys = {number: made for number, made in enumerate(types) if made is not None and _is_key(made)}
        return ProgramTrees(arguments, results, kept_arguments(lowered), keys)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments; raises HloomError where they are another tree."""
        jax = jax_internals().jax
        leaves, tree = jax.tree.flatten((tuple(args), kwargs))
        if tree != self.arguments_tree:
            raise HloomError(
                f"the step takes {_shortened(self.arguments_tree)}, and {_shortened(tree)} is given",
                hint="give the arrays that it was lowered for, and no static arguments",
            )
        taken = [leaf for number, leaf in enumerate(leaves) if self.kept is None or number in self.kept]
        return [jax.random.key_data(leaf) if _is_key(getattr(leaf, "dtype", None)) else leaf for leaf in taken]

    def results(self, leaves: Sequence[Any]) -> Any:
        """The tree of the results."""
        jax = jax_internals().jax
        made = list(leaves)
        for number, key_type in self.keys.items():
            made[number] = jax.random.wrap_key_data(made[number], impl=implementation_of_key(key_type))
        return jax.tree.unflatten(self.results_tree, made)


def _is_key(element_type: Any) -> bool:
    jax = jax_internals().jax
    return element_type is not None and jax.dtypes.issubdtype(element_type, jax.dtypes.prng_key)


def _shortened(tree: Any, most: int = 160) -> str:
    text = str(tree)
    return text if len(text) <= most else f"{text[:most]}..."

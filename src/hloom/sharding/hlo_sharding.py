"""Specs as HLO shardings: V1 (a list of devices), V2 (an iota of devices), V3 (a mesh with named axes).

V1 and V2 omit axes of size 1. A subgroup of manual axes, or of axes with partial sums, is a set: the order in which V1
and V2 list its devices is lost. Specs have no metadata, shard groups, or open dimensions, so those are lost too.

Device numbers are the mesh's. jax numbers a program's devices by their positions in its mesh instead: to read jax's
lowered programs, use a mesh in natural order.

Reading tiles as a spec means finding what each mesh axis does. Along an axis, a device's tile index moves in equal
strides along one dimension, or stays. If it does so only for part of the axis, the axis is a product of sub-axes with a
stride each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hloom.ir import (
    AxisRef,
    DimensionAxes,
    HloMesh,
    LeafSharding,
    Maximal,
    MeshSharding,
    Module,
    Sharding,
    TensorType,
    Tiled,
    TupleSharding,
    Type,
    Uniform,
    as_iota,
    assignment,
    canonical_form,
    lowered,
    tile_indices,
    with_explicit_devices,
    with_rank,
)
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Axes, Spec, spec_of
from hloom.text import HloomError, Unsupported, visible

REDUCTIONS: dict[str, str] = {"add": "sum", "maximum": "max", "minimum": "min"}
"""HLO's names for the ops that combine partial results; it has none for the others."""
_FIRST_WITH_REDUCTIONS = (0, 11)
"""The first jaxlib with partial maxima and minima: 0.10 rejects them as text, and in a proto takes them for sums."""
_REDUCERS = {name: opcode for opcode, name in REDUCTIONS.items()}

Lowered = Uniform | Maximal | Tiled


def to_tiled(spec: Spec, mesh: Mesh) -> Lowered:
    """The V2 form, as XLA prints it; devices are listed if no iota produces their order.

    Raises Unsupported for partial results that are not sums: V1 and V2 do not name the op that combines them.

    >>> print(to_tiled(Spec((("model",), ())), Mesh.parse("data=2,model=4")))
    {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
    """
    wrong = next(((axis, reducer) for axis, reducer in spec.partial if reducer != "add"), None)
    if wrong:
        raise Unsupported(
            f"{spec}: a sharding without a mesh can be a partial sum over {wrong[0]}, not a partial {wrong[1]}",
            hint="V3, with a mesh, can say max and min",
        )
    return _tiled(spec, mesh)


@lru_cache(4096)
def _tiled(spec: Spec, mesh: Mesh) -> Lowered:
    return lowered(to_mesh_sharding(spec, mesh))


def clear_caches() -> None:
    """Clear the caches of conversions, to measure them."""
    _tiled.cache_clear()
    _spec_of.cache_clear()


def to_explicit(spec: Spec, mesh: Mesh) -> Lowered:
    """V1: a list of devices.

    >>> print(to_explicit(Spec((("model",), ())), Mesh.parse("data=2,model=2")))
    {devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}
    """
    return with_explicit_devices(to_tiled(spec, mesh))


def to_mesh_sharding(spec: Spec, mesh: Mesh) -> MeshSharding:
    """V3; raises Unsupported for partial results by several ops, or by one that HLO cannot name.

    >>> print(to_mesh_sharding(Spec((("model",), ()), (("data", "maximum"),)), Mesh.parse("data=2,model=4")))
    {mesh['data'=2,'model'=4], [{'model'}, {}], unreduced=max{'data'}}
    """
    reducers = sorted({reducer for _, reducer in spec.partial})
    if len(reducers) > 1 or not REDUCTIONS.keys() >= set(reducers):
        words = ", ".join(REDUCTIONS)
        raise Unsupported(f"{spec}: HLO's partial results are all combined by one op of {words}, not {reducers}")
    dimensions = tuple(DimensionAxes(_axes(axes, mesh)) for axes in spec.dims)
    unreduced = _in_order((axis for axis, _ in spec.partial), mesh)
    reduction = REDUCTIONS[reducers[0]] if reducers else "sum"
    manual = _in_order(spec.manual, mesh)
    return MeshSharding(to_hlo_mesh(mesh), dimensions, (), unreduced, manual, reduction)


def check_reductions(module: Module, jaxlib: str) -> None:
    """Raise Unsupported for the first partial maximum or minimum of a module if this jaxlib does not know them."""
    if tuple(map(int, re.findall(r"\d+", jaxlib)[:2])) >= _FIRST_WITH_REDUCTIONS:
        return
    for node in module.nodes():
        sharding = node.attributes.get("sharding")
        for leaf in sharding.elements if isinstance(sharding, TupleSharding) else (sharding,):
            if isinstance(leaf, MeshSharding) and leaf.unreduced and leaf.reduction != "sum":
                first = ".".join(map(str, _FIRST_WITH_REDUCTIONS))
                raise Unsupported(
                    f"{visible(node.name)} in {visible(node.graph.name)} is a partial {leaf.reduction} ({leaf}), which "
                    f"jaxlib {jaxlib} does not know",
                    hint=f"compile with jaxlib>={first}, or combine the partial results in the program",
                )


def to_tuple(specs: Iterable[Spec], mesh: Mesh) -> TupleSharding:
    """V2 of a tuple: one spec per leaf, in the order of the leaves."""
    return TupleSharding(tuple(to_tiled(spec, mesh) for spec in specs))


def to_hlo_mesh(mesh: Mesh) -> HloMesh:
    """The mesh as V3 writes it: without links."""
    return HloMesh(mesh.names, mesh.sizes, mesh.devices and (as_iota(mesh.devices) or mesh.devices))


def from_hlo_mesh(mesh: HloMesh) -> Mesh:
    """The mesh that V3 names."""
    return Mesh(mesh.names, mesh.sizes, mesh.devices)


def from_hlo(sharding: LeafSharding, mesh: Mesh, rank: int) -> Spec:
    """The spec of a sharding of any version, on a mesh of the same devices.

    Raises Unsupported where no axes of the mesh express it (with the refined mesh as a hint where sub-axes do), and for
    `maximal` and `unknown`, which no axes express.

    >>> mesh = Mesh.parse("data=2,model=4")
    >>> print(from_hlo(to_explicit(Spec((("model", "data"), ())), mesh), mesh, 2))
    [model.data,-]
    """
    return _spec_of(_without_annotations(sharding), mesh, rank)


def from_tuple(sharding: Sharding, mesh: Mesh, type_: Type) -> tuple[Spec, ...]:
    """One spec per leaf of a type; a non-tuple sharding applies to every leaf, as in XLA.

    Leaves that are not arrays have rank 0.
    """
    ranks = [len(leaf.dims) if isinstance(leaf, TensorType) else 0 for leaf in type_.leaves()]
    elements = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,) * len(ranks)
    if len(elements) != len(ranks):
        raise HloomError(f"{sharding} has {len(elements)} elements for the {len(ranks)} leaves of {type_}")
    return tuple(from_hlo(element, mesh, rank) for element, rank in zip(elements, ranks, strict=True))


def refinement(sharding: LeafSharding, mesh: Mesh, rank: int) -> dict[str, tuple[int, ...]]:
    """The sub-axes into which axes must be split so that `from_hlo` finds a spec; the argument of `Mesh.refined`.

    Empty where no axis must be split. Raises Unsupported where no refinement helps.

    >>> refinement(Tiled((2,2), Mesh.parse("x=4").order), Mesh.parse("x=4"), 2)
    {'x': (2, 2)}
    """
    tiled = canonical_form(sharding, rank)
    if not isinstance(tiled, Tiled):
        return {}
    return {axis.name: axis.sizes for axis in axis_assignments(tiled, mesh) if len(axis.sizes) > 1}


def _without_annotations(sharding: LeafSharding) -> LeafSharding:
    """The sharding without metadata and shard groups, so that equal ones share a cache entry."""
    if isinstance(sharding, MeshSharding):
        return replace(sharding, metadata=()) if sharding.metadata else sharding
    return replace(sharding, group=None, metadata=()) if sharding.group or sharding.metadata else sharding


@lru_cache(4096)
def _spec_of(sharding: LeafSharding, mesh: Mesh, rank: int) -> Spec:
    if isinstance(sharding, MeshSharding):
        return _from_mesh_sharding(with_rank(sharding, rank), mesh)
    return _from_canonical(canonical_form(sharding, rank), mesh, rank, "add")


def _axes(axes: Axes, mesh: Mesh) -> tuple[AxisRef, ...]:
    for axis in axes:
        mesh.size(axis)  # raises where there is none
    return tuple(map(AxisRef, axes))


def _in_order(axes: Iterable[str], mesh: Mesh) -> tuple[AxisRef, ...]:
    return tuple(sorted(_axes(tuple(axes), mesh), key=lambda axis: mesh.names.index(axis.name)))


def _from_mesh_sharding(sharding: MeshSharding, mesh: Mesh) -> Spec:
    """Axis by axis where the sharding names this mesh, else by its devices."""
    reducer = _REDUCERS[sharding.reduction]
    if sharding.mesh != to_hlo_mesh(mesh) or any(axis.size is not None for axis in sharding.axes):
        rank = len(sharding.dimensions)
        return _from_canonical(canonical_form(sharding, rank), mesh, rank, reducer)
    dims = [[axis.name for axis in dimension.axes] for dimension in sharding.dimensions]
    partial = [(axis.name, reducer) for axis in sharding.unreduced]
    return spec_of(dims, partial, [axis.name for axis in sharding.manual])


def _from_canonical(sharding: Lowered, mesh: Mesh, rank: int, reducer: str) -> Spec:
    if isinstance(sharding, Tiled):
        return _from_tiled(sharding, mesh, rank, reducer)
    if isinstance(sharding, Maximal):
        if mesh.order.ids().tolist() == [sharding.device]:
            return Spec.replicated(rank)
        raise Unsupported(f"{sharding} puts all on one device: no axes of the mesh {mesh} say so")
    nothing = [None] * rank
    if sharding.kind == "unreduced":
        return spec_of(nothing, [(axis, reducer) for axis in mesh.names])
    if sharding.kind == "manual":
        return spec_of(nothing, manual=mesh.names)
    if sharding.kind == "replicated":
        return Spec.replicated(rank)
    raise Unsupported(f"{sharding} does not say how the array is sharded")


def _from_tiled(sharding: Tiled, mesh: Mesh, rank: int, reducer: str) -> Spec:
    axes = axis_assignments(sharding, mesh)
    cut = {axis.name: axis.sizes for axis in axes if len(axis.sizes) > 1}
    if cut:
        parts = ", ".join(f"'{name}': {sizes}" for name, sizes in cut.items())
        hint = f"mesh.refined({{{parts}}}) has the axes for it: {mesh.refined(cut)}"
        raise Unsupported(f"{sharding} splits part of an axis of the mesh {mesh}", hint=hint)
    dims: list[list[tuple[int, str]]] = [[] for _ in range(rank)]
    partial, manual = [], []
    for axis in axes:
        for target, stride in zip(axis.targets, axis.strides, strict=True):
            if isinstance(target, int):
                dims[target].append((stride, axis.name))
            elif target == "manual":
                manual.append(axis.name)
            elif target == "unreduced":
                partial.append((axis.name, reducer))
    return spec_of([[name for _, name in sorted(axes, reverse=True)] for axes in dims], partial, manual)


Target = int | str
"""What an axis shards: a dimension by number, or a subgroup by name; "replicated" is neither."""


@dataclass(frozen=True, slots=True)
class AxisAssignment:
    """A mesh axis and its sub-axes, major to minor: their sizes, what they shard, and their strides in tiles."""

    name: str
    sizes: tuple[int, ...]
    targets: tuple[Target, ...]
    strides: tuple[int, ...]


def axis_assignments(sharding: Tiled, mesh: Mesh) -> tuple[AxisAssignment, ...]:
    """What each axis shards, in the mesh's order; axes of size 1 are omitted.

    Raises HloomError if the sharding uses devices outside the mesh, Unsupported if its tiles follow neither axes nor
    sub-axes.
    """
    targets = [*range(sharding.rank), *sharding.subgroups]
    if "maximal" in targets:
        raise Unsupported(f"{sharding}: a subgroup that is maximal is nothing that axes of a mesh say")
    kept = [number for number, target in enumerate(targets) if target != "replicated"]
    tiles = _tile_indices(sharding, mesh)[kept]
    along = [targets[number] for number in kept]
    axes: list[AxisAssignment] = []
    for number, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        if size > 1:
            line = np.moveaxis(tiles, number + 1, -1).reshape(len(kept), -1, size)[:, 0]
            axes.append(_axis_assignment(name, line, along, sharding, mesh))
    if not np.array_equal(_tiles_of_axes(axes, along, mesh), tiles):
        raise _unordered(sharding, mesh)
    return tuple(axes)


def _tile_indices(sharding: Tiled, mesh: Mesh) -> np.ndarray:
    """The index of each device's tile, per tile dimension, as an array over the mesh."""
    devices = mesh.order.ids()
    indices = tile_indices(assignment(sharding), devices)
    if indices is None:
        raise HloomError(f"{sharding} names other devices than the mesh {mesh}: its {len(devices)} are {mesh.order}")
    return indices.reshape(len(sharding.tile), *mesh.sizes)


def _axis_assignment(name: str, line: np.ndarray, along: list[Target], sharding: Tiled, mesh: Mesh) -> AxisAssignment:
    """An axis from the tiles on a line along it."""
    sizes: list[int] = []
    targets: list[Target] = []
    strides: list[int] = []
    while line.shape[1] > 1:
        step = line[:, 1]
        moving = np.flatnonzero(step)
        is_equal = (line == step[:, None] * np.arange(line.shape[1])).all(axis=0)
        run = line.shape[1] if is_equal.all() else int(np.argmin(is_equal))
        if run < 2 or line.shape[1] % run or len(moving) > 1 or (step < 0).any():
            raise _unordered(sharding, mesh)
        sizes.insert(0, run)
        targets.insert(0, along[moving[0]] if len(moving) else "replicated")
        strides.insert(0, int(step[moving[0]]) if len(moving) else 0)
        line = line[:, ::run]
    return AxisAssignment(name, tuple(sizes), tuple(targets), tuple(strides))


def _tiles_of_axes(axes: list[AxisAssignment], along: list[Target], mesh: Mesh) -> np.ndarray:
    """The indices of the tiles, if each axis moves the same way from every device."""
    tiles = np.zeros((len(along), *mesh.sizes), np.int64)
    for axis in axes:
        number = mesh.names.index(axis.name)
        shape = [size if other == number else 1 for other, size in enumerate(mesh.sizes)]
        coordinate = np.arange(mesh.sizes[number]).reshape(shape)
        sub_axes = list(zip(axis.sizes, axis.targets, axis.strides, strict=True))
        for size, target, stride in reversed(sub_axes):
            if target != "replicated":
                tiles[along.index(target)] += coordinate % size * stride
            coordinate = coordinate // size
    return tiles


def _unordered(sharding: Tiled, mesh: Mesh) -> Unsupported:
    return Unsupported(f"{sharding} puts tiles on devices in an order that no axes of the mesh {mesh} give")

"""Meshes and shardings of jax's on twelve virtual devices: a child process runs the checks and prints what failed.

python -m tests.sharding.on_twelve_devices
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from hloom.formats.hlo import parse
from hloom.formats.hlo.sharding_reader import read_sharding
from hloom.ir import AxisRef, DimensionAxes, HloMesh, MeshSharding
from hloom.runtime.jax_shardings import hlo_mesh, named_sharding, partition_spec
from hloom.sharding import (
    Mesh,
    from_hlo,
    from_partition,
    from_sdy,
    parse_spec,
    read_sdy,
    read_sdy_meshes,
    to_mesh_sharding,
    to_partition,
    to_tiled,
    unreduced_axes,
)
from hloom.text import Cursor, HloomError, Source
from tests.sharding.meshes import meshes_with_specs
from tests.sharding.shards import slices_held

DEVICES = 12


def bounds(slices: tuple[slice, ...], dims: list[int]) -> list[tuple[int, int]]:
    """The start and stop of each slice."""
    return [part.indices(size)[:2] for part, size in zip(slices, dims, strict=True)]


@given(meshes_with_specs(most=DEVICES, manual=False, reducers=()), st.data())
@settings(deadline=None, max_examples=50, database=None)
def each_device_holds_what_jax_says(case, data):
    mesh, spec = case
    dims = [mesh.count(axes) * data.draw(st.integers(1, 3)) for axes in spec.dims]
    named = named_sharding(to_mesh_sharding(spec, mesh))
    theirs = {device.id: bounds(slices, dims) for device, slices in named.devices_indices_map(tuple(dims)).items()}
    assert theirs == {device: bounds(slices, dims) for device, slices in slices_held(spec, mesh, dims).items()}


@given(meshes_with_specs(most=DEVICES))
@settings(deadline=None, max_examples=50, database=None)
def jax_says_the_same_to_xla(case):
    """jax numbers devices by their positions, as in a mesh in natural order."""
    mesh, spec = case
    named = named_sharding(to_mesh_sharding(spec, mesh))
    natural = replace(mesh, devices=None)
    theirs = read_sharding(Cursor(Source(str(named._to_xla_hlo_sharding(spec.rank)))))
    assert from_hlo(theirs, natural, spec.rank).without(trivial(mesh)) == spec.without(trivial(mesh))  # pyright: ignore[reportArgumentType]
    if not spec.manual and (mesh.device_count > 1 or not spec.partial):
        assert theirs == to_tiled(spec, natural)


def trivial(mesh: Mesh) -> list[str]:
    return [name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size == 1]


@given(meshes_with_specs(most=DEVICES, manual=False))
@settings(deadline=None, max_examples=50, database=None)
def partition_specs_round_trip(case):
    mesh, spec = case
    entries, unreduced = to_partition(spec), unreduced_axes(spec)
    theirs = P(*entries, unreduced=unreduced)
    assert theirs == partition_spec(to_mesh_sharding(spec, mesh))
    assert from_partition(theirs.partitions, spec.rank, theirs.unreduced) == spec


def open_dimensions():
    dimensions = (DimensionAxes(is_open=True), DimensionAxes((AxisRef("x"),)), DimensionAxes())
    written = MeshSharding(HloMesh(("x", "y"), (2, 3)), dimensions)
    assert partition_spec(written) == P(P.UNCONSTRAINED, "x", None)


def meshes():
    listed = jax.sharding.Mesh(np.array(jax.devices())[[3, 1, 2, 0]].reshape(2, 2), ("x", "y"))
    assert str(hlo_mesh(listed)) == "mesh['x'=2,'y'=2], device_ids=(3,1,2,0)"
    assert named_sharding(MeshSharding(hlo_mesh(listed), (DimensionAxes(),))).mesh == listed
    assert hlo_mesh(AbstractMesh((2, 3), ("x", "y"))) == HloMesh(("x", "y"), (2, 3))


def axis_types():
    mesh = HloMesh(("x", "y"), (2, 2))
    dimensions = (DimensionAxes((AxisRef("x"),)),)
    plain = named_sharding(MeshSharding(mesh, dimensions))
    assert plain.mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    manual = named_sharding(MeshSharding(mesh, dimensions, manual=(AxisRef("y"),)))
    assert manual.mesh.axis_types == (AxisType.Auto, AxisType.Manual)


def what_jax_lowers():
    """Both texts that jax writes of one sharding, in HLO and for Shardy."""
    mesh = Mesh.parse("x=2,y=3")
    split = [named_sharding(to_mesh_sharding(parse_spec(text), mesh)) for text in ("[y.x,-]", "[-,x]")]
    lowered = jax.jit(lambda a, b: (a @ b, a), in_shardings=split).lower(jnp.ones((6, 6)), jnp.ones((6, 6)))
    module = parse(lowered.as_text("hlo"))
    meshes = read_sdy_meshes(dict(module.attributes["frontend_attributes"])["xla.sdy.meshes"])
    assert meshes == {"mesh": mesh}
    for parameter, text in zip(module.entry.parameters, ("[y.x,-]", "[-,x]"), strict=True):
        assert str(from_hlo(parameter.attributes["sharding"], mesh, 2)) == text
        written = dict(parameter.attributes["frontend_attributes"])["xla.sdy.sharding"]
        assert str(from_sdy(read_sdy(written), meshes)) == text


def refusals():
    mesh, part = HloMesh(("x",), (4,)), AxisRef("x", 1, 2)
    sharding = to_mesh_sharding(parse_spec("[-]+x:maximum"), Mesh.parse("x=2"))
    halved = replace(sharding, mesh=mesh, dimensions=(DimensionAxes((part,)),), unreduced=(), reduction="sum")
    still_open = replace(sharding, dimensions=(DimensionAxes((AxisRef("x"),), is_open=True),), unreduced=())
    cases = [
        (lambda: partition_spec(sharding), f"{sharding}: jax's partial results are sums, not partial max"),
        (lambda: partition_spec(halved), f"{halved}: jax has no word for 'x':(1)2, part of an axis"),
        (
            lambda: partition_spec(still_open),
            f"{still_open}: jax has no word for a dimension that is split and still open",
        ),
        (
            lambda: named_sharding(MeshSharding(HloMesh(("x",), (16,)), (DimensionAxes(),))),
            "mesh['x'=16] names device 12, which is missing",
        ),
    ]
    for ask, message in cases:
        try:
            ask()
        except HloomError as problem:
            assert problem.message == message, problem.message
        else:
            raise AssertionError(message)


CASES = {
    case.__name__: case
    for case in (
        each_device_holds_what_jax_says,
        jax_says_the_same_to_xla,
        partition_specs_round_trip,
        open_dimensions,
        meshes,
        axis_types,
        what_jax_lowers,
        refusals,
    )
}


def problem_of(case) -> str:
    try:
        case()
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: problem_of(case) for name, case in CASES.items()}) + "\n")

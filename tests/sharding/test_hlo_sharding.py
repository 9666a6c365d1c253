"""Specs as HLO's three texts and back: the texts are XLA's, and each device holds the tile that XLA says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo import parse
from hloom.formats.hlo.sharding_reader import read_sharding
from hloom.ir import ExplicitDevices, MeshSharding, Tiled, Uniform, equivalent, shard_dims, tile_of
from hloom.sharding import (
    Mesh,
    Spec,
    check_reductions,
    from_hlo,
    from_hlo_mesh,
    from_tuple,
    parse_spec,
    to_explicit,
    to_hlo_mesh,
    to_mesh_sharding,
    to_tiled,
    to_tuple,
)
from hloom.sharding.hlo_sharding import refinement
from hloom.text import Cursor, HloomError, Source, Unsupported
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes, meshes_with_specs, specs, without_trivial_axes
from tests.sharding.shards import slices_held, tile_indices

_hlo = pytest.importorskip("jaxlib._hlo")
xla = _hlo.HloSharding.from_string


def read(text: str) -> Any:
    return read_sharding(Cursor(Source(text)))


MESH = Mesh.parse("data=2,model=4")
TURNED = Mesh(("data", "model"), (2, 4), ExplicitDevices((0, 2, 4, 6, 1, 3, 5, 7)))
SHUFFLED = Mesh(("data", "model"), (2, 2), ExplicitDevices((3, 0, 1, 2)))

WRITTEN = [
    # mesh, spec, V2, V1, V3's dimensions and lists
    (MESH, "[-,-]", "{replicated}", "{replicated}", "[{}, {}]"),
    (MESH, "[data,model]", "{devices=[2,4]<=[8]}", "{devices=[2,4]0,1,2,3,4,5,6,7}", "[{'data'}, {'model'}]"),
    (
        MESH,
        "[data.model,-]",
        "{devices=[8,1]<=[8]}",
        "{devices=[8,1]0,1,2,3,4,5,6,7}",
        "[{'data', 'model'}, {}]",
    ),
    (
        MESH,
        "[model.data,-]",
        "{devices=[8,1]<=[2,4]T(1,0)}",
        "{devices=[8,1]0,4,1,5,2,6,3,7}",
        "[{'model', 'data'}, {}]",
    ),
    (
        MESH,
        "[-,data]",
        "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
        "{devices=[1,2,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
        "[{}, {'data'}]",
    ),
    (
        MESH,
        "[model]+data",
        "{devices=[4,2]<=[2,4]T(1,0) last_tile_dims={unreduced}}",
        "{devices=[4,2]0,4,1,5,2,6,3,7 last_tile_dims={unreduced}}",
        "[{'model'}], unreduced={'data'}",
    ),
    (
        MESH,
        "[-]@model",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}",
        "{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dims={manual, replicated}}",
        "[{}], manual={'model'}",
    ),
    (
        MESH,
        "[-]+data@model",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual, unreduced}}",
        "{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dims={manual, unreduced}}",
        "[{}], unreduced={'data'}, manual={'model'}",
    ),
    (MESH, "[]+data+model", "{unreduced}", "{unreduced}", "unreduced"),
    (MESH, "[]@data@model", "{manual}", "{manual}", "manual"),
    (TURNED, "[data.model]", "{devices=[8]<=[4,2]T(1,0)}", "{devices=[8]0,2,4,6,1,3,5,7}", "[{'data', 'model'}]"),
    (TURNED, "[model.data]", "{devices=[8]<=[8]}", "{devices=[8]0,1,2,3,4,5,6,7}", "[{'model', 'data'}]"),
    (
        SHUFFLED,
        "[data,model]",
        "{devices=[2,2]3,0,1,2}",
        "{devices=[2,2]3,0,1,2}",
        "[{'data'}, {'model'}]",
    ),
    (
        SHUFFLED,
        "[model]",
        "{devices=[2,2]1,3,0,2 last_tile_dim_replicate}",
        "{devices=[2,2]1,3,0,2 last_tile_dim_replicate}",
        "[{'model'}]",
    ),
]


@pytest.mark.parametrize(("mesh", "text", "tiled", "explicit", "parts"), WRITTEN)
def test_written(mesh: Mesh, text: str, tiled: str, explicit: str, parts: str):
    spec = parse_spec(text)
    assert str(to_tiled(spec, mesh)) == tiled
    assert str(to_explicit(spec, mesh)) == explicit
    assert str(to_mesh_sharding(spec, mesh)) == f"{{{to_hlo_mesh(mesh)}, {parts}}}"
    for written in (tiled, explicit, str(to_mesh_sharding(spec, mesh))):
        assert str(xla(written)) == written
        assert from_hlo(read(written), mesh, spec.rank) == spec


@given(meshes_with_specs())
@examples(75)
def test_xla_reads_what_we_write_and_means_the_same(case: tuple[Mesh, Spec]):
    mesh, spec = case
    tiled, explicit, named = (make(spec, mesh) for make in (to_tiled, to_explicit, to_mesh_sharding))
    assert str(xla(str(tiled))) == str(tiled)
    assert str(xla(str(explicit))) == str(explicit)
    assert xla(str(tiled)) == xla(str(explicit))
    if mesh.device_count > 1 or not (spec.manual and spec.partial):  # XLA forgets that the one device is manual
        lowered_by_xla = str(xla(str(named)).v3_to_v2_sharding())
        assert xla(str(tiled)) == xla(lowered_by_xla)  # read again: some forms it makes are not what it reads them as


@given(meshes_with_specs())
@examples(25)
def test_the_texts_pass_through_a_module_of_xla(case: tuple[Mesh, Spec]):
    mesh, spec = case
    dims = ",".join(["24"] * spec.rank)
    for form in (to_tiled, to_explicit):
        text = str(form(spec, mesh))
        module = f"HloModule m\nENTRY e {{\n  ROOT p = f32[{dims}] parameter(0), sharding={text}\n}}"
        printed = _hlo.hlo_module_from_text(module).to_string()
        assert printed.split("sharding=", 1)[1].split("\n", 1)[0] == text
        assert parse(printed).entry["p"].attributes["sharding"] == form(spec, mesh)


@given(meshes_with_specs())
@examples(75)
def test_each_device_holds_the_tile_that_xla_says(case: tuple[Mesh, Spec]):
    mesh, spec = case
    ours = tile_indices(spec, mesh).reshape(spec.rank, mesh.device_count).T.tolist()
    held = dict(zip(mesh.order.ids().tolist(), map(tuple, ours), strict=True))
    for form in (to_tiled, to_explicit, to_mesh_sharding):
        sharding = xla(str(form(spec, mesh))).v3_to_v2_sharding()
        if not sharding.is_tiled():
            assert set(held.values()) == {(0,) * spec.rank}
            continue
        tile = sharding.tile_assignment_dimensions()
        for position, device in enumerate(sharding.tile_assignment_devices()):
            assert held[device] == tuple(map(int, np.unravel_index(position, tile)))[: spec.rank]


@given(meshes_with_specs(manual=False), st.data())
@examples(30)
def test_tiles_start_where_the_axes_say(case: tuple[Mesh, Spec], data: st.DataObject):
    mesh, spec = case
    dims = data.draw(st.lists(st.integers(1, 9), min_size=spec.rank, max_size=spec.rank))
    sharding = to_tiled(spec, mesh)
    shards = shard_dims(sharding, dims) if dims else ()
    assert shards == mesh.local_dims(dims, spec)
    for device, slices in slices_held(spec, mesh, dims).items():
        index = tile_of(sharding, device, spec.rank)
        starts = [min(number * shard, size) for number, shard, size in zip(index, shards, dims, strict=True)]
        assert [part.start for part in slices] == starts


@given(meshes_with_specs())
@examples(75)
def test_round_trips(case: tuple[Mesh, Spec]):
    mesh, spec = case
    said = without_trivial_axes(spec, mesh)
    for form in (to_tiled, to_explicit):
        ours, printed = form(spec, mesh), str(xla(str(form(spec, mesh))))
        assert without_trivial_axes(from_hlo(ours, mesh, spec.rank), mesh) == said
        assert without_trivial_axes(from_hlo(read(printed), mesh, spec.rank), mesh) == said
    assert from_hlo(to_mesh_sharding(spec, mesh), mesh, spec.rank) == spec
    assert from_hlo(read(str(to_mesh_sharding(spec, mesh))), mesh, spec.rank) == spec
    through_xla = read(str(xla(str(to_mesh_sharding(spec, mesh)))))
    assert without_trivial_axes(from_hlo(through_xla, mesh, spec.rank), mesh) == said


@given(meshes_with_specs(smallest=2))
@examples(50)
def test_without_trivial_axes_every_round_trip_is_exact(case: tuple[Mesh, Spec]):
    mesh, spec = case
    for form in (to_tiled, to_explicit, to_mesh_sharding):
        assert from_hlo(read(str(form(spec, mesh))), mesh, spec.rank) == spec


@given(st.data())
@examples(50)
def test_a_sharding_on_another_mesh_of_the_same_devices(data: st.DataObject):
    """There is a spec, or one on a refined mesh, or neither: a spec puts the same tiles on the same devices."""
    mesh = data.draw(meshes(smallest=2))
    other = data.draw(meshes(most=mesh.device_count, smallest=2).filter(lambda m: m.device_count == mesh.device_count))
    spec = data.draw(specs(other, reducers=(), manual=False))
    for form in (to_tiled, to_mesh_sharding):
        sharding = form(spec, other)
        try:
            refined = mesh.refined(refinement(sharding, mesh, spec.rank))
        except Unsupported:
            with pytest.raises(Unsupported):
                from_hlo(sharding, mesh, spec.rank)
            continue
        other_spec = from_hlo(sharding, refined, spec.rank)
        assert equivalent(to_tiled(other_spec, refined), sharding, spec.rank)


@given(st.data())
@examples(25)
def test_a_refined_mesh_says_what_parts_of_axes_say(data: st.DataObject):
    coarse = data.draw(meshes(smallest=2))
    parts = {
        name: (2, size // 2) for name, size in zip(coarse.names, coarse.sizes, strict=True) if size in (4, 6, 8, 12)
    }
    fine = coarse.refined(parts)
    spec = data.draw(specs(fine))
    sharding = to_tiled(spec, fine)
    needed = refinement(sharding, coarse, spec.rank)
    refined = from_hlo(sharding, coarse.refined(needed), spec.rank)
    assert equivalent(to_tiled(refined, coarse.refined(needed)), sharding, spec.rank)
    assert from_hlo(to_tiled(refined, coarse.refined(needed)), fine, spec.rank) == spec


@given(meshes_with_specs())
@examples(25)
def test_refining_keeps_the_meaning(case: tuple[Mesh, Spec]):
    mesh, spec = case
    parts = {name: (2, size // 2) for name, size in zip(mesh.names, mesh.sizes, strict=True) if size % 2 == 0}
    fine, finer = mesh.refined(parts), spec.refined(parts)
    assert to_explicit(finer, fine) == to_explicit(spec, mesh)


def test_part_of_an_axis():
    mesh, sharding = Mesh.parse("data=4,model=2"), read("{devices=[2,2,2]<=[8] last_tile_dim_replicate}")
    with pytest.raises(Unsupported) as caught:
        from_hlo(sharding, mesh, 2)
    assert str(caught.value) == (
        "{devices=[2,2,2]<=[8] last_tile_dim_replicate} splits part of an axis of the mesh data=4,model=2\n"
        "  mesh.refined({'data': (2, 2)}) has the axes for it: data_0=2,data_1=2,model=2"
    )
    assert str(from_hlo(sharding, mesh.refined({"data": (2, 2)}), 2)) == "[data_0,data_1]"


def test_part_of_an_axis_in_a_mesh_sharding():
    sharding = read("{mesh['data'=4,'model'=2], [{'data':(2)2}, {'model'}]}")
    mesh = Mesh.parse("data=4,model=2")
    assert refinement(sharding, mesh, 2) == {"data": (2, 2)}
    assert str(from_hlo(sharding, mesh.refined({"data": (2, 2)}), 2)) == "[data_1,model]"


def test_a_refinement_into_three_parts():
    sharding = read("{mesh['x'=12], [{'x':(2)3}]}")
    assert refinement(sharding, Mesh.parse("x=12"), 1) == {"x": (2, 3, 2)}


def test_a_mesh_sharding_may_leave_out_dimensions():
    assert str(from_hlo(read("{mesh['data'=2,'model'=4], [{'model', ?}]}"), MESH, 3)) == "[model,-,-]"


def test_the_same_devices_under_other_names():
    sharding = read("{mesh['a'=2,'b'=4], [{'b'}, {'a'}]}")
    assert str(from_hlo(sharding, MESH, 2)) == "[model,data]"


@pytest.mark.parametrize(
    ("reducer", "word"),
    [("add", ""), ("maximum", "max"), ("minimum", "min")],
)
def test_partial_results_in_v3(reducer: str, word: str):
    spec = Spec(((), ("model",)), (("data", reducer),))
    text = f"{{mesh['data'=2,'model'=4], [{{}}, {{'model'}}], unreduced={word}{{'data'}}}}"
    assert str(to_mesh_sharding(spec, MESH)) == text
    assert from_hlo(read(text), MESH, 2) == spec


REFUSED = [
    ("{maximal device=3}", 2, "{maximal device=3} puts all on one device: no axes of the mesh data=2,model=4 say so"),
    ("{unknown}", 2, "{unknown} does not say how the array is sharded"),
    ("{devices=[2,4]<=[8]}", 3, "{devices=[2,4]<=[8]} is for arrays of rank 2, not 3"),
    ("{mesh['a'=8], [{'a'}, {}]}", 1, "{mesh['a'=8], [{'a'}, {}]} is for arrays of rank 2, not 1"),
    (
        "{devices=[2,2]<=[4]}",
        2,
        "{devices=[2,2]<=[4]} names other devices than the mesh data=2,model=4: its 8 are [8]",
    ),
    (
        "{devices=[8]7,6,5,4,3,2,1,0}",
        1,
        "{devices=[8]7,6,5,4,3,2,1,0} puts tiles on devices in an order that no axes of the mesh data=2,model=4 give",
    ),
    (
        "{devices=[8]0,1,2,3,4,5,7,6}",
        1,
        "{devices=[8]0,1,2,3,4,5,7,6} puts tiles on devices in an order that no axes of the mesh data=2,model=4 give",
    ),
    (
        "{devices=[2,2,2]<=[8] last_tile_dims={maximal}}",
        2,
        "{devices=[2,2,2]<=[8] last_tile_dims={maximal}}: a subgroup that is maximal is nothing that axes of a mesh say",
    ),
    ("{devices=[4,4]<=[8]}", 2, "{devices=[4,4]<=[8]} has 16 places for 8 devices"),
]


@pytest.mark.parametrize(("text", "rank", "message"), REFUSED)
def test_refused(text: str, rank: int, message: str):
    with pytest.raises(HloomError) as caught:
        from_hlo(read(text), MESH, rank)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (
            to_tiled,
            "[-]+data:maximum",
            "[-]+data:maximum: a sharding without a mesh can be a partial sum over data, not a partial maximum",
        ),
        (
            to_mesh_sharding,
            "[-]+data:maximum+model",
            "[-]+data:maximum+model: HLO's partial results are all combined by one op of add, maximum, minimum, "
            "not ['add', 'maximum']",
        ),
        (
            to_mesh_sharding,
            "[-]+data:multiply",
            "[-]+data:multiply: HLO's partial results are all combined by one op of add, maximum, minimum, not ['multiply']",
        ),
        (to_tiled, "[expert]", "the mesh data=2,model=4 has no axis 'expert'"),
        (to_tiled, "[-]+expert", "the mesh data=2,model=4 has no axis 'expert'"),
        (to_tiled, "[-]@expert", "the mesh data=2,model=4 has no axis 'expert'"),
    ],
)
def test_not_to_be_written(form, text: str, message: str):
    with pytest.raises(HloomError) as caught:
        form(parse_spec(text), MESH)
    assert caught.value.message == message


def test_one_device_holds_all_of_everything():
    mesh = Mesh(("x",), (1,), ExplicitDevices((3,)))
    assert from_hlo(read("{maximal device=3}"), mesh, 2) == Spec.replicated(2)
    assert to_tiled(parse_spec("[x,-]"), Mesh.parse("x=1")) == Uniform("replicated")


def test_devices_that_a_mesh_lists_in_natural_order_are_left_out():
    mesh = Mesh(("x",), (2,), ExplicitDevices((0, 1)))
    assert str(to_mesh_sharding(parse_spec("[x]"), mesh)) == "{mesh['x'=2], [{'x'}]}"


def test_meshes():
    named = read("{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x'}]}")
    assert isinstance(named, MeshSharding)
    assert to_hlo_mesh(from_hlo_mesh(named.mesh)) == named.mesh


MODULE = """HloModule m
ENTRY e {
  p = (f32[8,4], (s32[6], token[])) parameter(0), sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {manual}, {replicated}}
  ROOT g = f32[8,4] get-tuple-element(p), index=0
}"""


def test_tuples_leaf_by_leaf():
    node = parse(MODULE).entry["p"]
    leaves = from_tuple(node.attributes["sharding"], MESH, node.type)  # pyright: ignore[reportArgumentType]
    assert list(map(str, leaves)) == ["[data,-]", "[-]@data@model", "[]"]
    assert to_tuple(leaves, MESH) == node.attributes["sharding"]
    assert list(map(str, from_tuple(read("{replicated}"), MESH, node.type))) == ["[-,-]", "[-]", "[]"]  # pyright: ignore[reportArgumentType]
    with pytest.raises(HloomError) as caught:
        from_tuple(read("{{replicated}, {replicated}}"), MESH, node.type)  # pyright: ignore[reportArgumentType]
    assert caught.value.message == (
        "{{replicated}, {replicated}} has 2 elements for the 3 leaves of (f32[8,4], (s32[6], token[]))"
    )
    assert [str(leaf) for leaf in xla(str(to_tuple(leaves, MESH))).tuple_elements()] == [
        str(leaf) for leaf in to_tuple(leaves, MESH).elements
    ]


def test_subgroups_of_one_type_are_merged():
    sharding = Tiled((2, 2, 2), MESH.order, ("manual", "manual"))
    assert str(from_hlo(sharding, MESH, 1)) == "[data]@model"


@pytest.mark.parametrize("sharding", ["{mesh['x'=2], [{}], unreduced=max{'x'}}", "{{replicated}, {mesh['x'=2], [{}], unreduced=max{'x'}}}"])
def test_partial_maxima_are_refused_where_xla_would_add_them(sharding: str):
    shape = "(f32[8], f32[8])" if sharding.startswith("{{") else "f32[8]"
    module = parse(f"ENTRY e {{ ROOT p = {shape} parameter(0), sharding={sharding} }}")
    with pytest.raises(Unsupported, match=r"p in e is a partial max \(.*\), which jaxlib 0.10.2 does not know") as caught:
        check_reductions(module, "0.10.2")
    assert str(caught.value.hint).startswith("compile with jaxlib>=0.11")
    check_reductions(module, "0.11.2")
    check_reductions(parse(f"ENTRY e {{ ROOT p = {shape} parameter(0), sharding={sharding.replace('=max', '=')} }}"), "0.10.2")

"""Specs and meshes as JSON: plans' format, and what goes beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from hloom.formats.hlo.sharding_reader import read_sharding
from hloom.ir import ExplicitDevices
from hloom.ops import REDUCERS
from hloom.sharding import (
    Mesh,
    Spec,
    mesh_from_json,
    mesh_to_json,
    parse_spec,
    spec_from_json,
    spec_to_json,
    to_tiled,
)
from hloom.text import Cursor, HloomError, Source
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes_with_specs

MESH = Mesh.parse("x=2,y=4")


def read(text: str) -> Any:
    return read_sharding(Cursor(Source(text)))


@given(meshes_with_specs(reducers=REDUCERS))
@examples(30)
def test_round_trips(case: tuple[Mesh, Spec]):
    mesh, spec = case
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec))), mesh, spec.rank) == spec
    back = mesh_from_json(json.loads(json.dumps(mesh_to_json(mesh))))
    assert (back.names, back.sizes) == (mesh.names, mesh.sizes)
    assert back.order.ids().tolist() == mesh.order.ids().tolist()


@pytest.mark.parametrize(
    ("value", "rank", "text"),
    [
        (["x", None], 2, "[x,-]"),
        ([["x", "y"], None], 2, "[x.y,-]"),
        ([["y", "x"], None], 2, "[y.x,-]"),
        ([[], ["x"]], 2, "[-,x]"),
        (None, 2, "[-,-]"),
        ([], 2, "[-,-]"),
        ("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, "[y,-]"),
        ("{replicated}", 1, "[-]"),
        ({"dims": ["x"], "partial": {"y": "maximum"}}, 1, "[x]+y:maximum"),
        ({"dims": [], "manual": ["y"]}, 0, "[]@y"),
    ],
)
def test_read(value, rank: int, text: str):
    assert str(spec_from_json(value, MESH, rank, read)) == text


def test_the_order_of_devices_is_kept():
    mesh = Mesh(("x",), (2,), ExplicitDevices((1, 0)))
    assert mesh_to_json(mesh) == {"axes": {"x": 2}, "devices": [1, 0]}
    assert mesh_from_json(mesh_to_json(mesh)) == mesh
    assert mesh_from_json({"axes": 2, "links": 4}) == Mesh(("axes", "links"), (2, 4))


def test_links_in_older_files_are_left_out():
    older = {"axes": {"x": 2}, "devices": [1, 0], "links": {"x": {"bandwidth": 1e9, "latency": 2e-6}}}
    assert mesh_from_json(older) == Mesh(("x",), (2,), ExplicitDevices((1, 0)))


@pytest.mark.parametrize(
    ("value", "rank", "message"),
    [
        (["x"], 2, "['x'] has 1 entries for an array of rank 2"),
        (["z"], 1, "the mesh x=2,y=4 has no axis 'z'"),
        (["x", "x"], 2, "axis x stands twice in [x,x]"),
        ([1], 1, "[1] is not a spec"),
        ([[1]], 1, "[[1]] is not a spec"),
        (3, 1, "3 is not a spec"),
        ({"dims": ["x"], "partial": {"y": "mean"}}, 1, "{'dims': ['x'], 'partial': {'y': 'mean'}} is not a spec"),
        ({"sizes": ["x"]}, 1, "{'sizes': ['x']} is not a spec"),
        ("{{replicated}}", 1, "{{replicated}} is for a tuple, not for an array"),
    ],
)
def test_no_specs(value, rank: int, message: str):
    with pytest.raises(HloomError) as caught:
        spec_from_json(value, MESH, rank, read)
    assert caught.value.message == message


def test_text_needs_a_reader():
    with pytest.raises(HloomError) as caught:
        spec_from_json("{replicated}", MESH, 1)
    assert caught.value.message == "{replicated} is an HLO sharding, and `read` is missing"


@pytest.mark.parametrize(
    "value",
    [
        3,
        {"x": "2"},
        {"x": True},
        {"axes": {"x": 2}, "order": []},
        {"axes": {"x": 2}, "devices": ["0"]},
    ],
)
def test_no_meshes(value):
    with pytest.raises(HloomError) as caught:
        mesh_from_json(value)
    assert caught.value.message == f"{value!r} is not a mesh"


REFERENCE: list[tuple[dict[str, int], Any, str]] = json.loads(
    (Path(__file__).parent / "reference_specs.json").read_text()
)
"""Meshes and specs of plans for three training steps, each with its V2 sharding as an independent program wrote it."""


def test_the_reference_means_the_same():
    assert len(REFERENCE) == 20
    for written, value, sharding in REFERENCE:
        mesh = mesh_from_json(written)
        assert mesh_to_json(mesh) == written
        rank = len(value) if isinstance(value, list) else read(value).rank
        spec = spec_from_json(value, mesh, rank, read)
        assert to_tiled(spec, mesh) == read(sharding)
        if not isinstance(value, str):
            assert spec_from_json(spec_to_json(spec), mesh, rank, read) == spec


def test_what_plain_json_cannot_say_is_an_object():
    assert spec_to_json(parse_spec("[x]+y@z")) == {"dims": ["x"], "partial": {"y": "add"}, "manual": ["z"]}

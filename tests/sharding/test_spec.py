"""Specs and meshes as values: their texts, what they refuse, axes split into sub-axes.

Covers `mesh.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from hloom.ops import REDUCERS
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import HloomError
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes_with_specs


@given(meshes_with_specs(reducers=REDUCERS))
@examples(30)
def test_text_round_trips(case: tuple[Mesh, Spec]):
    _, spec = case
    assert parse_spec(str(spec)) == spec


def test_without_and_complete():
    spec = parse_spec("[x.y,-]+z@w")
    assert spec.without(["x", "w"]) == parse_spec("[y,-]+z")
    assert spec.complete() == parse_spec("[x.y,-]@w")
    assert not parse_spec("[-]@w").is_replicated
    assert spec.refined({"y": (2, 2), "z": (3, 2), "w": (2, 5)}) == parse_spec("[x.y_0.y_1,-]+z_0+z_1@w_0@w_1")


def test_order_is_significant():
    assert parse_spec("[x.y]") != parse_spec("[y.x]")
    assert parse_spec("[-]+x@y@z") == parse_spec("[-]@z@y+x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "'x' is not a spec"),
        ("[x]+", "'[x]+' is not a spec: '+' says nothing about an axis"),
        ("[x]+y:mean", "'[x]+y:mean' is not a spec: '+y:mean' says nothing about an axis"),
        ("[x]@y:add", "'[x]@y:add' is not a spec: '@y:add' says nothing about an axis"),
        ("[x]y", "'[x]y' is not a spec: 'y' says nothing about an axis"),
        ("[x,x]", "axis x stands twice in [x,x]"),
        ("[x]+x", "axis x stands twice in [x]+x"),
        ("[x]@x", "axis x stands twice in [x]@x"),
    ],
)
def test_no_specs(text: str, message: str):
    with pytest.raises(HloomError) as caught:
        parse_spec(text)
    assert caught.value.message == message


def test_a_refined_mesh_has_sub_axes():
    mesh = Mesh(("x", "y"), (6, 2))
    refined = mesh.refined({"x": (3, 2)})
    assert str(refined) == "x_0=3,x_1=2,y=2"
    assert refined.refined({}) == refined


@pytest.mark.parametrize(
    ("text", "parts", "message"),
    [
        ("x=6", {"x": (4, 2)}, "axis x of the mesh x=6 is 6, not 4 x 2"),
        ("x=1", {"x": ()}, "axis x of the mesh x=1 is 1, not nothing"),
        ("x=6", {"z": (3, 2)}, "the mesh x=6 has no axis 'z'"),
    ],
)
def test_no_refinement(text: str, parts: dict[str, tuple[int, ...]], message: str):
    with pytest.raises(HloomError) as caught:
        Mesh.parse(text).refined(parts)
    assert caught.value.message == message


def test_sub_axes_do_not_take_the_names_of_other_axes():
    with pytest.raises(HloomError, match="a mesh has axes of different names"):
        Mesh.parse("x=4,x_0=2").refined({"x": (2, 2)})

"""Shardy's texts: as its own parser reads and prints them, and specs from and to them.

Covers `sdy_parser.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import AxisRef, ExplicitDevices
from hloom.sharding import (
    Mesh,
    SdyDimension,
    SdySharding,
    Spec,
    from_sdy,
    meshes_text,
    parse_spec,
    per_value,
    read_sdy,
    read_sdy_mesh,
    read_sdy_meshes,
    read_sdy_per_value,
    sdy_mesh,
    to_sdy,
)
from hloom.text import HloomError, ParseError, Unsupported
from tests.helpers.properties import examples
from tests.sharding.meshes import NAMES, meshes, meshes_with_specs

mlir = pytest.importorskip("jax.interpreters.mlir")
ir = pytest.importorskip("jaxlib.mlir.ir")


def shardy(text: str) -> str:
    """A text as Shardy prints it."""
    with mlir.make_ir_context():
        return str(ir.Attribute.parse(text))


SHARDINGS = [
    '#sdy.sharding<@mesh, [{"x"}, {}, {"y":(1)2, ?}], replicated={"z"}>',
    '#sdy.sharding<@mesh, [{"x"}p0, {?}p1, {}p2], unreduced={"y"}>',
    '#sdy.sharding<@mesh, [{"y", "x"}], replicated={"z":(2)3}, unreduced={"w"}>',
    "#sdy.sharding<@mesh, []>",
    '#sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}]>',
    '#sdy.sharding<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}]>',
    '#sdy.sharding<@"a b", [{"x y"}]>',
    r'#sdy.sharding<@mesh, [{"x\22\0A\C3\A9\\"}]>',
]
LIBERTIES = [
    ('#sdy.sharding< @mesh ,[ {"y" : (1) 2 , ? } , {  } ]>', '#sdy.sharding<@mesh, [{"y":(1)2, ?}, {}]>'),
    (
        '#sdy.sharding<@mesh, [{"x"}], unreduced={"y"}, replicated={"z"}>',
        '#sdy.sharding<@mesh, [{"x"}], replicated={"z"}, unreduced={"y"}>',
    ),
    (r'#sdy.sharding<@mesh, [{"\n\t\"\\"}]>', r'#sdy.sharding<@mesh, [{"\0A\09\22\\"}]>'),
    ('#sdy.sharding<@"mesh", [{"x"}]>', '#sdy.sharding<@mesh, [{"x"}]>'),
]
MESHES = [
    '#sdy.mesh<["x"=2, "y"=4]>',
    '#sdy.mesh<["x"=2, "y"=4], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>',
    '#sdy.mesh<["x"=1]>',
    "#sdy.mesh<[], device_ids=[3]>",
    "#sdy.mesh<[], device_ids=[0]>",
    "#sdy.mesh<[]>",
]


@pytest.mark.parametrize("text", SHARDINGS)
def test_shardings_stay(text: str):
    assert str(read_sdy(text)) == text == shardy(text)


@pytest.mark.parametrize(("text", "printed"), LIBERTIES)
def test_shardings_are_rewritten_as_shardy_does(text: str, printed: str):
    assert str(read_sdy(text)) == printed == shardy(text)


@pytest.mark.parametrize("text", MESHES)
def test_meshes_stay(text: str):
    assert sdy_mesh(read_sdy_mesh(text)) == text == shardy(text)


def test_devices_in_natural_order_are_left_out():
    text = '#sdy.mesh<["x"=2], device_ids=[0, 1]>'
    assert sdy_mesh(read_sdy_mesh(text)) == '#sdy.mesh<["x"=2]>' == shardy(text)


def test_several_values():
    text = '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>'
    assert per_value(read_sdy_per_value(text)) == text == shardy(text)
    assert read_sdy_per_value("#sdy.sharding<@mesh, []>") == (SdySharding("mesh"),)


def test_meshes_of_a_module():
    text = '{mesh = #sdy.mesh<["x"=2, "y"=4]>, "a b" = #sdy.mesh<["z"=8]>}'
    assert meshes_text(read_sdy_meshes(text)) == text
    assert list(read_sdy_meshes(text)) == ["mesh", "a b"]


@given(meshes_with_specs(manual=False))
@examples(50)
def test_specs_round_trip(case: tuple[Mesh, Spec]):
    mesh, spec = case
    written = str(to_sdy(spec, mesh))
    assert shardy(written) == written
    assert from_sdy(read_sdy(written), mesh) == from_sdy(read_sdy(written), {"mesh": mesh}) == spec
    assert shardy(sdy_mesh(mesh)) == sdy_mesh(mesh)
    assert to_sdy(spec, read_sdy_mesh(sdy_mesh(mesh))) == to_sdy(spec, mesh)
    assert read_sdy_mesh(sdy_mesh(mesh)).order.ids().tolist() == mesh.order.ids().tolist()


AXES = st.builds(AxisRef, st.sampled_from((*NAMES, 'a "b"', "é")), st.just(1), st.none()) | st.builds(
    AxisRef, st.sampled_from(NAMES), st.integers(1, 8), st.integers(2, 8)
)
DIMENSIONS = st.builds(
    SdyDimension, st.lists(AXES, max_size=3).map(tuple), st.booleans(), st.none() | st.integers(0, 9)
)


@given(
    st.builds(
        SdySharding,
        st.sampled_from(("mesh", "a b", "m$1.x")) | meshes(),
        st.lists(DIMENSIONS, max_size=3).map(tuple),
        st.lists(AXES, max_size=2).map(tuple),
        st.lists(AXES, max_size=2).map(tuple),
    )
)
@examples(50)
def test_any_sharding_prints_as_shardy_prints_it(sharding: SdySharding):
    assert shardy(str(sharding)) == str(sharding) == str(read_sdy(str(sharding)))


def test_sub_axes():
    sharding = read_sdy('#sdy.sharding<@mesh, [{"x":(2)2, ?}, {}]>')
    mesh = Mesh.parse("x=4,y=2")
    with pytest.raises(Unsupported, match=r"mesh\.refined\(\{'x': \(2, 2\)\}\) has the axes for it"):
        from_sdy(sharding, mesh)
    assert from_sdy(sharding, mesh, mesh.refined({"x": (2, 2)})) == parse_spec("[x_1,-]")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ('#sdy.sharding<mesh, [{"x"}]>', 19, "expected '<', found ','"),
        ("#sdy.sharding<@mesh>", 20, "expected ',' and the dimensions, found '>'"),
        ("#sdy.sharding<@mesh, [{x}]>", 24, "expected an axis name in quotes, found 'x'"),
        ('#sdy.sharding<@mesh, [{?, "x"}]>', 25, "expected '}' after '?', found ','"),
        ('#sdy.sharding<@mesh, [{"x" "y"}]>', 28, "expected ',' or '}', found '\"'"),
        ('#sdy.sharding<@mesh, [{"x"}], unreduced=max{"y"}>', 41, "expected '{', found 'max'"),
        ('#sdy.sharding<@mesh, [], manual={"y"}>', 26, "expected replicated= or unreduced=, each once, found 'manual'"),
        ("#sdy.sharding<@mesh, []> x", 26, "expected the end of the text, found 'x'"),
        (r'#sdy.sharding<@mesh, [{"\q"}]>', 24, "unknown escape '\\q'"),
    ],
)
def test_refused(text: str, column: int, message: str):
    with pytest.raises(ParseError) as caught:
        read_sdy(text)
    assert (caught.value.message, str(caught.value.location)) == (message, f"<text>:1:{column}")
    with pytest.raises(Exception, match="parse attribute"):
        shardy(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#sdy.mesh<["x"=2, "x"=4]>', "a mesh has axes of different names"),
        ('#sdy.mesh<["x"=0]>', "a mesh has axes of different names"),
        ('#sdy.mesh<["x"=2], device_ids=[0, 1, 2]>', "x=2 has 2 positions for 3 devices"),
    ],
)
def test_no_meshes(text: str, message: str):
    with pytest.raises(ParseError) as caught:
        read_sdy_mesh(text)
    assert caught.value.message.startswith(message)
    with pytest.raises(Exception, match="parse attribute"):
        shardy(text)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: to_sdy(parse_spec("[-]@x"), Mesh.parse("x=2")), "[-]@x: a Shardy sharding has no manual axes"),
        (
            lambda: to_sdy(parse_spec("[-]+x:maximum"), Mesh.parse("x=2")),
            "[-]+x:maximum: Shardy's partial results are sums, not partial maximums",
        ),
        (lambda: to_sdy(parse_spec("[z]"), Mesh.parse("x=2")), "the mesh x=2 has no axis 'z'"),
        (lambda: to_sdy(parse_spec("[-]+z"), Mesh.parse("x=2")), "the mesh x=2 has no axis 'z'"),
        (
            lambda: from_sdy(read_sdy("#sdy.sharding<@other, []>"), {"mesh": Mesh.parse("x=2")}),
            "#sdy.sharding<@other, []> names an unknown mesh",
        ),
        (
            lambda: from_sdy(read_sdy('#sdy.sharding<@mesh, [{"z"}]>'), Mesh.parse("x=2")),
            "#sdy.sharding<@mesh, [{\"z\"}]>: the mesh has no axis 'z'",
        ),
    ],
)
def test_what_specs_and_shardy_do_not_share(ask, message: str):
    with pytest.raises(HloomError) as caught:
        ask()
    assert caught.value.message == message


def test_a_mesh_of_one_device_with_another_number():
    assert read_sdy_mesh("#sdy.mesh<[], device_ids=[3]>").devices == ExplicitDevices((3,))

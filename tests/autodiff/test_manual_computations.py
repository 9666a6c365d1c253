"""What devices compute by hand, lowered for Shardy.

Covers `manual_computations.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom

SHARDED = r"""
HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=2]>}}

add {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = f64[] add(a, b)
}

xla.sdy.manual_computation_body {
  x = f64[2,1] parameter(0)
  w = f64[1,3] parameter(1)
  d = f64[2,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f64[2,3] all-reduce(d), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add
  ROOT t = f64[2,3] tanh(s)
}

ENTRY e {
  x = f64[4,2] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"a\"}, {}]>"}
  w = f64[2,3] parameter(1)
  parts = (f64[2,1], f64[1,3]) custom-call(x, w), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh,
    [{\"a\"}, {\"b\"}]>, <@mesh, [{\"b\"}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"a\", \"b\"}>"}
  left = f64[2,1] get-tuple-element(parts), index=0
  right = f64[1,3] get-tuple-element(parts), index=1
  y = f64[2,3] call(left, right), to_apply=xla.sdy.manual_computation_body
  ROOT z = f64[4,3] custom-call(y), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"a\", \"b\"}>",
    xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\"}, {}]>]>"}
}
"""
X, W = np.linspace(-1, 1, 8).reshape(4, 2), np.linspace(-0.5, 1, 6).reshape(2, 3)
COTANGENT = np.linspace(0, 1, 12).reshape(4, 3)


def test_the_derivative_is_written_for_gspmd():
    gradient = hloom.vjp(hloom.parse(SHARDED))
    assert "xla.sdy" not in hloom.print(gradient)
    assert gradient.attributes["num_partitions"] == 4
    assert str(gradient.entry.parameters[0].attributes["sharding"]) == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
    back = [node for node in gradient.entry.nodes if node.attributes.get("custom_call_target") == "SPMDShardToFullShape"]
    assert {str(node.attributes["sharding"]) for node in back} == {
        "{devices=[2,2]<=[4]}",
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    }


def test_along_some_axes_of_the_mesh_alone():
    text = SHARDED.replace(r"""manual_axes{\"a\", \"b\"}""", r"""manual_axes{\"a\"}""")
    text = text.replace("[2,1]", "[2,2]").replace("[1,3]", "[2,3]").replace(r"""[{\"a\"}, {\"b\"}]""", r"""[{\"a\"}, {?}]""")
    text = text.replace(r"""<@mesh, [{\"b\"}, {}]>""", "<@mesh, [{}, {}]>")
    gradient = hloom.vjp(hloom.parse(text))
    parts = [node for node in gradient.entry.nodes if node.attributes.get("custom_call_target") == "SPMDFullToShardShape"]
    shardings = {str(node.attributes["sharding"]) for node in parts}
    assert shardings == {"{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"}


@pytest.mark.long
def test_the_derivative_on_four_devices():
    of_x, of_w = hloom.run(hloom.vjp(hloom.parse(SHARDED)), [X, W, COTANGENT]).outputs
    slope = COTANGENT * (1 - np.tanh(X @ W) ** 2)
    np.testing.assert_allclose(of_x, slope @ W.T)
    np.testing.assert_allclose(of_w, X.T @ slope)


def test_what_does_not_say_its_shardings_is_refused():
    text = SHARDED.replace("xla.sdy.out_shardings", "xla.sdy.shardings")
    with pytest.raises(hloom.HloomError, match="does not say how its operands are sharded"):
        hloom.vjp(hloom.parse(text))


def test_one_in_another_is_refused():
    text = SHARDED.replace("ENTRY e {", "xla.sdy.manual_computation_body.1 {").replace("HloModule m", "HloModule m", 1)
    text += "ENTRY f { x = f64[4,2] parameter(0) w = f64[2,3] parameter(1) ROOT z = f64[4,3] call(x, w), to_apply=xla.sdy.manual_computation_body.1 }"
    with pytest.raises(hloom.HloomError, match="a manual computation in another has no derivative here"):
        hloom.vjp(hloom.parse(text))

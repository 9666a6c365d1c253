"""The same dot has one price in `plan`, `roofline`, `fit` and `pipeline`, in each element type that a device multiplies.

Covers `analysis/matrix_precision.py`.
"""

from __future__ import annotations

import pytest

from hloom.analysis import device, roofline
from hloom.distribute.fit import fit
from hloom.distribute.fit.sharded_program import work_seconds
from hloom.distribute.planner import Rates, search_plans
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.sharding import Mesh
from hloom.sharding.mesh import mesh_with_links

DEVICES = ("h100", "a100-80", "tpu-v5e")
DTYPES = ("bf16", "f16", "f32", "f64")


def product(dtype: str, rows: int, precision: str = "") -> Module:
    """A dot of `rows` rows by a square matrix."""
    suffix = f", operand_precision={{{precision},{precision}}}" if precision else ""
    return parse(
        f"HloModule step\nENTRY main {{\n  x = {dtype}[{rows},4096] parameter(0)\n"
        f"  w = {dtype}[4096,4096] parameter(1)\n  ROOT h = {dtype}[{rows},4096] dot(x, w), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{suffix}\n}}"
    )


def planned_seconds(module: Module, name: str) -> float:
    known = device(name)
    mesh = mesh_with_links(known, Mesh.parse("data=2"))
    rates = Rates.of(known, mesh)
    expected = search_plans(module, mesh, rates=rates).best.expected
    assert expected is not None
    return expected.compute_seconds(rates)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_plan_and_roofline_agree_on_a_dot(name: str, dtype: str):
    [half] = [timing for timing in roofline(product(dtype, 2048), name).timings if timing.node.opcode == "dot"]
    assert planned_seconds(product(dtype, 4096), name) == pytest.approx(half.compute)


def test_plan_heeds_the_precision_that_a_dot_asks_for():
    [half] = [
        timing for timing in roofline(product("f32", 2048, "highest"), "h100").timings if timing.node.opcode == "dot"
    ]
    assert planned_seconds(product("f32", 4096, "highest"), "h100") == pytest.approx(half.compute)
    assert half.compute > planned_seconds(product("f32", 4096), "h100")


@pytest.mark.parametrize("dtype", DTYPES)
def test_fit_and_plan_agree_on_a_dot(dtype: str):
    best = fit(product(dtype, 4096), devices=2, device="h100").best
    planned = planned_seconds(product(dtype, 4096), "h100")
    assert best.cost.seconds_by_cause["compute"] == pytest.approx(planned)


def test_a_mix_of_precisions_is_split_by_its_own_prices():
    """A fast bf16 dot and a slow f64 one of the same FLOPs: the plan's time is the sum of both."""
    text = """HloModule two
    ENTRY main {
      x = bf16[4096,4096] parameter(0)
      w = bf16[4096,4096] parameter(1)
      y = f64[4096,4096] parameter(2)
      v = f64[4096,4096] parameter(3)
      a = bf16[4096,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      b = f64[4096,4096] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = (bf16[4096,4096], f64[4096,4096]) tuple(a, b)
    }"""
    alone = [planned_seconds(product(dtype, 4096), "h100") for dtype in ("bf16", "f64")]
    assert planned_seconds(parse(text), "h100") == pytest.approx(sum(alone))


def test_collectives_of_every_kind_are_no_work_of_a_device():
    """They are priced apart, as what is sent: what a program computes is the same with them."""
    start = "ENTRY main {\n  x = f32[1024] parameter(0)\n  h = f32[1024] negate(x)\n"
    asked = (
        "  b = f32[1024] collective-broadcast(h), replica_groups={{0,1}}\n"
        "  s = f32[1024] all-reduce-start(b), replica_groups={{0,1}}, to_apply=sum\n"
        "  ROOT d = f32[1024] all-reduce-done(s)\n}"
    )
    adder = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    sending = parse(adder + start + asked)
    alone = parse(start.replace("h =", "ROOT h =") + "}")
    assert work_seconds(sending, device("h100")) == pytest.approx(work_seconds(alone, device("h100")))

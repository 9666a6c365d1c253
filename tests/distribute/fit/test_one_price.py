"""An op and a collective have one price in `plan`, `roofline`, `fit` and `pipeline`, in each element type.

Covers `analysis/compute_time.py` and `distribute/planner/work_tables.py`.
"""

from __future__ import annotations

import pytest

from hloom.analysis import device, roofline
from hloom.distribute.fit import fit
from hloom.distribute.partitioner import TracedCollective
from hloom.distribute.pipeline import Machine
from hloom.distribute.planner import Rates, search_plans
from hloom.distribute.planner.cost_tables import build_problem
from hloom.formats.hlo import parse
from hloom.ir import Module, TensorType
from hloom.sharding import Mesh

DEVICES = ("h100", "a100-80", "tpu-v5e")
DTYPES = ("bf16", "f16", "f32", "f64")
NARROW = ("s8", "s32", "u8", "f8e4m3fn", "f8e5m2")
MESH = Mesh.parse("x=8")


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
    mesh = Mesh.parse("data=2")
    rates = Rates.of(known, mesh)
    expected = search_plans(module, mesh, rates=rates, pins={"x": "[data,-]"}).best.expected
    assert expected is not None
    return expected.compute_seconds(rates)


def replicated_seconds(module: Module, name: str) -> dict[str, float]:
    """What the planner expects of a program that each of eight devices runs whole."""
    problem = build_problem(module, MESH, Rates.of(device(name), MESH))
    return problem.work_seconds(dict.fromkeys(problem.options, 0))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES + NARROW)
def test_plan_and_roofline_agree_on_a_dot(name: str, dtype: str):
    [half] = roofline(product(dtype, 2048), name).timings
    assert planned_seconds(product(dtype, 4096), name) == pytest.approx(half.seconds)


def test_plan_heeds_the_precision_that_a_dot_asks_for():
    [half] = roofline(product("f32", 2048, "highest"), "h100").timings
    assert planned_seconds(product("f32", 4096, "highest"), "h100") == pytest.approx(half.seconds)
    assert half.seconds > planned_seconds(product("f32", 4096), "h100")


@pytest.mark.parametrize("dtype", DTYPES)
def test_fit_and_plan_agree_on_a_dot(dtype: str):
    best = fit(product(dtype, 4096), devices=2, device="h100").best
    planned = planned_seconds(product(dtype, 4096), "h100")
    assert best.cost.step_seconds == pytest.approx(planned)


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
    assert roofline(sending, "h100").work_seconds() == pytest.approx(roofline(alone, "h100").work_seconds())


def chain(dtype: str, rows: int) -> Module:
    """Elementwise work that one kernel does."""
    return parse(
        f"HloModule step\nENTRY main {{\n  x = {dtype}[{rows},4096] parameter(0)\n"
        f"  y = {dtype}[{rows},4096] parameter(1)\n  h = {dtype}[{rows},4096] add(x, y)\n"
        f"  ROOT r = {dtype}[{rows},4096] multiply(h, x)\n}}"
    )


@pytest.mark.parametrize("name", ("h100", "tpu-v5e"))
@pytest.mark.parametrize("dtype", DTYPES + NARROW)
def test_all_agree_on_elementwise_work(name: str, dtype: str):
    [half] = roofline(chain(dtype, 2048), name).timings
    assert half.instructions == 2
    assert planned_seconds(chain(dtype, 4096), name) == pytest.approx(half.seconds)
    assert fit(chain(dtype, 4096), devices=2, device=name).best.cost.step_seconds == pytest.approx(half.seconds)


MIXED = """HloModule step
ENTRY main {
  x = bf16[4096,1024] parameter(0)
  w = bf16[1024,1024] parameter(1)
  zero = bf16[] constant(0)
  zeros = bf16[4096,1024] broadcast(zero), dimensions={}
  h = bf16[4096,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = bf16[4096,1024] maximum(h, zeros)
  wide = f32[4096,1024] convert(a)
  e = f32[4096,1024] exponential(wide)
  start = f32[] constant(0)
  s = f32[4096] reduce(e, start), dimensions={1}, to_apply=sum
  b = f32[4096,1024] broadcast(s), dimensions={0}
  n = f32[4096,1024] divide(e, b)
  t = f32[1024,4096] transpose(n), dimensions={1,0}
  ROOT r = (f32[1024,4096], f32[4096]) tuple(t, s)
}
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
"""
LOOP = """HloModule step
ENTRY main {
  x = f32[2048,512] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[2048,512]) tuple(zero, x)
  loop = (s32[], f32[2048,512]) while(start), condition=condition, body=body
  ROOT y = f32[2048,512] get-tuple-element(loop), index=1
}
body {
  state = (s32[], f32[2048,512]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(index, one)
  x = f32[2048,512] get-tuple-element(state), index=1
  y = f32[2048,512] tanh(x)
  ROOT result = (s32[], f32[2048,512]) tuple(next, y)
}
condition {
  state = (s32[], f32[2048,512]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(6)
  ROOT is_less = pred[] compare(index, limit), direction=LT
}
"""


@pytest.mark.parametrize("name", ("h100", "tpu-v5e", "cpu"))
@pytest.mark.parametrize("text", (MIXED, LOOP))
def test_a_replicated_program_takes_what_roofline_says(name: str, text: str):
    report = roofline(parse(text), name)
    assert sum(replicated_seconds(parse(text), name).values()) == pytest.approx(report.seconds)
    assert replicated_seconds(parse(text), name) == pytest.approx(report.work_seconds())


@pytest.mark.parametrize("name", ("h100", "tpu-v5e"))
def test_a_program_split_evenly_takes_its_share(name: str):
    """All but the launches, which each device pays, and the weights, which each reads whole."""
    rates = Rates.of(device(name), MESH)
    best = search_plans(parse(MIXED.replace("4096", "32768")), MESH, rates=rates, pins={"x": "[x,-]"}).best
    assert best.expected is not None and best.expected.sent == 0
    assert best.expected.work == pytest.approx(roofline(parse(MIXED), name).work_seconds())


@pytest.mark.parametrize("name", ("h100", "tpu-v5e"))
@pytest.mark.parametrize("opcode", ("all-gather", "all-reduce"))
@pytest.mark.parametrize("dtype", DTYPES + NARROW)
def test_all_agree_on_a_collective(name: str, opcode: str, dtype: str):
    """Of 2**20 elements among eight devices: the roofline of the program, the planner, and the links of a pipeline."""
    part = 2**17 if opcode == "all-gather" else 2**20
    attribute = "dimensions={0}" if opcode == "all-gather" else "to_apply=sum"
    module = parse(
        f"HloModule step, num_partitions=8\nsum {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) "
        f"ROOT c = {dtype}[] add(a, b) }}\nENTRY main {{\n  x = {dtype}[{part}] parameter(0)\n"
        f"  ROOT h = {dtype}[{2**20}] {opcode}(x), channel_id=1, use_global_device_ids=true, "
        f"replica_groups={{{{0,1,2,3,4,5,6,7}}}}, {attribute}\n}}"
    )
    [timing] = [timing for timing in roofline(module, name).timings if timing.link]
    root_type = module.entry.root.type
    assert isinstance(root_type, TensorType)
    width, step = root_type.dtype.byte_count, TracedCollective(opcode, 8, 2**20, ("x",))
    assert Rates.of(device(name), MESH).collectives(MESH).seconds(step, width) == pytest.approx(timing.link)
    if opcode == "all-reduce":
        machine = Machine.of(device(name), 8)
        assert machine.all_reduce_seconds(range(8), 2**20 * width) == pytest.approx(timing.link)

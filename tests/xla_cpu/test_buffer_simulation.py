"""What of a program is stored once XLA's CPU compiler has fused, laid out and ordered it."""

from __future__ import annotations

import pytest

from hloom.hlo import parse
from hloom.planner.plan import Plan
from hloom.runtime.oracle import TIMEOUT
from hloom.runtime.partition import partition
from hloom.sharding import Mesh
from hloom.xla_cpu import held

BIG = "f32[256,256]"
SUM = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"


def program(*lines: str, header: str = "") -> str:
    return f"HloModule m{header}\n{SUM}\nENTRY main {{\n" + "\n".join(lines) + "\n}\n"


def stored(text: str) -> list[str]:
    """The instructions whose results are written to memory, in order; scalars, parameters and the results aside."""
    module = parse(text)
    values = held(module).values
    root = module.entry.root
    outside = {*module.entry.parameters, root, *(root.inputs if root.opcode == "tuple" else ())}
    found = {
        node: start for node, start, size in zip(values.nodes, values.starts, values.sizes, strict=True) if size > 4
    }
    return [node.name for node in sorted(found, key=lambda node: found[node]) if node not in outside]


def order(text: str) -> list[str]:
    return [node.name for node in held(parse(text)).steps if node.opcode not in ("parameter", "constant")]


def test_elementwise_work_is_stored_at_its_end():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} add(x, x)",
        f"b = {BIG} multiply(a, a)",
        f"c = {BIG} dot(b, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"ROOT d = {BIG} negate(c)",
    )
    assert stored(program(*lines)) == ["b", "c"]


@pytest.mark.parametrize(("opcode", "kept"), [("tanh", ["a"]), ("negate", [])])
def test_only_what_is_dear_is_not_computed_twice(opcode: str, kept: list[str]):
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} {opcode}(x)",
        f"b = {BIG} add(a, x)",
        f"c = {BIG} subtract(x, a)",
        f"ROOT r = ({BIG}, {BIG}) tuple(b, c)",
    )
    assert stored(program(*lines)) == kept


def test_a_reduction_takes_in_what_only_it_reads():
    lines = (
        f"x = {BIG} parameter(0)",
        "zero = f32[] constant(0)",
        f"a = {BIG} negate(x)",
        "s = f32[256] reduce(a, zero), dimensions={1}, to_apply=add",
        f"b = {BIG} tanh(x)",
        "t = f32[256] reduce(b, zero), dimensions={1}, to_apply=add",
        f"c = {BIG} multiply(b, b)",
        f"ROOT r = (f32[256], f32[256], {BIG}) tuple(s, t, c)",
    )
    assert stored(program(*lines)) == ["b"]


def test_a_product_over_two_dimensions_wants_its_left_operand_transposed():
    lines = (
        "x = f32[8,32,64] parameter(0)",
        "y = f32[8,32,128] parameter(1)",
        "z = f32[8,32,64] negate(x)",
        "ROOT d = f32[64,128] dot(z, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
    )
    assert stored(program(*lines)) == ["transpose", "d"]


def test_a_gather_along_an_inner_dimension_is_copied_before_and_after():
    lines = (
        "x = f32[256,32] parameter(0)",
        f"g = {BIG} all-gather(x), dimensions={{1}}, replica_groups={{{{0,1,2,3,4,5,6,7}}}}",
        f"d = {BIG} dot(g, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"ROOT r = {BIG} negate(d)",
    )
    assert stored(program(*lines)) == ["copy.1", "g", "copy", "d"]
    assert "copy" not in stored(program(*lines).replace("f32[256,32]", "f32[32,256]").replace("s={1}, re", "s={0}, re"))


def test_a_donated_weight_is_copied_where_a_reader_need_not_come_first():
    step = (
        f"w = {BIG} parameter(0)",
        f"x = {BIG} parameter(1)",
        f"y = {BIG} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"g = {BIG} dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"n = {BIG} subtract(w, g)",
    )
    donated = ", input_output_alias={ {0}: (0, {}, may-alias) }"
    ordered = program(*step, f"ROOT r = ({BIG}) tuple(n)", header=donated)
    assert "copy" not in order(ordered)
    free = (
        *step,
        f"b = {BIG} dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
        f"ROOT r = ({BIG}, {BIG}) tuple(n, b)",
    )
    assert "copy" in order(program(*free, header=donated))


def test_kernels_run_as_soon_as_they_can():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"b = {BIG} dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"c = {BIG} dot(b, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"e = {BIG} dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"ROOT r = ({BIG}, {BIG}) tuple(c, e)",
    )
    assert order(program(*lines)) == ["a", "e", "b", "c", "r"]


def test_half_width_is_computed_in_full():
    lines = (
        "x = bf16[256,256] parameter(0)",
        "a = bf16[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "b = bf16[256,256] tanh(a)",
        "c = bf16[256,256] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT r = (bf16[256,256]) tuple(c)",
    )
    found = held(parse(program(*lines)))
    assert {buffer.size for buffer in found.allocation.temporaries} == {4 * 256 * 256}


ATTENTION = """
  x = f32[8,128,256] parameter(0)
  w = f32[256,256] parameter(1)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  p = f32[8,128,256] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  h = f32[8,128,4,64] reshape(p)
  q = f32[8,4,128,64] transpose(h), dimensions={0,2,1,3}
  s = f32[8,4,128,128] dot(q, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}
  m = f32[8,4,128] reduce(s, low), dimensions={3}, to_apply=largest
  mb = f32[8,4,128,128] broadcast(m), dimensions={0,1,2}
  d = f32[8,4,128,128] subtract(s, mb)
  e = f32[8,4,128,128] exponential(d)
  t = f32[8,4,128] reduce(e, zero), dimensions={3}, to_apply=add
  tb = f32[8,4,128,128] broadcast(t), dimensions={0,1,2}
  a = f32[8,4,128,128] divide(e, tb)
  o = f32[8,4,128,64] dot(a, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  b = f32[8,128,4,64] transpose(o), dimensions={0,2,1,3}
  c = f32[8,128,256] reshape(b)
  g = f32[256,256] dot(c, x), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
  n = f32[256,256] subtract(w, g)
  ROOT r = (f32[256,256], f32[]) tuple(n, zero)
"""
LARGEST = SUM.replace("add", "largest", 1).replace(" add(", " maximum(")
CONVOLUTION = """
  x = f32[8,16,16,32] parameter(0)
  k = f32[3,3,32,32] parameter(1)
  zero = f32[] constant(0)
  y = f32[8,16,16,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  a = f32[8,16,16,32] tanh(y)
  g = f32[3,3,32,32] convolution(x, a), window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf
  n = f32[3,3,32,32] subtract(k, g)
  ROOT r = (f32[3,3,32,32], f32[]) tuple(n, zero)
"""


@pytest.mark.parametrize("body", [ATTENTION, CONVOLUTION], ids=["attention", "convolution"])
@pytest.mark.parametrize("alias", ["", ", input_output_alias={ {0}: (1, {}, may-alias) }"], ids=["kept", "donated"])
def test_it_agrees_with_xla(body: str, alias: str):
    text = f"HloModule m{alias}\n{SUM}{LARGEST}\nENTRY main {{{body}}}\n"
    annotated = Plan(Mesh.parse("x=8")).annotate(parse(text))
    compiled = partition(annotated, 8, timeout=TIMEOUT)
    assert held(compiled.module).peak == pytest.approx(compiled.memory, rel=0.01)

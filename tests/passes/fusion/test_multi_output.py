"""Kernels of several results on a GPU: which siblings, producers and consumers become one, and which stay apart.

The cases restate those of XLA's xla/service/gpu/multi_output_fusion_test.cc, with fusions taken apart (`cluster.py`,
`kernel_merger.py`, `reduction_dimensions.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.ir import Module, TensorType, verify
from tests.passes.fusion.test_cluster import entry
from tests.passes.rule_assertions import assert_same_numbers

COMPUTATIONS = (
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"
    "mul { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] multiply(a, b) }\n"
    "twice { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT r = f64[] add(a, b) }\n"
    "first { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)\n"
    "  g = pred[] compare(a, b), direction=LE  v = f32[] select(g, a, b)  s = s32[] select(g, i, j)\n"
    "  e = pred[] compare(a, b), direction=EQ  m = s32[] minimum(i, j)  t = s32[] select(e, m, s)\n"
    "  ROOT r = (f32[], s32[]) tuple(v, t) }\n"
    "half { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT r = f16[] add(a, b) }\n"
)
ZERO = "z = f32[] constant(0)"
IMAGES, CUBE = "f32[16,64,8,8]", "f32[32,32,32]"


def clustered(*lines: str, horizontal: int = 1) -> Module:
    before = hloom.parse(COMPUTATIONS + entry(*lines))
    after, _ = hloom.opt(before, f"cluster(target=h100, horizontal={horizontal})")
    verify(after)
    verify(hloom.parse(hloom.print(after)))
    random = np.random.default_rng(0)
    types = [parameter.type for parameter in before.entry.parameters if isinstance(parameter.type, TensorType)]
    inputs = [random.uniform(-1, 1, array.dims).astype(array.dtype.numpy) for array in types]
    assert_same_numbers(before, after, inputs)
    return after


def results(module: Module) -> list[tuple[str, ...]]:
    """The opcodes of the results of each kernel of several, in alphabetical order."""
    roots = [node.called_graphs[0].root for node in module.entry.nodes if node.opcode == "fusion"]
    return [tuple(sorted(value.opcode for value in root.operands)) for root in roots if root.opcode == "tuple"]


def of(*names_and_types: str) -> str:
    """A tuple of values, each a type and a name."""
    types, names = names_and_types[::2], names_and_types[1::2]
    return f"t = ({', '.join(types)}) tuple({', '.join(names)})"


def sums(count: int, dim: int) -> list[str]:
    """Reductions of sums of neighbouring parameters."""
    lines = [ZERO, *(f"p{n} = f32[64,64] parameter({n})" for n in range(count))]
    for n in range(count):
        lines.append(f"a{n} = f32[64,64] add(p{n}, p{(n + 1) % count})")
        lines.append(f"r{n} = f32[64] reduce(a{n}, z), dimensions={{{dim}}}, to_apply=add")
    return [*lines, of(*(part for n in range(count) for part in ("f32[64]", f"r{n}")))]


TOGETHER: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "reductions of one operand": (("reduce", "reduce"), [
        ZERO, f"p = {IMAGES} parameter(0)", f"m = {IMAGES} multiply(p, p)", "o = f32[] constant(1)",
        "a = f32[64] reduce(m, z), dimensions={0,2,3}, to_apply=add", "b = f32[64] reduce(p, o), dimensions={0,2,3}, to_apply=add",
        of("f32[64]", "a", "f32[64]", "b")]),
    "reductions of two types": (("reduce", "reduce"), [
        ZERO, f"p = {IMAGES} parameter(0)", "h = f16[] constant(0)", f"c = {IMAGES.replace('f32', 'f16')} convert(p)",
        "a = f32[64] reduce(p, z), dimensions={0,2,3}, to_apply=add", "b = f16[64] reduce(c, h), dimensions={0,2,3}, to_apply=half",
        of("f32[64]", "a", "f16[64]", "b")]),
    "three reductions": (("reduce", "reduce", "reduce"), [
        ZERO, f"p = {IMAGES} parameter(0)", f"m = {IMAGES} multiply(p, p)", "o = f32[] constant(1)",
        "a = f32[64] reduce(m, o), dimensions={0,2,3}, to_apply=add", "b = f32[64] reduce(p, o), dimensions={0,2,3}, to_apply=add",
        "c = f32[64] reduce(p, z), dimensions={0,2,3}, to_apply=add", of("f32[64]", "a", "f32[64]", "b", "f32[64]", "c")]),
    "two loops": (("divide", "multiply"), [
        "p = f32[6400] parameter(0)", "o = f32[] constant(3)", "b = f32[6400] broadcast(o), dimensions={}",
        "m = f32[6400] multiply(p, p)", "d = f32[6400] divide(p, b)", of("f32[6400]", "m", "f32[6400]", "d")]),
    "three loops": (("add", "exponential", "multiply"), [
        "p = f32[8,1,5,16] parameter(0)", "o = f32[] constant(3)", "b = f32[8,1,5,16] broadcast(o), dimensions={}",
        "m = f32[8,1,5,16] multiply(p, p)", "e = f32[8,1,5,16] exponential(p)", "d = f32[8,1,5,16] add(p, b)",
        of("f32[8,1,5,16]", "m", "f32[8,1,5,16]", "e", "f32[8,1,5,16]", "d")]),
    "a producer and its reduction": (("exponential", "reduce"), [
        ZERO, f"p = {CUBE} parameter(0)", f"e = {CUBE} exponential(p)", "r = f32[32,32] reduce(e, z), dimensions={2}, to_apply=add",
        of("f32[32,32]", "r", CUBE, "e")]),
    "a sum of two and its reduction": (("add", "reduce"), [
        ZERO, f"p = {CUBE} parameter(0)", f"q = {CUBE} parameter(1)", f"e = {CUBE} add(p, q)",
        "r = f32[32,32] reduce(e, z), dimensions={2}, to_apply=add", of("f32[32,32]", "r", CUBE, "e")]),
    "a producer and two reductions": (("reduce", "reduce", "select"), [
        ZERO, f"p = {CUBE} parameter(0)", f"q = {CUBE} parameter(1)", f"b = {CUBE} broadcast(z), dimensions={{}}",
        "g = pred[32,32,32] compare(q, b), direction=GT", f"s = {CUBE} select(g, p, b)", f"m = {CUBE} multiply(s, s)",
        "r = f32[32,32] reduce(s, z), dimensions={2}, to_apply=add", "u = f32[32,32] reduce(m, z), dimensions={2}, to_apply=add",
        of("f32[32,32]", "r", "f32[32,32]", "u", CUBE, "s")]),
    "a producer in half precision": (("negate", "reduce", "reduce"), [
        ZERO, "p = f16[32,32,32] parameter(0)", "s = f16[32,32,32] negate(p)", f"c = {CUBE} convert(s)", f"m = {CUBE} multiply(c, c)",
        "r = f32[32,32] reduce(c, z), dimensions={2}, to_apply=add", "u = f32[32,32] reduce(m, z), dimensions={2}, to_apply=add",
        of("f32[32,32]", "r", "f32[32,32]", "u", "f16[32,32,32]", "s")]),
    "a producer of two reductions": (("add", "reduce", "reduce"), [
        ZERO, f"p = {CUBE} parameter(0)", "q = f32[64,64,64] parameter(1)", f"e = {CUBE} add(p, p)",
        f"l = {CUBE} slice(q), slice={{[0:32],[0:32],[0:32]}}", f"s = {CUBE} add(e, l)",
        "r = f32[32,32] reduce(s, z), dimensions={2}, to_apply=add", "u = f32[32,32] reduce(e, z), dimensions={2}, to_apply=add",
        of(CUBE, "e", "f32[32,32]", "r", "f32[32,32]", "u")]),
    "transposes": (("transpose", "transpose"), [
        "p = f32[16,32] parameter(0)", "s = f32[16,32] sqrt(p)", "a = f32[32,16] transpose(s), dimensions={1,0}",
        "b = f32[32,16] transpose(p), dimensions={1,0}", of("f32[32,16]", "a", "f32[32,16]", "b")]),
    "copies to another layout": (("copy", "copy"), [
        "p = f32[16,32]{1,0} parameter(0)", "s = f32[16,32]{1,0} sqrt(p)", "a = f32[16,32]{0,1} copy(s)",
        "b = f32[16,32]{0,1} copy(p)", of("f32[16,32]{0,1}", "a", "f32[16,32]{0,1}", "b")]),
    "copies of two types": (("copy", "copy"), [
        "p = f16[16,32]{1,0} parameter(0)", "s = f32[16,32]{1,0} convert(p)", "a = f32[16,32]{0,1} copy(s)",
        "b = f16[16,32]{0,1} copy(p)", of("f32[16,32]{0,1}", "a", "f16[16,32]{0,1}", "b")]),
    "transposes of two types": (("transpose", "transpose"), [
        "p = f16[16,32] parameter(0)", "s = s16[16,32] convert(p)", "a = s16[32,16] transpose(s), dimensions={1,0}",
        "b = f16[32,16] transpose(p), dimensions={1,0}", of("s16[32,16]", "a", "f16[32,16]", "b")]),
    "a transpose and a loop over its operand": (("exponential", "transpose"), [
        "p = f32[16,32] parameter(0)", "s = f32[16,32] sqrt(p)", "a = f32[32,16] transpose(s), dimensions={1,0}",
        "b = f32[16,32] exponential(p)", of("f32[32,16]", "a", "f32[16,32]", "b")]),
    "a view of a transpose, and a loop over its operand": (("bitcast", "exponential"), [
        "p = f32[1,16,32] parameter(0)", "s = f32[1,16,32] sqrt(p)", "a = f32[1,32,16] transpose(s), dimensions={0,2,1}",
        "v = f32[32,16,1] bitcast(a)", "b = f32[1,16,32] exponential(p)", of("f32[32,16,1]", "v", "f32[1,16,32]", "b")]),
    "reductions of two values at once": (("reduce", "reduce"), [
        ZERO, "p = f32[3,64,300] parameter(0)", "j = s32[3,1,64,300] iota(), iota_dimension=3", "i = s32[3,64,300] bitcast(j)",
        "m = f32[] constant(inf)", "k = s32[] constant(0)", "o = s32[] constant(9)",
        "a = (f32[3,64], s32[3,64]) reduce(p, i, m, k), dimensions={2}, to_apply=first",
        "b = (f32[3,64], s32[3,64]) reduce(p, i, m, o), dimensions={2}, to_apply=first",
        "x = s32[3,64] get-tuple-element(a), index=1", "y = s32[3,64] get-tuple-element(b), index=1", "r = s32[3,64] add(x, y)"]),
    "slices that overlap": (("add", "exponential", "multiply"), [
        ZERO, "p = f32[100,200] parameter(0)", "a = f32[50,100] slice(p), slice={[0:50],[50:150]}", "m = f32[50,100] multiply(a, a)",
        "e = f32[50,100] exponential(a)", "b = f32[50,100] slice(p), slice={[30:80],[20:120]}",
        "w = f32[50,100] broadcast(z), dimensions={}", "s = f32[50,100] add(b, w)",
        of("f32[50,100]", "m", "f32[50,100]", "e", "f32[50,100]", "s")]),
    "a copy and a loop": (("copy", "exponential"), [
        "p = f32[16,32]{1,0} parameter(0)", "s = f32[16,32]{1,0} sqrt(p)", "a = f32[16,32]{0,1} copy(s)",
        "b = f32[16,32]{1,0} exponential(p)", of("f32[16,32]{0,1}", "a", "f32[16,32]{1,0}", "b")]),
    "a view of a copy, and a loop": (("bitcast", "exponential"), [
        "p = f32[16,32]{1,0} parameter(0)", "s = f32[16,32]{1,0} sqrt(p)", "c = f32[16,32]{0,1} copy(s)",
        "a = f32[16,32,1]{0,1,2} bitcast(c)", "b = f32[16,32]{1,0} exponential(p)", of("f32[16,32,1]{0,1,2}", "a", "f32[16,32]{1,0}", "b")]),
    "a reduction of a view, and a loop": (("reduce", "sqrt"), [
        ZERO, "p = f32[10,20] parameter(0)", "s = f32[10,20] sqrt(p)", "e = f32[10,20] exponential(p)", "v = f32[200] bitcast(e)",
        "r = f32[] reduce(v, z), dimensions={0}, to_apply=add", of("f32[10,20]", "s", "f32[]", "r")]),
    "a reduction of a view, and a loop of another type": (("convert", "reduce"), [
        ZERO, "p = f16[100,200] parameter(0)", "i = f32[] parameter(1)", "o = f32[] parameter(2)", "c = f32[100,200] convert(p)",
        "b = f32[100,200] broadcast(i), dimensions={}", "d = f32[100,200] divide(c, b)", "v = f32[20000] bitcast(d)",
        "w = f32[100,200] broadcast(o), dimensions={}", "m = f32[100,200] multiply(d, w)", "s = f16[100,200] convert(m)",
        "r = f32[] reduce(v, z), dimensions={0}, to_apply=add", of("f16[100,200]", "s", "f32[]", "r")]),
    "a reduction and a loop": (("reduce", "sqrt"), [
        ZERO, "p = f32[200] parameter(0)", "s = f32[200] sqrt(p)", "e = f32[200] exponential(p)",
        "r = f32[] reduce(e, z), dimensions={0}, to_apply=add", of("f32[200]", "s", "f32[]", "r")]),
}  # fmt: skip


@pytest.mark.parametrize("horizontal", [0, 1])
@pytest.mark.parametrize(("wanted", "lines"), TOGETHER.values(), ids=TOGETHER)
def test_one_kernel(wanted: tuple[str, ...], lines: list[str], horizontal: int):
    assert results(clustered(*lines, horizontal=horizontal)) == [wanted]


APART: dict[str, list[str]] = {
    "reductions of other dimensions": [
        ZERO, "p = f32[6400] parameter(0)", "m = f32[6400] multiply(p, p)", "s = f32[64,100] reshape(p)",
        "a = f32[] reduce(m, z), dimensions={0}, to_apply=add", "b = f32[] reduce(s, z), dimensions={1,0}, to_apply=mul",
        of("f32[]", "a", "f32[]", "b")],
    "reductions to other dimensions": [
        ZERO, "p = f32[10,10] parameter(0)", "m = f32[10,10] multiply(p, p)",
        "a = f32[] reduce(m, z), dimensions={0,1}, to_apply=add", "b = f32[10] reduce(p, z), dimensions={0}, to_apply=mul",
        of("f32[]", "a", "f32[10]", "b")],
    "a loop and a reduction of dimensions far apart": [
        ZERO, "p = f32[8,1,5,16,1,2] parameter(0)", "m = f32[8,1,5,16,1,2] multiply(p, p)",
        "r = f32[1,5,1,2] reduce(p, z), dimensions={0,3}, to_apply=add", of("f32[8,1,5,16,1,2]", "m", "f32[1,5,1,2]", "r")],
    "two loops and a reduction of dimensions far apart": [
        ZERO, "p = f32[8,1,5,16,1,2] parameter(0)", "m = f32[8,1,5,16,1,2] multiply(p, p)", "e = f32[8,1,5,16,1,2] reshape(m)",
        "r = f32[1,5,1,2] reduce(p, z), dimensions={0,3}, to_apply=add", of("f32[8,1,5,16,1,2]", "e", "f32[1,5,1,2]", "r")],
    "reductions of two values at once, in rows that no warp holds": [
        "p = f32[554,10] parameter(0)", "i = s32[554,10] iota(), iota_dimension=1", "m = f32[] constant(inf)", "k = s32[] constant(0)",
        "o = s32[] constant(9)", "a = (f32[554], s32[554]) reduce(p, i, m, k), dimensions={1}, to_apply=first",
        "b = (f32[554], s32[554]) reduce(p, i, m, o), dimensions={1}, to_apply=first", "x = s32[554] get-tuple-element(a), index=1",
        "y = s32[554] get-tuple-element(b), index=1", "r = s32[554] add(x, y)"],
    "a view, and a loop over another view": [
        "p = f32[64,160] parameter(0)", "v = f32[64,1,160] bitcast(p)", "e = f32[64,1,160] exponential(v)",
        "w = f32[160,1,64] bitcast(p)", of("f32[160,1,64]", "w", "f32[64,1,160]", "e")],
    "a loop and a view of it": [
        "p = f32[64,160] parameter(0)", "c = bf16[64,160] convert(p)", "w = bf16[160,1,64] bitcast(c)",
        of("bf16[160,1,64]", "w", "bf16[64,160]", "c")],
    "a producer that transposes, and its reduction": [
        ZERO, "p = f16[16,8,8,32] parameter(0)", "q = f16[16,32,8,8] parameter(1)", "h = f16[] constant(0)",
        "x = f16[16,8,8,32] transpose(q), dimensions={0,2,3,1}", "b = f16[16,8,8,32] broadcast(h), dimensions={}",
        "g = pred[16,8,8,32] compare(x, b), direction=GT", "s = f16[16,8,8,32] select(g, p, b)", "v = f32[16,8,8,32] convert(s)",
        "r = f32[32] reduce(v, z), dimensions={0,1,2}, to_apply=add", of("f32[32]", "r", "f16[16,8,8,32]", "s")],
    "reductions whose tiles are more than shared memory holds": [
        "z = f64[] constant(0)", "p = f64[64,64] parameter(0)", "q = f64[64,64] parameter(1)", "m = f64[64,64] multiply(p, q)",
        "n = f64[64,64] negate(m)", "a = f64[64] reduce(m, z), dimensions={0}, to_apply=twice",
        "b = f64[64] reduce(n, z), dimensions={0}, to_apply=twice", of("f64[64]", "a", "f64[64]", "b")],
    "a copy to another layout and a reduction": [
        ZERO, "p = f32[16,32]{1,0} parameter(0)", "s = f32[16,32]{1,0} sqrt(p)", "c = f32[16,32]{0,1} copy(s)",
        "r = f32[32] reduce(p, z), dimensions={0}, to_apply=add", of("f32[16,32]{0,1}", "c", "f32[32]", "r")],
    "a producer that copies, and its reduction": [
        ZERO, "p = f16[16,32,4,4]{1,3,2,0} parameter(0)", "q = f16[16,32,4,4]{3,2,1,0} parameter(1)", "h = f16[] constant(0)",
        "c = f16[16,32,4,4]{1,3,2,0} copy(q)", "b = f16[16,32,4,4]{1,3,2,0} broadcast(h), dimensions={}",
        "g = pred[16,32,4,4]{1,3,2,0} compare(c, b), direction=GT", "s = f16[16,32,4,4]{1,3,2,0} select(g, p, b)",
        "v = f32[16,32,4,4]{1,3,2,0} convert(s)", "r = f32[32]{0} reduce(v, z), dimensions={0,2,3}, to_apply=add",
        of("f32[32]{0}", "r", "f16[16,32,4,4]{1,3,2,0}", "s")],
    "a reduction of what is repeated": [
        ZERO, "p = f32[2,2,2] parameter(0)", "q = f32[2,2,2] parameter(1)", "e = f32[2,2,2] add(p, q)", "m = f32[2,2,2] multiply(e, e)",
        "b = f32[2,2,2,2] broadcast(m), dimensions={3,2,1}", "r = f32[2,2] reduce(b, z), dimensions={1,3}, to_apply=add",
        of("f32[2,2]", "r", "f32[2,2,2]", "e")],
    "transposes of other dimensions": [
        "p = f32[18,16,32] parameter(0)", "q = f32[32,16,18] parameter(1)", "s = f32[18,16,32] sqrt(p)",
        "a = f32[32,16,18] transpose(s), dimensions={2,1,0}", "d = f32[32,16,18] subtract(a, q)",
        "b = f32[18,32,16] transpose(s), dimensions={0,2,1}", of("f32[32,16,18]", "d", "f32[18,32,16]", "b")],
    "transposes of other dimensions, twice computed": [
        "p = f32[18,16,32] parameter(0)", "q = f32[32,16,18] parameter(1)", "s = f32[18,16,32] sqrt(p)",
        "a = f32[32,16,18] transpose(s), dimensions={2,1,0}", "d = f32[32,16,18] subtract(a, q)", "e = f32[32,16,18] exponential(d)",
        "f = f32[32,16,18] exponential(d)", "g = f32[32,16,18] add(e, f)", "u = f32[18,16,32] sqrt(p)",
        "b = f32[18,32,16] transpose(u), dimensions={0,2,1}", of("f32[32,16,18]", "g", "f32[18,32,16]", "b")],
    "transposes of equal dimensions in several ways": [
        "p = f32[16,16,16] parameter(0)", "a = f32[16,16,16] transpose(p), dimensions={2,1,0}",
        "b = f32[16,16,16] transpose(p), dimensions={0,2,1}", of("f32[16,16,16]", "a", "f32[16,16,16]", "b")],
    "a result that nothing reads at run time": [
        "p = f32[] parameter(0)", "o = f32[] constant(1)", "t = f32[] add(p, o)"],
}  # fmt: skip


@pytest.mark.parametrize("lines", APART.values(), ids=APART)
def test_kernels_apart(lines: list[str]):
    assert results(clustered(*lines)) == []


LAUNCHES: dict[str, list[str]] = {
    "one element in common": [
        "i = s32[] parameter(0)", "p = bf16[32,40,160] parameter(1)", "q = bf16[32,40,160] parameter(2)", "o = s32[] constant(0)",
        "k = s32[] constant(32)", "c = pred[] compare(i, o), direction=LT", "n = s32[] add(i, k)", "s = s32[] select(c, n, i)",
        "a = bf16[1,40,160] dynamic-slice(p, s, o, o), dynamic_slice_sizes={1,40,160}", "v = bf16[40,160] bitcast(a)",
        "b = bf16[1,40,160] dynamic-slice(q, s, o, o), dynamic_slice_sizes={1,40,160}", "w = bf16[40,160] bitcast(b)",
        of("bf16[40,160]", "v", "bf16[40,160]", "w")],
    "slices apart from each other": [
        "p = f32[100,200] parameter(0)", "a = f32[50,100] slice(p), slice={[0:50],[0:100]}", "m = f32[50,100] multiply(a, a)",
        "b = f32[50,100] slice(p), slice={[0:50],[100:200]}", "s = f32[50,100] negate(b)", of("f32[50,100]", "m", "f32[50,100]", "s")],
    "updates in their arrays": [
        "p = f16[50,96] parameter(0)", "q = f16[50,96] parameter(1)", "u = f16[1,96] parameter(2)", "o = s32[] constant(0)",
        "a = f16[50,96] dynamic-update-slice(p, u, o, o)", "b = f16[50,96] dynamic-update-slice(q, u, o, o)",
        of("f16[50,96]", "a", "f16[50,96]", "b")],
    "single elements": [
        "p = f32[] parameter(0)", "c = s32[] convert(p)", "o = f32[] constant(1)", "r = f32[] add(p, o)", of("s32[]", "c", "f32[]", "r")],
}  # fmt: skip


@pytest.mark.parametrize("lines", LAUNCHES.values(), ids=LAUNCHES)
def test_one_launch_for_kernels_that_share_no_array(lines: list[str]):
    assert len(results(clustered(*lines))) == 1
    assert results(clustered(*lines, horizontal=0)) == []


def test_what_horizontal_is():
    with pytest.raises(hloom.HloomError, match="horizontal is 0 or 1, not '2'"):
        clustered("p = f32[8] parameter(0)", "r = f32[8] negate(p)", horizontal=2)


@pytest.mark.parametrize("horizontal", [0, 1])
def test_no_cycle(horizontal: int):
    """Either producer could be stored by the reduction that reads it, not both: each reduction reads both."""
    module = clustered(
        ZERO, f"p = {CUBE} parameter(0)", "q = f32[64,64,64] parameter(1)", f"a = {CUBE} add(p, p)",
        "m = f32[64,64,64] multiply(q, q)", f"l = {CUBE} slice(m), slice={{[0:32],[0:32],[0:32]}}", f"s = {CUBE} add(a, l)",
        "r = f32[32,32] reduce(s, z), dimensions={2}, to_apply=add",
        "w = f32[64,64,64] pad(a, z), padding=16_16x16_16x16_16", "v = f32[64,64,64] multiply(w, m)",
        "u = f32[64,64] reduce(v, z), dimensions={2}, to_apply=add",
        of(CUBE, "a", "f32[32,32]", "r", "f32[64,64]", "u", "f32[64,64,64]", "m"), horizontal=horizontal,
    )  # fmt: skip
    stored = [kernel for kernel in results(module) if "reduce" in kernel and len(kernel) > 1]
    assert len(stored) == 1


def test_no_kernel_has_too_many_operands_and_results():
    count = 200
    lines = [f"p{n} = f32[10,100] parameter({n})" for n in range(count)]
    lines += [f"m{n} = f32[10,100] multiply(p{n - 1}, p{n})" for n in range(1, count)]
    lines += [
        "s1 = f32[10,100] add(m1, m2)",
        *(f"s{n} = f32[10,100] add(s{n - 1}, m{n + 1})" for n in range(2, count - 1)),
    ]
    module = clustered(*lines)
    for node in module.entry.nodes:
        if node.opcode == "fusion":
            assert len(node.operands) + len(list(node.type.leaves() if node.type else ())) <= 96


@pytest.mark.parametrize("horizontal", [0, 1])
def test_no_kernel_has_more_than_eight_reductions(horizontal: int):
    sizes = [len(roots) for roots in results(clustered(*sums(10, 1), horizontal=horizontal))]
    assert sum(sizes) == 10 and len(sizes) == 2 and max(sizes) <= 8


@pytest.mark.parametrize("horizontal", [0, 1])
def test_reductions_of_columns_share_a_kernel_in_pairs(horizontal: int):
    """A block's shared memory holds the tiles of two."""
    assert results(clustered(*sums(10, 0), horizontal=horizontal)) == [("reduce", "reduce")] * 5

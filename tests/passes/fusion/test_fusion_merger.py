"""Which producers are computed by the kernels that read them, and which are stored (`frontier_search.py`, `kernel_merger.py`).

The cases restate those of XLA's xla/service/gpu/fusion_merger_test.cc, with fusions taken apart.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes.fusion import fusions
from hloom.runtime import accepts
from tests.passes.fusion.test_cluster import ADD, entry
from tests.passes.fusion.test_horizontal_fusion import parameters
from tests.passes.fusion.test_multi_output import of
from tests.passes.rule_assertions import assert_same_numbers

MAX = "max { l = f32[] parameter(0) r = f32[] parameter(1) ROOT m = f32[] maximum(l, r) }\n"
CUBE = "f32[1024,1024,1024]"
HALF = "f16[8,512,1536]{1,2,0}"


def clustered(text: str) -> Module:
    after, _ = hloom.opt(hloom.parse(text), "cluster(target=h100)")
    verify(after)
    assert accepts(hloom.print(after)) is None
    return after


def kernel_results(module: Module) -> list[str]:
    """The types of what kernels store, and of what is computed outside of them."""
    left_out = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast")
    results = [node.type for node in module.entry.nodes if node.opcode not in left_out]
    return [str(leaf) for result in results if result is not None for leaf in result.leaves()]


def halves(count: int, size: int) -> list[str]:
    """Sums of neighbours, of neighbouring sums, and so on."""
    lines = [f"x0 = f32[{size}] parameter(0)"]
    for n in range(count):
        half = size // 2
        lines.append(f"a{n} = f32[{half}] slice(x{n}), slice={{[0:{2 * half - 1}:2]}}")
        lines.append(f"b{n} = f32[{half}] slice(x{n}), slice={{[1:{2 * half}:2]}}")
        lines.append(f"x{n + 1} = f32[{half}] add(a{n}, b{n})")
        size = half
    return lines


SHARED = [
    *parameters(*["f32[4]"] * 3), "c = f32[4] constant({1,1,1,1})", "a = f32[4] add(p0, p1)", "b = f32[4] add(a, p2)",
    "d = f32[4] add(b, c)", "e = f32[4] multiply(d, c)", "f = f32[4] multiply(b, c)", "g = f32[4] add(f, c)",
]  # fmt: skip
SOFTMAX = [
    f"p = {HALF} parameter(0)", "q = f16[8,512] parameter(1)", f"b = {HALF} broadcast(q), dimensions={{0,1}}",
    f"s = {HALF} subtract(p, b)", f"e = {HALF} exponential(s)", f"c = {HALF.replace('f16', 'f32')} convert(e)", "z = f32[] constant(0)",
    "r = f32[8,512] reduce(c, z), dimensions={2}, to_apply=add", "h = f16[8,512] convert(r)",
    f"w = {HALF} broadcast(h), dimensions={{0,1}}", f"y = {HALF} divide(e, w)",
]  # fmt: skip

MERGED: dict[str, tuple[str, str, int]] = {
    "a producer of two, beside another": ("f32[4]", entry(
        *SHARED, "h = f32[4] subtract(p0, p1)", of("f32[4]", "h", "f32[4]", "e", "f32[4]", "g")), 3),
    "a producer of two": ("f32[4]", entry(*SHARED, of("f32[4]", "e", "f32[4]", "g")), 2),
    "the producer of a reduction": ("f32[32]", ADD + entry(
        *parameters("f32[32]"), "a = f32[32] add(p0, p0)", "m = f32[32] multiply(a, a)", "z = f32[] constant(0)",
        "r = f32[] reduce(m, z), dimensions={0}, to_apply=add"), 0),
    "the producer of two reductions, one of which needs the other": ("f32[200,200,200]", ADD + MAX + entry(
        *parameters("f32[200,200]", "f32[200,200]"), "a = f32[200,200,200] broadcast(p0), dimensions={0,1}",
        "b = f32[200,200,200] broadcast(p1), dimensions={1,2}", "s = f32[200,200,200] add(a, b)", "l = f32[] constant(-inf)",
        "m = f32[200,200] reduce(s, l), dimensions={1}, to_apply=max", "c = f32[200,200,200] broadcast(m), dimensions={0,2}",
        "d = f32[200,200,200] subtract(s, c)", "e = f32[200,200,200] exponential(d)", "z = f32[] constant(0)",
        "r = f32[200,200] reduce(e, z), dimensions={1}, to_apply=add"), 0),
    "a small part that is copied to another layout": ("f32[16,16,256]{2,1,0}", ADD + entry(
        "p = f32[16,16,256]{0,1,2} parameter(0)", "a = f32[5,16,256]{0,1,2} slice(p), slice={[0:5],[0:16],[0:256]}",
        "c = f32[5,16,256]{2,1,0} copy(a)", "b = f32[11,16,256]{0,1,2} slice(p), slice={[0:11],[0:16],[0:256]}",
        "v = f32[11,16,256]{2,1,0} bitcast(b)", "j = f32[16,16,256]{2,1,0} concatenate(c, v), dimensions={0}", "z = f32[] constant(0)",
        "r = f32[] reduce(j, z), dimensions={0,1,2}, to_apply=add"), 0),
    "a slice that is repeated": ("s8[10]", entry(
        *parameters("s8[1000000]"), "s = s8[10] slice(p0), slice={[0:10]}", "b = s8[10,1000000] broadcast(s), dimensions={0}"), 0),
    "what is expensive, of a single element": (CUBE, entry(
        *parameters("f32[]"), f"b = {CUBE} broadcast(p0), dimensions={{}}", f"t = {CUBE} tanh(b)", f"u = {CUBE} tanh(t)",
        f"v = {CUBE} tanh(t)", f"s = {CUBE} add(u, v)"), 1),
    "what is expensive, for one reader": (CUBE, entry(*parameters(CUBE), f"t = {CUBE} tanh(p0)", f"s = {CUBE} add(t, t)"), 1),
    "an exponential, computed twice": (HALF, ADD + entry(*SOFTMAX), 1),
}  # fmt: skip


@pytest.mark.parametrize(("array", "text", "count"), MERGED.values(), ids=MERGED)
def test_a_producer_is_not_stored(array: str, text: str, count: int):
    """Of its type only results of the computation are stored."""
    assert kernel_results(clustered(text)).count(array) == count


LARGE = "f32[100000000]"
KEPT: dict[str, tuple[str, list[str]]] = {
    "sums of many": (entry(
        *parameters(*["f32[10,100]"] * 97), "a1 = f32[10,100] add(p0, p1)",
        *(f"a{n} = f32[10,100] add(a{n - 1}, p{n})" for n in range(2, 97))), ["f32[10,100]"] * 2),
    "sums that many sums need": (entry(*halves(12, 200000)), ["f32[12500]", "f32[781]", "f32[48]"]),
    "what is expensive, repeated": (entry(
        *parameters(CUBE), f"t0 = {CUBE} tanh(p0)", *(f"t{n} = {CUBE} tanh(t{n - 1})" for n in range(1, 9)),
        "b = f32[1024,1024,1024,2048] broadcast(t8), dimensions={0,1,2}"), [CUBE, "f32[1024,1024,1024,2048]"]),
    "a sum of many arrays that two reductions need": (ADD + entry(
        *parameters(*[LARGE] * 8), f"a0 = {LARGE} add(p0, p1)", *(f"a{n} = {LARGE} add(a{n - 1}, p{n + 1})" for n in range(1, 7)),
        "z = f32[] constant(0)", "r = f32[] reduce(a6, z), dimensions={0}, to_apply=add",
        "q = f32[] reduce(a6, z), dimensions={0}, to_apply=add", "n = f32[] negate(q)", of("f32[]", "r", "f32[]", "n")), ["f32[]"] * 3),
}  # fmt: skip


@pytest.mark.parametrize(("text", "results"), KEPT.values(), ids=KEPT)
def test_no_kernel_computes_again_what_costs_more_than_reading_it(text: str, results: list[str]):
    """The last of them as one kernel of both reductions, which reads each array once, and stores no sum."""
    assert kernel_results(clustered(text)) == results


def test_what_xla_leaves_in_two_kernels():
    """A reduction of what is copied to another layout, and an exponential computed twice that is seen through a view."""
    copied = ADD + entry(
        "p = f32[16,16,256]{0,1,2} parameter(0)", "a = f32[16,16,256]{0,1,2} add(p, p)", "c = f32[16,16,256]{2,1,0} copy(a)",
        "z = f32[] constant(0)", "r = f32[] reduce(c, z), dimensions={0,1,2}, to_apply=add",
    )  # fmt: skip
    assert kernel_results(clustered(copied)) == ["f32[]"]
    viewed = ADD + entry(
        "p = f16[8,1536,512]{2,1,0} parameter(0)", "q = f16[8,512] parameter(1)", f"b = {HALF} broadcast(q), dimensions={{0,1}}",
        f"x = {HALF} bitcast(p)", f"s = {HALF} subtract(x, b)", f"e = {HALF} exponential(s)", "v = f16[8,1536,512]{2,1,0} bitcast(e)",
        "c = f32[8,1536,512]{2,1,0} convert(v)", "z = f32[] constant(0)", "r = f32[8,512] reduce(c, z), dimensions={1}, to_apply=add",
        "h = f16[8,512] convert(r)", f"w = {HALF} broadcast(h), dimensions={{0,1}}", f"y = {HALF} divide(e, w)",
    )  # fmt: skip
    assert kernel_results(clustered(viewed)) == ["f32[8,512]", HALF]


def test_a_result_that_only_its_own_kernel_reads_is_not_stored():
    """As kernels become one, the numbers stay, and the bytes written are those of the results."""
    text = KEPT["a sum of many arrays that two reductions need"][0].replace(LARGE, "f32[512]")
    before = hloom.parse(text)
    after, _ = hloom.opt(before, "cluster(target=h100)")
    assert kernel_results(after) == ["f32[]"] * 3
    assert_same_numbers(before, after, [np.full(512, n, np.float32) for n in range(8)])
    assert sum(row.written for row in fusions(after, "h100").fusions) == 8

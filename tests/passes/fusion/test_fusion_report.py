"""What fusions hold, read and write, and which kernels had better been one (`fusion_report.py`)."""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom import HloomError
from hloom.passes.fusion import counted, fusions
from tests.passes.random_modules import module_of

TWO = """
first { a = f32[256,256] parameter(0)  ROOT y = f32[256,256] tanh(a), metadata={op_name="jit(f)/head/tanh"} }
second { a = f32[256,256] parameter(0)  b = f32[256,256] parameter(1)  c = f32[256,256] add(a, b)
  ROOT z = f32[256,256] negate(c), metadata={op_name="jit(f)/tail/neg"} }
ENTRY main {
  x = f32[256,256] parameter(0)
  f = f32[256,256] fusion(x), kind=kLoop, calls=first
  ROOT g = f32[256,256] fusion(f, x), kind=kLoop, calls=second
}
"""
SIZE = 256 * 256 * 4


def test_what_a_fusion_holds_reads_and_writes():
    report = fusions(hloom.parse(TWO), "h100")
    rows = {row.node.name: row for row in report.fusions}
    assert rows["g"].opcodes == {"add": 1, "negate": 1}
    assert rows["f"].sources == {"head": 1}
    assert (rows["f"].read, rows["f"].written, rows["g"].read, rows["g"].written) == (SIZE, SIZE, 2 * SIZE, SIZE)
    assert all(row.is_modelled and row.recomputation == 1 for row in report.fusions)
    assert report.seconds == pytest.approx(sum(row.seconds for row in report.fusions))


def test_two_kernels_that_had_better_been_one():
    [pair] = fusions(hloom.parse(TWO), "h100").missed
    assert (pair.first.name, pair.second.name, pair.obstacle) == ("f", "g", "")
    assert pair.saved_bytes == 3 * SIZE  # f is neither written nor read, and x is read once
    clustered, _ = hloom.opt(hloom.parse(TWO), ["inline-fusions", "cluster(target=h100)"])
    [fused] = fusions(clustered, "h100").fusions
    apart = fusions(hloom.parse(TWO), "h100").seconds
    assert fused.seconds == pytest.approx(apart - pair.saved)
    assert fusions(clustered, "h100").missed == ()


def test_a_pair_with_a_third_kernel_between_says_so():
    text = """
    ENTRY main {
      x = f32[64,64] parameter(0)
      a = f32[64,64] tanh(x)
      d = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      b = f32[64,64] add(d, a)
      ROOT t = (f32[64,64], f32[64,64]) tuple(a, b)
    }"""
    report = fusions(hloom.parse(text))
    assert report.fusions == ()
    [pair] = report.missed
    assert pair.obstacle == "a third kernel needs the one and makes what the other needs"


def test_results_of_other_dimensions_cannot_be_one_kernel():
    text = """
    ENTRY main {
      x = f32[64,64] parameter(0)
      a = f32[64,64] negate(x)
      b = f32[32,64] slice(a), slice={[0:32], [0:64]}
      ROOT t = (f32[64,64], f32[32,64]) tuple(a, b)
    }"""
    [pair] = fusions(hloom.parse(text)).missed
    assert pair.obstacle == "the results have other dimensions"


def test_a_computation_that_begins_with_a_fusion():
    module = hloom.parse("""
    zeros { c = f32[] constant(0)  ROOT b = f32[8] broadcast(c), dimensions={} }
    ENTRY e { ROOT z = f32[8] fusion(), kind=kLoop, calls=zeros }""")
    [row] = hloom.fusions(module).fusions
    assert (row.read, row.written) == (0, 32)


def test_recomputation_counts():
    text = """
    wide { a = f32[64] parameter(0)  e = f32[64] exponential(a)  ROOT b = f32[1024,64] broadcast(e), dimensions={1} }
    ENTRY main { x = f32[64] parameter(0)  ROOT f = f32[1024,64] fusion(x), kind=kLoop, calls=wide }"""
    [row] = fusions(hloom.parse(text)).fusions
    assert row.recomputation == pytest.approx(1024)


def test_several_results_libraries_and_loops():
    text = """
    pair { a = f32[64] parameter(0)  b = f32[64] negate(a)  c = f32[64] tanh(a)  ROOT t = (f32[64], f32[64]) tuple(b, c) }
    library { a = f32[8,8] parameter(0)  ROOT d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
    body { s = (s32[], f32[64]) parameter(0)  c = s32[] get-tuple-element(s), index=0  x = f32[64] get-tuple-element(s), index=1
      o = s32[] constant(1)  n = s32[] add(c, o)  f = (f32[64], f32[64]) fusion(x), kind=kLoop, calls=pair
      p = f32[64] get-tuple-element(f), index=0  q = f32[64] get-tuple-element(f), index=1  r = f32[64] add(p, q)
      ROOT t = (s32[], f32[64]) tuple(n, r) }
    condition { s = (s32[], f32[64]) parameter(0)  c = s32[] get-tuple-element(s), index=0  l = s32[] constant(5)
      ROOT p = pred[] compare(c, l), direction=LT }
    ENTRY main { x = f32[64] parameter(0)  y = f32[8,8] parameter(1)  z = s32[] constant(0)
      i = (s32[], f32[64]) tuple(z, x)  w = (s32[], f32[64]) while(i), condition=condition, body=body
      k = f32[8,8] fusion(y), kind=kCustom, calls=library
      ROOT t = ((s32[], f32[64]), f32[8,8]) tuple(w, k) }"""
    rows = {row.node.name: row for row in fusions(hloom.parse(text)).fusions}
    assert (rows["f"].times, rows["f"].read, rows["f"].written, rows["f"].is_modelled) == (5, 256, 512, True)
    assert (rows["k"].opcodes, rows["k"].is_modelled, rows["k"].read + rows["k"].written) == ({"dot": 1}, False, 512)


def test_instructions_outside_count_too():
    text = """
    second { a = f32[256,256] parameter(0)  b = f32[256,256] negate(a)  ROOT z = f32[256,256] tanh(b) }
    ENTRY main { x = f32[256,256] parameter(0)  f = f32[256,256] exponential(x)
      ROOT g = f32[256,256] fusion(f), kind=kLoop, calls=second }"""
    report = fusions(hloom.parse(text), "h100")
    assert [(pair.first.name, pair.second.name) for pair in report.missed] == [("f", "g")]
    assert report.kernel_seconds > report.seconds


def test_without_fusions_or_instructions():
    assert fusions(hloom.parse("ENTRY e { ROOT x = f32[2] parameter(0) }")).to_json()["fusions"] == []


def test_the_module_stays_as_it_is():
    module = hloom.parse(TWO)
    before = hloom.print(module)
    fusions(module)
    assert hloom.print(module) == before


def test_random_modules_after_clustering():
    for seed in range(60):
        module = module_of(Random(seed))
        clustered, _ = hloom.opt(module, "cluster")
        report = fusions(clustered)
        assert all(row.seconds >= 0 and row.recomputation >= 0 for row in report.fusions)
        assert sorted(row.node.name for row in report.fusions) == sorted(
            node.name for node in clustered.nodes() if node.opcode == "fusion"
        )


def test_a_device_that_nobody_knows():
    with pytest.raises(HloomError, match="no device is called 'h1000'"):
        fusions(hloom.parse(TWO), "h1000")


def test_counts_as_text():
    assert counted({"add": 2, "tanh": 1, "negate": 1}, 2) == "2 add, tanh and 1 more"

"""`optimization_barrier_expander`: barriers go, and what they kept apart is stored once again, as XLA's compiler does."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.runtime import memory
from hloom.targets.cpu import simulate_buffers
from hloom.targets.cpu.optimization_barrier_expander import expand_optimization_barriers, merge_kernels

BARRIER = """
HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  pair = (f32[64,64], f32[64,64]) tuple(x, y)
  kept = (f32[64,64], f32[64,64]) opt-barrier(pair)
  again = f32[64,64] get-tuple-element(kept), index=0
  once = f32[64,64] exponential(x)
  twice = f32[64,64] exponential(again)
  product = f32[64,64] dot(once, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = f32[64,64] dot(twice, product), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
BLOCKS = """
HloModule m
ENTRY main {{
  x0 = f32[512,512] parameter(0)
  w = f32[512,512] parameter(1)
  {forward}
  g{count} = f32[512,512] negate(x{count})
  {backward}
  ROOT out = f32[512,512] add(g0, w)
}}
"""


def blocks(count: int) -> str:
    """Blocks whose inner values are computed again behind barriers, as `jax.checkpoint` writes them."""
    forward = [
        f"m{n} = f32[512,512] dot(x{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"t{n} = f32[512,512] tanh(m{n})\n"
        f"x{n + 1} = f32[512,512] dot(t{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for n in range(count)
    ]
    backward = [
        f"p{n} = (f32[512,512], f32[512,512]) tuple(x{n}, g{n + 1})\n"
        f"b{n} = (f32[512,512], f32[512,512]) opt-barrier(p{n})\n"
        f"bx{n} = f32[512,512] get-tuple-element(b{n}), index=0\n"
        f"bg{n} = f32[512,512] get-tuple-element(b{n}), index=1\n"
        f"bm{n} = f32[512,512] dot(bx{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"bt{n} = f32[512,512] tanh(bm{n})\n"
        f"sc{n} = f32[512,512] multiply(bt{n}, bg{n})\n"
        f"g{n} = f32[512,512] dot(sc{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
        for n in reversed(range(count))
    ]
    return BLOCKS.format(count=count, forward="\n".join(forward), backward="\n".join(backward))


def opcodes(module: Module) -> list[str]:
    return [node.opcode for node in module.entry.nodes]


def test_a_barrier_passes_on_what_it_is_given():
    module = parse(BARRIER)
    assert expand_optimization_barriers(module)
    assert "opt-barrier" not in opcodes(module)
    assert [node.opcode for node in module.entry.nodes].count("exponential") == 2
    twice = module.entry["twice"]
    assert twice.operands[0] is module.entry["x"]


def test_a_barrier_of_one_array_passes_it_on():
    module = parse("ENTRY e { x = f32[8] parameter(0) b = f32[8] opt-barrier(x) ROOT n = f32[8] negate(b) }")
    assert expand_optimization_barriers(module)
    assert opcodes(module) == ["parameter", "negate"]


def test_a_program_without_barriers_stays():
    module = parse("ENTRY e { x = f32[8] parameter(0) ROOT n = f32[8] negate(x) }")
    assert not expand_optimization_barriers(module)
    assert opcodes(module) == ["parameter", "negate"]


def test_equal_kernels_are_one():
    module = parse(BARRIER)
    expand_optimization_barriers(module)
    merge_kernels(module, {module.entry: set()})
    assert opcodes(module).count("exponential") == 1
    assert module.entry["out"].operands[0] is module.entry["once"]


def test_what_is_part_of_a_kernel_is_not_what_is_stored():
    module = parse(BARRIER)
    expand_optimization_barriers(module)
    merge_kernels(module, {module.entry: {module.entry["twice"]}})
    assert opcodes(module).count("exponential") == 2


def test_what_runs_for_an_effect_stays():
    module = parse(
        "ENTRY e { l = f32[] constant(0) h = f32[] constant(1) a = f32[8] rng(l, h), distribution=rng_uniform "
        "b = f32[8] rng(l, h), distribution=rng_uniform ROOT s = f32[8] add(a, b) }"
    )
    merge_kernels(module, {module.entry: set()})
    assert opcodes(module).count("rng") == 2


@pytest.mark.parametrize("count", [1, 4])
def test_the_peak_with_barriers_is_that_of_xla(count: int):
    text = blocks(count)
    assert simulate_buffers(parse(text), keeps_barriers=False).peak == pytest.approx(memory(text)["peak"], rel=0.01)

"""What passes leave of fused computations: the form that a fusion's kind or configuration promises.

Every pass that can be named is tried on fusions of every kind, each of which holds what rules would change elsewhere.
Covers `ops/fused_computations.py`.
"""

from __future__ import annotations

import pytest

import hloom
import hloom.passes.fusion
import hloom.passes.saturation
from hloom.ir import Graph, Module, difference, verify
from hloom.passes import PASSES
from hloom.runtime import accepts

NAMES = sorted(PASSES.keys() - {"lower-mindir", "microbatch", "remat"})
"""All but those that need options, or programs of MindSpore's; other tests may have registered them."""

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
FUSED = {
    "a product with a column, and what is added": (
        "a = f32[64,2]{1,0} parameter(0) w = f32[2,1]{1,0} parameter(1) o = f32[64,1]{1,0} parameter(2)\n"
        "d = f32[64,1]{1,0} dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "ROOT s = f32[64,1]{1,0} add(d, o)",
        ("f32[64,2]{1,0}", "f32[2,1]{1,0}", "f32[64,1]{1,0}"), "f32[64,1]{1,0}", "kOutput"),
    "a product of a transposed operand": (
        "a = f32[2,64]{1,0} parameter(0) w = f32[2,8]{1,0} parameter(1)\n"
        "t = f32[64,2]{1,0} transpose(a), dimensions={1,0}\n"
        "ROOT d = f32[64,8]{1,0} dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ("f32[2,64]{1,0}", "f32[2,8]{1,0}"), "f32[64,8]{1,0}", "kOutput"),
    "a reduction of one element": (
        "a = f32[64,1]{1,0} parameter(0) z = f32[] constant(0)\n n = f32[64,1]{1,0} negate(a) m = f32[64,1]{1,0} negate(n)\n"
        "ROOT r = f32[64]{0} reduce(m, z), dimensions={1}, to_apply=add", ("f32[64,1]{1,0}",), "f32[64]{0}", "kInput"),
    "a sum of a broadcast": (
        "a = f32[8]{0} parameter(0) z = f32[] constant(0) b = f32[8,4]{1,0} broadcast(a), dimensions={0}\n"
        "ROOT r = f32[8]{0} reduce(b, z), dimensions={1}, to_apply=add", ("f32[8]{0}",), "f32[8]{0}", "kInput"),
    "what a library computes": (
        "a = f32[8,8]{1,0} parameter(0) o = f32[] constant(1) b = f32[8,8]{1,0} broadcast(o), dimensions={}\n"
        "m = f32[8,8]{1,0} multiply(a, b) t = f32[8,8]{1,0} transpose(m), dimensions={0,1}\n"
        "ROOT d = f32[8,8]{1,0} dot(t, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ("f32[8,8]{1,0}",), "f32[8,8]{1,0}", "kCustom"),
    "an update in place": (
        "a = f32[8]{0} parameter(0) i = s32[] parameter(1) d = f32[4]{0} dynamic-slice(a, i), dynamic_slice_sizes={4}\n"
        "n = f32[4]{0} negate(d) m = f32[4]{0} negate(n) v = f32[8]{0} dynamic-update-slice(a, m, i)\n"
        "w = f32[8]{0} negate(v) ROOT u = f32[8]{0} negate(w)", ("f32[8]{0}", "s32[]"), "f32[8]{0}", "kLoop"),
}  # fmt: skip
"""The lines of a computation, its operands' types and its result's, and the fusion's kind."""


def module_of(name: str, configuration: str = "", fusion_kind: str | None = None) -> Module:
    lines, operands, result, own_kind = FUSED[name]
    parameters = " ".join(f"p{number} = {operand} parameter({number})" for number, operand in enumerate(operands))
    names = ", ".join(f"p{number}" for number in range(len(operands)))
    return hloom.parse(
        f"{ADD}fused {{ {lines} }}\nENTRY e {{ {parameters}\n"
        f"f = {result} fusion({names}), kind={fusion_kind or own_kind}, calls=fused{configuration}\n ROOT n = {result} tanh(f) }}"
    )


def fused(module: Module) -> Graph:
    return next(node.called_graphs[0] for node in module.nodes() if node.opcode == "fusion")


def stays(before: Module, name: str) -> None:
    after, _ = hloom.opt(before, name)
    verify(after)
    assert accepts(hloom.print(after)) is None
    assert difference(fused(before), fused(after)) is None


@pytest.mark.parametrize("name", NAMES)
def test_the_form_that_a_kind_promises_stays(name: str):
    for program in FUSED:
        if name != "inline-fusions":
            stays(module_of(program), name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("configuration", ['{"fusion_backend_config":{"kind":"__triton"}}', '{"kind":"__ynn_fusion"}'])
def test_what_a_backend_has_configured_stays(name: str, configuration: str):
    if name == "inline-fusions":
        return
    for fusion_kind in ("kLoop", "kInput", "kCustom"):
        stays(module_of("a sum of a broadcast", f", backend_config={configuration}", fusion_kind), name)


def test_loops_of_elementwise_work_are_simplified():
    text = """
    fused { a = f32[8] parameter(0) n = f32[8] negate(a) m = f32[8] negate(n) ROOT t = f32[8] tanh(m) }
    ENTRY e { p = f32[8] parameter(0) ROOT f = f32[8] fusion(p), kind=kLoop, calls=fused }"""
    after, _ = hloom.opt(hloom.parse(text), "simplify")
    assert [node.opcode for node in fused(after).nodes] == ["parameter", "tanh"]


def test_fusions_in_fusions_are_what_the_outer_one_promises():
    text = """
    inner { a = f32[8] parameter(0) n = f32[8] negate(a) ROOT m = f32[8] negate(n) }
    outer { a = f32[8] parameter(0) ROOT f = f32[8] fusion(a), kind=kLoop, calls=inner }
    ENTRY e { p = f32[8] parameter(0) ROOT f = f32[8] fusion(p), kind=kCustom, calls=outer }"""
    before = hloom.parse(text)
    after, _ = hloom.opt(before, "simplify")
    assert difference(before["inner"], after["inner"]) is None

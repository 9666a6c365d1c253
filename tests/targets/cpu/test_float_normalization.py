"""Values of low precision."""

from __future__ import annotations

import hloom
from hloom.formats.hlo import parse
from hloom.targets.cpu import simulate_buffers
from hloom.targets.cpu.float_normalization import normalize_floats
from tests.targets.cpu.programs import program


def test_bf16_is_stored_as_f32():
    lines = (
        "x = bf16[256,256] parameter(0)",
        "a = bf16[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "b = bf16[256,256] tanh(a)",
        "c = bf16[256,256] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT r = (bf16[256,256]) tuple(c)",
    )
    liveness = simulate_buffers(parse(program(*lines)))
    assert {buffer.size for buffer in liveness.allocation.temporaries} == {4 * 256 * 256}


def test_what_slices_and_adds_is_rounded_and_what_reshapes_is_not():
    lines = (
        "x = bf16[64,64] parameter(0)",
        "i = s32[] constant(0)",
        "a = bf16[32,64] dynamic-slice(x, i, i), dynamic_slice_sizes={32,64}",
        "b = bf16[64,32] transpose(a), dimensions={1,0}",
        "ROOT c = bf16[64,32] add(b, b)",
    )
    module = parse(program(*lines))
    normalize_floats(module.entry)
    types = {node.opcode: str(node.type).split("[")[0] for node in module.entry.nodes}
    assert (types["dynamic-slice"], types["transpose"], types["add"]) == ("f32", "bf16", "f32")
    assert str(module.entry.root.type).startswith("bf16[64,32]") and module.entry.root.opcode == "convert"
    hloom.verify(module)


def test_a_conversion_of_the_program_reads_the_unrounded_result():
    lines = ("x = bf16[64] parameter(0)", "a = bf16[64] exponential(x)", "ROOT c = f32[64] convert(a)")
    module = parse(program(*lines))
    normalize_floats(module.entry)
    assert module.entry.root.opcode == "exponential"

"""Values of low precision."""

from __future__ import annotations

from hloom.hlo import parse
from hloom.xla_cpu import simulate_buffers
from tests.xla_cpu.programs import program


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
